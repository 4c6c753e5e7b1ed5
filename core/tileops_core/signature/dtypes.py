"""Facts of dtypes by their short names, without torch."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

from tileops_core.by_fields import EqualByFields


@attrs.frozen(slots=True, eq=False, repr=False)
class DTypeFacts(EqualByFields):
    """``category`` is bool, int, float or complex; ``low`` and ``high`` are the finite range of
    an element (of each part, for complex).
    """

    category: str
    bits: int
    low: float
    high: float


def _int(bits: int, signed: bool = True) -> DTypeFacts:
    low = -(2 ** (bits - 1)) if signed else 0
    return DTypeFacts("int", bits, low, 2 ** (bits - 1 if signed else bits) - 1)


def _float(bits: int, high: float, category: str = "float") -> DTypeFacts:
    return DTypeFacts(category, bits, -high, high)


_FLOAT32_MAX = (2 - 2.0**-23) * 2.0**127

DTYPES: Mapping[str, DTypeFacts] = MappingProxyType(
    {
        "bool": DTypeFacts("bool", 8, 0, 1),
        "uint8": _int(8, signed=False),
        "uint16": _int(16, signed=False),
        "uint32": _int(32, signed=False),
        "uint64": _int(64, signed=False),
        "int8": _int(8),
        "int16": _int(16),
        "int32": _int(32),
        "int64": _int(64),
        "float8_e4m3fn": _float(8, 448.0),
        "float8_e5m2": _float(8, 57344.0),
        "float8_e8m0fnu": DTypeFacts("float", 8, 2.0**-127, 2.0**127),
        "float16": _float(16, 65504.0),
        "bfloat16": _float(16, (2 - 2.0**-7) * 2.0**127),
        "float32": _float(32, _FLOAT32_MAX),
        "float64": _float(64, sys.float_info.max),
        "complex64": _float(64, _FLOAT32_MAX, "complex"),
        "complex128": _float(128, sys.float_info.max, "complex"),
    }
)
"""Every dtype that an entry may name."""


_PACKED = re.compile(r"(u?int|fp|float)[1-7]([^0-9].*)?", re.ASCII)


def unknown_dtype(name: str) -> str:
    """What to write where something is no dtype that an entry may name."""
    if _PACKED.fullmatch(name):
        return f"write {name} as its carrier, uint8 or int8, with the axis that it packs halved"
    return f"the dtypes are {', '.join(DTYPES)}"


def name_of(dtype: Any) -> str:
    """The short name of a dtype, which is a name already or a torch.dtype."""
    return dtype if isinstance(dtype, str) else str(dtype).removeprefix("torch.")


def same_sort(name: str, like: Any) -> Any:
    """The dtype of this name, as a torch.dtype when ``like`` is one, else as the name."""
    return name if isinstance(like, str) else getattr(sys.modules["torch"], name)


def category_of(value: Any) -> str:
    """``bool``, ``int``, ``float`` or ``complex``, of a number or a dtype."""
    for sort, name in ((bool, "bool"), (int, "int"), (float, "float"), (complex, "complex")):
        if isinstance(value, sort):
            return name
    return DTYPES[name_of(value)].category


def holds(value: Any, dtype: Any) -> bool:
    """Whether a number survives conversion to a dtype: in range, and of a category that fits.

    Infinities and NaN fit every floating dtype; rounding is no loss.
    """
    facts = DTYPES[name_of(dtype)]
    if isinstance(value, complex):
        return facts.category == "complex" and holds(value.real, dtype) and holds(value.imag, dtype)
    if facts.category in ("float", "complex"):
        if isinstance(value, float) and not math.isfinite(value):
            return True
        return bool(-facts.high <= value <= facts.high)
    if isinstance(value, float):
        return math.isfinite(value) and value.is_integer() and facts.low <= value <= facts.high
    return bool(facts.low <= value <= facts.high)
