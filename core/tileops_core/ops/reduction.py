"""Reductions over axes, scans along them, and softmax."""

from __future__ import annotations

import warnings

from tileops_core.backend.blame import user_level
from tileops_core.interfaces.reduction import ArgreduceCall, ReduceCall, ScanCall, SoftmaxCall
from tileops_core.op import Op
from tileops_core.tensor_spec import TensorSpec

__all__ = ["ArgmaxFwdOp", "CumsumFwdOp", "LogSoftmaxFwdOp", "SoftmaxFwdOp", "SumFwdOp"]


class SoftmaxFwdOp(Op):
    """``exp(x - max) / sum(exp(x - max))`` along an axis.

    ``dim=None`` takes torch's implicit axis (0 at rank 0, 1 and 3, else 1) and warns, as torch
    does. With ``dtype`` the input is cast before anything else, and the result has it. A row that
    is all -inf is NaN. Any shape, floating; follows ``quack.softmax`` and ``torch.softmax``.
    """

    def call_spec(self, x: TensorSpec) -> SoftmaxCall:
        """The row's axis and the cast."""
        return _softmax_call(self, x)


class LogSoftmaxFwdOp(Op):
    """``x - max - log(sum(exp(x - max)))`` along an axis.

    ``dim`` and ``dtype`` as in :class:`SoftmaxFwdOp`, the implicit axis and its warning included.
    A row that is all -inf is NaN. Any shape, floating; follows
    ``torch.nn.functional.log_softmax``.
    """

    def call_spec(self, input: TensorSpec) -> SoftmaxCall:
        """The row's axis and the cast."""
        return _softmax_call(self, input)


def _softmax_call(op: SoftmaxFwdOp | LogSoftmaxFwdOp, x: TensorSpec) -> SoftmaxCall:
    """What both have in common: torch's implicit axis, and the cast."""
    rank = len(x.shape)
    dim = op.dim
    if dim is None:
        dim = 0 if rank in (0, 1, 3) else 1
        warnings.warn(
            f"{type(op).__name__}: dim is None, so a tensor of rank {rank} is taken along axis "
            f"{dim}; pass dim={dim} to say so",
            UserWarning,
            stacklevel=user_level(),
        )
    out_dtype = x.dtype if op.dtype is None else op.dtype
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


class ArgmaxFwdOp(Op):
    """The index of the first maximum along an axis, or in the flattened tensor.

    ``dim=None`` flattens. NaN counts as the maximum, so the first NaN's index where there is one.
    An axis of length 0 has no maximum and is refused. int64; any shape, floating. Follows
    ``flag_gems.ops.argmax`` and ``torch.argmax``.
    """

    def call_spec(self, input: TensorSpec) -> ArgreduceCall:
        """The axis, and what becomes of it."""
        rank = len(input.shape)
        dim = None if self.dim is None or not rank else self.dim % rank
        return ArgreduceCall(input.device, "argmax", input.dtype, input.shape, dim, self.keepdim)


class CumsumFwdOp(Op):
    """The sum of the elements up to each, itself included, along an axis.

    With ``dtype`` the input is cast before anything else, and the result has it. Accumulated in
    float32; each element is rounded once. At least one axis, floating; follows
    ``flag_gems.ops.cumsum`` and ``torch.cumsum``.
    """

    def call_spec(self, input: TensorSpec) -> ScanCall:
        """The axis and the cast."""
        out_dtype = input.dtype if self.dtype is None else self.dtype
        dim = self.dim % len(input.shape)
        return ScanCall(input.device, "cumsum", input.dtype, input.shape, dim, out_dtype)
