"""A word where an accelerator's call is left to what runs anywhere."""

from __future__ import annotations

import logging

from tileops_core.kernels.dispatch import Decision

_log = logging.getLogger("tileops.select")

_told: set[tuple[str, str]] = set()
"""(op, device type): each is told once in a process."""


def tell_fallback(decision: Decision) -> None:
    """Warn if a general implementation for any device was chosen where others could be hoped for.

    Not on the CPU, and not where its backend was named.
    """
    chosen, kind = decision.chosen, decision.call.device.type
    if chosen is None or not chosen.kernel_type.general or chosen.kernel_type.devices is not None:
        return
    if kind in ("cpu", "meta") or decision.backend is not None:
        return
    if (decision.op, kind) in _told:
        return
    _told.add((decision.op, kind))
    others = [v for v in decision.verdicts if v.candidate is not chosen]
    why = "; ".join(map(str, others)) or "no other kernel type is installed for it"
    _log.warning(
        "%s: a call on %s is served by %s, which runs anywhere and may be slow: %s; "
        "`tileops explain %s` tells what would serve, target=%r asks for this one and says "
        "nothing (told once per op and device type)",
        decision.op,
        decision.call.device,
        chosen,
        why,
        decision.op,
        chosen.backend,
    )
