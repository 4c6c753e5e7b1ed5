"""In which order, and how, a call's tensors settle the signature's indices.

The order depends on the signature alone, never on the order of its text: tensors that can be
read with what is known come first. The result is data; :mod:`tileops_core.plan` writes it out as
Python and decides nothing.

An index that only some branches settle (an optional tensor's, or one case of a type family) is
*perhaps* known: generated code starts it at None and asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from tileops_core.signature.branches import TooManyBranches
from tileops_core.signature.kinds import DimKind, DTypeKind, ShapeKind
from tileops_core.signature.model import Input, Let, Output, ShapeCase, Signature
from tileops_core.signature.problems import Problem
from tileops_core.signature.settled import Settled
from tileops_core.signature.steps import (
    AxisStep,
    CaseSteps,
    CheckAxis,
    CheckRun,
    LetStep,
    OpenRun,
    Place,
    Solution,
    SolveAxis,
    TensorStep,
)
from tileops_core.signature.stuck import causes
from tileops_core.spans import Span
from tileops_core.spec.expressions import (
    Binary,
    BoolOp,
    Call,
    Const,
    Each,
    Expr,
    IfElse,
    Name,
    Splice,
    Unary,
    free_names,
)


def certain_names(expr: Expr) -> Iterator[str]:
    """The names an expression reads whatever holds: not those behind a condition."""
    match expr:
        case Name(id=name):
            yield name
        case IfElse(condition=condition):
            yield from certain_names(condition)
        case BoolOp(items=items):
            yield from certain_names(items[0])
        case Each(sequence=sequence):
            yield from certain_names(sequence)
        case _:
            for child in expr.children():
                yield from certain_names(child)


class Solver:
    """Finds the steps of one signature.

    Args:
        signature: The signature.

    Attributes:
        indices: the indices that calls settle.
        unknown: what is not certainly known yet.
        perhaps: those of them that some branches settle.
    """

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.indices = {d.name: d for d in signature.indices if not d.row_only}
        self.call_lets = [let for let in signature.lets if let.phase == "call"]
        self.unknown = set(self.indices) | {let.name for let in self.call_lets}
        self.perhaps: set[str] = set()
        self.ever_perhaps: set[str] = set()
        self.taken: list[TensorStep] = []
        self._settled: Settled | None = None

    def missing(self, expr: Expr, known_here: Iterable[str] = ()) -> set[str]:
        """Names the expression reads that are not certainly known."""
        return {n for n in free_names(expr) if n in self.unknown} - set(known_here)

    # -- shapes ---------------------------------------------------------------------------

    def case_steps(self, case: ShapeCase, *, partly: bool = False) -> CaseSteps | None:
        """The steps for one case, or None while something is missing.

        Args:
            case: The case.
            partly: Leave out the axes that cannot be told, as long as the rank can.
        """
        open_at: int | None = None
        for i, item in enumerate(case.axes):
            if isinstance(item, Splice) and self.missing(item.value):
                name = item.value
                if (
                    open_at is not None
                    or not isinstance(name, Name)
                    or name.id not in self.indices
                    or not isinstance(self.indices[name.id].kind, ShapeKind)
                ):
                    return None
                open_at = i
        known = frozenset(self.signature._kinds()) - self.unknown
        steps, left = self.axis_steps(case, open_at)
        if left and not partly:
            return None
        singles = [a for a in case.axes if not isinstance(a, Splice)]
        runs = tuple(
            a.value for i, a in enumerate(case.axes) if isinstance(a, Splice) and i != open_at
        )
        return CaseSteps(case, len(singles), runs, open_at is not None, tuple(steps), known)

    def axis_steps(
        self, case: ShapeCase, open_at: int | None
    ) -> tuple[list[AxisStep], list[tuple[Expr, set[str]]]]:
        """The steps for as many axes as can be told, and the other ones with what they lack."""
        places = _places(case.axes, open_at)
        steps: list[AxisStep] = []
        found: set[str] = set()
        todo = list(range(len(case.axes)))
        while todo:
            for i in todo:
                step = self.axis_step(case.axes[i], places[i], found, i == open_at)
                if step is not None:
                    steps.append(step)
                    if isinstance(step, SolveAxis | OpenRun):
                        found.add(step.name)
                    todo.remove(i)
                    break
            else:
                break
        return steps, [(case.axes[i], self.missing(case.axes[i], found)) for i in todo]

    def left_over(self, case: ShapeCase) -> list[tuple[Expr, set[str]]]:
        """The axes that cannot be told of a case with one open splice, and what each lacks."""
        splices = (
            isinstance(axis, Splice) and bool(self.missing(axis.value)) for axis in case.axes
        )
        open_at = next((i for i, is_open in enumerate(splices) if is_open), None)
        return self.axis_steps(case, open_at)[1]

    def axis_step(
        self, item: Expr, places: tuple[Place, Place], found: set[str], is_open: bool
    ) -> AxisStep | None:
        """The step for one item of a shape, or None while more than one thing is missing."""
        before, after = places
        if isinstance(item, Splice):
            if is_open:
                assert isinstance(item.value, Name)
                name = item.value.id
                return OpenRun(before, after, name, name in self.perhaps)
            return CheckRun(before, item.value)
        missing = self.missing(item, found)
        if not missing:
            return CheckAxis(before, item)
        if len(missing) > 1:
            return None
        (name,) = missing
        index = self.indices.get(name)
        if index is None or not isinstance(index.kind, DimKind):
            return None
        linear = _linear(item, name)
        if linear is None:
            return None
        coefficient, rest = linear
        return SolveAxis(before, name, coefficient, rest, name in self.perhaps, item)

    def lifted(self, case: ShapeCase) -> Iterator[ShapeCase]:
        """A case, once for each answer to a condition that an axis to be solved hangs on."""
        for item in case.axes:
            if isinstance(item, IfElse) and self.missing(item):
                if self.missing(item.condition):
                    continue
                for truth in (True, False):
                    axes = tuple(_chosen(axis, item.condition, truth) for axis in case.axes)
                    yield from self.lifted(ShapeCase(_when(case.when, item.condition, truth), axes))
                return
        yield case

    # -- one input ------------------------------------------------------------------------

    def tensor_step(self, tensor: Input, *, partly: bool = False) -> TensorStep | None:
        """The steps for one tensor, or None while something is missing."""
        binds: str | None = None
        missing = self.missing(tensor.dtype)
        if missing:
            if not (isinstance(tensor.dtype, Name) and self.is_dtype(tensor.dtype.id)):
                return None
            binds = tensor.dtype.id
        if any(case.when is not None and self.missing(case.when) for case in tensor.shape):
            return None
        shape = [lifted for case in tensor.shape for lifted in self.lifted(case)]
        cases = [self.case_steps(case, partly=partly) for case in shape]
        if any(c is None for c in cases):
            return None
        return TensorStep(
            tensor, binds, binds in self.perhaps, tuple(c for c in cases if c is not None)
        )

    def is_dtype(self, name: str) -> bool:
        """Whether a name is an index that a tensor's dtype settles."""
        return name in self.indices and isinstance(self.indices[name].kind, DTypeKind)

    @staticmethod
    def is_linear(expr: Expr, name: str) -> bool:
        """Whether an axis tells a name, if all others that it reads are known."""
        return _linear(expr, name) is not None

    def learn(self, step: TensorStep) -> None:
        """After a step: what it settles on every branch is known, the rest perhaps."""
        per_case = [
            {s.name for s in case.steps if isinstance(s, SolveAxis | OpenRun)}
            for case in step.cases
        ]
        everywhere = set.intersection(*per_case) if per_case else set()
        somewhere = set.union(*per_case) if per_case else set()
        if step.binds_dtype is not None:
            everywhere.add(step.binds_dtype)
            somewhere.add(step.binds_dtype)
        if step.tensor.optional is not False:
            everywhere = set()
        self.unknown -= everywhere
        self.perhaps = (self.perhaps | (somewhere - everywhere)) - everywhere
        self.ever_perhaps |= somewhere - everywhere

    # -- all ------------------------------------------------------------------------------

    def solve(self) -> Solution:
        """All steps, and what no step settles."""
        unsolved: list[Problem] = []
        construction = tuple(self._construction(unsolved))
        self.taken += construction
        steps: list[TensorStep | LetStep] = []
        todo = [t for t in self.signature.inputs if t.optional is False]
        held = [step.tensor for step in construction if not _is_whole(step)]
        later = [*(t for t in self.signature.inputs if t.optional is not False), *held]
        lets = list(self.call_lets)
        for group in (todo, later):
            while True:
                self._ready_lets(lets, steps)
                step = next((s for s in map(self.tensor_step, group) if s is not None), None)
                if step is None and group:
                    unsolved += self._unstick(group)
                    continue
                if step is None:
                    break
                group.remove(step.tensor)
                self.learn(step)
                self.taken.append(step)
                steps.append(attrs.evolve(step, dtype_known=True) if step.tensor in held else step)
        self._ready_lets(lets, steps)
        for let in lets:
            never = self.missing(let.expr) - self.perhaps - {x.name for x in lets}
            if never:
                unsolved.append(
                    _unsolved(
                        f"let {let.name} reads {_and(never)}, which no tensor settles", let.span
                    )
                )
            else:
                unsolved += self._loose(f"let {let.name}", let.expr, let.span)
                steps.append(LetStep(let))
                self.unknown.discard(let.name)
        for rule in self.signature.rules:
            unsolved += self._loose(f"the refinement {rule.text}", rule.expr, rule.span)
        for item in self.signature.inputs:
            for requirement in item.requires:
                unsolved += self._loose(
                    f"{item.name}: {requirement.text}", requirement.call, requirement.span,
                    only_if=presence(item),
                )  # fmt: skip
        roofline = self.signature.roofline
        for cost in (roofline.flops, roofline.bytes) if roofline is not None else ():
            if cost is not None:
                unsolved += self._loose("the roofline", cost, cost.span)
        unsolved += self._outputs_unsolved()
        return Solution(tuple(steps), frozenset(self.ever_perhaps), tuple(unsolved), construction)

    def _construction(self, unsolved: list[Problem]) -> Iterator[TensorStep]:
        """What can be told of the parameters that are tensors, before any call."""
        for tensor in self.signature.construction_tensors:
            step = self.tensor_step(tensor, partly=True)
            if step is None and (bare := self.tensor_step(attrs.evolve(tensor, shape=()))):
                step = attrs.evolve(bare, tensor=tensor)
            if step is None:
                unsolved.append(
                    _unsolved(
                        f"{tensor.name} has a dtype that only a call tells, and is given before",
                        tensor.dtype_span,
                    )
                )
            else:
                self.learn(step)
                yield step

    def _ready_lets(self, lets: list[Let], steps: list[TensorStep | LetStep]) -> None:
        for let in list(lets):
            if not self.missing(let.expr):
                steps.append(LetStep(let))
                self.unknown.discard(let.name)
                lets.remove(let)

    def _loose(
        self, what: str, expr: Expr, span: Span, only_if: Expr | None = None
    ) -> Iterator[Problem]:
        """An expression that reads what only some branches settle, and does so on all of them."""
        reads = set(certain_names(expr)) & self.perhaps
        if reads and (reads := self._missing_somewhere(reads, expr, only_if=only_if)):
            yield _unsolved(
                f"{what} reads {_and(reads)}, which the inputs do not settle on every branch; "
                "read it behind the branch's condition, as in x if present(t) else 0",
                span,
            )

    def _unstick(self, group: list[Input]) -> list[Problem]:
        """Why one of some tensors cannot be read, which then counts as read: what only hangs on it
        is no second fault.
        """
        found = [(tensor, causes(self, tensor)) for tensor in group]
        tensor, why = next(
            ((t, c) for t, c in found if any(cause.hopeless for cause in c)),
            min(found, key=lambda item: len(self._lacks(item[0]))),
        )
        group.remove(tensor)
        lacks = self._lacks(tensor)
        self.unknown -= lacks
        self.perhaps -= lacks
        return [cause.problem for cause in why]

    def _lacks(self, tensor: Input) -> set[str]:
        missing = self.missing(tensor.dtype)
        for case in tensor.shape:
            for expr in (*case.axes, *([] if case.when is None else [case.when])):
                missing |= self.missing(expr)
        return missing

    def _missing_somewhere(
        self, names: set[str], *exprs: Expr, only_if: Expr | None = None, unless: Expr | None = None
    ) -> set[str]:
        """Those of the names that some branch reads and no tensor settles there."""
        if self._settled is None:
            self._settled = Settled(self.signature, self.taken)
        try:
            return set(self._settled.unsettled(names, exprs, only_if=only_if, unless=unless))
        except TooManyBranches:
            return names

    def _outputs_unsolved(self) -> Iterator[Problem]:
        for output in self.signature.outputs:
            dtype = self._unsolved_of(None, output, output.dtype)
            reads = set(dtype)
            for case in output.shape:
                reads |= self._unsolved_of(case.when, output, *case.axes)
            if reads:
                yield _unsolved(
                    f"output {output.name} reads {_and(reads)}, which the inputs do not settle on "
                    "every branch; make it a parameter or a let",
                    output.dtype_span if reads == dtype else output.shape_span,
                )

    def _unsolved_of(self, when: Expr | None, output: Output, *exprs: Expr) -> set[str]:
        """What expressions of an output read in vain."""
        missing = set[str]().union(*map(self.missing, exprs))
        never, sometimes = missing - self.perhaps, missing & self.perhaps
        if sometimes:
            sometimes = self._missing_somewhere(
                sometimes, *exprs, only_if=when, unless=output.nullable
            )
        return never | sometimes


def presence(item: Input) -> Expr | None:
    """The condition under which an input is there; None for always."""
    if item.optional is True:
        name = Name(id=item.name, span=item.span)
        return Call(function="present", args=(name,), span=item.span)
    return item.optional if isinstance(item.optional, Expr) else None


def _chosen(axis: Expr, condition: Expr, truth: bool) -> Expr:
    """An axis under a condition's answer."""
    if isinstance(axis, IfElse) and axis.condition == condition:
        return axis.then if truth else axis.otherwise
    return axis


def _when(outer: Expr | None, condition: Expr, truth: bool) -> Expr:
    """A case's condition, and that another one holds or does not."""
    inner = condition if truth else Unary(op="not", operand=condition, span=condition.span)
    if outer is None:
        return inner
    return BoolOp(op="and", items=(outer, inner), span=condition.span)


def _is_whole(step: TensorStep) -> bool:
    """Whether nothing of the tensor's shape is left to tell."""
    return bool(step.cases) and all(len(c.steps) == len(c.case.axes) for c in step.cases)


def _places(axes: tuple[Expr, ...], open_at: int | None) -> list[tuple[Place, Place]]:
    """For each item, its place and (for the open splice) the place just after it."""
    places: list[tuple[Place, Place]] = []
    for i in range(len(axes)):
        right = open_at is not None and i > open_at
        passed = axes[i + 1 :] if right else axes[:i]
        here = _place(right, passed)
        after = _place(True, axes[i + 1 :]) if i == open_at else here
        places.append((here, after))
    return places


def _place(from_right: bool, passed: tuple[Expr, ...]) -> Place:
    return Place(
        from_right,
        sum(not isinstance(a, Splice) for a in passed),
        tuple(a.value for a in passed if isinstance(a, Splice)),
    )


def _linear(expr: Expr, name: str) -> tuple[int, Expr | None] | None:
    """``(a, e)`` with ``expr == a * name + e`` and a constant a > 0; e None is zero."""
    if isinstance(expr, Name):
        return (1, None) if expr.id == name else None
    if not isinstance(expr, Binary) or name not in set(free_names(expr)):
        return None
    in_left = name in set(free_names(expr.left))
    if in_left and name in set(free_names(expr.right)):
        return None
    inner = _linear(expr.left if in_left else expr.right, name)
    other = expr.right if in_left else expr.left
    if inner is None:
        return None
    coefficient, rest = inner
    if expr.op == "+":
        both = other if rest is None else Binary(span=expr.span, op="+", left=rest, right=other)
        return coefficient, both
    if expr.op == "-" and in_left:
        zero = Const(span=expr.span, value=0)
        return coefficient, Binary(span=expr.span, op="-", left=rest or zero, right=other)
    if (
        expr.op == "*"
        and isinstance(other, Const)
        and isinstance(other.value, int)
        and other.value > 0
    ):
        scaled = None if rest is None else Binary(span=expr.span, op="*", left=other, right=rest)
        return coefficient * other.value, scaled
    return None


def _unsolved(message: str, span: Span) -> Problem:
    return Problem("unsolved", message, span)


def _and(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))


def solve(signature: Signature) -> Solution:
    """The solving order of a signature."""
    return Solver(signature).solve()
