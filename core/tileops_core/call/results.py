"""Whether what a kernel returned is what the signature says. The full check, off the hit path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tileops_core.call.routes import Blamed, Route
from tileops_core.call.torch_private import is_zero_tensor, share_storage
from tileops_core.call.writes import byte_range, reaches
from tileops_core.errors import BackendError
from tileops_core.plan.model import OutputFacts, Plan
from tileops_core.plan.sites import dtype_text, shape_text, value_text


def describe(value: object) -> str:
    """A result in a few words, for an error."""
    if isinstance(value, torch.Tensor):
        kind = "tensor" if type(value) is torch.Tensor else type(value).__name__
        return f"a {dtype_text(value.dtype)} {kind} of shape {shape_text(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if value is None:
        return "None"
    return f"{value_text(value)} ({type(value).__name__})"


def owner(blamed: Blamed) -> str:
    """Who answers for a kernel, for an error."""
    backend = f"backend {blamed.backend!r}" if blamed.backend else "the op's own kernels"
    version = f" version {blamed.version}" if blamed.version else ""
    return f"target {blamed.target!r} ({backend}{version})"


def _fault(plan: Plan, blamed: Blamed, problem: str) -> BackendError:
    return BackendError(
        f"{plan.op}: {owner(blamed)} {problem}; the call was checked before, so this is the "
        "backend's fault: report it there, or choose another target=",
        backend=blamed.backend,
        op=plan.op,
        target=blamed.target,
    )


def verify(
    plan: Plan,
    route: Route,
    inputs: Sequence[torch.Tensor | None],
    kept: Sequence[torch.Tensor | None],
    result: Any,
) -> Any:
    """Check a kernel's result in full and return what the caller gets.

    Args:
        plan: the op's plan.
        route: what was expected, and who answers.
        inputs: what the kernel got, in the signature's order.
        kept: per output, the tensor it must be (``out`` or a written input), or None where the
            output is new.
        result: what the kernel returned.

    Returns:
        None, the one output, or the tuple of outputs.

    Raises:
        BackendError: naming who answers, what came and what the signature says.
    """
    blamed, outputs = route.blamed, plan.signature.outputs
    given = _parts(plan, blamed, route.expected, kept, result)
    if not outputs:
        return None
    final: list[torch.Tensor | None] = []
    for output, expected, keep, value in zip(outputs, route.expected, kept, given, strict=True):
        if keep is not None:
            # The kernel wrote into a buffer; it may return that buffer, or nothing.
            if value is not None and not _is_buffer(value, keep):
                raise _fault(
                    plan,
                    blamed,
                    f"returned {describe(value)} for {output.name}, which it must "
                    "write into the tensor it was given",
                )
            final.append(keep)
        elif expected is None:
            if value is not None:
                raise _fault(
                    plan,
                    blamed,
                    f"returned {describe(value)} for {output.name}, which this call "
                    "does not have: it must be None",
                )
            final.append(None)
        else:
            _check_fresh(plan, route, output.name, output.shape_text, expected, value)
            final.append(value)
    _check_aliases(plan, blamed, inputs, kept, final)
    return final[0] if len(final) == 1 else tuple(final)


def _parts(
    plan: Plan,
    blamed: Blamed,
    expected: Sequence[OutputFacts],
    kept: Sequence[torch.Tensor | None],
    result: Any,
) -> tuple[Any, ...]:
    """What was returned for each output."""
    outputs = plan.signature.outputs
    if not outputs:
        if result is not None:
            raise _fault(plan, blamed, f"returned {describe(result)}, the op returns nothing")
        return ()
    if len(outputs) == 1:
        return (result,)
    if isinstance(result, tuple) and len(result) == len(outputs):
        return result
    if result is None and all(
        k is not None or e is None for k, e in zip(kept, expected, strict=True)
    ):
        return (None,) * len(outputs)
    names = ", ".join(o.name for o in outputs)
    raise _fault(
        plan,
        blamed,
        f"returned {describe(result)}, the signature has {len(outputs)} "
        f"outputs ({names}), to be returned as a tuple",
    )


def _is_buffer(value: object, keep: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and (
        value is keep
        or (
            value.data_ptr() == keep.data_ptr()
            and value.shape == keep.shape
            and value.dtype == keep.dtype
        )
    )


def _check_fresh(
    plan: Plan, route: Route, name: str, declared: str, expected: OutputFacts, value: Any
) -> None:
    blamed = route.blamed
    if type(value) is not torch.Tensor:
        raise _fault(
            plan, blamed, f"returned {describe(value)} for {name}, due is {_due(expected)}"
        )
    _check_form(plan, blamed, route.device, name, declared, expected, value)
    if value.is_neg() or value.is_conj():
        raise _fault(plan, blamed, f"returned {name} with its negative or conjugate bit set")
    if is_zero_tensor(value):
        raise _fault(
            plan, blamed, f"returned {name} as a zero tensor of autograd, which has no memory"
        )
    if value.requires_grad:
        raise _fault(
            plan,
            blamed,
            f"returned {name} with requires_grad set, though no input requires "
            "grad: a kernel must not record gradients",
        )


def _due(expected: OutputFacts) -> str:
    assert expected is not None
    return f"a {dtype_text(expected[1])} tensor of shape {shape_text(expected[0])}"


def _check_form(
    plan: Plan,
    blamed: Blamed,
    device: torch.device,
    name: str,
    declared: str,
    expected: OutputFacts,
    value: torch.Tensor,
) -> None:
    """Check what a new output is, but for its memory."""
    assert expected is not None
    shape, dtype = expected
    if tuple(value.shape) != tuple(shape):
        raise _fault(
            plan,
            blamed,
            f"returned shape {shape_text(value.shape)} for {name}, the signature "
            f"says {declared} = {shape_text(shape)}",
        )
    if value.dtype != dtype:
        raise _fault(
            plan,
            blamed,
            f"returned dtype {dtype_text(value.dtype)} for {name}, the signature "
            f"says {dtype_text(dtype)}",
        )
    if value.device != device:
        raise _fault(plan, blamed, f"returned {name} on {value.device}, the call is on {device}")
    if value.layout is not torch.strided:
        due = _due(expected)
        raise _fault(plan, blamed, f"returned {name} with layout {value.layout}, due is {due}")
    if not value.is_contiguous():
        raise _fault(
            plan,
            blamed,
            f"returned {name} with strides {shape_text(value.stride())} for shape "
            f"{shape_text(shape)}, new outputs must be contiguous",
        )


def verify_without_data(
    plan: Plan,
    blamed: Blamed,
    device: torch.device,
    expected: Sequence[OutputFacts],
    inputs: Sequence[torch.Tensor | None],
    kept: Sequence[torch.Tensor | None],
    result: Any,
) -> None:
    """Check what a composite's body returns for tensors without data; else like :func:`verify`.

    Memory is told apart by storage, because such tensors have no addresses.

    Raises:
        BackendError: naming who answers, what came and what the signature says.
    """
    outputs = plan.signature.outputs
    given = _parts(plan, blamed, expected, kept, result)
    for output, facts, keep, value in zip(outputs, expected, kept, given, strict=True):
        if keep is not None:
            if value is not None and not (value is keep or _share(value, keep)):
                raise _fault(
                    plan,
                    blamed,
                    f"returned {describe(value)} for {output.name}, which it must "
                    "write into the tensor it was given",
                )
        elif facts is None or not isinstance(value, torch.Tensor):
            if facts is not None or value is not None:
                due = "None" if facts is None else _due(facts)
                raise _fault(
                    plan, blamed, f"returned {describe(value)} for {output.name}, due is {due}"
                )
        else:
            _check_form(plan, blamed, device, output.name, output.shape_text, facts, value)
            for declared, x in zip(plan.signature.inputs, inputs, strict=True):
                if x is not None and _share(value, x):
                    raise _in_memory_of_input(plan, blamed, output.name, declared.name)


def _share(one: object, other: torch.Tensor) -> bool:
    return isinstance(one, torch.Tensor) and share_storage(one, other)


def _in_memory_of_input(plan: Plan, blamed: Blamed, output: str, declared: str) -> BackendError:
    return _fault(
        plan,
        blamed,
        f"returned {output} in the memory of its input "
        f"{declared}; a new output needs memory of its own",
    )


def _check_aliases(
    plan: Plan,
    blamed: Blamed,
    inputs: Sequence[torch.Tensor | None],
    kept: Sequence[torch.Tensor | None],
    final: Sequence[torch.Tensor | None],
) -> None:
    outputs = plan.signature.outputs
    for i, value in enumerate(final):
        if value is None or kept[i] is not None:
            continue
        span, device = byte_range(value), value.device
        for declared, given in zip(plan.signature.inputs, inputs, strict=True):
            if given is not None and reaches(span, device, given):
                raise _in_memory_of_input(plan, blamed, outputs[i].name, declared.name)
        for j, other in enumerate(final[:i]):
            if other is not None and reaches(span, device, other):
                raise _fault(
                    plan,
                    blamed,
                    f"returned {outputs[i].name} in the memory of "
                    f"{outputs[j].name}; each output needs memory of its own",
                )
