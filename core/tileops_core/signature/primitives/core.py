"""The functions that any family uses: kinds of arguments and result, domain, and code.

Each ``run`` is what generated code calls with values of a call. Lengths may be symbolic ints, so
no primitive asks for their type; dtypes are torch dtypes there and short names in a workload row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileops_core.signature.dtypes import DTYPES, category_of, holds, name_of, same_sort
from tileops_core.signature.kinds import (
    BOOL,
    DIM,
    INT,
    SHAPE,
    AxesKind,
    BoolKind,
    DTypeKind,
    EachKind,
    EnumKind,
    IntTupleKind,
    Kind,
    MaybeKind,
    TensorKind,
    TupleKind,
    is_int,
    is_number,
)
from tileops_core.signature.primitives.model import (
    Argument,
    Primitive,
    PrimitiveError,
    has_category,
    is_axes,
    is_dtype,
    is_maybe_dtype,
    is_per_axis,
    is_scalar,
    is_sequence,
    is_shape,
    joined_number,
)


def _item_kind(kinds: Sequence[Kind]) -> Kind:
    kind = kinds[0]
    if isinstance(kind, EachKind):
        return kind.of
    if isinstance(kind, TupleKind):
        return joined_number(kind.items)
    return INT if isinstance(kind, IntTupleKind) else DIM


def _extreme_kind(kinds: Sequence[Kind]) -> Kind:
    return _item_kind(kinds) if len(kinds) == 1 else joined_number(kinds)


def _dtypes_joined(kinds: Sequence[Kind]) -> Kind:
    members: list[str] = []
    for kind in kinds:
        inner = kind.of if isinstance(kind, MaybeKind) else kind
        if not isinstance(inner, DTypeKind) or inner.members is None:
            return DTypeKind(None)
        members += [member for member in inner.members if member not in members]
    return DTypeKind(tuple(members))


def _dtypes_promoted(kinds: Sequence[Kind]) -> Kind:
    inner = kinds[0]
    if not isinstance(inner, DTypeKind) or inner.members is None:
        return DTypeKind(None)
    return DTypeKind(tuple(dict.fromkeys(map(_promote_int_to_float, inner.members))))


_SHAPE = Argument("shape", is_shape, "a shape")
_DIM = Argument("dim", is_axes, "an axis or axes")
_INT = Argument("n", is_int, "an int")
_NUMBERS = Argument("values", is_sequence, "a sequence of numbers")
_NUMBER = Argument("value", is_number, "a number")
_DTYPE = Argument("dtype", is_dtype, "a dtype")


# What they do


def _text(shape: Sequence[Any]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _broadcast(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    rank = max(map(len, shapes))
    result: list[Any] = [1] * rank
    for shape in shapes:
        for axis, length in enumerate(shape, rank - len(shape)):
            known = result[axis]
            if known == 1:
                result[axis] = length
            elif length != 1 and length != known:
                raise PrimitiveError(
                    " and ".join(map(_text, shapes))
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
    return _why_invalid(shape, dim) is None


def _why_repeated(shape: Sequence[Any], dim: Any) -> PrimitiveError | None:
    rank = max(len(shape), 1)
    named = dim if isinstance(dim, (tuple, list)) else ()
    seen: set[int] = set()
    for axis in named:
        if axis % rank in seen:
            return PrimitiveError(f"axis {axis % rank} appears multiple times in {_text(named)}")
        seen.add(axis % rank)
    return None


def _unique_axes(shape: Sequence[Any], dim: Any) -> bool:
    return _why_repeated(shape, dim) is None


def _why_empty(shape: Sequence[Any], dim: Any) -> PrimitiveError | None:
    every = dim is None or (isinstance(dim, (tuple, list)) and not dim)
    axes = range(len(shape)) if every else _axes(shape, dim)
    for axis in axes:
        if shape and shape[axis] == 0:
            return PrimitiveError(
                f"axis {axis} has length 0, and of no elements there is no result",
                index_error=True,
            )
    return None


def _nonempty_axes(shape: Sequence[Any], dim: Any) -> bool:
    return _why_empty(shape, dim) is None


def _per_axis(value: Any, axis: int, count: int, fallback: Any = None) -> Any:
    if isinstance(value, (tuple, list)):
        if len(value) not in (1, count):
            raise PrimitiveError(f"{_text(value)} has {len(value)} values for {count} axes")
        value = value[0 if len(value) == 1 else axis]
    if value is None and fallback is None:
        raise PrimitiveError("a value per axis is None and has no fallback")
    return fallback if value is None else value


def _ceil_div(number: Any, divisor: Any) -> Any:
    if divisor == 0:
        raise PrimitiveError(f"ceil_div({number}, 0) divides by zero")
    return -(-number // divisor)


def _prod(values: Any) -> Any:
    result: Any = 1
    for value in values:
        result *= value
    return result


def _max(*values: Any) -> Any:
    return _extreme(max, values)


def _min(*values: Any) -> Any:
    return _extreme(min, values)


def _extreme(choose: Any, values: Any) -> Any:
    items = tuple(values[0]) if len(values) == 1 else values
    if not items:
        raise PrimitiveError(f"{choose.__name__} of nothing")
    return choose(items)


def _coalesce_dtype(given: Any, otherwise: Any) -> Any:
    return otherwise if given is None else given


def _promote_int_to_float(dtype: Any) -> Any:
    if DTYPES[name_of(dtype)].category in ("bool", "int"):
        return same_sort("float32", dtype)
    return dtype


def _present(value: Any) -> bool:
    return value is not None


def _why_unrepresentable(value: Any, dtype: Any) -> PrimitiveError | None:
    if holds(value, dtype):
        return None
    return PrimitiveError(f"{value} does not fit into {name_of(dtype)}")


def _representable(value: Any, dtype: Any) -> bool:
    return holds(value, dtype)


def bytes_of(dtype: Any, shape: Sequence[Any]) -> Any:
    """Bytes of a dense tensor of this dtype and shape."""
    return _prod(shape) * DTYPES[name_of(dtype)].bits // 8


def _bytes(fact: Any) -> Any:
    """Bytes of a tensor, given as (dtype, shape); 0 for one that is not there."""
    return 0 if fact is None else bytes_of(*fact)


def _sized(name: str, run: Callable[..., Any]) -> Primitive:
    return Primitive(name, (_NUMBERS,), _item_kind, run)


_MODE = Argument(
    "mode",
    lambda kind: isinstance(kind, EnumKind) and set(kind.words) <= {"full", "noop", "reject"},
    "'full', 'noop' or 'reject'",
)
_CATEGORY = EnumKind(("bool", "int", "float", "complex"))
_TENSOR = Argument("tensor", lambda kind: isinstance(kind, TensorKind), "a tensor")

CORE = (
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
    Primitive(
        "per_axis",
        (Argument("value", is_per_axis, "an int or a value per axis"), _INT, _INT),
        lambda _: INT,
        _per_axis,
        optional=(Argument("fallback", is_int, "an int"),),
    ),
    Primitive("ceil_div", (_INT, _INT), joined_number, _ceil_div),
    Primitive(
        "len",
        (Argument("values", lambda k: is_shape(k) or isinstance(k, TupleKind), "a shape"),),
        lambda _: DIM,
        len,
    ),
    _sized("prod", _prod),
    _sized("sum", sum),
    Primitive("max", (), _extreme_kind, _max, rest=_NUMBER, least=2, alone=_NUMBERS),
    Primitive("min", (), _extreme_kind, _min, rest=_NUMBER, least=2, alone=_NUMBERS),
    Primitive(
        "all",
        (
            Argument(
                "conditions",
                lambda k: isinstance(k, EachKind) and isinstance(k.of, BoolKind),
                "a condition for each item",
            ),
        ),
        lambda _: BOOL,
        all,
    ),
    Primitive(
        "category",
        (Argument("value", has_category, "a number or a dtype"),),
        lambda _: _CATEGORY,
        category_of,
    ),
    Primitive(
        "representable",
        (Argument("value", is_scalar, "a number"), _DTYPE),
        lambda _: BOOL,
        _representable,
        explain=_why_unrepresentable,
    ),
    Primitive(
        "coalesce_dtype",
        (Argument("given", is_maybe_dtype, "a dtype that may be None"), _DTYPE),
        _dtypes_joined,
        _coalesce_dtype,
    ),
    Primitive("promote_int_to_float", (_DTYPE,), _dtypes_promoted, _promote_int_to_float),
    Primitive(
        "present",
        (
            Argument(
                "value",
                lambda k: (
                    isinstance(k, (TensorKind, MaybeKind))
                    or (isinstance(k, AxesKind) and k.optional)
                ),
                "an optional tensor, or a parameter that may be None",
            ),
        ),
        lambda _: BOOL,
        _present,
    ),
    Primitive("bytes", (_TENSOR,), lambda _: DIM, _bytes),
)
