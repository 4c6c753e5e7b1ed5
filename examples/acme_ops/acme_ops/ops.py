"""The classes of the ops that this distribution defines."""

from __future__ import annotations

from pathlib import Path

from acme_ops.interfaces import SoftcapCall
from tileops_core import Op, TensorSpec

ENTRIES = Path(__file__).with_name("softcap.yaml")


class SoftcapFwdOp(Op):
    """``cap * tanh(x / cap)``: bounds every element by ``cap``, and leaves small ones as they are.

    Computed in float32 and rounded once. ``x`` is of any shape, ``cap`` positive. As in Gemma 2
    (Gemma Team, 2024), which bounds attention scores by 50 and logits by 30.
    """

    spec = ENTRIES

    def call_spec(self, x: TensorSpec) -> SoftcapCall:
        """Shape and cap."""
        return SoftcapCall(x.device, x.dtype, x.shape, self.cap)
