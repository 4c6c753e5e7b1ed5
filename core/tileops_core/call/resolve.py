"""Who serves a call: the target, and the kernel it brings for these tensors. Only on a miss."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import torch

from tileops_core.backend.blame import blame
from tileops_core.backend.order import backend_order
from tileops_core.backend.registered import RegisteredBuilder
from tileops_core.backend.targets import BUILTIN, select_target
from tileops_core.call.binding import Binding, Entered
from tileops_core.call.routes import GENERATION, Blamed
from tileops_core.call.state import CalledOp
from tileops_core.call.torch_private import ordinary_state
from tileops_core.errors import BackendError, SignatureError
from tileops_core.kernels.call_spec import CallSpec, check_request
from tileops_core.kernels.contracts import Candidate
from tileops_core.kernels.dispatch import decide, forward_of
from tileops_core.kernels.dispatch import entry_for as kernel_entry
from tileops_core.tensor_spec import TensorSpec

_log = logging.getLogger("tileops.build")
_log_select = logging.getLogger("tileops.select")


@attrs.frozen(slots=True, eq=False)
class Server:
    """A kernel for these tensors, who answers for it, and what keeps it alive.

    ``is_body``: the kernel is the op's own ``forward``, which asks for kernels while it runs.
    """

    kernel: Callable[..., Any]
    blamed: Blamed
    holds: object
    is_body: bool = False


@attrs.frozen(slots=True, eq=False, weakref_slot=True)
class TargetKernel:
    """A target's kernel. Routes hold it; the table of them does not."""

    kernel: Callable[..., Any]


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
        installed = op._construction.installed
        selection = select_target(
            op._plan.op,
            op._construction.target,
            device,
            in_tree=lambda backend: installed.runs_on(device.type, backend),
        )
        binding.builder = selection.builder
        binding.backend = selection.backend
        # Last: other threads ask this field whether the rest is settled.
        binding.target = selection.name
    _log_select.debug("%s on %s: %s", op._plan.op, device, "; ".join(selection.reasons))


def resolve(
    op: CalledOp, entered: Entered, device: torch.device, specs: tuple[TensorSpec | None, ...]
) -> Server:
    """The kernel that serves a call there with these tensors, built if it has to be."""
    binding = entered.binding
    if binding.builder is not None:
        return _target_kernel(op, binding, binding.builder, device, specs)
    if op._writes_call_spec:
        call = op.call_spec(*specs)
        (interface,) = op._construction.installed.interfaces
        candidate, entry = entry_for(op, binding, interface, call)
        entered.chosen[interface] = candidate
        kernel = forward_of(candidate, op._plan.op, entry)
        return Server(kernel, Blamed(str(binding.target), candidate.source), entry)
    return Server(op.forward, Blamed(str(binding.target)), None, is_body=True)


# -- in-tree ------------------------------------------------------------------------------


def entry_for(
    op: CalledOp, binding: Binding, interface: str, call: CallSpec
) -> tuple[Candidate, Any]:
    """The entry that serves a call spec, chosen and built at the first question.

    Raises:
        OpNotAvailableError: the op has no such interface, or nothing in-tree runs there.
        DispatchError: no kernel type, or more than one, claims the call.
    """
    installed = op._construction.installed
    name = op._plan.op
    if interface in installed.interfaces:
        check_request(installed.interfaces[interface], call, op=name)
    found = binding.entries_by_call.get((interface, call))
    if found is not None:
        known: tuple[Candidate, Any] = found
        return known
    decision = decide(
        installed, name, interface, call, backend=binding.backend, order=backend_order(name)
    )
    candidate = decision.require()
    place, factory = kernel_entry(candidate, name, call)
    blamed = Blamed(str(binding.target or BUILTIN), candidate.source)
    entry = binding.built_entries.get(
        place, lambda: _build(name, candidate.key, call.device, factory, blamed)
    )
    if len(binding.entries_by_call) >= 2 * GENERATION:
        binding.entries_by_call = {}
    binding.entries_by_call[(interface, call)] = (candidate, entry)
    return candidate, entry


# -- a target's ---------------------------------------------------------------------------


def _target_kernel(
    op: CalledOp,
    binding: Binding,
    builder: RegisteredBuilder,
    device: torch.device,
    specs: tuple[TensorSpec | None, ...],
) -> Server:
    name = op._plan.op
    blamed = Blamed(builder.target, builder)
    values = dict(zip(op._plan.static_names, op._construction.statics, strict=True))
    parameters = {p.name: values[p.name] for p in op._plan.signature.params}

    def make() -> TargetKernel:
        build_kernel = builder.resolve()
        kernel = _build(
            name, builder.target, device, lambda: build_kernel(*specs, **parameters), blamed
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
        return TargetKernel(kernel)

    held = binding.target_kernels.get((device, specs), make)
    return Server(held.kernel, blamed, held)


# -- building -----------------------------------------------------------------------------


@contextmanager
def blaming(op: str, blamed: Blamed) -> Iterator[None]:
    """Whatever comes out of somebody's code keeps its type and says whose code it was."""
    try:
        yield
    except BaseException as error:
        note_origin(op, blamed, error)
        raise


def note_origin(op: str, blamed: Blamed, error: BaseException) -> None:
    """Note on an exception whose code it came out of.

    Not on the library's own about this op: they name whoever is responsible, the caller included.
    """
    if isinstance(error, SignatureError | BackendError) and error.op == op:
        return
    blame(error, op=op, target=blamed.target, backend=blamed.backend, version=blamed.version)


def _build(
    op: str, what: str, device: torch.device, factory: Callable[[], Any], blamed: Blamed
) -> Any:
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise BackendError(
            f"{op}: kernel {what!r} for {device} is not built yet, and building is not possible "
            "while a CUDA graph is captured; call the op once with these shapes before",
            backend=blamed.backend,
            op=op,
            target=blamed.target,
        )
    started = time.perf_counter()
    # What is built outlives this call, and the modes that are active around it.
    with blaming(op, blamed), on_device(device), ordinary_state():
        built = factory()
    if _log.isEnabledFor(logging.INFO):
        seconds = time.perf_counter() - started
        _log.info("%s: built %s for %s in %.3f s", op, what, device, seconds)
    return built


@contextmanager
def on_device(device: torch.device) -> Iterator[None]:
    """Make a device the current one of its type; nothing to do where types have one device."""
    module = None if device.index is None else device_module(device)
    if module is None:
        yield
        return
    with module.device(device.index):
        yield


def device_module(device: torch.device) -> Any:
    """Torch's module for a device type that can have several devices, else None."""
    if device.type in ("cpu", "meta"):
        return None
    module = getattr(torch, device.type, None)
    return module if hasattr(module, "device") and hasattr(module, "device_count") else None
