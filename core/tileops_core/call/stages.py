"""What happens inside a composite op's call: its body runs, and its sub-ops' records are filed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from tileops_core.call.binding import Binding
from tileops_core.call.frames import top
from tileops_core.call.state import CalledOp
from tileops_core.errors import TileOpsError
from tileops_core.record.metadata import Metadata
from tileops_core.record.signature_call import SignatureCall


def body_of(op: CalledOp, binding: Binding) -> Callable[..., Any]:
    """A composite's ``forward``, which collects what its sub-ops complete meanwhile.

    A route of the binding keeps it. It keeps neither of the two in return, or a composite that was
    called would stay, with all that its sub-ops have built, until the collector finds it.

    Args:
        op: the composite.
        binding: what its calls run on.
    """
    composite, used = ref(op), ref(binding)

    def run(*inputs: Any, **named: Any) -> Any:
        own, frame = composite(), top()
        assert own is not None  # who calls this holds it
        assert frame is not None
        assert frame.op is own, "a composite is called through its __call__, which pushes its frame"
        frame.binding = used()
        frame.collecting = True
        try:
            return own.forward(*inputs, **named)
        finally:
            frame.collecting = False

    return run


def file_stages(op: CalledOp) -> dict[str, tuple[SignatureCall, ...]]:
    """The records of the present call's sub-ops by stage, in the order of the stages.

    Raises:
        TileOpsError: an op that the composite does not hold has completed a call in its body.
    """
    frame = top()
    if frame is None or frame.op is not op:
        return {}
    if frame.stages is None:
        filed: dict[str, list[SignatureCall]] = {stage: [] for stage in op.delegate_types}
        for sub_op, record in frame.completed:
            stage = op._running.delegates.stage_of(sub_op)
            if stage is None:
                raise not_held(op, sub_op)
            filed[stage].append(record)
        frame.stages = {stage: tuple(records) for stage, records in filed.items() if records}
    return frame.stages


def not_held(op: CalledOp, sub_op: object) -> TileOpsError:
    """The error of a composite whose body calls an op that no stage of it holds."""
    return TileOpsError(
        f"{op._plan.op}: {sub_op!r} completed a call inside this call, but no stage holds it; get "
        f"it from self.delegate_for(stage, identity, ...), stages are "
        f"{', '.join(op.delegate_types)}"
    )


def filed(op: CalledOp, record: SignatureCall, metadata: Metadata | None = None) -> SignatureCall:
    """The record of a composite's call that took a known route.

    Args:
        op: the composite.
        record: the route's.
        metadata: the call's tensors that describe others.

    Raises:
        TileOpsError: see :func:`file_stages`.
    """
    return record.of_call(metadata, file_stages(op))
