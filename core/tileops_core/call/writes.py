"""What a call may write into, and whether it may.

``out`` and written inputs must not overlap themselves or each other, and may overlap an argument
that is only read by being the very same view of it. Kernels get contiguous memory; what came
otherwise is copied in and, after success, back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

from tileops_core.call import torch_private
from tileops_core.errors import SignatureError
from tileops_core.plan.model import Facts, OutputFacts, Plan
from tileops_core.plan.sites import dtype_text, shape_text

Named: TypeAlias = tuple[str, torch.Tensor]
"""A tensor and the name it has in the call."""


def check_out(
    plan: Plan, outputs: tuple[OutputFacts, ...], facts: Facts, out: torch.Tensor
) -> None:
    """Check ``out`` against the output that it is to become.

    Raises:
        SignatureError: shape, dtype or device differ, it is not dense where it has to be, or this
            branch has no such output.
    """
    declared = plan.signature.out_buffer
    assert declared is not None
    due = outputs[plan.signature.outputs.index(declared)]
    span = declared.span
    if due is None:
        problem = f"out was given, but this call has no output {declared.name}"
        expected: object = None
        actual: object = out.shape
    elif tuple(out.shape) != tuple(due[0]):
        problem = f"out has shape {shape_text(out.shape)}, {declared.name} is {declared.shape_text}"
        problem += f" = {shape_text(due[0])}"
        expected, actual = tuple(due[0]), tuple(out.shape)
    elif out.dtype != due[1]:
        problem = f"out has dtype {dtype_text(out.dtype)}, {declared.name} is {declared.dtype_text}"
        problem += f" = {dtype_text(due[1])}"
        expected, actual = due[1], out.dtype
    elif out.device != facts[0]:
        problem = f"out is on {out.device}, the call is on {facts[0]}"
        expected, actual = facts[0], out.device
    elif declared.contiguous and not out.is_contiguous():
        problem = f"out is not contiguous, {declared.name} is written into dense memory only"
        expected, actual = "contiguous", out.stride()
    else:
        return
    raise SignatureError(
        f"{plan.op}: {problem}  [{span.short}]",
        op=plan.op,
        tensor="out",
        expected=expected,
        actual=actual,
        span=span,
    )


def check_written(plan: Plan, written: Sequence[Named], others: Sequence[Named]) -> None:
    """Check that writing is safe: no overlap, no leaf that needs its value, no inference tensor.

    Args:
        plan: the op's plan.
        written: name and tensor of ``out`` and each written input.
        others: the call's other tensors.

    Raises:
        SignatureError: some written memory is also something else.
    """
    for i, (name, tensor) in enumerate(written):
        if overlaps_itself(tensor):
            raise _refused(
                plan,
                name,
                f"{name} is written, but several of its elements share one place in memory "
                f"(shape {shape_text(tensor.shape)}, strides {shape_text(tensor.stride())}); "
                f"pass {name}.clone()",
            )
        for other_name, other in written[i + 1 :]:
            if overlap(tensor, other):
                raise _refused(
                    plan,
                    name,
                    f"{name} and {other_name} are both written and share memory, so one would "
                    "overwrite the other; pass a clone of one of them",
                )
        for other_name, other in others:
            if overlap(tensor, other) and not same_view(tensor, other):
                raise _refused(
                    plan,
                    name,
                    f"{name} is written and overlaps {other_name} in memory without being the "
                    f"same view of it; pass a clone of one of them",
                )
        check_leaf(plan, name, tensor)
        if torch_private.is_zero_tensor(tensor):
            raise _refused(
                plan,
                name,
                f"{name} is written, but it is one of autograd's zero tensors, which have no "
                f"memory; pass {name}.clone()",
            )
        if tensor.is_inference() and not torch.is_inference_mode_enabled():
            raise _refused(
                plan,
                name,
                f"{name} is written, but it was made in inference mode and this call is outside "
                "it; call inside torch.inference_mode(), or pass a clone",
            )


def check_leaf(plan: Plan, name: str, tensor: torch.Tensor) -> None:
    """Check that no leaf is written whose gradient would be that of a value it no longer has.

    Raises:
        SignatureError: a leaf that requires grad, in grad mode.
    """
    if tensor.requires_grad and tensor.is_leaf and torch.is_grad_enabled():
        raise _refused(
            plan,
            name,
            f"{name} is written, but it is a leaf that requires grad; write under "
            "torch.no_grad(), or pass a clone",
        )


def check_view(plan: Plan, name: str, tensor: torch.Tensor) -> None:
    """Check that autograd can follow a write into a view; it would say so only afterwards.

    Raises:
        SignatureError: a view of a leaf that requires grad, or of a kind that it cannot follow.
    """
    base = tensor._base
    if base is None:
        return
    if base.is_leaf and tensor.requires_grad:
        problem = "it is a view of a leaf that requires grad"
    elif torch_private.is_plain_view(tensor):
        return
    else:
        problem = (
            "it is one of several views made at once, or a view made without grad mode, which "
            "autograd cannot follow"
        )
    raise _refused(
        plan,
        name,
        f"{name} is written, but {problem}; write under torch.no_grad(), or pass a clone",
    )


def _refused(plan: Plan, name: str, problem: str) -> SignatureError:
    declared = next((t for t in plan.signature.inputs if t.name == name), None)
    span = (declared or plan.signature.out_buffer or plan.signature).span
    return SignatureError(
        f"{plan.op}: {problem}  [{span.short}]", op=plan.op, tensor=name, span=span
    )


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements of the tensor surely or possibly share memory.

    Sorted by stride, each axis must step over all that the smaller ones cover; every layout that
    torch's own views of dense memory make passes this.
    """
    if tensor.is_contiguous():
        return False
    axes = sorted(
        (stride, length)
        for stride, length in zip(tensor.stride(), tensor.shape, strict=True)
        if length > 1
    )
    covered = 1
    for stride, length in axes:
        if stride < covered:
            return tensor.numel() > 0
        covered = stride * (length - 1) + covered
    return False


def byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and one past the last byte that the tensor's elements reach."""
    count = tensor.numel()
    if count == 0:
        return 0, 0
    start = tensor.data_ptr()
    if tensor.is_contiguous():
        return start, start + count * tensor.element_size()
    reach = sum(s * (n - 1) for s, n in zip(tensor.stride(), tensor.shape, strict=True))
    return start, start + (reach + 1) * tensor.element_size()


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the bytes that two tensors span meet. Interleaved views count as meeting."""
    return reaches(byte_range(a), a.device, b)


def reaches(span: tuple[int, int], device: torch.device, tensor: torch.Tensor) -> bool:
    """Whether a tensor spans some of these bytes of a device's memory."""
    if tensor.device != device:
        return False
    start, stop = byte_range(tensor)
    return start < span[1] and span[0] < stop


def same_view(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are one view: same memory, read in the same way."""
    return (
        a.data_ptr() == b.data_ptr()
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.dtype == b.dtype
        and a.is_neg() == b.is_neg()
        and a.is_conj() == b.is_conj()
    )
