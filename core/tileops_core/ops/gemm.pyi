# Generated from the manifest by tileops_core.ops._generate; do not edit.

from torch import Tensor

from tileops_core.backend.targets import Builtin
from tileops_core.op import Op

__all__ = ["BMMFwdOp", "GEMMFwdOp"]

class BMMFwdOp(Op):
    """Batched matrix product ``d[i] = a[i] @ b[i]`` with ``a [B, M, K]`` and ``b [B, K, N]``.

    Nothing broadcasts and nothing is transposed. Sums are accumulated in float32 and rounded
    once. Follows ``torch.bmm``.
    """

    def __init__(
        self,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        a: Tensor,
        b: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            a: T [B, M, K].
            b: T [B, K, N].

        Returns:
            d: T [B, M, N].
        """

class GEMMFwdOp(Op):
    """Matrix product ``d = op(a) @ op(b)``, where ``op`` transposes or does nothing.

    The flags say how an operand is stored: ``a`` is ``[K, M]`` with ``trans_a`` and ``[M, K]``
    without, ``b`` is ``[N, K]`` with ``trans_b`` (the default, a linear layer's weight) and
    ``[K, N]`` without. Sums are accumulated in float32 and rounded once. K may be 0: the result
    is zeros. Follows ``nvmath.linalg.advanced.Matmul``.
    """

    @property
    def trans_a(self) -> bool: ...
    @property
    def trans_b(self) -> bool: ...
    def __init__(
        self,
        trans_a: bool = False,
        trans_b: bool = True,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            trans_a: bool.
            trans_b: bool.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        a: Tensor,
        b: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            a: T Mat[trans_a, M, K].
            b: T Mat[trans_b, K, N].

        Returns:
            d: T [M, N].
        """
