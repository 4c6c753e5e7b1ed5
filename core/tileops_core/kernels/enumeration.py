"""The kernels inside of a build entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileops_core.kernels.kernel import Kernel
from tileops_core.kernels.typed_keys import field_names


def kernels_in(entry: object) -> Iterator[Kernel]:
    """Every kernel that an entry is or holds, once, in the order of declaration.

    Only declared places are looked at: an entry is a kernel, a sequence of kernels, or an attrs
    class or dataclass whose fields hold them, to any depth.
    """
    seen: set[int] = set()
    ahead = [entry]
    while ahead:
        item = ahead.pop(0)
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Kernel):
            yield item
        ahead = [*_held(item), *ahead]


def _held(item: Any) -> list[Any]:
    """What an item declares to hold."""
    if isinstance(item, (list, tuple)):
        return list(item)
    if isinstance(item, type):
        return []
    return [getattr(item, name, None) for name in field_names(type(item)) or ()]
