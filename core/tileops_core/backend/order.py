"""Which of several backends is preferred where nothing else decides."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence

from tileops_core.backend.blame import user_level
from tileops_core.backend.contract import is_name
from tileops_core.backend.registry import REGISTRY, Registry
from tileops_core.suggest import did_you_mean, listed

VARIABLE = "TILEOPS_BACKEND_ORDER"


class BackendOrder:
    """The user's order of backends, for the process and for single ops.

    ``TILEOPS_BACKEND_ORDER`` (names with commas between) is read when an order is first asked for,
    not at import, and not again. An order set in Python stands above it, one set for an op above
    both. Names that no backend has are warned about when the order is first used.
    """

    def __init__(self, registry: Registry = REGISTRY) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._general: tuple[str, ...] | None = None
        self._by_op: dict[str, tuple[str, ...]] = {}
        self._environment: tuple[str, ...] | None = None
        self._checked: set[tuple[str, ...]] = {()}

    def set(self, names: Sequence[str] | None, op: str | None = None) -> None:
        """Prefer backends in this order; None goes back to what holds without this call."""
        order = None if names is None else _order(names)
        with self._lock:
            if op is None:
                self._general = order
            elif order is None:
                self._by_op.pop(op, None)
            else:
                self._by_op[op] = order

    def of(self, op: str) -> tuple[str, ...]:
        """The backends preferred for ``op``, best first; empty if nobody said anything."""
        order = self._by_op.get(op)
        if order is None:
            order = self._general
        if order is None:
            order = self._environment
        if order is None:
            order = self._read()
        if order not in self._checked:
            self._check(order)
        return order

    def _read(self) -> tuple[str, ...]:
        with self._lock:
            if self._environment is None:
                parts = os.environ.get(VARIABLE, "").split(",")
                names = [part.strip() for part in parts if part.strip()]
                self._environment = tuple(dict.fromkeys(names))
            return self._environment

    def _check(self, order: tuple[str, ...]) -> None:
        with self._lock:
            if order in self._checked:
                return
            self._checked.add(order)
        known = self._registry.target_names()
        for name in order:
            if name not in known:
                source = VARIABLE if order == self._environment else "set_backend_order"
                warnings.warn(
                    f"{source}: no backend is called {name!r}{did_you_mean(name, known)}; "
                    f"there are: {listed(known)}; the name is passed over",
                    RuntimeWarning,
                    stacklevel=user_level(),
                )


def _order(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"set_backend_order takes a list of names, got the string {names!r}")
    order = tuple(names)
    for name in order:
        if not isinstance(name, str):
            raise TypeError(f"set_backend_order takes names of backends, got {name!r}")
        if not is_name(name):
            raise ValueError(f"set_backend_order: {name!r} is not a backend's name")
    if len(set(order)) < len(order):
        raise ValueError(f"set_backend_order names a backend twice: {list(order)}")
    return order


ORDER = BackendOrder()


def set_backend_order(names: Sequence[str] | None, op: str | None = None) -> None:
    """Say which backend's kernel type serves a call that several serve equally well.

    Args:
        names: backends, the preferred one first; None takes an earlier order back.
        op: for this op only (its class name), above the order for all ops.
    """
    ORDER.set(names, op)


def backend_order(op: str) -> tuple[str, ...]:
    """The order that holds for ``op``, best first."""
    return ORDER.of(op)
