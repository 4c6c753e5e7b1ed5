"""What the last call must cost, and what of it a subclass may say better than the entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from tileops_core.record.profiles import DEFAULT_KEY

if TYPE_CHECKING:
    from tileops_core.plan.model import Plan
    from tileops_core.record.signature_call import SignatureCall


class Rooflines:
    """The part of ``Op`` that tells what its last call must cost, and what bounds it."""

    __slots__ = ()

    if TYPE_CHECKING:
        _plan: ClassVar[Plan]

        @property
        def last_call(self) -> SignatureCall:
            """The record of the last call."""

    def eval_roofline(self) -> tuple[int, int]:
        """``(flops, bytes)`` that the last call needs at least, from the entry's formula.

        Raises:
            RuntimeError: no call has completed.
            NotImplementedError: the entry has no roofline.
            ManifestError: the entry gives no cost for this call.
        """
        if self._plan.signature.roofline is None:
            raise NotImplementedError(
                f"{type(self).__name__}: its manifest entry states no roofline"
            )
        return self.last_call.roofline()

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
        return moved - self.last_call.written_bytes()

    def roofline_data_terms(self) -> Mapping[str, float]:
        """Quantities of the last call through which its inputs' values decide its cost.

        For example how many experts got a token. ``{}`` where only shapes decide.
        """
        return {}
