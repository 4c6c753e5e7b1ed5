"""The functions of shapes and axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileops_core.signature.kinds import BOOL, SHAPE, BoolKind, EnumKind
from tileops_core.signature.primitives.model import (
    Argument,
    Primitive,
    PrimitiveError,
    is_axes,
    is_shape,
    tuple_text,
)


def _broadcast(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape that tensors of these shapes have together, by torch's rules.

    From the last axis on, two lengths that meet are equal, or one of them is 1.

    >>> broadcast((2, 1), (3,))
    (2, 3)
    >>> broadcast((2, 3), (2,))
    refused: (2, 3) and (2,) do not broadcast: lengths 3 and 2 meet
    """
    rank = max(map(len, shapes))
    result: list[Any] = [1] * rank
    for shape in shapes:
        for axis, length in enumerate(shape, rank - len(shape)):
            known = result[axis]
            if known == 1:
                result[axis] = length
            elif length != 1 and length != known:
                raise PrimitiveError(
                    " and ".join(map(tuple_text, shapes))
                    + f" do not broadcast: lengths {known} and {length} meet"
                )
    return tuple(result)


def _axes(shape: Sequence[Any], dim: Any) -> tuple[int, ...]:
    """The axes that ``dim`` names, not negative; ``dim`` is an int or a sequence of ints."""
    rank = max(len(shape), 1)
    named = (dim,) if not isinstance(dim, (tuple, list)) else dim
    found = []
    for axis in named:
        if not -rank <= axis < rank:
            raise _out_of_range(axis, len(shape))
        found.append(axis % rank)
    return tuple(found)


def _out_of_range(axis: int, rank: int) -> PrimitiveError:
    bound = max(rank, 1)
    return PrimitiveError(
        f"dim {axis} is out of range for rank {rank}, it must lie in [{-bound}, {bound - 1}]",
        index_error=True,
    )


def _reduced(shape: Sequence[Any], dim: Any, keepdim: bool, mode: str) -> tuple[Any, ...]:
    """A shape whose axes ``dim`` are reduced: they are gone, or with ``keepdim`` have length 1.

    None stands for all axes. An empty list of axes stands for all with the mode ``'full'``, for
    none with ``'noop'``, and is refused with ``'reject'``. An axis lies from -rank to rank - 1; a
    tensor without axes takes 0 and -1.

    >>> reduced((2, 3, 4), 1, False, 'full')
    (2, 4)
    >>> reduced((2, 3, 4), (0, -1), True, 'full')
    (1, 3, 1)
    >>> reduced((2, 3), (), False, 'noop')
    (2, 3)
    >>> reduced((2, 3), 2, False, 'full')
    refused: dim 2 is out of range for rank 2, it must lie in [-2, 1]
    """
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        if dim is not None and mode == "reject":
            raise PrimitiveError("an empty list of axes reduces nothing and is refused")
        axes = () if dim is not None and mode == "noop" else tuple(range(len(shape)))
    else:
        axes = _axes(shape, dim)
    kept = [1 if axis in axes else length for axis, length in enumerate(shape)]
    if keepdim:
        return tuple(kept)
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)


def _why_invalid(shape: Sequence[Any], dim: Any) -> PrimitiveError | None:
    if dim is None:
        return None
    try:
        _axes(shape, dim)
    except PrimitiveError as error:
        return error
    return None


def _valid_axes(shape: Sequence[Any], dim: Any) -> bool:
    """Whether each of the axes ``dim`` is one of a tensor of this shape; None always is.

    An axis lies from -rank to rank - 1; a tensor without axes takes 0 and -1.

    >>> valid_axes((2, 3), (0, -1))
    True
    >>> valid_axes((2, 3), 2)
    False
    """
    return _why_invalid(shape, dim) is None


def _why_repeated(shape: Sequence[Any], dim: Any) -> PrimitiveError | None:
    rank = max(len(shape), 1)
    named = dim if isinstance(dim, (tuple, list)) else ()
    seen: set[int] = set()
    for axis in named:
        if axis % rank in seen:
            return PrimitiveError(
                f"axis {axis % rank} appears multiple times in {tuple_text(named)}"
            )
        seen.add(axis % rank)
    return None


def _unique_axes(shape: Sequence[Any], dim: Any) -> bool:
    """Whether no axis stands twice in ``dim``, counted from either end.

    >>> unique_axes((2, 3), (0, 1))
    True
    >>> unique_axes((2, 3), (0, -2))
    False
    """
    return _why_repeated(shape, dim) is None


def _why_empty(shape: Sequence[Any], dim: Any) -> PrimitiveError | None:
    axes = range(len(shape)) if dim is None else _axes(shape, dim)
    for axis in axes:
        if shape and shape[axis] == 0:
            return PrimitiveError(
                f"axis {axis} has length 0, and of no elements there is no result",
                index_error=True,
            )
    return None


def _nonempty_axes(shape: Sequence[Any], dim: Any) -> bool:
    """Whether none of the axes ``dim`` has length 0: of no elements there is no greatest.

    None stands for all axes.

    >>> nonempty_axes((0, 3), 1)
    True
    >>> nonempty_axes((0, 3), 0)
    False
    """
    return _why_empty(shape, dim) is None


_SHAPE = Argument("shape", is_shape, "a shape")
_DIM = Argument("dim", is_axes, "an axis or axes")
_MODE = Argument(
    "mode",
    lambda kind: isinstance(kind, EnumKind) and set(kind.words) <= {"full", "noop", "reject"},
    "'full', 'noop' or 'reject'",
)

SHAPES = (
    Primitive("broadcast", (), lambda _: SHAPE, _broadcast, rest=_SHAPE, least=1),
    Primitive(
        "reduced",
        (_SHAPE, _DIM, Argument("keepdim", lambda k: isinstance(k, BoolKind), "a bool"), _MODE),
        lambda _: SHAPE,
        _reduced,
    ),
    Primitive("valid_axes", (_SHAPE, _DIM), lambda _: BOOL, _valid_axes, explain=_why_invalid),
    Primitive("unique_axes", (_SHAPE, _DIM), lambda _: BOOL, _unique_axes, explain=_why_repeated),
    Primitive("nonempty_axes", (_SHAPE, _DIM), lambda _: BOOL, _nonempty_axes, explain=_why_empty),
)
