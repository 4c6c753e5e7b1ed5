"""The functions that any family uses: kinds of arguments and result, domain, and code.

Each ``run`` is what generated code calls with values of a call. Lengths may be symbolic ints, so
no primitive asks for their type; dtypes are torch dtypes there and short names in a workload row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileops_core.signature.dtypes import DTYPES, category_of, holds, name_of, same_sort
from tileops_core.signature.kinds import (
    BOOL,
    DIM,
    INT,
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
    tuple_text,
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
_NUMBERS = Argument("values", is_sequence, "a sequence of numbers")
_NUMBER = Argument("value", is_number, "a number")
_DTYPE = Argument("dtype", is_dtype, "a dtype")


def _int(name: str) -> Argument:
    return Argument(name, is_int, "an int")


# What they do


def _per_axis(value: Any, axis: int, count: int, fallback: Any = None) -> Any:
    """The value for one of ``count`` axes, of a parameter that has one for all or one for each.

    A list has 1 or ``count`` values. What is None is ``fallback``, which must be there then.

    >>> per_axis(3, 1, 2)
    3
    >>> per_axis((3, 5), 1, 2)
    5
    >>> per_axis(stride, 1, 2, fallback=7)
    7
    >>> per_axis((1, 2, 3), 0, 2)
    refused: (1, 2, 3) has 3 values for 2 axes
    """
    if isinstance(value, (tuple, list)):
        if len(value) not in (1, count):
            raise PrimitiveError(f"{tuple_text(value)} has {len(value)} values for {count} axes")
        value = value[0 if len(value) == 1 else axis]
    if value is None and fallback is None:
        raise PrimitiveError("a value per axis is None and has no fallback")
    return fallback if value is None else value


def _ceil_div(number: Any, divisor: Any) -> Any:
    """A quotient rounded up: how many blocks of ``divisor`` hold ``number``.

    >>> ceil_div(7, 2)
    4
    >>> ceil_div(-7, 2)
    -3
    >>> ceil_div(7, 0)
    refused: ceil_div(7, 0) divides by zero
    """
    if divisor == 0:
        raise PrimitiveError(f"ceil_div({number}, 0) divides by zero")
    return -(-number // divisor)


def _prod(values: Any) -> Any:
    """The product of a sequence; of nothing it is 1.

    >>> prod((2, 3, 4))
    24
    >>> prod(d + 1 for d in (2, 3))
    12
    """
    result: Any = 1
    for value in values:
        result *= value
    return result


def _max(*values: Any) -> Any:
    """The greatest of a sequence, or of two and more numbers.

    >>> max((2, 7, 3))
    7
    >>> max(2, 7)
    7
    >>> max(())
    refused: max of nothing
    """
    return _extreme(max, values)


def _min(*values: Any) -> Any:
    """The least of a sequence, or of two and more numbers.

    >>> min((2, 7, 3))
    2
    >>> min(2, 7)
    2
    >>> min(())
    refused: min of nothing
    """
    return _extreme(min, values)


def _extreme(choose: Any, values: Any) -> Any:
    items = tuple(values[0]) if len(values) == 1 else values
    if not items:
        raise PrimitiveError(f"{choose.__name__} of nothing")
    return choose(items)


def _coalesce_dtype(given: Any, otherwise: Any) -> Any:
    """A dtype that may be None, or the other where it is.

    >>> coalesce_dtype(dtype, float32)
    float32
    """
    return otherwise if given is None else given


def _promote_int_to_float(dtype: Any) -> Any:
    """The dtype of a mean: float32 for bool and integers, any other as it is.

    >>> promote_int_to_float(int64)
    float32
    >>> promote_int_to_float(float16)
    float16
    """
    if DTYPES[name_of(dtype)].category in ("bool", "int"):
        return same_sort("float32", dtype)
    return dtype


def _present(value: Any) -> bool:
    """Whether an optional tensor is passed, or a parameter is not None.

    Behind it ``.value`` of the parameter may be read.

    >>> present(w)
    False
    >>> present(stride)
    False
    """
    return value is not None


def _why_unrepresentable(value: Any, dtype: Any) -> PrimitiveError | None:
    if holds(value, dtype):
        return None
    return PrimitiveError(f"{value} does not fit into {name_of(dtype)}")


def _representable(value: Any, dtype: Any) -> bool:
    """Whether a number fits into a dtype, as torch decides when it fills a tensor.

    >>> representable(255, uint8)
    True
    >>> representable(300, uint8)
    False
    """
    return holds(value, dtype)


def bytes_of(dtype: Any, shape: Sequence[Any]) -> Any:
    """Bytes of a dense tensor of this dtype and shape."""
    return _prod(shape) * DTYPES[name_of(dtype)].bits // 8


def _bytes(fact: Any) -> Any:
    """How many bytes a dense tensor has; one that is not passed has none. In rooflines only.

    >>> bytes(x)
    12
    >>> bytes(w)
    0
    """
    # The fact is (dtype, shape), or None.
    return 0 if fact is None else bytes_of(*fact)


_SUM = """The sum of a sequence; of nothing it is 0.

    >>> sum((2, 3, 4))
    9
    >>> sum(d * d for d in (2, 3))
    13
"""
_LEN = """How many items a tuple has: a shape's rank.

    >>> len((2, 3, 4))
    3
"""
_ALL = """Whether a condition holds for each item; of nothing it does.

    >>> all(d > 0 for d in (2, 3))
    True
    >>> all(d > 2 for d in (2, 3))
    False
"""
_CATEGORY_OF = """Which sort of number a dtype has, or a number is, in a word.

    >>> category(bfloat16)
    'float'
    >>> category(2)
    'int'
"""


_CATEGORY = EnumKind(("bool", "int", "float", "complex"))
_TENSOR = Argument("tensor", lambda kind: isinstance(kind, TensorKind), "a tensor")

CORE = (
    Primitive(
        "per_axis",
        (Argument("value", is_per_axis, "an int or a value per axis"), _int("axis"), _int("count")),
        lambda _: INT,
        _per_axis,
        optional=(Argument("fallback", is_int, "an int"),),
    ),
    Primitive("ceil_div", (_int("number"), _int("divisor")), joined_number, _ceil_div),
    Primitive(
        "len",
        (Argument("values", lambda k: is_shape(k) or isinstance(k, TupleKind), "a shape"),),
        lambda _: DIM,
        len,
        doc=_LEN,
    ),
    Primitive("prod", (_NUMBERS,), _item_kind, _prod),
    Primitive("sum", (_NUMBERS,), _item_kind, sum, doc=_SUM),
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
        doc=_ALL,
    ),
    Primitive(
        "category",
        (Argument("value", has_category, "a number or a dtype"),),
        lambda _: _CATEGORY,
        category_of,
        doc=_CATEGORY_OF,
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
        (
            Argument("given", is_maybe_dtype, "a dtype that may be None"),
            Argument("otherwise", is_dtype, "a dtype"),
        ),
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
