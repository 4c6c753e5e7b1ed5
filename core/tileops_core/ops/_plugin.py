"""The core's own hooks: the kernel interfaces of its ops, through the door that all backends use.

Only names: an interface's module is imported when its op is first constructed.
"""

from __future__ import annotations

from tileops_core.backend import InterfaceRegistration, hookimpl

_INTERFACES = {
    # op: (name, class)
    "AddFwdOp": ("elementwise", "elementwise:BinaryFwdInterface"),
    "AlibiFwdOp": ("generative", "elementwise:GenerativeFwdInterface"),
    "ArgmaxFwdOp": ("argreduce", "reduction:ArgreduceFwdInterface"),
    "BMMFwdOp": ("bmm", "gemm:BMMFwdInterface"),
    "CumsumFwdOp": ("scan", "reduction:ScanFwdInterface"),
    "FusedAddLayerNormFwdOp": ("fused_add_layer_norm", "norm:FusedAddLayerNormFwdInterface"),
    "FusedAddRMSNormFwdOp": ("fused_add_rms_norm", "norm:FusedAddRMSNormFwdInterface"),
    "FusedTopKFwdOp": ("fused_top_k", "moe:FusedTopKFwdInterface"),
    "GELUAndMulFwdOp": ("gated", "elementwise:GatedFwdInterface"),
    "GELUFwdOp": ("elementwise", "elementwise:UnaryFwdInterface"),
    "GEMMFwdOp": ("gemm", "gemm:GEMMFwdInterface"),
    "GQADenseFwdOp": ("gqa_dense", "attention:GQADenseFwdInterface"),
    "IndexedExpertMLPFwdOp": ("indexed_expert_mlp", "moe:IndexedExpertMLPFwdInterface"),
    "LayerNormFwdOp": ("layer_norm", "norm:LayerNormFwdInterface"),
    "LogSoftmaxFwdOp": ("log_softmax", "reduction:LogSoftmaxFwdInterface"),
    "LongRoPEFwdOp": ("long_rope", "rope:LongRoPEFwdInterface"),
    "MoEGroupedGEMMFP8FwdOp": ("moe_grouped_gemm_fp8", "moe:MoEGroupedGEMMFP8FwdInterface"),
    "MoEGroupedGEMMFwdOp": ("moe_grouped_gemm", "moe:MoEGroupedGEMMFwdInterface"),
    "MoEPermuteAlignFwdOp": ("moe_permute_align", "moe:MoEPermuteAlignFwdInterface"),
    "MoEPostPermuteFwdOp": ("moe_post_permute", "moe:MoEPostPermuteFwdInterface"),
    "MoEPrePermuteFwdOp": ("moe_pre_permute", "moe:MoEPrePermuteFwdInterface"),
    "MulFwdOp": ("elementwise", "elementwise:BinaryFwdInterface"),
    "RMSNormFwdOp": ("rms_norm", "norm:RMSNormFwdInterface"),
    "ReLUFwdOp": ("elementwise", "elementwise:UnaryFwdInterface"),
    "RoPEFwdOp": ("rope", "rope:RoPEFwdInterface"),
    "RoPENeoxPositionIdsFwdOp": ("rope_neox_position_ids", "rope:RoPENeoxPositionIdsFwdInterface"),
    "SharedExpertMLPFwdOp": ("shared_expert_mlp", "moe:SharedExpertMLPFwdInterface"),
    "SiLUAndMulFwdOp": ("gated", "elementwise:GatedFwdInterface"),
    "SinusoidalFwdOp": ("generative", "elementwise:GenerativeFwdInterface"),
    "SoftmaxFwdOp": ("softmax", "reduction:SoftmaxFwdInterface"),
    "SumFwdOp": ("reduce", "reduction:ReduceFwdInterface"),
    "TanhFwdOp": ("elementwise", "elementwise:UnaryFwdInterface"),
}


@hookimpl
def tileops_kernel_interfaces() -> list[InterfaceRegistration]:
    """One interface per op."""
    return [
        InterfaceRegistration(op, name, f"tileops_core.interfaces.{interface}")
        for op, (name, interface) in _INTERFACES.items()
    ]
