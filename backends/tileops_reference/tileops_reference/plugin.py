"""What this distribution registers: an oracle for every op, and a general kernel type for each that
is not made of others.

Only names: a kernel's module is imported when an op first needs it.
"""

from __future__ import annotations

from tileops_core.backend import KernelTypeRegistration, OracleRegistration, hookimpl

_OPS = {
    # op: (kernel type, function)
    "AddFwdOp": ("elementwise:AddReference", "elementwise:add"),
    "AlibiFwdOp": ("elementwise:AlibiReference", "elementwise:alibi"),
    "ArgmaxFwdOp": ("reduction:ArgmaxReference", "reduction:argmax"),
    "BMMFwdOp": ("gemm:BMMReference", "gemm:bmm"),
    "CumsumFwdOp": ("reduction:CumsumReference", "reduction:cumsum"),
    "FusedAddLayerNormFwdOp": ("norm:FusedAddLayerNormReference", "norm:fused_add_layer_norm"),
    "FusedAddRMSNormFwdOp": ("norm:FusedAddRMSNormReference", "norm:fused_add_rms_norm"),
    "FusedTopKFwdOp": ("moe:FusedTopKReference", "moe:fused_top_k"),
    "GELUAndMulFwdOp": ("elementwise:GELUAndMulReference", "elementwise:gelu_and_mul"),
    "GELUFwdOp": ("elementwise:GELUReference", "elementwise:gelu"),
    "GEMMFwdOp": ("gemm:GEMMReference", "gemm:gemm"),
    "GQADenseFwdOp": ("attention:GQADenseReference", "attention:gqa_dense"),
    "IndexedExpertMLPFwdOp": ("moe:IndexedExpertMLPReference", "moe_fused:indexed_expert_mlp"),
    "LayerNormFwdOp": ("norm:LayerNormReference", "norm:layer_norm"),
    "LogSoftmaxFwdOp": ("reduction:LogSoftmaxReference", "reduction:log_softmax"),
    "LongRoPEFwdOp": ("rope:LongRoPEReference", "rope:long_rope"),
    "MoEGroupedGEMMFP8FwdOp": ("moe:MoEGroupedGEMMFP8Reference", "moe:grouped_gemm_fp8"),
    "MoEGroupedGEMMFwdOp": ("moe:MoEGroupedGEMMReference", "moe:grouped_gemm"),
    "MoEPermuteAlignFwdOp": ("moe:MoEPermuteAlignReference", "moe:permute_align"),
    "MoEPostPermuteFwdOp": ("moe:MoEPostPermuteReference", "moe:post_permute"),
    "MoEPrePermuteFwdOp": ("moe:MoEPrePermuteReference", "moe:pre_permute"),
    "MulFwdOp": ("elementwise:MulReference", "elementwise:mul"),
    "RMSNormFwdOp": ("norm:RMSNormReference", "norm:rms_norm"),
    "ReLUFwdOp": ("elementwise:ReLUReference", "elementwise:relu"),
    "RoPEFwdOp": ("rope:RoPEReference", "rope:rope"),
    "RoPENeoxPositionIdsFwdOp": (
        "rope:RoPENeoxPositionIdsReference",
        "rope:rope_neox_position_ids",
    ),
    "SharedExpertMLPFwdOp": ("moe:SharedExpertMLPReference", "moe_fused:shared_expert_mlp"),
    "SiLUAndMulFwdOp": ("elementwise:SiLUAndMulReference", "elementwise:silu_and_mul"),
    "SinusoidalFwdOp": ("elementwise:SinusoidalReference", "elementwise:sinusoidal"),
    "SoftmaxFwdOp": ("reduction:SoftmaxReference", "reduction:softmax"),
    "SumFwdOp": ("reduction:SumReference", "reduction:reduce_sum"),
    "TanhFwdOp": ("elementwise:TanhReference", "elementwise:tanh"),
}

_COMPOSITES = {
    # op: function; other ops do its work
    "FusedMoEExpertsFwdOp": "moe_fused:fused_moe_experts",
    "FusedMoEFwdOp": "moe_fused:fused_moe",
    "FusedMoESharedExpertFwdOp": "moe_fused:fused_moe_shared_expert",
    "MoEExpertMLPFwdOp": "moe_fused:expert_mlp",
}


@hookimpl
def tileops_kernel_types() -> list[KernelTypeRegistration]:
    """One general kernel type per op that has kernels, under the key ``reference``."""
    return [
        KernelTypeRegistration(op, "reference", f"tileops_reference.kernels.{kernel_type}")
        for op, (kernel_type, _) in _OPS.items()
    ]


@hookimpl
def tileops_oracles() -> list[OracleRegistration]:
    """One function per op."""
    functions = {op: function for op, (_, function) in _OPS.items()} | _COMPOSITES
    return [
        OracleRegistration(op, f"tileops_reference.functions.{function}")
        for op, function in functions.items()
    ]
