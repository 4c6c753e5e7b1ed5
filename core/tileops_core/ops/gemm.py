"""Matrix products."""

from __future__ import annotations

from tileops_core.interfaces.gemm import BMMCall, GEMMCall
from tileops_core.op import Op
from tileops_core.record.profiles import matrix_key
from tileops_core.tensor_spec import TensorSpec

__all__ = ["BMMFwdOp", "GEMMFwdOp"]


class GEMMFwdOp(Op):
    """Matrix product ``d = op(a) @ op(b)``, where ``op`` transposes or does nothing.

    The flags say how an operand is stored: ``a`` is ``[K, M]`` with ``trans_a`` and ``[M, K]``
    without, ``b`` is ``[N, K]`` with ``trans_b`` (the default, a linear layer's weight) and
    ``[K, N]`` without. Sums are accumulated in float32 and rounded once. K may be 0: the result
    is zeros. Follows ``nvmath.linalg.advanced.Matmul``.
    """

    def call_spec(self, a: TensorSpec, b: TensorSpec) -> GEMMCall:
        """The product's sizes and how its operands are stored."""
        k, m = a.shape if self.trans_a else a.shape[::-1]
        n = b.shape[0] if self.trans_b else b.shape[1]
        return GEMMCall(a.device, a.dtype, m, n, k, self.trans_a, self.trans_b)

    def roof_key(self) -> str:
        """Tensor cores, for the operands' dtype."""
        return matrix_key(self.last_call.tensors["a"][1])


class BMMFwdOp(Op):
    """Batched matrix product ``d[i] = a[i] @ b[i]`` with ``a [B, M, K]`` and ``b [B, K, N]``.

    Nothing broadcasts and nothing is transposed. Sums are accumulated in float32 and rounded
    once. Follows ``torch.bmm``.
    """

    def call_spec(self, a: TensorSpec, b: TensorSpec) -> BMMCall:
        """The products' sizes."""
        batch, m, k = a.shape
        return BMMCall(a.device, a.dtype, batch, m, b.shape[2], k)

    def roof_key(self) -> str:
        """Tensor cores, for the operands' dtype."""
        return matrix_key(self.last_call.tensors["a"][1])
