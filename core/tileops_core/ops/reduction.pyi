# Generated from the manifest by tileops_core.ops._generate; do not edit.

from collections.abc import Sequence

import torch
from torch import Tensor

from tileops_core.backend.targets import Builtin
from tileops_core.op import Op

__all__ = ["ArgmaxFwdOp", "CumsumFwdOp", "LogSoftmaxFwdOp", "SoftmaxFwdOp", "SumFwdOp"]

class ArgmaxFwdOp(Op):
    """The index of the first maximum along an axis, or in the flattened tensor.

    ``dim=None`` flattens. NaN counts as the maximum, so the first NaN's index where there is one.
    An axis of length 0 has no maximum and is refused. int64; any shape, floating. Follows
    ``flag_gems.ops.argmax`` and ``torch.argmax``.
    """

    @property
    def dim(self) -> int | None: ...
    @property
    def keepdim(self) -> bool: ...
    def __init__(
        self,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            dim: int | None.
            keepdim: bool.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [*S].

        Returns:
            output: int64 [*reduced(S, dim, keepdim, 'full')].
        """

class CumsumFwdOp(Op):
    """The sum of the elements up to each, itself included, along an axis.

    With ``dtype`` the input is cast before anything else, and the result has it. Accumulated in
    float32; each element is rounded once. At least one axis, floating; follows
    ``flag_gems.ops.cumsum`` and ``torch.cumsum``.
    """

    @property
    def dim(self) -> int: ...
    @property
    def dtype(self) -> torch.dtype | None: ...
    def __init__(
        self,
        dim: int,
        *,
        dtype: torch.dtype | str | None = None,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            dim: int.
            dtype: float16 | bfloat16 | float32 | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [*S].

        Returns:
            output: coalesce_dtype(dtype, T) [*S].
        """

class LogSoftmaxFwdOp(Op):
    """``x - max - log(sum(exp(x - max)))`` along an axis.

    ``dim`` and ``dtype`` as in :class:`SoftmaxFwdOp`, the implicit axis and its warning included.
    A row that is all -inf is NaN. Any shape, floating; follows
    ``torch.nn.functional.log_softmax``.
    """

    @property
    def dim(self) -> int | None: ...
    @property
    def dtype(self) -> torch.dtype | None: ...
    def __init__(
        self,
        dim: int | None = None,
        *,
        dtype: torch.dtype | str | None = None,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            dim: int | None.
            dtype: float16 | bfloat16 | float32 | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [*S].

        Returns:
            output: coalesce_dtype(dtype, T) [*S].
        """

class SoftmaxFwdOp(Op):
    """``exp(x - max) / sum(exp(x - max))`` along an axis.

    ``dim=None`` takes torch's implicit axis (0 at rank 0, 1 and 3, else 1) and warns, as torch
    does. With ``dtype`` the input is cast before anything else, and the result has it. A row that
    is all -inf is NaN. Any shape, floating; follows ``quack.softmax`` and ``torch.softmax``.
    """

    @property
    def dim(self) -> int | None: ...
    @property
    def dtype(self) -> torch.dtype | None: ...
    def __init__(
        self,
        dim: int | None = None,
        *,
        dtype: torch.dtype | str | None = None,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            dim: int | None.
            dtype: float16 | bfloat16 | float32 | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        x: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            x: T [*S].

        Returns:
            output: coalesce_dtype(dtype, T) [*S].
        """

class SumFwdOp(Op):
    """The sum over one axis, several or all.

    ``dim=None`` and an empty sequence take all axes. With ``dtype`` the input is cast before
    anything else, and the result has it. Sums are accumulated in float32; an empty sum is 0. Any
    shape, floating; follows ``torch.sum``.
    """

    @property
    def dim(self) -> int | tuple[int, ...] | None: ...
    @property
    def keepdim(self) -> bool: ...
    @property
    def dtype(self) -> torch.dtype | None: ...
    def __init__(
        self,
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | str | None = None,
        target: str | Builtin | None = None,
    ) -> None:
        """Construct once, call many times.

        Args:
            dim: int | list[int] | tuple[int, ...] | None.
            keepdim: bool.
            dtype: float16 | bfloat16 | float32 | None.
            target: who computes: a target's or backend's name, BUILTIN, or None.
        """
    def __call__(
        self,
        input: Tensor,
    ) -> Tensor:
        """Run the op.

        T is float16 | bfloat16 | float32.

        Args:
            input: T [*S].

        Returns:
            output: coalesce_dtype(dtype, T) [*reduced(S, dim, keepdim, 'full')].
        """
