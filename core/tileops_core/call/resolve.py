"""Who serves a call: the target, and the kernel it brings for these tensors. Only on a miss."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import attrs
import torch

from tileops_core.backend.order import backend_order
from tileops_core.backend.registrations import RegisteredBuilder
from tileops_core.backend.targets import Selection, select_target
from tileops_core.by_fields import ShownByFields
from tileops_core.call import logs
from tileops_core.call.binding import TARGET_KERNELS, Binding, Entered
from tileops_core.call.constants import constants, given
from tileops_core.call.fallback import tell_fallback
from tileops_core.call.frames import Aside, aside
from tileops_core.call.origin import note_origin
from tileops_core.call.routes import Blamed, Credit
from tileops_core.call.stages import body_of
from tileops_core.call.state import CalledOp
from tileops_core.call.torch_private import ordinary_state
from tileops_core.call.tune import ask_entry, ask_target, built_and_tuned
from tileops_core.errors import BackendError
from tileops_core.kernels.call_spec import CallSpec, check_request
from tileops_core.kernels.contracts import Candidate
from tileops_core.kernels.dispatch import check_factory, decide, forward_of
from tileops_core.kernels.dispatch import entry_for as kernel_entry
from tileops_core.record.signature_call import Served
from tileops_core.tensor_spec import TensorSpec

_log = logging.getLogger("tileops.build")
_log_select = logging.getLogger("tileops.select")
# Here, because whoever calls an op has imported this before, and nothing that calls often does.
logs.follow_environment()

Specs: TypeAlias = "tuple[TensorSpec | None, ...]"


@attrs.frozen(slots=True, eq=False, repr=False)
class Server(ShownByFields):
    """A kernel for these tensors, who serves by it, and what keeps it alive.

    ``is_body``: the kernel is the op's own ``forward``, which asks for kernels while it runs.
    """

    kernel: Callable[..., Any]
    credit: Credit
    holds: object
    is_body: bool = False


@attrs.frozen(slots=True, eq=False, weakref_slot=True, repr=False)
class TargetKernel(ShownByFields):
    """A target's kernel, and what for. Routes hold it; the table of them does not."""

    kernel: Callable[..., Any]
    specs: Specs


def select(op: CalledOp, device: torch.device) -> Selection:
    """Decide who serves an op on a device.

    Raises:
        BackendError: nobody does, or several do and nothing decides.
    """
    installed = op._construction.installed
    selection = select_target(
        op._plan.op,
        op._construction.target,
        device,
        in_tree=lambda backend: installed.runs_on(device.type, backend),
        composite=op._plan.composite,
        own_kernels=bool(installed.interfaces),
        lacking=installed.lacking,
    )
    return attrs.evolve(selection, builder=None) if op._runs_own_body else selection


def choose_target(op: CalledOp, binding: Binding, device: torch.device) -> None:
    """Settle the binding's target, unless it is.

    Raises:
        BackendError: nobody serves, or several do and nothing decides.
    """
    if binding.target is not None:
        return
    with binding.lock:
        if binding.target is not None:
            return
        selection = select(op, device)
        binding.settle(selection.name, selection.builder, selection.backend)
    if _log_select.isEnabledFor(logging.DEBUG):
        _log_select.debug(
            "%s: %s serves on %s: %s",
            op._plan.op,
            selection.name,
            device,
            "; ".join(selection.reasons),
        )


def resolve(op: CalledOp, entered: Entered, device: torch.device, specs: Specs) -> Server:
    """The kernel that serves a call there with these tensors, built if it has to be."""
    binding = entered.binding
    if binding.builder is not None:
        return _target_kernel(op, binding, binding.builder, device, specs)
    if op._writes_call_spec:
        call = op.call_spec(*specs)
        ((interface, declared),) = op._construction.installed.interfaces.items()
        check_request(declared, call, op=op._plan.op)
        # No table by call spec: the call's route is that table.
        candidate, entry = _chosen(op, binding, interface, call, specs)
        kernel = given(forward_of(candidate, op._plan.op, entry), constants(op, device))
        return Server(kernel, binding.credit(candidate, interface), entry)
    target = binding.target
    body = body_of(op, binding) if op._plan.composite else op.forward
    return Server(body, Credit(Blamed(str(target)), Served(target)), None, is_body=True)


# -- in-tree ------------------------------------------------------------------------------


def entry_for(
    op: CalledOp, binding: Binding, interface: str, call: CallSpec
) -> tuple[Candidate, Any]:
    """The entry that serves a call spec, chosen and built at the first question, and kept.

    Raises:
        OpNotAvailableError: the op has no such interface, or nothing in-tree runs there.
        DispatchError: no kernel type, or more than one, claims the call.
    """
    installed = op._construction.installed
    if interface in installed.interfaces:
        check_request(installed.interfaces[interface], call, op=op._plan.op)
    table, key = binding.asked(), (interface, call)
    found = table.young.get(key) or table.promote(key)
    if found is None:
        # A body may ask for kernels of other tensors than the op's.
        if op._plan.composite:
            with aside():
                candidate, entry = _chosen(op, binding, interface, call, call)
            found = candidate, Aside(entry)
        else:
            found = _chosen(op, binding, interface, call, call)
        table.keep(key, found)
    return found


def _chosen(
    op: CalledOp, binding: Binding, interface: str, call: CallSpec, asked: Specs | CallSpec
) -> tuple[Candidate, Any]:
    """The kernel type that dispatch chooses for a checked call spec, and its entry, built once.

    ``asked``: what the log says that the kernel is for.
    """
    installed = op._construction.installed
    name = op._plan.op
    decision = decide(
        installed, name, interface, call, backend=binding.backend, order=backend_order(name)
    )
    candidate = decision.require()
    tell_fallback(decision)
    if _log_select.isEnabledFor(logging.DEBUG):
        reasons = "; ".join(map(str, decision.verdicts))
        _log_select.debug("%s: kernel type %s for %s: %s", name, candidate, call, reasons)
    place, factory = kernel_entry(candidate, name, call)
    blamed = binding.credit(candidate, interface).blamed

    def build() -> Any:
        try:
            return _build(op, candidate, call.device, asked, factory, blamed)
        except TypeError:
            check_factory(candidate, name, factory)
            raise

    def ask(entry: Any) -> None:
        with on_device(call.device), ordinary_state():
            ask_entry(op, candidate, place[3:], entry)

    return candidate, built_and_tuned(op, binding.built_entries, place, build, ask, blamed)


# -- a target's ---------------------------------------------------------------------------


def _target_kernel(
    op: CalledOp,
    binding: Binding,
    builder: RegisteredBuilder,
    device: torch.device,
    specs: Specs,
) -> Server:
    name = op._plan.op
    credit = binding.credit(None)
    values = dict(zip(op._plan.static_names, op._construction.statics, strict=True))
    parameters = {p.name: values[p.name] for p in op._plan.signature.params}
    tensors = constants(op, device)
    parameters |= {n: None if t is None else TensorSpec.of(t) for n, t in tensors.items()}

    def build() -> TargetKernel:
        build_kernel = builder.resolve()
        kernel = _build(
            op, None, device, specs, lambda: build_kernel(*specs, **parameters), credit.blamed
        )
        if not callable(kernel) or isinstance(kernel, type):
            raise BackendError(
                f"{name}: the builder of target {builder.target!r} (backend {builder.backend!r}) "
                f"returned {kernel!r}, due is a callable kernel(*tensors); this is the backend's "
                "fault: report it there, or choose another target=",
                backend=builder.backend,
                op=name,
                target=builder.target,
            )
        return TargetKernel(kernel, specs)

    def ask(built: TargetKernel) -> None:
        with on_device(device), ordinary_state():
            ask_target(op, credit.blamed, (device.type, specs), built.kernel)

    place: list[Any] = [binding.number, device]
    for spec in specs:
        place += (None,) if spec is None else (spec.device, spec.dtype, spec.shape)
    held = built_and_tuned(op, TARGET_KERNELS, tuple(place), build, ask, credit.blamed)
    return Server(given(held.kernel, tensors), credit, held)


# -- building -----------------------------------------------------------------------------


def _build(
    op: CalledOp,
    candidate: Candidate | None,
    device: torch.device,
    asked: Specs | CallSpec,
    factory: Callable[[], Any],
    blamed: Blamed,
) -> Any:
    """What a kernel type builds, or where it is None the target. ``asked``: for the log."""
    name = op._plan.op
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise BackendError(
            f"{name}: {_title(candidate, blamed)} for {device} is not built yet, and building is "
            "not possible while a CUDA graph is captured; call the op once with these shapes "
            "before",
            backend=blamed.backend,
            op=name,
            target=blamed.target,
        )
    started = time.perf_counter()
    try:
        # What is built outlives this call, and the modes that are active around it.
        with on_device(device), ordinary_state():
            built = factory()
    except BaseException as error:
        note_origin(name, blamed, error)
        raise
    if _log.isEnabledFor(logging.INFO):
        seconds = time.perf_counter() - started
        what, tensors = _title(candidate, blamed), _tensors(op, asked)
        _log.info("%s: built %s for %s on %s in %.3f s", name, what, tensors, device, seconds)
    return built


def _title(candidate: Candidate | None, blamed: Blamed) -> str:
    return f"the kernel of target {blamed.target!r}" if candidate is None else f"kernel {candidate}"


def _tensors(op: CalledOp, asked: Specs | CallSpec) -> object:
    """The tensors that a kernel is for, ``x: float32[8, 4096]`` for each."""
    if isinstance(asked, CallSpec):
        return asked
    told = ", ".join(
        f"{declared.name}: {str(spec.dtype).removeprefix('torch.')}{list(spec.shape)}"
        for declared, spec in zip(op._plan.signature.inputs, asked, strict=True)
        if spec is not None
    )
    return told or "no tensor"


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """A context in which a device is its type's current one, where types have several."""
    module = None if device.index is None else device_module(device)
    if module is None:
        return nullcontext()
    guard: AbstractContextManager[Any] = module.device(device.index)
    return guard


def device_module(device: torch.device) -> Any:
    """Torch's module for a device type that can have several devices, else None."""
    if device.type in ("cpu", "meta"):
        return None
    module = getattr(torch, device.type, None)
    return module if hasattr(module, "device") and hasattr(module, "device_count") else None
