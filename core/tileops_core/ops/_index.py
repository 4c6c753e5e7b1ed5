"""Generated from the manifest by tileops_core.ops._generate; do not edit."""

from __future__ import annotations

FAMILIES = (
    "attention",
    "elementwise",
    "gemm",
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
    "GELUAndMulFwdOp": "elementwise",
    "GELUFwdOp": "elementwise",
    "GEMMFwdOp": "gemm",
    "GQADenseFwdOp": "attention",
    "LayerNormFwdOp": "norm",
    "LogSoftmaxFwdOp": "reduction",
    "MulFwdOp": "elementwise",
    "RMSNormFwdOp": "norm",
    "ReLUFwdOp": "elementwise",
    "RoPEFwdOp": "rope",
    "RoPENeoxPositionIdsFwdOp": "rope",
    "SiLUAndMulFwdOp": "elementwise",
    "SoftmaxFwdOp": "reduction",
    "SumFwdOp": "reduction",
    "TanhFwdOp": "elementwise",
}
