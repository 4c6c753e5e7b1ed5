"""The compile boundary of an op class: its operators, and what they do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tileops_core.call.admit import admit
from tileops_core.call.emit import emit
from tileops_core.call.emit_call import CallCode
from tileops_core.call.emit_operator import Hosts
from tileops_core.call.grad import needs_grad
from tileops_core.call.torch_operators import (
    LIBRARY,
    OPERATORS,
    OTHERS,
    Bound,
    define,
)
from tileops_core.call.writes import check_out
from tileops_core.errors import SignatureError
from tileops_core.op.hosts import HOSTS, op_for, statics_for
from tileops_core.plan.model import Plan
from tileops_core.signature.operators import is_random, operators


def install(cls: Any, plan: Plan, *, own: bool) -> CallCode:
    """Generate a class's call, and fill in its operators.

    Args:
        cls: the op class.
        plan: its plan.
        own: whether it is one of the library's, whose operators are defined already.
    """
    bound = _bound(plan, own=own)
    code = emit(plan, bound, Hosts(HOSTS, op_for))
    for number, one in enumerate(bound):
        one.torch.shapes = _shapes(one)
        one.torch.slices = _slices(one)
        one.torch.fill_later(partial(code.kernels, number))
    cls.compile_op_names = tuple(one.torch.qualname for one in bound)
    return code


class Node:
    """The attribute ``_node`` of an op class, until somebody asks for it."""

    def __init__(self, cls: Any, code: CallCode) -> None:
        self._cls = cls
        self._code = code

    def __get__(self, op: object, owner: type) -> Any:
        """What the class has from now on."""
        node: Any = self._code.node
        self._cls._node = node
        return node.__get__(op, owner)


def _bound(plan: Plan, *, own: bool) -> list[Bound]:
    namespace, branches = LIBRARY if own else OTHERS, operators(plan.signature)
    names = [f"{namespace}::{branch.name}" for branch in branches]
    for name in names:
        known = OPERATORS.get(name)
        if known is not None and known.op != plan.op:
            raise TypeError(
                f"op {plan.op} would have the operator {name}, as {known.op} has; the names of two "
                "ops must differ in more than capital letters"
            )
    schemas = [branch.schema for branch in branches]
    if schemas != [OPERATORS[name].schema for name in names if name in OPERATORS]:
        # Of another library, or a module that runs again and has changed its entry.
        define(namespace, plan.op, schemas, random=is_random(plan.signature))
    return [
        Bound(plan, branch, OPERATORS[name]) for name, branch in zip(names, branches, strict=True)
    ]


def _shapes(bound: Bound) -> Callable[..., Any]:
    """The kernel for tensors without data: the checks, then empty results."""
    plan, branch = bound.plan, bound.branch
    on_cpu = [i for i, t in enumerate(plan.signature.inputs) if t.on_cpu]
    required = [i for i, t in enumerate(plan.signature.inputs) if t.optional is False]

    def shapes(key: str, *tensors: Any) -> Any:
        if needs_grad(tensors):
            raise SignatureError(
                f"{plan.op}: a program that was exported and taken apart (run_decompositions) "
                "cannot be compiled with inputs that require grad, because it has lost what "
                "refuses their gradient; call it under torch.no_grad()",
                op=plan.op,
            )
        if any(tensors[i] is None for i in required):
            admit(plan, tensors[: len(plan.signature.inputs)], None)
        inputs = list(tensors[: len(plan.signature.inputs)])
        for i in on_cpu:
            inputs[i] = inputs[i] if inputs[i] is None else _OnCpu(inputs[i])
        statics = statics_for(key)
        facts = plan.check(statics, *inputs)
        outputs = plan.outputs(statics, facts)
        without = tuple(
            o.name for o, due in zip(plan.signature.outputs, outputs, strict=True) if due is None
        )
        if (plan.written(statics, facts), without) != (branch.written, branch.without):
            raise SignatureError(
                f"{plan.op}: the operator {bound.torch.qualname} does not stand for this call",
                op=plan.op,
            )
        if branch.out:
            check_out(plan, outputs, facts, tensors[-1])
        new = [
            torch.empty(due[0], dtype=due[1], device="meta")
            for i in bound.fresh
            if (due := outputs[i]) is not None
        ]
        return None if not new else new[0] if len(new) == 1 else tuple(new)

    return shapes


class _OnCpu:
    """A tensor of a fake call, seen from a kernel for shapes, that lies on the CPU all the same."""

    __slots__ = ("device", "dtype", "is_contiguous", "shape")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.device = torch.device("cpu")
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.is_contiguous = tensor.is_contiguous


def _slices(bound: Bound) -> Callable[..., Any]:
    """The rule of ``torch.vmap``: one call per example.

    An op states the axes of its tensors, and no entry says where another one may stand.
    """
    op, branch = bound.plan.op, bound.branch
    names = [t.name for t in bound.plan.signature.inputs] + (["out"] if branch.out else [])

    def slices(info: Any, in_dims: tuple[int | None, ...], key: str, *tensors: Any) -> Any:
        dims = in_dims[1:]
        for name, dim in zip(names, dims, strict=False):
            if dim is None and (name in branch.written or name == "out"):
                raise SignatureError(
                    f"{op}: {name} is written, so under torch.vmap it must have the batch axis "
                    "that other inputs have",
                    op=op,
                    tensor=name,
                )
        if info.batch_size == 0:
            raise SignatureError(f"{op}: torch.vmap over no example at all is not possible", op=op)
        results = [
            bound.torch.overload(
                key,
                *(
                    x if dim is None else x.select(dim, i)
                    for x, dim in zip(tensors, dims, strict=True)
                ),
            )
            for i in range(info.batch_size)
        ]
        if not bound.fresh:
            return None, None
        if len(bound.fresh) == 1:
            return torch.stack(results), 0
        columns = tuple(torch.stack(column) for column in zip(*results, strict=True))
        return columns, (0,) * len(columns)

    return slices
