"""Kinds of expressions: every name resolved, every argument of the kind that its place takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.comparisons import Side, check_comparison, is_tuple
from tileops_core.signature.dtypes import DTYPES
from tileops_core.signature.kinds import (
    BOOL,
    DIM,
    FLOAT,
    INT,
    SHAPE,
    AdtKind,
    AxesKind,
    BoolKind,
    DTypeKind,
    EachKind,
    EnumKind,
    IntTupleKind,
    Kind,
    MaybeKind,
    ShapeKind,
    TensorKind,
    TupleKind,
    is_int,
    is_number,
    may_be_none,
)
from tileops_core.signature.narrowing import NOTHING, Known, implied
from tileops_core.signature.primitives import PRIMITIVES, Argument, Primitive, joined_number
from tileops_core.signature.problems import Problems
from tileops_core.signature.types import describe
from tileops_core.spans import Span
from tileops_core.spec.expressions import (
    Binary,
    BoolOp,
    Call,
    Compare,
    Const,
    Each,
    Expr,
    Field,
    IfElse,
    Index,
    Name,
    Slice,
    TupleOf,
    Unary,
)
from tileops_core.suggest import did_you_mean, listed


@attrs.frozen(slots=True, eq=False, repr=False)
class Scope(EqualByFields):
    """The names an expression may read, with their kinds.

    A kind of None belongs to a declaration that is wrong itself: it is known, and reading it
    starts no second problem. ``optional`` are the tensors of which presence may be asked;
    ``costs`` says that ``bytes`` of a tensor may be. ``functions`` are those that may be called.
    Where ``names_are_missing``, a declaration was left out, and an unknown name may be its.
    """

    kinds: Mapping[str, Kind | None]
    problems: Problems
    optional: frozenset[str] = frozenset()
    costs: bool = False
    names_are_missing: bool = False
    functions: Mapping[str, Primitive] = PRIMITIVES


class Checker:
    """Finds the kind of an expression; None when it has none, after noting why."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.problems = scope.problems

    def expect(
        self, expr: Expr, accepts: Callable[[Kind], bool], noun: str, known: Known = NOTHING
    ) -> Kind | None:
        """The kind of an expression that must be of a certain kind."""
        kind = self.kind(expr, known)
        if kind is None or accepts(kind):
            return kind
        self._refuse(expr, kind, noun)
        return None

    def _refuse(self, expr: Expr, kind: Kind, noun: str, place: str = "", hint: str = "") -> None:
        if may_be_none(kind):
            self._maybe_none(expr, noun)
        elif isinstance(kind, TensorKind):
            self._tensor_read(expr)
        else:
            message = f"this is {describe(kind)}, {noun} is due{place}"
            self.problems.add("kind", message, expr.span, hint)

    def boolean(self, expr: Expr, known: Known = NOTHING) -> None:
        """Check a condition."""
        self.expect(expr, lambda kind: isinstance(kind, BoolKind), "a condition", known)

    def kind(self, expr: Expr, known: Known = NOTHING) -> Kind | None:
        """The kind of an expression under what is known around it."""
        return _KINDS[type(expr)](self, expr, known)

    def _value(self, expr: Expr, known: Known) -> Kind | None:
        """The kind of a part of a value, which no tensor is."""
        kind = self.kind(expr, known)
        if isinstance(kind, TensorKind):
            self._tensor_read(expr)
            return None
        return kind

    def _const(self, expr: Const, known: Known) -> Kind | None:
        value = expr.value
        if isinstance(value, bool):
            return BOOL
        if isinstance(value, int):
            return DIM
        return FLOAT if isinstance(value, float) else EnumKind((value,))

    def _name(self, expr: Name, known: Known) -> Kind | None:
        if expr.id in known.narrowed:
            return known.narrowed[expr.id]
        if expr.id in self.scope.kinds:
            return self.scope.kinds[expr.id]
        if expr.id in DTYPES:
            return DTypeKind((expr.id,))
        if self.scope.names_are_missing:
            return None
        self.problems.add(
            "unknown-name",
            f"{expr.id!r} is not declared{did_you_mean(expr.id, self.scope.kinds)}",
            expr.span,
            f"declared are {listed(self.scope.kinds)}",
        )
        return None

    def _tuple(self, expr: TupleOf, known: Known) -> Kind | None:
        kinds = [self._value(item, known) for item in expr.items]
        return None if None in kinds else TupleKind(tuple(k for k in kinds if k))

    def _unary(self, expr: Unary, known: Known) -> Kind | None:
        if expr.op == "not":
            self.boolean(expr.operand, known)
            return BOOL
        kind = self.expect(expr.operand, is_number, "a number", known)
        return INT if kind and is_int(kind) else kind

    def _binary(self, expr: Binary, known: Known) -> Kind | None:
        left = self.expect(expr.left, is_number, "a number", known)
        right = self.expect(expr.right, is_number, "a number", known)
        if left is None or right is None:
            return None
        if expr.op == "/":
            return FLOAT
        joined = joined_number((left, right))
        return INT if expr.op == "-" and joined == DIM else joined

    def _compare(self, expr: Compare, known: Known) -> Kind | None:
        left, kind = expr.first, self.kind(expr.first, known)
        for op, right in expr.rest:
            right_kind = self.kind(right, known)
            if kind is not None and right_kind is not None:
                self._comparison((left, kind), op, (right, right_kind), expr.span)
            left, kind = right, right_kind
        return BOOL

    def _comparison(self, left: Side, op: str, right: Side, span: Span) -> None:
        for side, kind in (left, right):
            if isinstance(kind, TensorKind):
                return self._tensor_read(side)
            if isinstance(kind, MaybeKind):
                return self._maybe_none(side, "a value to compare")
        return check_comparison(left, op, right, span, self.problems)

    def _bool_op(self, expr: BoolOp, known: Known) -> Kind | None:
        for item in expr.items:
            self.boolean(item, known)
            known = known.and_also(implied(item, expr.op == "and", self.scope.kinds, known))
        return BOOL

    def _if_else(self, expr: IfElse, known: Known) -> Kind | None:
        self.boolean(expr.condition, known)
        then = self._value(
            expr.then, known.and_also(implied(expr.condition, True, self.scope.kinds, known))
        )
        otherwise = self._value(
            expr.otherwise, known.and_also(implied(expr.condition, False, self.scope.kinds, known))
        )
        if then is None or otherwise is None:
            return None
        joined = _joined(then, otherwise)
        if joined is None:
            self.problems.add(
                "kind",
                f"one branch is {describe(then)}, the other {describe(otherwise)}",
                expr.span,
            )
        return joined

    def _call(self, expr: Call, known: Known) -> Kind | None:
        functions = self.scope.functions
        primitive = functions.get(expr.function)
        if primitive is None:
            self.problems.add(
                "unknown-primitive",
                f"{expr.function!r} is no primitive{did_you_mean(expr.function, functions)}",
                expr.span,
                f"the primitives are {listed(functions)}",
            )
            return None
        if expr.function in ("present", "bytes"):
            return self._of_tensor(expr, known)
        formal = [*primitive.args]
        if primitive.alone and len(expr.args) == 1:
            formal = [primitive.alone]
        elif primitive.rest:
            formal += [primitive.rest] * max(primitive.least, len(expr.args) - len(formal))
        if len(formal) != len(expr.args):
            self.problems.add(
                "arguments",
                f"{expr.function} takes {len(formal)} arguments and is given {len(expr.args)}",
                expr.span,
                f"write {primitive.usage}",
            )
            return None
        kinds = [
            self.argument(a, f, primitive.usage, known)
            for a, f in zip(expr.args, formal, strict=True)
        ]
        by_name = {argument.name: argument for argument in primitive.optional}
        for name, value in expr.keywords:
            if name in by_name:
                self.argument(value, by_name[name], primitive.usage, known)
            else:
                self.problems.add(
                    "arguments",
                    f"{expr.function} has no keyword {name!r}{did_you_mean(name, by_name)}",
                    value.span,
                    f"write {primitive.usage}",
                )
        if expr.function == "per_axis" and not expr.keywords and _may_lack_one(kinds[0]):
            self.problems.add(
                "maybe-none",
                "a value here may be None, and per_axis has no fallback",
                expr.args[0].span,
                "write per_axis(v, i, n, fallback=...)",
            )
        return None if None in kinds else primitive.result([kind for kind in kinds if kind])

    def argument(
        self, expr: Expr, formal: Argument, usage: str, known: Known = NOTHING
    ) -> Kind | None:
        """The kind of an argument of a function that is called as ``usage`` says."""
        kind = self.kind(expr, known)
        if kind is None or formal.accepts(kind):
            return kind
        self._refuse(expr, kind, formal.noun, f" as {formal.name}", f"write {usage}")
        return None

    def _of_tensor(self, expr: Call, known: Known) -> Kind | None:
        name = expr.args[0] if len(expr.args) == 1 and not expr.keywords else None
        if not isinstance(name, Name):
            self.problems.add(
                "arguments", f"{expr.function} takes the name of one tensor or value", expr.span
            )
            return None
        kind = self._name(name, NOTHING)
        if kind is None:
            return BOOL if expr.function == "present" else DIM
        if expr.function == "bytes":
            if not isinstance(kind, TensorKind):
                self.problems.add("kind", "bytes takes a tensor's name", name.span)
            elif not self.scope.costs:
                self.problems.add("tensor-read", "bytes may stand in a roofline only", expr.span)
            return DIM
        maybe = may_be_none(kind)
        if not maybe and name.id not in self.scope.optional:
            self.problems.add(
                "kind", f"{name.id} is always there, present asks for nothing", expr.span
            )
        return BOOL

    def _index(self, expr: Index, known: Known) -> Kind | None:
        self.expect(expr.index, is_int, "an int", known)
        kind = self.expect(expr.value, is_tuple, "a shape", known)
        if isinstance(kind, TupleKind):
            return joined_number(kind.items)
        return kind and (INT if isinstance(kind, IntTupleKind) else DIM)

    def _slice(self, expr: Slice, known: Known) -> Kind | None:
        for bound in (expr.start, expr.stop):
            if bound is not None:
                self.expect(bound, is_int, "an int", known)
        kind = self.expect(expr.value, lambda k: isinstance(k, ShapeKind), "a shape", known)
        return kind and SHAPE

    def _field(self, expr: Field, known: Known) -> Kind | None:
        if not isinstance(expr.value, Name):
            self.problems.add("kind", f"only a name has the field {expr.name!r}", expr.span)
            return None
        kind = self._name(expr.value, known)
        if kind is None:
            return None
        if isinstance(kind, TensorKind):
            self._tensor_read(expr)
            return None
        if isinstance(kind, AdtKind):
            return self._field_of_sum(expr, kind)
        if expr.name != "value":
            self.problems.add(
                "not-in-language", f"{describe(kind)} has no field {expr.name!r}", expr.span
            )
            return None
        maybe = may_be_none(kind)
        if not maybe:
            self.problems.add(
                "kind",
                f"{expr.value.id} is never None, it has no .value",
                expr.span,
                f"write {expr.value.id}",
            )
            return None
        if expr.value.id not in known.present:
            self._maybe_none(expr.value, "a value")
            return None
        narrowed = known.narrowed.get(f"{expr.value.id}.value")
        if narrowed is not None:
            return narrowed
        return kind.of if isinstance(kind, MaybeKind) else AxesKind(optional=False)

    def _field_of_sum(self, expr: Field, kind: AdtKind) -> Kind | None:
        """A field that every form has which the value may be of here; ``kind`` names the form."""
        if expr.name == "kind":
            return EnumKind(tuple(form.name for form in kind.constructors))
        kinds = [form.field(expr.name) for form in kind.constructors]
        found = kinds[0]
        for other in kinds[1:]:
            found = _joined(found, other) if found and other else None
        if found is not None:
            return found
        name = expr.value.id if isinstance(expr.value, Name) else ""
        declared = self.scope.kinds.get(name)
        forms = declared.constructors if isinstance(declared, AdtKind) else kind.constructors
        having = [form.name for form in forms if form.field(expr.name)]
        if having:
            self.problems.add(
                "not-in-branch",
                f"{expr.name} is a field of {listed(having)} only",
                expr.span,
                f"ask {name}.kind == {having[0]!r} first, and read it behind that",
            )
        else:
            fields = ["kind", *(field for form in forms for field, _ in form.fields)]
            self.problems.add(
                "not-in-language",
                f"{describe(kind)} has no field {expr.name!r}{did_you_mean(expr.name, fields)}",
                expr.span,
            )
        return None

    def _each(self, expr: Each, known: Known) -> Kind | None:
        if expr.variable in self.scope.kinds or expr.variable in DTYPES:
            self.problems.add(
                "name-taken",
                f"{expr.variable!r} names something already, for needs a name of its own",
                expr.span,
            )
            return None
        sequence = self.expect(expr.sequence, is_tuple, "a shape or a tuple", known)
        if sequence is None:
            return None
        if isinstance(sequence, TupleKind):
            if not all(map(is_number, sequence.items)):
                self.problems.add("kind", "for runs over numbers", expr.sequence.span)
                return None
            item: Kind = joined_number(sequence.items) if sequence.items else DIM
        else:
            item = INT if isinstance(sequence, IntTupleKind) else DIM
        inner = Checker(attrs.evolve(self.scope, kinds={**self.scope.kinds, expr.variable: item}))
        element = inner.kind(expr.element, known)
        return element and EachKind(element)

    def _maybe_none(self, expr: Expr, noun: str) -> None:
        name = expr.id if isinstance(expr, Name) else "v"
        self.problems.add(
            "maybe-none",
            f"this may be None, {noun} is due",
            expr.span,
            f"ask present({name}) first, and read {name}.value behind it",
        )

    def _tensor_read(self, expr: Expr) -> None:
        shape = isinstance(expr, Field) and expr.name == "shape"
        self.problems.add(
            "tensor-read",
            "a tensor's shape is not read" if shape else "a tensor is no value of an expression",
            expr.span,
            "name the axes in the tensor's own shape and use these names; two tensors of one "
            "shape share an index"
            if shape
            else "only present(t) and, in a roofline, bytes(t) take a tensor",
        )


def _may_lack_one(kind: Kind | None) -> bool:
    """Whether a value per axis may be None on some axis."""
    holes = isinstance(kind, IntTupleKind) and kind.holes
    return kind is not None and (holes or may_be_none(kind))


def _joined(left: Kind, right: Kind) -> Kind | None:
    """A kind that holds the values of both, if there is one."""
    if left == right:
        return left
    if is_number(left) and is_number(right):
        return joined_number((left, right))
    if isinstance(left, EnumKind) and isinstance(right, EnumKind):
        return EnumKind(tuple(dict.fromkeys(left.words + right.words)))
    if isinstance(left, DTypeKind) and isinstance(right, DTypeKind):
        if left.members is None or right.members is None:
            return DTypeKind(None)
        return DTypeKind(tuple(dict.fromkeys(left.members + right.members)))
    shapes = (ShapeKind, TupleKind)
    if isinstance(left, shapes) and isinstance(right, shapes):
        return SHAPE
    return None


_KINDS: dict[type[Expr], Callable[..., Kind | None]] = {
    Const: Checker._const,
    Name: Checker._name,
    TupleOf: Checker._tuple,
    Unary: Checker._unary,
    Binary: Checker._binary,
    Compare: Checker._compare,
    BoolOp: Checker._bool_op,
    IfElse: Checker._if_else,
    Call: Checker._call,
    Index: Checker._index,
    Slice: Checker._slice,
    Field: Checker._field,
    Each: Checker._each,
}
