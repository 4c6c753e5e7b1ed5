"""One call that a workload row describes: its tensors' facts, its metadata, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from tileops_core.signature.bindings import Bindings, MissingIndexError
from tileops_core.signature.evaluate import axes_of
from tileops_core.signature.generators import GENERATORS, Nested
from tileops_core.signature.kinds import DTypeKind, IntTupleKind, MaybeKind, WordOrKind
from tileops_core.signature.made import Made
from tileops_core.signature.metadata import arguments
from tileops_core.signature.model import (
    Input,
    Requirement,
    Rule,
    ShapeCase,
    Signature,
    TensorDecl,
    Workload,
)
from tileops_core.signature.predicates import Violation
from tileops_core.spec.expressions import Expr

Fact: TypeAlias = tuple[str, tuple[int, ...]]
"""A tensor's dtype, by its short name, and its shape."""

_PASSED: Fact = ("", ())  # stands for a tensor of which only the presence is known so far


class RowFault(Exception):
    """What a row gets wrong."""


class Instance:
    """A row's values, brought together with the signature.

    Args:
        signature: The op's signature.
        label: The row's label.
        some: The optional tensors that are passed.
        params: Constructor parameters; those that are missing take their defaults.
        given: Indices, dtypes by their short names.

    Attributes:
        tensors: facts of the parameters that are tensors, once :meth:`check` has run.
        inputs: facts of the inputs, likewise.
        outputs: facts of the outputs, likewise.
    """

    def __init__(
        self,
        signature: Signature,
        label: str,
        some: tuple[str, ...],
        params: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> None:
        self.signature = signature
        self.label = label
        self.some = some
        plain = [param for param in signature.params if param.tensor is None]
        self.params = {p.name: params.get(p.name, p.default) for p in plain}
        self.given = dict(given)
        self.tensors: dict[str, Fact | None] = {}
        self.inputs: dict[str, Fact | None] = {}
        self.outputs: dict[str, Fact | None] = {}
        as_read = {p.name: per_axis(p.kind, self.params[p.name]) for p in plain}
        self.bindings = Bindings(signature, {**as_read, **self.given})
        self.case_id = "-".join([label, *self._dtype_names()])

    @classmethod
    def of_row(
        cls,
        signature: Signature,
        row: Workload,
        dtype_case: Mapping[str, str],
        *,
        small: bool = False,
    ) -> Instance:
        """A row with one of its dtype cases, scaled down as the row says if ``small``."""
        changes = (row.small or {}) if small else {}
        names = {param.name for param in signature.params}
        params = {**row.params, **{n: v for n, v in changes.items() if n in names}}
        sizes = {n: v for n, v in changes.items() if n not in names}
        return cls(signature, row.label, row.some, params, {**row.indices, **sizes, **dtype_case})

    # -- checking -------------------------------------------------------------------------

    def check(self) -> None:
        """Find every tensor's facts.

        Raises:
            RowFault: The first thing that is wrong.
        """
        self._find()
        for wrong in self._rest():
            raise wrong

    def wrong(self) -> Iterator[str]:
        """What is wrong with the row, as far as it can be told without making metadata."""
        try:
            self._find()
        except RowFault as fault:
            yield str(fault)
            return
        yield from map(str, self._rest())

    def wrong_metadata(self, seed: int, made: Made) -> Iterator[str]:
        """What is wrong with the metadata of a row that is right otherwise."""
        try:
            self.metadata(seed, made)
        except RowFault as fault:
            yield str(fault)

    def _find(self) -> None:
        signature = self.signature
        for item in (*signature.construction_tensors, *signature.inputs):
            self.bindings[item.name] = _PASSED if self._passed(item) else None
        self._check_rules([rule for rule in signature.rules if rule.phase != "call"])
        self.tensors = {item.name: self._given(item) for item in signature.construction_tensors}
        self.inputs = {item.name: self._given(item) for item in signature.inputs}
        for name, fact in (*self.tensors.items(), *self.inputs.items()):
            self.bindings[name] = fact

    def _rest(self) -> Iterator[RowFault]:
        checks = (
            self._check_indices,
            lambda: self._check_rules(self.signature.rules),
            self._find_outputs,
        )
        for check in checks:
            try:
                check()
            except RowFault as fault:
                yield fault

    def _dtype_names(self) -> Iterator[str]:
        for index in self.signature.indices:
            if isinstance(index.kind, DTypeKind) and index.name in self.given:
                yield self.given[index.name]
        for param in self.signature.params:
            kind = param.kind.of if isinstance(param.kind, MaybeKind) else param.kind
            if isinstance(kind, DTypeKind) and self.params[param.name] is not None:
                yield self.params[param.name]

    def value(self, expr: Expr) -> Any:
        """The value of an expression.

        Raises:
            RowFault: It has none: an index is missing, or values are outside a domain.
        """
        try:  # this is asked very often
            return self.bindings.value(expr)
        except _NO_VALUE as error:
            raise _fault(error) from None

    def _passed(self, item: Input) -> bool:
        if isinstance(item.optional, bool):
            return not item.optional or item.name in self.some
        return bool(self.value(item.optional))

    def _given(self, item: Input) -> Fact | None:
        return self._fact(item) if self.bindings[item.name] else None

    def _fact(self, item: TensorDecl) -> Fact:
        shape = self.axes(item)
        if any(length < 0 for length in shape):
            raise RowFault(f"{item.name} would have the shape {shape}")
        return self.value(item.dtype), shape

    def axes(self, item: TensorDecl) -> tuple[int, ...]:
        """The lengths of a tensor's axes, whatever they are."""
        with _faults():
            return axes_of(self.branch(item).axes, self.bindings)

    def branch(self, item: TensorDecl) -> ShapeCase:
        """The case of a tensor's shape that holds."""
        for case in item.shape:
            if case.when is None or self.value(case.when):
                return case
        raise RowFault(f"no case of the shape of {item.name} fits")

    def used(self) -> set[str]:
        """The names that the call's branch reads to settle its tensors' facts.

        Raises:
            RowFault: A tensor's facts have no value.
        """
        used: set[str] = set()
        given = (*self.signature.construction_tensors, *self.signature.inputs)
        for item in given:
            if self.bindings.get(item.name, self) is self:  # nobody has asked yet
                self.bindings[item.name] = _PASSED if self._passed(item) else None
        for item in given:
            if self.bindings[item.name] is None:
                continue
            case = self.branch(item)
            with self.bindings.reading() as names:
                self.value(item.dtype)
                with _faults():
                    axes_of(case.axes, self.bindings)
                if item.values is not None:
                    self.arguments(item)
            used |= names
        return used

    def _check_indices(self) -> None:
        for name in sorted(self.given.keys() - self.used()):
            raise RowFault(f"it gives {name}, which its branch does not use")

    def _check_rules(self, rules: Sequence[Rule]) -> None:
        for rule in rules:
            if not self.value(rule.expr):
                raise RowFault(f"{rule.text} does not hold")

    def _find_outputs(self) -> None:
        for output in self.signature.outputs:
            there = output.nullable is None or not self.value(output.nullable)
            self.outputs[output.name] = self._fact(output) if there else None

    # -- metadata -------------------------------------------------------------------------

    def metadata(self, seed: int, made: Made | None = None) -> dict[str, Nested]:
        """The values of every passed input that has a generator, checked against ``requires``.

        Args:
            seed: Decides what random generators draw.
            made: What was made for calls like this one, whose values it shares.

        Raises:
            RowFault: A generator refuses its arguments, or gives what the entry does not accept.
        """
        made = Made() if made is None else made
        found: dict[str, Nested] = {}
        for item in self.signature.inputs:
            fact = self.inputs[item.name]
            if item.values is None or fact is None:
                continue
            with _faults(f"{item.name}: "):
                found[item.name] = self._values(item, fact, seed, made)
        for item in self.signature.inputs:
            if item.name in found:
                for requirement in item.requires:
                    self._check_requirement(item, requirement, found, made)
        return found

    def _values(self, item: Input, fact: Fact, seed: int, made: Made) -> Nested:
        assert item.values is not None
        generator = GENERATORS[item.values.function]
        args = self.arguments(item)
        dtype, shape = fact
        gives = generator.shape_of(args)
        if gives != shape:
            raise RowFault(
                f"{item.name} is {item.shape_text} = {shape}, {generator.name} gives {gives}"
            )
        values = made.values(item, args, f"{seed}/{item.name}")
        violation = made.unheld(item, values, dtype)
        if violation is not None:
            raise RowFault(f"{told(item.name, violation)}, or {dtype} does not hold it")
        return values

    def arguments(self, item: Input) -> tuple[Any, ...]:
        """What the generator of a metadata tensor is given."""
        assert item.values is not None
        return arguments(item.values, self.value, {})

    def _check_requirement(
        self, item: Input, requirement: Requirement, found: Mapping[str, Nested], made: Made
    ) -> None:
        others = {name: found[name] for name in requirement.tensors}
        args = arguments(requirement.call, self.value, others)
        violation = made.violation(item, requirement, found[item.name], args)
        if violation is not None:
            raise RowFault(f"{told(item.name, violation)} ({requirement.text})")


def told(name: str, violation: Violation) -> str:
    """A violation as a clause: ``cu_seqlens[3] is 7, the last offset must be 9``."""
    place = "".join(f"[{i}]" for i in violation.place)
    return f"{name}{place} is {violation.value}, {violation.message}"


def per_axis(kind: Any, value: Any) -> Any:
    """A value as expressions read it: one int for all axes is one for each."""
    kind = kind.of if isinstance(kind, MaybeKind | WordOrKind) else kind
    kind = kind.of if isinstance(kind, WordOrKind) else kind
    if isinstance(kind, IntTupleKind) and type(value) is int:
        return (value,) * kind.length
    return value


@contextmanager
def _faults(what: str = "") -> Iterator[None]:
    """What an evaluation raises, as a fault of the row."""
    try:
        yield
    except _NO_VALUE as error:
        raise _fault(error, what) from None


_NO_VALUE = (MissingIndexError, ValueError, ArithmeticError, LookupError)


def _fault(error: Exception, what: str = "") -> RowFault:
    if isinstance(error, MissingIndexError):
        return RowFault(f"its branch uses {error}, which the row does not give")
    return RowFault(f"{what}{error}")
