"""Asking an op's kernels to be tuned: those that are there, and those that are built later."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from tileops_core.backend.blame import user_level
from tileops_core.call.origin import note_origin
from tileops_core.call.routes import Blamed
from tileops_core.call.state import CalledOp
from tileops_core.kernels.builds import BuildOnce
from tileops_core.kernels.contracts import Candidate
from tileops_core.kernels.enumeration import kernels_in
from tileops_core.kernels.kernel import Kernel
from tileops_core.kernels.tuning import Origin, request

_Entry = TypeVar("_Entry")


def built_and_tuned(
    op: CalledOp,
    table: BuildOnce[_Entry],
    place: Hashable,
    build: Callable[[], _Entry],
    ask: Callable[[_Entry], None],
    blamed: Blamed,
) -> _Entry:
    """What a table of built kernels has at a place; in tuned mode asked to be tuned when built.

    Args:
        op: whose kernel it is.
        table: the table.
        place: the place.
        build: builds the kernel.
        ask: asks it.
        blamed: who answers for it.
    """

    def asked(entry: _Entry) -> None:
        try:
            ask(entry)
        except BaseException as error:
            note_origin(op._plan.op, blamed, error)
            raise

    unasked: list[_Entry] = []

    def built() -> _Entry:
        entry = build()
        if op._running.tune_requested:
            asked(entry)
        else:
            unasked.append(entry)
        return entry

    entry = table.get(place, built)
    if unasked and op._running.tune_requested:
        asked(entry)  # whoever asked for tuning meanwhile has not seen it yet
    return entry


def ask_entry(op: CalledOp, candidate: Candidate, identity: object, entry: object) -> None:
    """Ask every kernel of a build entry."""
    version = candidate.source.version if candidate.source is not None else None
    origin = Origin(op._plan.op, candidate.key, candidate.backend, version, identity)
    for kernel in kernels_in(entry):
        request(kernel, origin)


def ask_target(op: CalledOp, blamed: Blamed, facts: object, kernel: Any) -> None:
    """Ask a target's kernel; one that cannot be asked is warned about, once per instance."""
    name = op._plan.op
    if isinstance(kernel, Kernel):
        identity = (op._construction.key, facts)
        origin = Origin(name, f"target {blamed.target}", blamed.backend, blamed.version, identity)
        request(kernel, origin)
    elif hasattr(kernel, "request_tune"):
        kernel.request_tune()
    elif not op._running.tune_warned:
        op._running.tune_warned = True
        warnings.warn(
            f"{name}: the kernel of target {blamed.target!r} (backend {blamed.backend!r}) defines "
            "no request_tune(), so it stays as it is; ask the backend's authors, or choose "
            "another target=",
            RuntimeWarning,
            stacklevel=user_level(),
        )
