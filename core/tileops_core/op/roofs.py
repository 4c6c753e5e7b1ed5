"""What of a roofline a subclass may say better than the entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tileops_core.record.profiles import DEFAULT_KEY

if TYPE_CHECKING:
    from tileops_core.record.signature_call import SignatureCall


class Rooflines:
    """The part of ``Op`` that tells what bounds its last call."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def last_call(self) -> SignatureCall:
            """The record of the last call."""

        def eval_roofline(self) -> tuple[int, int]:
            """``(flops, bytes)`` of the last call."""

    def roof_key(self) -> str:
        """The unit that an optimal implementation of the last call would compute with.

        What computes element by element does it in float32. Ops that multiply matrices override
        this with the tensor cores' key for their operands
        (:func:`tileops_core.record.profiles.matrix_key`).
        """
        return DEFAULT_KEY

    def eval_roofline_read_bytes(self) -> int | None:
        """The bytes of ``eval_roofline`` that are read: without the writes of the signature.

        An override returns None where the writes are not known.
        """
        _, moved = self.eval_roofline()
        record = self.last_call
        return moved - sum(t.writes * record.bytes(name) for name, t in record.traffic.items())

    def roofline_data_terms(self) -> Mapping[str, float]:
        """Quantities of the last call through which its inputs' values decide its cost.

        For example how many experts got a token. ``{}`` where only shapes decide.
        """
        return {}
