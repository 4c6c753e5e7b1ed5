"""Numbers and lists of numbers in few characters, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction

_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")
_THREE = Context(prec=3)
_MANY = 6


def engineering(value: int | Fraction) -> str:
    """Three digits and the prefix of a power of 1000: ``34.4 G``.

    Zeros at the end are there only where something was rounded to them.
    """
    exact = Fraction(value)
    for prefix in _PREFIXES:
        rounded = _THREE.divide(Decimal(exact.numerator), Decimal(exact.denominator))
        if rounded < 1000 or prefix == _PREFIXES[-1]:
            break
        exact /= 1000
    digits = f"{rounded:f}"
    if "." in digits and Fraction(digits) == exact:
        digits = digits.rstrip("0").rstrip(".")
    return f"{digits} {prefix}".rstrip()


def shape(lengths: Sequence[int]) -> str:
    """``4096×2048``; of a tensor without axes, ``[]``."""
    return "×".join(map(str, lengths)) if lengths else "[]"


def numbers(values: Sequence[int]) -> str:
    """A list in full if it is short, else how many values there are, and which."""
    if len(values) > 2 and len(set(values)) == 1:
        return f"{len(values)} times {values[0]}"
    if len(values) <= _MANY:
        return f"[{', '.join(map(str, values))}]"
    return f"{len(values)} from {min(values)} to {max(values)}, {sum(values)} in all"
