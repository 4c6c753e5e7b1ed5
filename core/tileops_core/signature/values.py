"""The functions that write lists of ints in workload rows and in generators' arguments."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tileops_core.signature.kinds import SEQ, is_int
from tileops_core.signature.primitives import Argument, Primitive, PrimitiveError

MAX_ITEMS = 2**20
"""No list is longer; the longest of real models have some hundred sequences."""


def balanced(total: int, count: int) -> tuple[int, ...]:
    """``total`` in ``count`` parts that differ by at most 1, the greater ones first."""
    each, more = divmod(total, count) if count else (0, 0)
    return (each + 1,) * more + (each,) * (count - more)


def _count(name: str, count: int) -> None:
    if not 0 <= count <= MAX_ITEMS:
        raise PrimitiveError(f"{name}: a list has from 0 to {MAX_ITEMS} items, not {count}")


def _repeat(value: int, count: int) -> tuple[int, ...]:
    """A list with one value as often as said: requests of one length.

    >>> repeat(512, 3)
    [512, 512, 512]
    """
    _count("repeat", count)
    return (value,) * count


def _balanced_sizes(total: int, count: int) -> tuple[int, ...]:
    """A total in parts as equal as can be, the greater ones first: rows of experts.

    The total is not negative, and is 0 where there is no part.

    >>> balanced_sizes(10, 4)
    [3, 3, 2, 2]
    >>> balanced_sizes(1, 0)
    refused: balanced_sizes: 1 cannot be shared out in 0 parts
    """
    _count("balanced_sizes", count)
    if total < 0 or (total and not count):
        raise PrimitiveError(f"balanced_sizes: {total} cannot be shared out in {count} parts")
    return balanced(total, count)


def _int(name: str) -> Argument:
    return Argument(name, is_int, "an int")


LISTS: Mapping[str, Primitive] = MappingProxyType(
    {
        "repeat": Primitive("repeat", (_int("value"), _int("count")), lambda _: SEQ, _repeat),
        "balanced_sizes": Primitive(
            "balanced_sizes", (_int("total"), _int("count")), lambda _: SEQ, _balanced_sizes
        ),
    }
)
"""Every such function by its name."""
