"""A route's callable: the kernel, and around it only what this kind of call needs.

Everything is decided on the miss, so a hit has no branch for it: dense copies of inputs, buffers
copied in and back, the current device, keyword-only inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import torch

from tileops_core.by_fields import EqualByFields
from tileops_core.call.admit import admit
from tileops_core.call.resolve import device_module
from tileops_core.call.results import verify
from tileops_core.call.routes import Route
from tileops_core.call.torch_private import count_write, is_zero_tensor
from tileops_core.call.writes import check_written, same_view
from tileops_core.errors import SignatureError
from tileops_core.plan.model import Plan

Tensors = Sequence[torch.Tensor | None]


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a kernel may read the tensor's memory as it lies."""
    return tensor.is_contiguous() and not _is_odd(tensor)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's values in memory that a kernel may read as it lies."""
    if is_zero_tensor(tensor):
        return tensor.clone(memory_format=torch.contiguous_format)
    return tensor.resolve_conj().resolve_neg().contiguous()


@attrs.frozen(slots=True, eq=False, repr=False)
class Effects(EqualByFields):
    """What one kind of call writes.

    Attributes:
        written: positions of the written inputs.
        out: whether the caller passed ``out``.
        aliases: per output, the position of the written input it is, ``"out"``, or None if new.
    """

    written: tuple[int, ...]
    out: bool
    aliases: tuple[int | str | None, ...]

    @property
    def pure(self) -> bool:
        """Whether nothing of the caller's is written."""
        return not self.written and not self.out


def effects_of(plan: Plan, written: Sequence[str], has_out: bool) -> Effects:
    """The effects of a call that writes these inputs."""
    signature = plan.signature
    if not written and not has_out:
        return Effects((), False, (None,) * len(signature.outputs))
    position = {t.name: i for i, t in enumerate(signature.inputs)}
    aliases: list[int | str | None] = []
    for output in signature.outputs:
        if output.alias is not None and output.alias in written:
            aliases.append(position[output.alias])
        elif output.buffer and has_out:
            aliases.append("out")
        else:
            aliases.append(None)
    return Effects(tuple(position[n] for n in written), has_out, tuple(aliases))


def by_name(plan: Plan, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that takes keyword-only inputs by name, called with all of them in order."""
    names = [t.name for t in plan.signature.inputs if t.kw_only]
    if not names:
        return kernel
    at = {i: t.name for i, t in enumerate(plan.signature.inputs) if t.kw_only}

    def named(*inputs: Any, **more: Any) -> Any:
        positional = [x for i, x in enumerate(inputs) if i not in at]
        return kernel(*positional, **{at[i]: inputs[i] for i in at}, **more)

    return named


def on_its_device(kernel: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """A kernel that finds its device current, where there is more than one to choose from."""
    module = None if device.index is None else device_module(device)
    if module is None or module.device_count() < 2:
        return kernel
    guard, index = module.device, device.index

    def guarded(*inputs: Any, **more: Any) -> Any:
        with guard(index):
            return kernel(*inputs, **more)

    return guarded


def reading(kernel: Callable[..., Any], inputs: Tensors) -> Callable[..., Any]:
    """The callable of a call that writes nothing: dense copies of those inputs that need one.

    The route's key holds what is copied and why, so nothing of that is asked again.
    """
    at = [i for i, x in enumerate(inputs) if x is not None and not is_dense(x)]
    if not at:
        return kernel
    odd = [i for i in at if _is_odd(inputs[i])]
    if at == [0] and not odd and len(inputs) == 1:
        return lambda x: kernel(x.contiguous())
    if at == [0] and not odd and len(inputs) == 2:
        return lambda x, y: kernel(x.contiguous(), y)
    makers = [(i, dense if i in odd else torch.Tensor.contiguous) for i in at]

    def densified(*given: Any) -> Any:
        work = list(given)
        for i, make in makers:
            work[i] = make(work[i])
        return kernel(*work)

    return densified


def _is_odd(tensor: torch.Tensor | None) -> bool:
    """Whether the tensor's values are not what its memory holds."""
    return tensor is not None and (tensor.is_neg() or tensor.is_conj() or is_zero_tensor(tensor))


def writing(
    plan: Plan, route: Route, kernel: Callable[..., Any], effects: Effects, inputs: Tensors
) -> Callable[..., Any]:
    """The callable of a call that writes: checks memory, copies in and back, returns the caller's.

    Overlap is asked every time: it lies in addresses, which no key holds.
    """
    signature = plan.signature
    reads = [
        i
        for i, x in enumerate(inputs)
        if x is not None and i not in effects.written and not is_dense(x)
    ]
    others_at = [
        i
        for i, x in enumerate(inputs)
        if x is not None and i not in effects.written and i not in reads
    ]
    names = [t.name for t in signature.inputs]
    takes_out = signature.out_buffer is not None

    def write(*given: Any, out: torch.Tensor | None = None) -> Any:
        targets = [(names[i], given[i]) for i in effects.written]
        if out is not None:
            targets.append(("out", out))
        others = [
            (names[i], x) for i, x in enumerate(given) if x is not None and i not in effects.written
        ]
        try:
            check_written(plan, targets, others)
        except (RuntimeError, SignatureError):
            # A sparse tensor can come this far on a dense one's route, and has no memory to ask.
            admit(plan, given, out)
            raise
        work = list(given)
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        back = []
        for i in reads:
            work[i] = _copy_of(work[i], copies)
        for i in others_at:
            if is_zero_tensor(work[i]):  # which no key tells from a dense one
                work[i] = dense(work[i])
        for i in effects.written:
            if not is_dense(work[i]):
                work[i] = _copy_of(work[i], copies)
                back.append((given[i], work[i]))
        buffer = out
        if out is not None and not is_dense(out):
            buffer = _copy_of(out, copies, _blank)
            back.append((out, buffer))
        result = kernel(*work, out=buffer) if takes_out else kernel(*work)
        kept = [_kept(a, work, buffer) for a in effects.aliases]
        final = verify(plan, route, work, kept, result)
        for target, copy in back:
            target.copy_(copy)
        for _, target in targets:
            count_write(target)
        if not signature.outputs:
            return None
        callers = [_kept(a, given, out) for a in effects.aliases]
        results = final if isinstance(final, tuple) else (final,)
        mine = tuple(r if c is None else c for r, c in zip(results, callers, strict=True))
        return mine[0] if len(mine) == 1 else mine

    return write


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    """Dense memory for what a kernel writes without reading it."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _copy_of(
    tensor: torch.Tensor,
    copies: list[tuple[torch.Tensor, torch.Tensor]],
    make: Callable[[torch.Tensor], torch.Tensor] = dense,
) -> torch.Tensor:
    """A dense copy; arguments that are one view share one, as they share memory where dense."""
    for original, copy in copies:
        if same_view(original, tensor):
            return copy
    copy = make(tensor)
    copies.append((tensor, copy))
    return copy


def _kept(alias: int | str | None, tensors: Tensors, out: torch.Tensor | None) -> Any:
    if alias is None:
        return None
    return out if alias == "out" else tensors[int(alias)]
