"""Calls that come as far as a kernel, and run none: to build ahead, or to tell who would serve.

Whatever a call does with a tensor's data is left out. Bodies run on fake tensors, and so do the
sub-ops of composites: their results have the type that the signature says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import torch

from tileops_core.call.binding import Binding, Entered
from tileops_core.call.compose import Tensors, by_name
from tileops_core.call.frames import Frame, drop_stack, stack_of_thread, top
from tileops_core.call.results import describe
from tileops_core.call.state import CalledOp
from tileops_core.call.torch_private import fake_tensors, needs_data
from tileops_core.errors import NotATensorError, SignatureError, TileOpsError
from tileops_core.kernels.call_spec import CallSpec, normal_device
from tileops_core.plan.model import Plan
from tileops_core.tensor_spec import TensorSpec


class Dry(Protocol):
    """What is done in place of running calls."""

    def call(self, op: CalledOp, inputs: Tensors, out: torch.Tensor | None) -> Any:
        """In place of a sub-op's call; gives a result without data."""

    def kernel_for(self, op: CalledOp, entered: Entered, interface: str, call: CallSpec) -> Any:
        """In place of a body's question for a kernel."""


class Reached(BaseException):
    """A body has come to a kernel, whose result nobody knows. Not for bodies to catch."""


def unrunnable(*inputs: Any, **named: Any) -> NoReturn:
    """What stands for a kernel."""
    raise Reached


class StandIn(TensorSpec):
    """A spec that answers what a call's key asks of a tensor: those of a dense one."""

    __slots__ = ()

    @classmethod
    def of_spec(cls, spec: TensorSpec) -> StandIn:
        """What stands for the tensor of a spec."""
        return cls(normal_device(spec.device), spec.dtype, spec.shape)

    @property
    def is_cpu(self) -> bool:
        """Whether the tensor would lie on the CPU."""
        return self.device.type == "cpu"

    def is_neg(self) -> bool:
        """False."""
        return False

    def is_conj(self) -> bool:
        """False."""
        return False


def check_specs(plan: Plan, specs: Sequence[Any]) -> tuple[TensorSpec | None, ...]:
    """Check that specs stand for a call's inputs; optional ones may be left out at the end.

    Raises:
        SignatureError: there are too many or too few.
        NotATensorError: something that is no spec, or None for a tensor that must be there.
    """
    inputs = plan.signature.inputs
    given = [*specs, *[None] * (len(inputs) - len(specs))]
    if len(given) > len(inputs):
        names = ", ".join(t.name for t in inputs) or "none"
        raise SignatureError(
            f"{plan.op}: {len(specs)} specs were given, the op's inputs are {names}", op=plan.op
        )
    for tensor, spec in zip(inputs, given, strict=True):
        if not (isinstance(spec, TensorSpec) or (spec is None and tensor.optional is not False)):
            raise NotATensorError(
                f"{plan.op}: {tensor.name} must be a TensorSpec, got {describe(spec)}; of a tensor "
                f"x it is TensorSpec.of(x)  [{tensor.span.short}]",
                op=plan.op,
                tensor=tensor.name,
                expected="TensorSpec",
                actual=spec,
                span=tensor.span,
            )
    return tuple(given)


@contextmanager
def stand_ins(op: CalledOp, specs: Sequence[TensorSpec | None]) -> Iterator[tuple[Any, ...]]:
    """What a dry call gets for its inputs: fake tensors for an op whose body has to run."""
    if op._writes_call_spec:
        yield tuple(None if spec is None else StandIn.of_spec(spec) for spec in specs)
        return
    with fake_tensors():
        yield tuple(
            None
            if spec is None
            else torch.empty(spec.shape, dtype=spec.dtype, device=normal_device(spec.device))
            for spec in specs
        )


def active() -> Dry | None:
    """What is done in place of calls on this thread, None where they are made."""
    frame = top()
    return None if frame is None else frame.dry


@contextmanager
def within(op: CalledOp, dry: Dry) -> Iterator[Frame]:
    """A context in which a dry call of an op stands on the stack."""
    stack = stack_of_thread()
    depth = len(stack)
    frame = Frame(op)
    frame.dry = dry
    try:
        stack.append(frame)
        yield frame
    finally:
        del stack[depth:]
        if not depth:
            drop_stack()


def run_body(
    op: CalledOp, frame: Frame, binding: Binding, inputs: Tensors, out: torch.Tensor | None
) -> bool:
    """Run a body on tensors without data, as far as it comes; whether that was to its end.

    Raises:
        TileOpsError: it needs the tensors' values.
    """
    frame.binding = binding
    frame.collecting = True
    named = {} if out is None else {"out": out}
    forward: Callable[..., Any] = by_name(op._plan, op.forward)
    try:
        forward(*inputs, **named)
    except Reached:
        return False
    except Exception as error:
        if not needs_data(error):
            raise
        raise TileOpsError(
            f"{op._plan.op}: its body asks for the values of tensors, so what it needs is known "
            "only when it is called; call it once in place of this"
        ) from error
    finally:
        frame.collecting = False
    return True


def frame_of(op: CalledOp) -> Frame:
    """The frame of a dry call, which stands on top."""
    frame = top()
    assert frame is not None
    assert frame.op is op
    return frame
