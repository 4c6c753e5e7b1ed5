"""Building ahead of the first call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tileops_core.backend.blame import add_note
from tileops_core.call.prepare import prepare
from tileops_core.kernels.progress import progress

if TYPE_CHECKING:
    from tileops_core.plan.model import Plan


class Prepares:
    """The part of ``Op`` that does before the first call what that would do."""

    __slots__ = ()

    if TYPE_CHECKING:
        _plan: ClassVar[Plan]

    def prepare(self, *specs: Any) -> None:
        """Check a call that is to come, choose who serves it and build what it needs.

        Nothing runs. The call itself, with dense tensors of these types, then finds everything:
        a server's first request waits for no compiler, and a CUDA graph can be captured. A body
        that asks for a kernel's result before it asks for the next kernel is prepared as far as
        the first. Where a terminal watches, a bar shows how far several calls have come.

        Args:
            specs: a ``TensorSpec`` per input in order, None for an absent one (which may be left
                out at the end); or, for several calls, one sequence of tuples of these.

        Raises:
            SignatureError: such a call would be refused.
            BackendError: nobody serves it, or it cannot be built.
            TileOpsError: the op's body needs data to say what it needs.
        """
        several = len(specs) == 1 and isinstance(specs[0], (list, tuple))
        calls = [*specs[0]] if several else [specs]
        op: Any = self
        with progress(f"preparing {self._plan.op}", len(calls)) as step:
            for call in calls:
                try:
                    prepare(op, call if isinstance(call, (list, tuple)) else (call,))
                except Exception as error:
                    if several:
                        add_note(error, f"{self._plan.op}: while preparing {tuple(call)}")
                    raise
                step()
