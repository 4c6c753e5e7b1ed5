"""Costs that a function states: an entry's ``roofline: {func: package.module.function}``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tileops_core.errors import TileOpsError


def cost_function(op: str, name: str) -> Callable[[Any], Any]:
    """The function that an entry's roofline names.

    Args:
        op: Whose entry it is.
        name: The function's dotted name.

    Raises:
        TileOpsError: There is no such module, or no such function in it.
    """
    module, _, attribute = name.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise TileOpsError(
            f"{op}: its roofline names {name}, which cannot be imported: {error}; install what "
            "brings it, or correct the entry"
        ) from error
    if not callable(function):
        raise TileOpsError(f"{op}: its roofline names {name}, which is no function")
    return function  # type: ignore[no-any-return]


def cost_by(op: str, name: str, record: Any) -> tuple[Any, Any]:
    """``(flops, bytes)`` that an entry's cost function gives for a record.

    Raises:
        TileOpsError: The function cannot be found, or gives something else than a pair.
    """
    cost = cost_function(op, name)(record)
    if not isinstance(cost, (tuple, list)) or len(cost) != 2:
        raise TileOpsError(f"{op}: {name} gives {cost!r} for its roofline, (flops, bytes) is due")
    return cost[0], cost[1]
