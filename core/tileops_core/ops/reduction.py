"""Reductions over axes, and softmax."""

from __future__ import annotations

import warnings

from tileops_core.backend.blame import user_level
from tileops_core.interfaces.reduction import ReduceCall, SoftmaxCall
from tileops_core.op import Op
from tileops_core.tensor_spec import TensorSpec

__all__ = ["SoftmaxFwdOp", "SumFwdOp"]


class SoftmaxFwdOp(Op):
    """``exp(x - max) / sum(exp(x - max))`` along an axis.

    ``dim=None`` takes torch's implicit axis (0 at rank 0, 1 and 3, else 1) and warns, as torch
    does. With ``dtype`` the input is cast before anything else, and the result has it. A row that
    is all -inf is NaN. Any shape, floating; follows ``quack.softmax`` and ``torch.softmax``.
    """

    def call_spec(self, x: TensorSpec) -> SoftmaxCall:
        """The row's axis and the cast."""
        rank = len(x.shape)
        dim = self.dim
        if dim is None:
            dim = 0 if rank in (0, 1, 3) else 1
            warnings.warn(
                f"SoftmaxFwdOp: dim is None, so a tensor of rank {rank} is taken along axis {dim}; "
                f"pass dim={dim} to say so",
                UserWarning,
                stacklevel=user_level(),
            )
        out_dtype = x.dtype if self.dtype is None else self.dtype
        return SoftmaxCall(x.device, x.dtype, x.shape, dim % max(rank, 1), out_dtype)


class SumFwdOp(Op):
    """The sum over one axis, several or all.

    ``dim=None`` and an empty sequence take all axes. With ``dtype`` the input is cast before
    anything else, and the result has it. Sums are accumulated in float32; an empty sum is 0. Any
    shape, floating; follows ``torch.sum``.
    """

    def call_spec(self, input: TensorSpec) -> ReduceCall:
        """The axes, what becomes of them, and the cast."""
        rank = len(input.shape)
        given = (self.dim,) if isinstance(self.dim, int) else self.dim or range(rank)
        # Rank 0 accepts axes 0 and -1, and has none.
        dims = tuple(sorted(dim % rank for dim in given)) if rank else ()
        out_dtype = input.dtype if self.dtype is None else self.dtype
        return ReduceCall(
            input.device, "sum", input.dtype, input.shape, dims, self.keepdim, out_dtype
        )
