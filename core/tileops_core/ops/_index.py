"""Generated from the manifest by tileops_core.ops._generate; do not edit."""

from __future__ import annotations

FAMILIES = (
    "attention",
    "elementwise",
    "gemm",
    "norm",
    "reduction",
)

OPS = {
    "AddFwdOp": "elementwise",
    "BMMFwdOp": "gemm",
    "FusedAddLayerNormFwdOp": "norm",
    "GELUFwdOp": "elementwise",
    "GEMMFwdOp": "gemm",
    "GQADenseFwdOp": "attention",
    "LayerNormFwdOp": "norm",
    "MulFwdOp": "elementwise",
    "RMSNormFwdOp": "norm",
    "ReLUFwdOp": "elementwise",
    "SoftmaxFwdOp": "reduction",
    "SumFwdOp": "reduction",
}
