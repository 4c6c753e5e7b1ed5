"""A Spec as a Signature: names resolved, kinds checked, families expanded, phases found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from tileops_core.signature.checker import Checker, Scope
from tileops_core.signature.combos import build_combos
from tileops_core.signature.composition import build_composition
from tileops_core.signature.coverage import check_coverage
from tileops_core.signature.dtypes import DTYPES, unknown_dtype
from tileops_core.signature.effects import check_effects, check_order
from tileops_core.signature.entry_hash import entry_hash
from tileops_core.signature.families import Families
from tileops_core.signature.kinds import (
    TENSOR,
    DTypeKind,
    Kind,
    MaybeKind,
    TensorKind,
    is_int,
    is_number,
)
from tileops_core.signature.members import OP_MEMBERS
from tileops_core.signature.metadata import MetadataChecker, check_row_only
from tileops_core.signature.model import (
    REQUIRED,
    DTypeCombos,
    IndexDecl,
    Input,
    Let,
    Output,
    Param,
    Roofline,
    Rule,
    Signature,
    Workload,
)
from tileops_core.signature.problems import Problems
from tileops_core.signature.rows import build_rows
from tileops_core.signature.rules import Degrees, Phases, defined_by, names_in, ordered_lets
from tileops_core.signature.shared_kinds import SharedKindsOf
from tileops_core.signature.sources import check_sources, names_behind
from tileops_core.signature.types import TypeTextError, index_kind, misfit, param_kind
from tileops_core.spans import Span
from tileops_core.spec.catalogue import shared_types
from tileops_core.spec.entries import (
    UNREADABLE,
    InputEntry,
    OutputEntry,
    ParamEntry,
    Spec,
    TensorEntry,
)
from tileops_core.spec.expressions import Expr, FamilyUse, Name
from tileops_core.spec.names import is_dotted
from tileops_core.spec.shared_types import SharedTypes
from tileops_core.suggest import did_you_mean

# The constructor's own names, a constant of the language, and what generated code calls.
_RESERVED = frozenset(
    {"self", "target", "inf", "len", "bool", "type", "tuple", "BaseException", "RuntimeError"}
)


def build_signature(spec: Spec, types: SharedTypes | None = None) -> Signature:
    """The signature of an entry.

    Args:
        spec: The entry as it was read, its problems included.
        types: The types that entries share; those of the installed manifest, if not given.

    Raises:
        ManifestError: With every problem of the entry, the reader's and those found here.
    """
    problems = Problems(spec.problems)
    signature = _Builder(spec, types or shared_types(), problems).build()
    problems.raise_if_any(spec.op)
    return signature


class _Builder:
    """Builds one signature, noting problems as it goes."""

    def __init__(self, spec: Spec, types: SharedTypes, problems: Problems) -> None:
        self.spec = spec
        self.problems = problems
        self.shared = SharedKindsOf(types, problems)
        self.indices = {entry.name: self._index_kind(entry.kind) for entry in spec.forall}
        self.params = {entry.name: self._param_kind(entry) for entry in spec.params}
        self.given = (*spec.inputs, *(e.tensor for e in spec.params if e.tensor))
        self.tensors = (*self.given, *spec.outputs)
        self.kinds: dict[str, Kind | None] = {**self.indices, **self.params}
        self.kinds.update(dict.fromkeys((t.name for t in self.tensors), TENSOR))
        self.kinds.update(dict.fromkeys((entry.name for entry in spec.lets), None))
        self.optional = frozenset(e.name for e in self.given if e.optional is not False)
        self.checker = Checker(
            Scope(self.kinds, problems, self.optional, names_are_missing=bool(spec.left_out))
        )
        self.metadata = MetadataChecker(self.checker.scope, spec.inputs)
        called = (tensor.name for tensor in (*spec.inputs, *spec.outputs))
        self.phases = Phases(self.params, self.indices, called)
        self.degrees = Degrees(problems)

    def build(self) -> Signature:
        """Check everything; the result is of use only if no problem was noted."""
        spec, problems = self.spec, self.problems
        self._check_names()
        lets = self._lets()
        families = Families(spec.types, self.shared, problems, whole="types" not in spec.left_out)
        params = tuple(self._param(entry, families) for entry in spec.params)
        self._check_param_order(params)
        inputs = tuple(self._input(entry, families) for entry in spec.inputs)
        outputs = tuple(self._output(entry, families) for entry in spec.outputs)
        if all(tensor.shape is not None for tensor in self.tensors) and not spec.left_out & {
            "inputs", "outputs", "params",
        }:  # fmt: skip
            families.note_unused()
        known = not spec.left_out & {"forall", "params"}
        table = spec.dtype_combos if known else ()
        combos = build_combos(table, self.indices, self.params, problems)
        rules = tuple(self._rules(combos))
        roofline = self._roofline()
        held = (param.tensor for param in params if param.tensor)
        row_only = check_sources(spec, (*inputs, *held), self.indices, problems)
        self._check_effects(inputs, outputs)
        check_row_only(row_only, lets, rules, inputs, outputs, roofline, problems)
        indices = tuple(
            IndexDecl(entry.name, kind, entry.span, entry.name in row_only)
            for entry in spec.forall
            if (kind := self.indices[entry.name])
        )
        signature = Signature(
            op=spec.op,
            family=spec.family,
            status="implemented" if spec.status == "implemented" else "spec-only",
            ref_api=spec.ref_api,
            indices=indices,
            params=params,
            inputs=inputs,
            outputs=outputs,
            lets=lets,
            rules=rules,
            roofline=roofline,
            workloads=self._workloads(indices, params, inputs),
            entry_hash="",
            span=spec.span,
            adts=tuple(self.shared.used.values()),
            dtype_combos=combos,
            composition=build_composition(spec, problems),
        )
        if not len(problems):
            check_coverage(signature, self.tensors, families, problems)
        return attrs.evolve(signature, entry_hash=entry_hash(signature))

    def _workloads(
        self, indices: tuple[IndexDecl, ...], params: tuple[Param, ...], inputs: tuple[Input, ...]
    ) -> tuple[Workload, ...]:
        declared = {**self.indices, **self.params}
        broken = {name for name, kind in declared.items() if kind is None}
        broken |= {entry.name for entry in self.spec.inputs if entry.optional is None}
        if self.spec.left_out:  # whatever a row gives may be of a declaration that was left out
            broken |= {name for row in self.spec.workloads for name in row.names}
        rows, problems = self.spec.workloads, self.problems
        return build_rows(rows, indices, params, inputs, frozenset(broken), problems)

    def _index_kind(self, kind: Any) -> Kind | None:
        if not kind.value:
            return None  # what stands there instead is noted already
        try:
            return index_kind(kind.value)
        except TypeTextError as error:
            message, hint = error.told(f"{kind.value!r} is no kind of an index")
            self.problems.add("unknown-type", message, kind.span, hint)
            return None

    def _param_kind(self, entry: ParamEntry) -> Kind | None:
        if entry.tensor is not None:
            return TENSOR
        if not entry.type.value:
            return None  # its absence is noted already
        try:
            return param_kind(entry.type.value, self.shared)
        except TypeTextError as error:
            message, hint = error.told(f"{entry.type.value!r} is no type of a parameter")
            self.problems.add("unknown-type", f"{entry.name}: {message}", entry.type.span, hint)
            return None

    def _check_names(self) -> None:
        buffers = {entry.name for entry in self.spec.outputs if entry.buffer}
        takes_out = buffers or {entry.name for entry in self.spec.inputs}
        groups: tuple[tuple[str, Iterable[Any]], ...] = (
            ("an index", self.spec.forall),
            ("a parameter", self.spec.params),
            ("an input", self.spec.inputs),
            ("an output", self.spec.outputs),
            ("a let", self.spec.lets),
        )
        seen: dict[str, tuple[str, Span]] = {}
        for noun, entries in groups:
            for entry in entries:
                if entry.name in seen:
                    first, span = seen[entry.name]
                    self.problems.add(
                        "name-taken",
                        f"{entry.name!r} is {first} already, {span.where}",
                        entry.span,
                    )
                seen.setdefault(entry.name, (noun, entry.span))
                if (
                    entry.name in _RESERVED
                    or entry.name in DTYPES
                    or (entry.name == "out" and "out" not in takes_out)
                ):
                    self.problems.add(
                        "bad-name",
                        f"{entry.name!r} has a meaning of its own",
                        entry.span,
                        "self, target, inf and dtype names are not declared, and out only where "
                        "the caller passes it",
                    )
                elif entry.name in OP_MEMBERS and noun in ("a parameter", "an input"):
                    self.problems.add(
                        "bad-name",
                        f"{noun} {entry.name!r} would hide what every op has under this name",
                        entry.span,
                        "give it another name",
                    )

    def _param(self, entry: ParamEntry, families: Families) -> Param:
        kind = self.params[entry.name]
        default: Any = REQUIRED
        if entry.default is not None:
            default = entry.default.value
            stated = kind is not None and entry.tensor is None and default is not UNREADABLE
            why = misfit(default, kind) if kind and stated else None
            if why:
                self.problems.add(
                    "bad-default", f"{entry.name}: default: {why}", entry.default.span
                )
        return Param(
            name=entry.name,
            kind=kind or TENSOR,
            default=default,
            kw_only=bool(entry.kw_only),
            annotation=entry.type.value,
            span=entry.span,
            tensor=self._input(entry.tensor, families) if entry.tensor else None,
        )

    def _check_param_order(self, params: tuple[Param, ...]) -> None:
        if any(entry.kw_only is None for entry in self.spec.params):
            return
        defaulted = kw_only = False
        for param in params:
            if kw_only and not param.kw_only:
                self.problems.add(
                    "param-order",
                    f"{param.name} stands after a keyword-only parameter",
                    param.span,
                    "declare it earlier, or kw_only: true",
                )
            if not param.kw_only and defaulted and param.default is REQUIRED:
                self.problems.add(
                    "param-order",
                    f"{param.name} has no default and stands after a parameter that has one",
                    param.span,
                )
            kw_only = kw_only or param.kw_only
            defaulted = defaulted or param.default is not REQUIRED

    def _lets(self) -> tuple[Let, ...]:
        lets = []
        for entry in ordered_lets(self.spec.lets, self.problems):
            if entry.expr is None:
                continue
            kind = self.checker.kind(entry.expr)
            if isinstance(kind, MaybeKind | TensorKind):
                self.checker.expect(entry.expr, lambda _: False, "a value")
                kind = None
            self.kinds[entry.name] = kind
            self.degrees.check(entry.expr, entry.name)
            phase = self.phases.add_let(entry.name, entry.expr)
            if kind is not None:
                lets.append(Let(entry.name, kind, entry.expr, phase, entry.span))
        return tuple(lets)

    def _tensor(self, entry: TensorEntry, families: Families) -> dict[str, Any]:
        if isinstance(entry.dtype, Name) and self._is_unknown_dtype(entry.dtype.id):
            self.problems.add(
                "unknown-name",
                f"{entry.name}: {entry.dtype.id!r} is no dtype, and not declared"
                f"{did_you_mean(entry.dtype.id, {**DTYPES, **self.indices, **self.params})}",
                entry.dtype.span,
                unknown_dtype(entry.dtype.id),
            )
        elif entry.dtype is not None:
            self.checker.expect(entry.dtype, lambda kind: isinstance(kind, DTypeKind), "a dtype")
        shape = families.expand(entry.shape, self.checker) if entry.shape else ()
        if shape and isinstance(entry.shape, FamilyUse):
            self._check_discriminants(entry.name, families.discriminants(entry.shape))
        for case in shape:
            for axis in case.axes:
                self.degrees.check(axis)
        return {
            "name": entry.name,
            "dtype": entry.dtype,
            "shape": shape,
            "dtype_text": entry.dtype_text,
            "shape_text": entry.shape_text,
            "span": entry.span,
            "dtype_span": entry.dtype_span,
            "shape_span": entry.shape_span,
        }

    def _check_discriminants(self, name: str, found: Iterable[Expr]) -> None:
        """Note discriminants that hang on what only the shapes of a call tell."""
        told: set[Span] = set()
        for discriminant in found:
            late = sorted(
                n for n in names_behind(discriminant, self.spec.lets) if self._is_length(n)
            )
            if late and discriminant.span not in told:
                told.add(discriminant.span)
                self.problems.add(
                    "family-match",
                    f"{name}: the case hangs on {late[0]}, which has no finitely many values",
                    discriminant.span,
                    "a discriminant is settled at construction, or by which tensors are there and "
                    "what their dtypes are: a parameter, present(t), T == float16",
                )

    def _is_length(self, name: str) -> bool:
        """Whether a name is an index that the lengths of tensors tell, or a row's list."""
        return name in self.indices and not isinstance(self.indices[name], DTypeKind | None)

    def _is_unknown_dtype(self, name: str) -> bool:
        known = name in self.kinds or name in DTYPES
        return not known and not self.spec.left_out

    def _input(self, entry: InputEntry, families: Families) -> Input:
        tensor = Input(
            **self._tensor(entry, families),
            optional=self._condition(entry.optional, f"{entry.name}: optional", entry.name),
            kw_only=entry.kw_only,
            contiguous=entry.contiguous,
            mutated=self._condition(entry.mutated, f"{entry.name}: mutated"),
            write_only=entry.write_only,
            on_cpu=entry.on_cpu,
        )
        return self.metadata.read(tensor, entry)

    def _output(self, entry: OutputEntry, families: Families) -> Output:
        if entry.nullable is not None:
            self._condition(entry.nullable, f"{entry.name}: nullable")
        return Output(
            **self._tensor(entry, families),
            nullable=entry.nullable,
            buffer=entry.buffer,
            alias=entry.alias.value if entry.alias else None,
            contiguous=entry.contiguous,
        )

    def _condition(
        self, condition: bool | Expr | None, what: str, before: str | None = None
    ) -> bool | Expr:
        """A condition over parameters and presence; of inputs declared ``before``, if given."""
        if condition is None or isinstance(condition, bool):
            return bool(condition)
        self.checker.boolean(condition)
        earlier = set()
        for entry in self.spec.inputs:
            if entry.name == before:
                break
            earlier.add(entry.name)
        for name in sorted(names_in(condition)):
            known = self.phases.of_name(name) == "construction" or name in earlier
            if not known:
                self.problems.add(
                    "presence",
                    f"{what} reads {name}, which is not known when it is decided",
                    condition.span,
                    "it may read parameters, and the presence of inputs declared before",
                )
        return condition

    def _rules(self, combos: DTypeCombos | None) -> Iterable[Rule]:
        if combos is not None:
            yield Rule(combos.condition(), combos.text, "domain", combos.span)
        for entry in self.spec.rules:
            if entry.expr is None:
                continue
            unknown = [n for n in sorted(defined_by(entry)) if n not in self.kinds]
            unknown = [name for name in unknown if name not in DTYPES]
            if unknown and not self.spec.left_out:
                self.problems.add(
                    "rule-defines-name",
                    f"{unknown[0]!r} is not declared; a refinement checks, it defines nothing",
                    entry.span,
                    f"write it below let, as {unknown[0]}: <expression>",
                )
                continue
            self.checker.boolean(entry.expr)
            self.degrees.check(entry.expr)
            yield Rule(entry.expr, entry.text, self.phases.of(entry.expr), entry.span)

    def _roofline(self) -> Roofline | None:
        entry = self.spec.roofline
        if entry is None:
            return None
        checker = Checker(attrs.evolve(self.checker.scope, costs=True))
        for expr in (entry.flops, entry.bytes):
            if expr is None:
                continue
            kind = checker.expect(expr, is_number, "a number")
            if kind is not None and not is_int(kind):
                self.problems.add(
                    "kind",
                    "a cost is an exact int, this is a float",
                    expr.span,
                    "divide with // or ceil_div, and keep floats out",
                )
            self.degrees.check(expr)
        if entry.func is not None and not is_dotted(entry.func):
            self.problems.add(
                "wrong-value",
                f"roofline: func is {entry.func!r}, the dotted name of a function is due",
                entry.span,
                "write package.module.function",
            )
        return Roofline(entry.flops, entry.bytes, entry.func, entry.span)

    def _check_effects(self, inputs: tuple[Input, ...], outputs: tuple[Output, ...]) -> None:
        if "inputs" in self.spec.left_out:
            return  # an alias may be of one that was left out
        if all(entry.optional is not None for entry in self.spec.inputs):
            check_order(inputs, self.problems)
        check_effects(inputs, outputs, self.spec.outputs, self.problems)
