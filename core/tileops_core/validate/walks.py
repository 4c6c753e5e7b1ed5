"""An entry's expressions, all of them, and what one call evaluates of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs

from tileops_core.signature.bindings import MissingIndexError
from tileops_core.signature.instance import Instance
from tileops_core.signature.model import Input, Output, Signature, TensorDecl
from tileops_core.spec.expressions import (
    BoolOp,
    Call,
    Compare,
    Const,
    Each,
    Expr,
    IfElse,
    Name,
    Splice,
    TupleOf,
    Unary,
)
from tileops_core.validate.tracing import NoValue, Tracer

Condition: TypeAlias = "tuple[Expr, bool]"
"""An expression, and the truth value that it must have."""

_PASSED = ("", ())  # stands for a tensor of which only the presence is known so far
_INCOMPLETE = -1  # stands among the places for a call that lacks an index


@attrs.frozen
class Stated:
    """An expression that an entry states: what it is, and under which conditions it is evaluated.

    ``tensor`` is the input that must have been passed. A ``refines`` expression refuses calls where
    it is false; one of ``lengths`` those where it gives a negative number.
    """

    what: str
    expr: Expr
    conditions: tuple[Condition, ...] = ()
    tensor: Input | None = None
    refines: bool = False
    lengths: bool = False


def stated(signature: Signature) -> tuple[Stated, ...]:
    """Every expression of an entry that is no row's, in an order in which each may be evaluated."""
    return tuple(_stated(signature))


def _stated(signature: Signature) -> Iterator[Stated]:
    given = (*signature.construction_tensors, *signature.inputs)
    for item in given:
        if isinstance(item.optional, Expr):
            yield Stated(f"{item.name}: optional", item.optional)
    for let in signature.lets:
        yield Stated(f"let {let.name}", let.expr)
    for rule in signature.rules:
        yield Stated(f"the refinement {rule.text}", rule.expr, refines=True)
    for item in given:
        yield from _of_tensor(item, (), item)
        if isinstance(item.mutated, Expr):
            yield Stated(f"{item.name}: mutated", item.mutated, tensor=item)
        for requirement in item.requires:
            others = set(requirement.tensors)
            for arg in requirement.call.args:
                if not (isinstance(arg, Name) and arg.id in others):
                    yield Stated(f"{item.name}: {requirement.text}", arg, tensor=item)
    for output in signature.outputs:
        there: tuple[Condition, ...] = ()
        if output.nullable is not None:
            yield Stated(f"{output.name}: nullable", output.nullable)
            there = ((output.nullable, False),)
        yield from _of_tensor(output, there, None)
    if signature.roofline is not None:
        for name in ("flops", "bytes"):
            cost = getattr(signature.roofline, name)
            if cost is not None:
                yield Stated(f"roofline: {name}", cost)


def _of_tensor(
    item: TensorDecl, there: tuple[Condition, ...], passed: Input | None
) -> Iterator[Stated]:
    yield Stated(f"{item.name}: dtype", item.dtype, there, passed)
    before = there
    for case in item.shape:
        here = before
        if case.when is not None:
            yield Stated(f"{item.name}: shape", case.when, before, passed)
            here, before = (*before, (case.when, True)), (*before, (case.when, False))
        for axis in case.axes:
            value = axis.value if isinstance(axis, Splice) else axis
            yield Stated(f"{item.name}: shape", value, here, passed, lengths=True)


# -- one call -----------------------------------------------------------------------------


@attrs.define
class Walk:
    """What a call evaluates.

    Attributes:
        valued: per place in ``stated``, ids of the parts that had a value.
        failed: per place, the part that had none through its own fault.
        refused: the places that refuse the call.
    """

    valued: dict[int, set[int]] = attrs.field(factory=dict)
    failed: dict[int, NoValue] = attrs.field(factory=dict)
    refused: set[int] = attrs.field(factory=set)

    def stands_for(self, place: int) -> bool:
        """Whether nothing but this place refuses the call."""
        return self.refused <= {place}


class Walker:
    """Takes calls through an entry's expressions.

    Args:
        signature: The entry.
    """

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.places = stated(signature)
        self._first_cost = sum(not p.what.startswith("roofline: ") for p in self.places)

    def walk(self, instance: Instance) -> Walk:
        """Evaluate all that a call evaluates, whether it is refused or not.

        Args:
            instance: The call: parameters, indices and the optional tensors passed. Nothing of it
                needs to have been checked.
        """
        made, names = Walk(), instance.bindings
        values: dict[int, Any] = {}
        self._pass(instance)
        for number, place in enumerate(self.places):
            if number == self._first_cost:
                self._settle(instance, values)
            if not self._reached(place, instance, values):
                continue
            tracer = Tracer()
            try:
                value = values[id(place.expr)] = tracer.value(place.expr, names)
            except NoValue as failure:
                if isinstance(failure.cause, MissingIndexError):
                    made.refused.add(_INCOMPLETE)
                elif failure.cause is not None:
                    made.failed[number] = failure
                    made.refused.add(number)
            else:
                if (place.refines and not value) or (place.lengths and _is_negative(value)):
                    made.refused.add(number)
            made.valued[number] = tracer.valued
        return made

    def _pass(self, instance: Instance) -> None:
        """Note which tensors are passed; conditions of others are evaluated as they come."""
        signature, names = self.signature, instance.bindings
        given = (*signature.construction_tensors, *signature.inputs)
        for item in given:
            passed = item.optional is False or item.name in instance.some
            names[item.name] = _PASSED if passed else None
        for item in given:
            if isinstance(item.optional, Expr):
                try:
                    names[item.name] = _PASSED if Tracer().value(item.optional, names) else None
                except NoValue:
                    names[item.name] = None

    def _reached(self, place: Stated, instance: Instance, values: dict[int, Any]) -> bool:
        if place.tensor is not None and instance.bindings[place.tensor.name] is None:
            return False
        return all(
            id(condition) in values and bool(values[id(condition)]) == due
            for condition, due in place.conditions
        )

    def _settle(self, instance: Instance, values: dict[int, Any]) -> None:
        """Give tensors their dtypes and shapes, for costs that ask for bytes."""
        signature, names = self.signature, instance.bindings
        for item in (*signature.construction_tensors, *signature.inputs, *signature.outputs):
            if isinstance(item, Output) or names[item.name] is not None:
                names[item.name] = _fact(item, values)


def _fact(item: TensorDecl, values: dict[int, Any]) -> Any:
    """Dtype and shape, as far as they were evaluated; None for what is not there."""
    for case in item.shape:
        if case.when is None or values.get(id(case.when)):
            axes: list[int] = []
            for axis in case.axes:
                value = axis.value if isinstance(axis, Splice) else axis
                found = values.get(id(value))
                if found is None:
                    return None
                axes += found if isinstance(axis, Splice) else (found,)
            dtype = values.get(id(item.dtype))
            return None if dtype is None else (dtype, tuple(axes))
    return None


def _is_negative(value: Any) -> bool:
    return any(n < 0 for n in (value if isinstance(value, tuple | list) else (value,)))


# -- what was not evaluated ---------------------------------------------------------------


def missed(place: Stated, valued: set[int]) -> Iterator[tuple[Expr, tuple[Condition, ...]]]:
    """The greatest parts of an expression without a value so far, each with what leads there.

    A part that cannot fail, such as a name, is none.
    """
    yield from _missed(place.expr, valued, place.conditions)


def _missed(
    expr: Expr, valued: set[int], conditions: tuple[Condition, ...]
) -> Iterator[tuple[Expr, tuple[Condition, ...]]]:
    if id(expr) not in valued:
        if not _is_plain(expr):
            yield expr, conditions
        return
    match expr:
        case BoolOp(op=op, items=items):
            for item in items:
                yield from _missed(item, valued, conditions)
                conditions = (*conditions, (item, op == "and"))
        case IfElse(condition=condition, then=then, otherwise=otherwise):
            yield from _missed(condition, valued, conditions)
            yield from _missed(then, valued, (*conditions, (condition, True)))
            yield from _missed(otherwise, valued, (*conditions, (condition, False)))
        case Compare(first=first, rest=rest):
            yield from _missed(first, valued, conditions)
            for number, (_, item) in enumerate(rest):
                if number:
                    so_far = attrs.evolve(expr, rest=rest[:number])
                    conditions = (*conditions, (so_far, True))
                yield from _missed(item, valued, conditions)
        case Each(element=element, sequence=sequence, span=span):
            yield from _missed(sequence, valued, conditions)
            count = Call(function="len", args=(sequence,), span=span)
            some = Compare(first=count, rest=((">", Const(value=0, span=span)),), span=span)
            yield from _missed(element, valued, (*conditions, (some, True)))
        case _:
            for part in expr.children():
                yield from _missed(part, valued, conditions)


def _is_plain(expr: Expr) -> bool:
    return all(
        isinstance(node, Const | Name | TupleOf | Unary | Splice)
        or (isinstance(node, Call) and node.function == "present")
        for node in expr.walk()
    )
