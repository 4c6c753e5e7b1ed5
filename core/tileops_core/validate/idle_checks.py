"""What stands in an entry and has no effect, or has one that nobody can want.

Such parts are well formed, and a call is not wrong because of them: so they keep no op from being
imported, and are told here only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from tileops_core.signature.bindings import Bindings, MissingIndexError
from tileops_core.signature.branches import Branches, TooManyBranches
from tileops_core.signature.coverage import untaken_cases
from tileops_core.signature.families import Families, show_values
from tileops_core.signature.instance import per_axis
from tileops_core.signature.kinds import DTypeKind
from tileops_core.signature.model import REQUIRED, Param, Rule, Signature
from tileops_core.signature.problems import Problems
from tileops_core.signature.shared_kinds import SharedKindsOf
from tileops_core.signature.truth import Truths
from tileops_core.spans import Span
from tileops_core.spec.catalogue import shared_types
from tileops_core.spec.entries import Spec, plain_text
from tileops_core.spec.expressions import BoolOp, Expr, free_names
from tileops_core.spec.problems import first_strays
from tileops_core.spec.shared_types import SharedTypes

_MOST = 2**10
"""Of more choices of the parameters without a default, none is tried."""


def check_constants(signature: Signature, problems: Problems) -> Signature:
    """Note conditions that always hold, or never; the signature without refinements of these.

    What never holds would make every row and every branch a second fault.

    Args:
        signature: The entry.
        problems: Receives what is wrong.
    """
    truths = Truths(signature)
    combos = signature.dtype_combos
    kept = []
    seen: set[Expr] = set()
    for rule in signature.rules:
        _check_repeated(rule, seen, problems)
        table = combos is not None and rule.span == combos.span
        holds = None if table else truths.of(rule.expr)
        if holds is None:
            kept.append(rule)
        else:
            _note_constant(f"the refinement {rule.text}", holds, rule.span, problems)
    conditions = [(f"{i.name}: optional", i.optional) for i in signature.inputs]
    conditions += [(f"{i.name}: mutated", i.mutated) for i in signature.inputs]
    conditions += [(f"{o.name}: nullable", o.nullable or False) for o in signature.outputs]
    for what, condition in conditions:
        if isinstance(condition, Expr) and (holds := truths.of(condition)) is not None:
            _note_constant(what, holds, condition.span, problems)
    same = len(kept) == len(signature.rules)
    return signature if same else attrs.evolve(signature, rules=tuple(kept))


def _check_repeated(rule: Rule, seen: set[Expr], problems: Problems) -> None:
    """Note a condition that stands among the refinements a second time."""
    joined = isinstance(rule.expr, BoolOp) and rule.expr.op == "and"
    for part in rule.expr.children() if joined else (rule.expr,):
        if part in seen:
            problems.add(
                "constant",
                f"the refinement {rule.text} asks what was asked before",
                part.span,
                "leave it out, or write what it was to ask",
            )
        seen.add(part)


def _note_constant(what: str, holds: bool, span: Span, problems: Problems) -> None:
    message = f"{what} holds for every call" if holds else f"{what} holds for no call"
    hint = "leave it out, or write what it was to ask"
    problems.add("constant", message, span, hint)


def check_idle(
    signature: Signature, spec: Spec, types: SharedTypes | None, problems: Problems
) -> None:
    """Note declarations without a reader, dtypes and cases that no call can have, and defaults
    that a refinement refuses.

    Args:
        signature: The entry.
        spec: The entry as it is written.
        types: The types that it shares with others; None for the installed manifest's.
        problems: Receives what is wrong.
    """
    _check_quantities(spec, problems)
    _check_dtypes(signature, problems)
    families = Families(spec.types, SharedKindsOf(types or shared_types(), Problems()), Problems())
    for family, case in untaken_cases(signature, spec, families):
        problems.add(
            "unreachable",
            f"{family.name}: no accepted call takes the case {show_values(case.when)}",
            case.span,
            "take it out: what refinements over discriminants exclude needs no case",
        )
    _check_defaults(signature, spec, problems)


# -- quantities -----------------------------------------------------------------------------------


def _check_quantities(spec: Spec, problems: Problems) -> None:
    """Note quantities that nothing reads. A cost function gets all of them with the record."""
    if spec.roofline is not None and spec.roofline.func is not None:
        return
    lets = {entry.name: entry for entry in spec.lets}
    used: set[str] = set()
    todo = {name for expr in _readers(spec) for name in free_names(expr)} & lets.keys()
    while todo:
        name = todo.pop()
        used.add(name)
        expr = lets[name].expr
        todo |= (set(free_names(expr)) if expr is not None else set()) & lets.keys() - used
    idle = (entry for name, entry in lets.items() if name not in used)
    for entry, more in first_strays(idle):
        message = f"nothing reads {more} more lets" if more else f"nothing reads let {entry.name}"
        problems.add("unused", message, entry.span, "take it out, or use it")


def _readers(spec: Spec) -> Iterator[Expr]:
    """Every expression of an entry but those of quantities."""
    held = [param.tensor for param in spec.params if param.tensor is not None]
    for item in (*spec.inputs, *held):
        yield from _exprs(item.dtype, item.shape, item.optional, item.mutated, item.values)
        yield from _exprs(*(rule.expr for rule in item.requires))
    for output in spec.outputs:
        yield from _exprs(output.dtype, output.shape, output.nullable)
    yield from _exprs(*(rule.expr for rule in spec.rules))
    if spec.roofline is not None:
        yield from _exprs(spec.roofline.flops, spec.roofline.bytes)


def _exprs(*values: Any) -> Iterator[Expr]:
    return (value for value in values if isinstance(value, Expr))


# -- dtypes ---------------------------------------------------------------------------------------


def _check_dtypes(signature: Signature, problems: Problems) -> None:
    """Note dtypes that the kind of an index has and the refinements exclude."""
    branches = Branches(signature)
    for index in signature.indices:
        if not isinstance(index.kind, DTypeKind) or index.kind.members is None:
            continue
        try:
            accepted = branches.accepted({index.name})
        except TooManyBranches:
            continue
        there = {given[index.name] for given in accepted}
        for member in index.kind.members if there else ():
            if member not in there:
                problems.add(
                    "unreachable",
                    f"{index.name} is {member} in no accepted call",
                    index.span,
                    f"take {member} out of its kind, or let the refinements allow it",
                )


# -- defaults -------------------------------------------------------------------------------------


def _check_defaults(signature: Signature, spec: Spec, problems: Problems) -> None:
    """Note defaults with which a refinement over parameters does not hold.

    A parameter without a default is free. Where None is one of several defaults, the refinement
    asks to give one of several parameters, and that is no fault.
    """
    branches = Branches(signature)
    params = {param.name: param for param in signature.params}
    lets = {let.name: let.expr for let in signature.lets}
    for rule in signature.rules:
        if rule.phase != "construction":
            continue
        read = [params[name] for name in _behind(rule.expr, lets) if name in params]
        stated = [p for p in read if p.default is not REQUIRED and p.tensor is None]
        free = [p for p in read if p.default is REQUIRED]
        one_of = len(stated) > 1 and any(param.default is None for param in stated)
        if stated and not one_of and not _may_hold(branches, rule, stated, free):
            first = next(e for e in spec.params if e.name in {p.name for p in stated})
            shown = " and ".join(f"{p.name} = {plain_text(p.default)}" for p in stated)
            problems.add(
                "bad-default",
                f"by default {shown}, and {rule.text} does not hold",
                first.default.span if first.default is not None else first.span,
            )


def _behind(expr: Expr, lets: Mapping[str, Expr]) -> dict[str, None]:
    """The names that an expression reads, itself and through ``let``, in reading order."""
    found: dict[str, None] = {}
    todo = list(free_names(expr))
    while todo:
        name = todo.pop(0)
        if name not in found:
            found[name] = None
            todo += free_names(lets[name]) if name in lets else ()
    return found


def _may_hold(
    branches: Branches, rule: Rule, stated: Iterable[Param], free: Iterable[Param]
) -> bool:
    """Whether a refinement holds for the defaults and some choice of the other parameters."""
    given: dict[Any, Any] = {p.name: per_axis(p.kind, p.default) for p in stated}
    given |= {f"present({p.name})": p.default is not None for p in stated}
    held = branches.signature.construction_tensors
    given |= {f"present({tensor.name})": False for tensor in held}
    if not list(free):
        bindings = Bindings(branches.signature, {**given, **{t.name: None for t in held}})
        try:
            return bool(bindings.value(rule.expr))
        except (MissingIndexError, ValueError, ArithmeticError, LookupError):
            return False  # what has no value refuses the call too
    open_keys = sorted(key for p in free for key in (p.name, f"present({p.name})")
                       if key in branches.values)  # fmt: skip
    choices = [branches.values[key] for key in open_keys]
    if math.prod(map(len, choices)) > _MOST:
        return True
    return any(
        branches.value(rule.expr, {**given, **dict(zip(open_keys, chosen, strict=True))})
        is not False
        for chosen in itertools.product(*choices)
    )
