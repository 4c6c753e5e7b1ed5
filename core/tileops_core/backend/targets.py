"""Which target serves a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, final

import attrs

from tileops_core.backend import unavailable
from tileops_core.backend.registrations import RegisteredBuilder
from tileops_core.backend.registry import REGISTRY, Registry
from tileops_core.by_fields import EqualByFields
from tileops_core.errors import AmbiguousTargetError

if TYPE_CHECKING:
    import torch


@final
class Builtin:
    """The type of ``BUILTIN``; there is one instance, in every copy and pickle too."""

    __slots__ = ()

    def __new__(cls) -> Builtin:
        """Return the one instance."""
        return globals().get("BUILTIN") or super().__new__(cls)

    def __repr__(self) -> str:
        return "BUILTIN"

    def __reduce__(self) -> str:
        return "BUILTIN"


BUILTIN: Final = Builtin()
"""As a target: the op's kernel types, whoever registered them, and no target's builder."""


class _Block:
    """One ``with default_target(...)``; told from another of the same target."""

    __slots__ = ("target",)

    def __init__(self, target: str | Builtin | None) -> None:
        self.target = target


_process_default: str | Builtin | None = None
_blocks: ContextVar[tuple[_Block, ...]] = ContextVar("tileops_default_targets", default=())
"""The ``default_target`` blocks that the code here is in, the innermost last."""


def set_default_target(target: str | Builtin | None) -> None:
    """Set the target of ops that name none, for the whole process and all its threads.

    Instances that have served a call keep who served it. Inside ``default_target(...)`` that
    block's target stands above this one.

    Args:
        target: a target or backend by name, ``BUILTIN``, or None for detection.

    Raises:
        UnknownTargetError: nobody registered the name.
    """
    global _process_default
    check_target("set_default_target", target)
    _process_default = target


@contextmanager
def default_target(target: str | Builtin | None) -> Iterator[None]:
    """Set the target of ops that name none within a ``with`` block.

    It holds for the thread, or the asyncio task, that runs the block, and for no other; a thread
    started inside sees the process's default. Blocks nest, and may end in any order, as those of
    generators do. None asks for detection, whatever the process's default is.

    Args:
        target: a target or backend by name, ``BUILTIN``, or None.

    Raises:
        UnknownTargetError: nobody registered the name.
    """
    check_target("default_target", target)
    mine = _Block(target)
    _blocks.set((*_blocks.get(), mine))
    try:
        yield
    finally:
        # No token: it would bring back what was, and only in the context where the block began.
        _blocks.set(tuple(block for block in _blocks.get() if block is not mine))


def current_default() -> str | Builtin | None:
    """The default target that holds here: the innermost block's, else the process's."""
    blocks = _blocks.get()
    return blocks[-1].target if blocks else _process_default


def registered_targets(op: str | None = None) -> list[str]:
    """What ``target=`` takes, sorted.

    Args:
        op: only those that have something for this op: a builder, or kernel types.
    """
    REGISTRY.ensure_loaded()
    if op is None:
        return list(REGISTRY.target_names())
    backends = {entry.backend for entry in REGISTRY.kernel_types(op)}
    return sorted(backends | set(REGISTRY.targets_of(op)))


def check_target(op: str, target: object, *, registry: Registry = REGISTRY) -> None:
    """Refuse a ``target=`` that nobody can serve.

    Args:
        op: the op's class name, for the message.
        target: what was given.
        registry: where to look.

    Raises:
        TypeError: it is no name, ``BUILTIN`` or None.
        UnknownTargetError: nobody registered the name; the cause is the failure of the backend
            that would have brought it, if one failed.
    """
    if target is None or isinstance(target, Builtin):
        return
    if not isinstance(target, str):
        raise TypeError(
            f"{op}: target={target!r} is no target; pass the name of one, tileops_core.BUILTIN, "
            f"or None"
        )
    registry.ensure_loaded()
    _check_name(registry, op, target, f"target={target!r} was asked for")


def _check_name(registry: Registry, op: str, target: str, asked: str) -> None:
    if target not in registry.snapshot().target_names:
        failure = registry.failure_of(target)
        cause = None if failure is None else failure.error
        raise unavailable.unknown_target(registry, op, target, asked) from cause


@attrs.frozen(eq=False, repr=False)
class Selection(EqualByFields):
    """Who serves an op on a device.

    Args:
        name: a target's or backend's name, or ``BUILTIN``.
        builder: builds the target's kernels; None where in-tree dispatch serves.
        backend: the only backend whose kernel types may serve, None for any.
        reasons: how it came to this, a sentence each.
    """

    name: str | Builtin
    builder: RegisteredBuilder | None
    backend: str | None
    reasons: tuple[str, ...]


def select_target(
    op: str,
    requested: str | Builtin | None,
    device: torch.device,
    *,
    in_tree: Callable[[str | None], bool],
    composite: bool = False,
    own_kernels: bool = False,
    lacking: Callable[[], str] = str,
    registry: Registry = REGISTRY,
) -> Selection:
    """Decide who serves ``op`` on ``device``.

    The constructor's target decides, else the default target, else the one target that has a
    builder for the op and whose detector claims the device, else in-tree kernels.

    Args:
        op: the op's class name.
        requested: the constructor's ``target=``.
        device: the call's device.
        in_tree: whether an installed kernel type of the op, of the backend given or of anybody for
            None, runs on the device's type.
        composite: the op has sub-ops that can run in its place.
        own_kernels: a composite that has kernels of its own too, so that a named target has to
            bring a builder.
        lacking: what the op lacks to be served in-tree anywhere, for the error; ``""`` if nothing.
        registry: where to look.

    Raises:
        UnknownTargetError: the name is nobody's.
        AmbiguousTargetError: several detectors claim the device.
        OpNotAvailableError: nobody serves the op there, or not under the name given.
    """
    registry.ensure_loaded()
    target, reasons = requested, ["no target= was given"]
    if target is not None:
        reasons = [f"target={target!r} was given to the constructor"]
    else:
        target = current_default()
        reasons.append(
            "no default target is set" if target is None else f"the default target is {target!r}"
        )
    composition = composite and not own_kernels
    if isinstance(target, str):
        return _named(registry, op, target, device, in_tree, composition, lacking, reasons)
    if target is None:
        found = _detected(registry, op, device, composite, composition, reasons)
        if found is not None:
            return found
    return _in_tree(registry, op, target, device, in_tree, composite, lacking, reasons)


def _named(
    registry: Registry,
    op: str,
    target: str,
    device: torch.device,
    in_tree: Callable[[str | None], bool],
    composition: bool,
    lacking: Callable[[], str],
    reasons: list[str],
) -> Selection:
    _check_name(registry, op, target, reasons[-1])
    builder = registry.builder(op, target)
    if builder is not None:
        reasons.append(f"target {target!r} has a builder for {op}")
        return Selection(target, builder, None, tuple(reasons))
    backend = target if target in registry.backend_names() else None
    if backend is not None and in_tree(backend):
        reasons.append(f"kernel types of backend {backend!r} run on {device.type}")
        return Selection(target, None, backend, tuple(reasons))
    if composition:
        reasons.append(f"{target!r} has no builder for {op}, so its sub-ops run under {target!r}")
        return Selection(target, None, backend, tuple(reasons))
    raise unavailable.not_under_target(registry, op, target, device, lacking())


def _detected(
    registry: Registry,
    op: str,
    device: torch.device,
    composite: bool,
    composition: bool,
    reasons: list[str],
) -> Selection | None:
    targets = registry.targets()
    names = targets if composite else [name for name in registry.targets_of(op) if name in targets]
    claiming = []
    for name in names:
        claims, fault = targets[name].claims(device)
        if claims:
            claiming.append(name)
        reasons.append(
            f"target {name!r} " + ("claims" if claims else "does not claim") + f" {device}"
            f"{f': {fault}' if fault else ''}"
        )
    if len(claiming) > 1:
        raise _ambiguous(registry, op, claiming, device)
    if not claiming:
        return None
    builder = registry.builder(op, claiming[0])
    if builder is None and not composition:
        raise unavailable.not_under_target(registry, op, claiming[0], device)
    return Selection(claiming[0], builder, None, tuple(reasons))


def _in_tree(
    registry: Registry,
    op: str,
    target: Builtin | None,
    device: torch.device,
    in_tree: Callable[[str | None], bool],
    composite: bool,
    lacking: Callable[[], str],
    reasons: list[str],
) -> Selection:
    if not composite and not in_tree(None):
        raise unavailable.nobody(
            registry, op, device, builtin=target is not None, lacking=lacking()
        )
    reasons.append("its sub-ops can run" if composite else f"in-tree kernels run on {device.type}")
    return Selection(BUILTIN, None, None, tuple(reasons))


def _ambiguous(
    registry: Registry, op: str, names: list[str], device: torch.device
) -> AmbiguousTargetError:
    targets = registry.targets()
    who = ", ".join(f"{name!r} of {targets[name].origin}" for name in sorted(names))
    first = sorted(names)[0]
    return AmbiguousTargetError(
        f"{op}: several targets claim {device}: {who}; choose one with target={first!r} at "
        f"construction, set_default_target({first!r}) or `with default_target({first!r})`, ask "
        f"for in-tree kernels with target=BUILTIN, or uninstall the others",
        op=op,
    )
