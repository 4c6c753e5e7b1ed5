"""Each thread's last record on one instance."""

from __future__ import annotations

import threading
from typing import TypeAlias

from tileops_core.record.signature_call import SignatureCall

LastCalls: TypeAlias = dict[int, SignatureCall]
"""Thread id -> record. A plain dict, so that a call stores with one assignment."""


def prune(table: LastCalls, keep: int = 16) -> None:
    """Drop the records of threads that are gone, once there are more than ``keep``."""
    if len(table) <= keep:
        return
    alive = {t.ident for t in threading.enumerate()}
    for ident in [i for i in list(table) if i not in alive]:
        table.pop(ident, None)


def own(table: LastCalls) -> SignatureCall:
    """This thread's last record, which there is."""
    return table[threading.get_ident()]


def read(table: LastCalls) -> SignatureCall | None:
    """This thread's last record; another thread's, if this one has none; None if none has."""
    own = table.get(threading.get_ident())
    if own is not None:
        return own
    for record in reversed(list(table.values())):
        return record
    return None
