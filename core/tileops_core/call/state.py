"""The three groups of an instance's state, and what a call sees of an op.

construction: written once, read-only afterwards. binding (:mod:`tileops_core.call.binding`): who
serves; undone as a whole. running: written during calls, never undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import attrs
import torch

from tileops_core.backend.targets import Builtin
from tileops_core.by_fields import ShownByFields
from tileops_core.call.binding import Binding, Entered
from tileops_core.call.delegates import NONE_HELD, Delegates
from tileops_core.kernels.contracts import Installed
from tileops_core.plan.model import Plan, Statics
from tileops_core.record.table import LastCalls


@attrs.frozen(slots=True, eq=False, repr=False)
class Construction(ShownByFields):
    """What the constructor settled. (Parameters are also attributes of the op.)

    Attributes:
        target: what ``target=`` was.
        statics: the parameters in manifest order, then what they decide.
        installed: the kernel types that in-tree dispatch chooses from.
        anchor: keeps the host of the instance's key, if there is one.
    """

    target: str | Builtin | None
    statics: Statics
    installed: Installed
    anchor: object


@attrs.define(slots=True, eq=False, repr=False)
class Running(ShownByFields):
    """What calls leave on an instance.

    Attributes:
        last: each thread's last record.
        candidate: the binding that first callers share, None before and after.
        entered: calls in progress that decide something, by thread.
        derived: tensors computed from parameters, by (name, device, key).
        delegates: the sub-ops that a composite holds.
        whole: the binding's target has a builder for the op itself; compiled code asks here.
        tune_requested: tuned mode: what is built is asked to be tuned.
        tune_warned: somebody was told of a target's kernel that cannot be.
    """

    last: LastCalls = attrs.field(factory=dict)
    candidate: Binding | None = None
    entered: dict[int, list[Entered]] = attrs.field(factory=dict)
    derived: dict[Any, torch.Tensor] = attrs.field(factory=dict)
    delegates: Delegates = NONE_HELD
    whole: bool = False
    tune_requested: bool = False
    tune_warned: bool = False


class CalledOp(Protocol):
    """What a call needs of an op."""

    _plan: ClassVar[Plan]
    _writes_call_spec: ClassVar[bool]
    delegate_types: ClassVar[Mapping[str, type[Any]]]
    _runs_own_body: bool
    _node: Callable[..., Any]
    _traced: Callable[..., Any]
    compile_op_names: ClassVar[tuple[str, ...]]
    _key: str
    _construction: Construction
    _binding: Binding
    _running: Running

    def call_spec(self, *inputs: Any) -> Any:
        """The short form's call spec."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The body."""
