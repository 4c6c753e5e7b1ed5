"""How a program reads and writes the elements of a tensor: float32 in between, always.

On the C target TileLang has no bfloat16, and a float16 in software. Programs see both as their
bits there. A bfloat16 is read and written in integer operations that a C compiler vectorizes; a
float16 takes too many of them, so it is converted by functions of our own C prelude, in whole
blocks where its elements lie side by side, which use the processor's instructions where it has
any. Either rounds as torch does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import tilelang.language as T


@attrs.frozen
class Element:
    """A tensor's dtype inside a program.

    Attributes:
        storage: the dtype under which the program sees the tensor.
        read: a stored element as a float32.
        write: a float32 as a stored element, rounded to nearest, ties to even.
        blocks: the prelude's conversions of whole blocks, ``(to float32, from float32)``, or None
            where single elements are converted as fast.
    """

    storage: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    blocks: tuple[str, str] | None = None


def _word(value: int) -> Any:
    return T.uint32(value)


def _bits(value: Any) -> Any:
    return T.reinterpret(value, "uint32")


def _float(bits: Any) -> Any:
    return T.reinterpret(bits, "float32")


def _read_bfloat16(stored: Any) -> Any:
    """Its bits are the upper half of the float32's."""
    return _float(T.cast(stored, "uint32") << _word(16))


def _write_bfloat16(value: Any) -> Any:
    """The upper half of the float32's bits, rounded; every NaN becomes the quiet one."""
    bits = _bits(value)
    rounded = (bits + _word(0x7FFF) + ((bits >> _word(16)) & _word(1))) >> _word(16)
    is_nan = (bits & _word(0x7FFFFFFF)) > _word(0x7F800000)
    # A select, because a branch is not vectorized.
    return T.cast(T.Select(is_nan, _word(0x7FC0), rounded), "uint16")


def _read_float16(stored: Any) -> Any:
    """By the prelude: TileLang needs minutes to simplify the same in integer operations."""
    return T.call_extern("float32", "tileops_widen_one", stored)


def _write_float16(value: Any) -> Any:
    return T.call_extern("uint16", "tileops_narrow_one", value)


def _same(value: Any) -> Any:
    return value


AS_BITS = {
    "float32": Element("float32", _same, _same),
    "bfloat16": Element("uint16", _read_bfloat16, _write_bfloat16),
    "float16": Element(
        "uint16",
        _read_float16,
        _write_float16,
        ("tileops_widen_float16", "tileops_narrow_float16"),
    ),
}
"""For the C target, by dtype."""


def native(dtype: str) -> Element:
    """A dtype that the target has itself."""
    if dtype == "float32":
        return AS_BITS[dtype]
    return Element(dtype, lambda x: T.cast(x, "float32"), lambda x: T.cast(x, dtype))
