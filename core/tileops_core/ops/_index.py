"""Generated from the manifest by tileops_core.ops._generate; do not edit."""

from __future__ import annotations

FAMILIES = (
    "attention",
    "elementwise",
    "gemm",
    "moe",
    "norm",
    "reduction",
    "rope",
)

OPS = {
    "AddFwdOp": "elementwise",
    "ArgmaxFwdOp": "reduction",
    "BMMFwdOp": "gemm",
    "CumsumFwdOp": "reduction",
    "FusedAddLayerNormFwdOp": "norm",
    "FusedAddRMSNormFwdOp": "norm",
    "FusedMoEExpertsFwdOp": "moe",
    "FusedMoEFwdOp": "moe",
    "FusedMoESharedExpertFwdOp": "moe",
    "FusedTopKFwdOp": "moe",
    "GELUAndMulFwdOp": "elementwise",
    "GELUFwdOp": "elementwise",
    "GEMMFwdOp": "gemm",
    "GQADenseFwdOp": "attention",
    "IndexedExpertMLPFwdOp": "moe",
    "LayerNormFwdOp": "norm",
    "LogSoftmaxFwdOp": "reduction",
    "MoEExpertMLPFwdOp": "moe",
    "MoEGroupedGEMMFP8FwdOp": "moe",
    "MoEGroupedGEMMFwdOp": "moe",
    "MoEPermuteAlignFwdOp": "moe",
    "MoEPostPermuteFwdOp": "moe",
    "MoEPrePermuteFwdOp": "moe",
    "MulFwdOp": "elementwise",
    "RMSNormFwdOp": "norm",
    "ReLUFwdOp": "elementwise",
    "RoPEFwdOp": "rope",
    "RoPENeoxPositionIdsFwdOp": "rope",
    "SharedExpertMLPFwdOp": "moe",
    "SiLUAndMulFwdOp": "elementwise",
    "SoftmaxFwdOp": "reduction",
    "SumFwdOp": "reduction",
    "TanhFwdOp": "elementwise",
}
