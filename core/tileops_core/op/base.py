"""``Op``: construct once, call many times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar, NoReturn

import torch

from tileops_core.backend.order import backend_order
from tileops_core.backend.registry import REGISTRY
from tileops_core.backend.targets import BUILTIN, Builtin, check_target, current_default
from tileops_core.call.binding import UNBOUND, Binding, Entered, current, enter, leave
from tileops_core.call.compose import dense
from tileops_core.call.constants import constants
from tileops_core.call.delegates import Delegates
from tileops_core.call.emit_call import CallCode
from tileops_core.call.resolve import choose_target, entry_for
from tileops_core.call.state import Construction, Running
from tileops_core.call.torch_private import not_traced, ordinary_state
from tileops_core.errors import OpNotAvailableError
from tileops_core.kernels.call_spec import CallSpec, check_request
from tileops_core.kernels.dispatch import decide
from tileops_core.kernels.kernel import Kernel, KernelInterface
from tileops_core.op.composite import Holds
from tileops_core.op.definition import define, installed_for
from tileops_core.op.hosts import anchor, known_host
from tileops_core.op.keys import key_of
from tileops_core.op.parameters import CONSTRUCTED, refuse_write
from tileops_core.op.prepare import Prepares
from tileops_core.op.roofs import Rooflines
from tileops_core.op.tuning import Tunes
from tileops_core.plan.model import Plan
from tileops_core.record.signature_call import SignatureCall
from tileops_core.record.table import read
from tileops_core.tensor_spec import TensorSpec


class Op(Holds, Prepares, Rooflines, Tunes):
    """Base of every op; a subclass whose name is a manifest key becomes callable.

    The manifest entry decides the constructor, the checks of each call, the results' shapes and
    dtypes, and the cost. A subclass says which kernel to ask for: ``call_spec`` (one kernel does
    it all) or ``forward``. Who computes is decided at the first call: ``target=`` if given, else
    the process default, else whoever claims the device, else the kernels installed in-tree.

    Class attributes of a subclass: ``interfaces`` and ``kernel_types`` (its own, besides those
    that backends register), ``spec`` (the entry of an op that no manifest file holds),
    ``delegate_types`` (the ops that it is made of, if it is),
    ``injected_parameters`` (what a family's constructor takes besides the entry's parameters).
    """

    interfaces: ClassVar[Mapping[str, type[KernelInterface]]] = {}
    kernel_types: ClassVar[Mapping[str, type[Kernel]]] = {}
    injected_parameters: ClassVar[tuple[str, ...]] = ()
    spec: ClassVar[Any] = None
    dtype: Any = None

    _plan: ClassVar[Plan]
    compile_op_names: ClassVar[tuple[str, ...]] = ()
    _node: Any
    _traced: Any
    _call_code: ClassVar[CallCode]
    _changes: ClassVar[str | None] = None
    _writes_call_spec: ClassVar[bool] = False
    _runs_own_body: bool = False
    """Set by a family on instances that were given objects: every call runs the body, which knows
    them, a call without elements too, and under a target that has a builder for the op."""

    __slots__ = ("__dict__", "__weakref__", "_binding", "_construction", "_key", "_running")
    _key: str
    _binding: Binding
    _construction: Construction
    _running: Running

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Generate what follows from the class's entry."""
        super().__init_subclass__(**kwargs)
        define(cls, Op)

    def __init__(self, *, target: str | Builtin | None = None) -> None:
        """Check and fix the parameters, which the subclass has assigned before.

        Raises:
            SignatureError: a parameter that the entry refuses.
            UnknownTargetError: nobody registered ``target``.
            TypeError: an abstract class, or a parameter that was not assigned.
        """
        plan = getattr(type(self), "_plan", None)
        if plan is None:
            raise TypeError(
                f"{type(self).__name__} has no manifest entry, so it is no op: name the class as "
                "its entry, or state the entry as its attribute `spec`"
            )
        REGISTRY.ensure_loaded()
        check_target(plan.op, target)
        names = [p.name for p in plan.signature.params]
        try:
            given = tuple(self.__dict__[name] for name in names)
        except KeyError as missing:
            raise TypeError(
                f"{type(self).__name__}.__init__ must assign self.{missing.args[0]} before it "
                "calls super().__init__(target=target)"
            ) from None
        statics = plan.statics(given)
        values = statics[: len(names)]
        self.__dict__.update(zip(names, values, strict=True))
        injected = tuple(self.__dict__.get(name) for name in type(self).injected_parameters)
        self._key = key = key_of(plan, values, target, injected, type(self)._changes)
        self._binding = UNBOUND
        self._running = Running(delegates=Delegates()) if plan.composite else Running()
        self._construction = Construction(
            target, statics, installed_for(type(self), plan), anchor(key, self)
        )

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the op; generated for each class from its entry."""
        raise TypeError(f"{type(self).__name__} has no manifest entry, so it cannot be called")

    def __repr__(self) -> str:
        plan = self._plan
        parts = [f"{p.name}={_shown(self.__dict__[p.name])}" for p in plan.signature.params]
        if self.target is not None:
            parts.append(f"target={self.target!r}")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def __name__(self) -> str:
        """The op's name: tensor subclasses ask it of whatever they are passed to."""
        return self._plan.op

    # -- for users ------------------------------------------------------------------------

    @property
    def target(self) -> str | Builtin | None:
        """What ``target=`` was at construction; read-only."""
        return self._construction.target

    @target.setter
    def target(self, value: object) -> NoReturn:
        refuse_write(self, "target")

    @property
    def serving_target(self) -> str | Builtin | None:
        """Who serves this instance: a target's name or ``BUILTIN``; None before the first call.

        Of one that only graphs have called: who serves the calls of its key in graphs.
        """
        found: str | Builtin | None = _serving(self)
        return found

    @property
    def last_call(self) -> SignatureCall:
        """The record of this thread's last completed call; another thread's, if it made none.

        Of an instance that only graphs have called: the last call of its key in a graph.

        Raises:
            RuntimeError: no call has completed.
        """
        record: SignatureCall | None = _recorded(self)
        if record is None:
            raise RuntimeError(f"{type(self).__name__}: no call has completed yet")
        return record

    # -- for subclasses -------------------------------------------------------------------

    def call_spec(self, *inputs: Any) -> CallSpec:
        """The short form: which kernel to ask for, as a pure function of facts and parameters.

        Args:
            inputs: a :class:`TensorSpec` per input, None for an absent one.
        """
        raise NotImplementedError(f"{type(self).__name__} writes neither call_spec nor forward")

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The body. Here: the kernel that ``call_spec`` asks for, on dense inputs."""
        if type(self).call_spec is Op.call_spec:
            raise OpNotAvailableError(
                f"{self._plan.op}: its class writes neither call_spec nor forward, so only a "
                "target with a builder for it can serve it",
                op=self._plan.op,
            )
        inputs = tuple(None if x is None else dense(x) for x in inputs)
        specs = tuple(None if x is None else TensorSpec.of(x) for x in inputs)
        (interface,) = self._construction.installed.interfaces
        call = self.call_spec(*specs)
        entry = self.kernel_for(interface, call)
        return entry(*inputs, **constants(self, call.device), **named)

    def kernel_for(self, interface: str, call: CallSpec) -> Any:
        """The entry that serves a call of one of the op's kernel interfaces; built once, kept.

        Raises:
            OpNotAvailableError: no such interface, or no kernel runs on the call's device.
            DispatchError: no kernel type, or more than one, claims the call.
        """
        try:
            found = self._binding.entries_by_call.young.get((interface, call))
        except TypeError:  # something in the call spec is no key; the checks below name it
            found = None
        if found is not None and not self._running.entered:
            return found[1]
        deciding = current(self)
        if deciding is not None:
            if deciding.dry is not None:
                return deciding.dry.kernel_for(self, deciding, interface, call)
            candidate, entry = entry_for(self, deciding.binding, interface, call)
            deciding.chosen[interface] = candidate
            return entry
        entered = Entered()
        try:
            enter(self, entered)
            declared = self._construction.installed.interfaces.get(interface)
            if declared is not None:
                check_request(declared, call, op=self._plan.op)
                choose_target(self, entered.binding, call.device)
            _, entry = entry_for(self, entered.binding, interface, call)
        except BaseException:
            leave(self, entered, succeeded=False)
            raise
        leave(self, entered, succeeded=True)
        return entry

    def key_for(self, interface: str, call: CallSpec) -> str:
        """The key of the kernel type that :meth:`kernel_for` would choose; builds nothing.

        ``call`` may state device facts (``call.stating(arch=90)``) of a machine that is not here.
        """
        target = self._construction.target
        if target is None and self._binding.target is None:
            target = current_default()
        backend = target if isinstance(target, str) else self._binding.backend
        decision = decide(
            self._construction.installed,
            self._plan.op,
            interface,
            call,
            backend=backend,
            order=backend_order(self._plan.op),
        )
        return decision.require().key

    def derived(self, name: str, key: Hashable, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """A tensor computed from parameters, made once per name and key and kept.

        Args:
            name: what it is, for example ``"cos"``.
            key: what it depends on besides the parameters; put the device in.
            make: makes it, outside inference mode and whatever mode is active.
        """
        kept = self._running.derived
        found = kept.get((name, key))
        if found is None:
            with ordinary_state():
                found = kept.setdefault((name, key), make())
        return found

    # -- copies ---------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Parameters, target, sub-ops and what a subclass added; who serves is decided anew."""
        state: dict[str, Any] = {
            "target": self._construction.target,
            "attributes": dict(self.__dict__),
        }
        if self.delegate_types:
            state["delegates"] = list(self._running.delegates.items())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["attributes"])
        Op.__init__(self, target=state["target"])
        for stage, identity, sub_op in state.get("delegates", ()):
            self.delegate_for(stage, identity, sub_op)

    def _infer_output_shapes(self, *inputs: Any) -> tuple[tuple[int, ...] | None, ...]:
        """The outputs' shapes for these inputs (tensors or specs, None for absent ones)."""
        statics = self._construction.statics
        facts = self._plan.check(statics, *inputs)
        return tuple(None if o is None else tuple(o[0]) for o in self._plan.outputs(statics, facts))


@not_traced
def _serving(op: Op) -> Any:
    """Who serves; asked between graphs, because a graph would keep what it was at its tracing."""
    binding = op._binding
    if binding is UNBOUND:
        host = known_host(op._key)
        return None if host is None else host._binding.target
    return binding.target


@not_traced
def _recorded(op: Op) -> Any:
    """The record of the last call; asked between graphs, because every thread has its own."""
    record = read(op._running.last)
    if record is None:
        host = known_host(op._key)
        record = None if host is None else read(host._running.last)
    return record


def _shown(value: Any) -> str:
    """A parameter in a line; of a tensor, what it is and not what it holds."""
    if isinstance(value, torch.Tensor):
        return f"<{str(value.dtype).removeprefix('torch.')}{list(value.shape)}>"
    return repr(value)


# Constructed in code that dynamo traces, an op stands between the graphs.
setattr(Op, "__init__", not_traced(Op.__init__, CONSTRUCTED))  # noqa: B010 - no override, a wrapper of it

__all__ = ["BUILTIN", "Op"]
