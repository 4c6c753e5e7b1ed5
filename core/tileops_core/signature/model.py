"""A signature: what one entry says, with every name resolved and every expression kind-checked.

Built by :func:`tileops_core.signature.build.build_signature` from a Spec; read by the plan, the
records, the command line and the validator. Holds no torch object: dtypes are short names
(``"float16"``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.kinds import AdtKind, Kind, OpaqueKind
from tileops_core.spans import Span
from tileops_core.spec.expressions import Call, Compare, Expr, Name, TupleOf


class _Required:
    """The default of a parameter that has none."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED = _Required()

Phase = Literal["construction", "domain", "call"]
"""When a refinement is checked, or (without ``domain``) a ``let`` is computed.

construction: reads constructor parameters alone. domain: also presence and dtypes, checked before
any type-family branch is chosen. call: reads solved indices.
"""


@attrs.frozen(slots=True, eq=False, repr=False)
class IndexDecl(EqualByFields):
    """A ``forall`` index: its kind is Dim, Shape, DType or Seq.

    ``row_only``: no tensor carries it; it exists while a workload row is instantiated, as an
    argument of a generator.
    """

    name: str
    kind: Kind
    span: Span = attrs.field(eq=False)
    row_only: bool = False


@attrs.frozen(slots=True, eq=False, repr=False)
class ShapeCase(EqualByFields):
    """A shape on one branch: ``when`` None means always; ``axes`` may hold ``Splice`` nodes.

    The cases of one tensor exclude each other and leave no accepted value out.
    """

    when: Expr | None
    axes: tuple[Expr, ...]


@attrs.frozen(slots=True, eq=False, repr=False)
class TensorDecl(EqualByFields):
    """What inputs and outputs share; ``dtype_text`` and ``shape_text`` are the entry's own."""

    name: str
    dtype: Expr
    shape: tuple[ShapeCase, ...]
    dtype_text: str
    shape_text: str
    span: Span = attrs.field(eq=False)
    dtype_span: Span = attrs.field(eq=False)
    shape_span: Span = attrs.field(eq=False)


@attrs.frozen(slots=True, eq=False, repr=False)
class Requirement(EqualByFields):
    """A predicate on a metadata tensor's values: a call, the tensor itself understood.

    ``tensors`` are the other tensors whose values it reads.
    """

    call: Call
    text: str
    tensors: tuple[str, ...] = ()
    span: Span = attrs.field(eq=False, kw_only=True)


@attrs.frozen(slots=True, eq=False, repr=False)
class Input(TensorDecl):
    """``optional``: False, True, or the condition under which the tensor must be passed (and
    otherwise must not). ``mutated``: False, True, or the condition under which it is written.

    ``values``: the generator with which a workload row makes the tensor's values. ``requires``:
    the predicates that any values of it meet.
    """

    optional: bool | Expr = False
    kw_only: bool = False
    contiguous: bool = False
    mutated: bool | Expr = False
    write_only: bool = False
    on_cpu: bool = False
    values: Call | None = None
    requires: tuple[Requirement, ...] = ()


@attrs.frozen(slots=True, eq=False, repr=False)
class Output(TensorDecl):
    """``nullable``: the condition under which the output is None, or None. ``buffer``: the caller
    may pass ``out=``, dense memory only if ``contiguous``. ``alias``: the written input this output
    is, on branches that write it.
    """

    nullable: Expr | None = None
    buffer: bool = False
    alias: str | None = None
    contiguous: bool = False


@attrs.frozen(slots=True, eq=False, repr=False)
class Param(EqualByFields):
    """A constructor parameter. ``annotation`` is the manifest's type text, for help and stubs.

    ``tensor`` is the type of one that is a tensor (its kind is TENSOR), else None.
    """

    name: str
    kind: Kind
    default: Any
    kw_only: bool
    annotation: str
    span: Span = attrs.field(eq=False)
    tensor: Input | None = None

    @property
    def help(self) -> str:
        """The type in full: of a tensor, its dtype and shape too."""
        if self.tensor is None:
            return self.annotation
        return f"{self.annotation}, {self.tensor.dtype_text} {self.tensor.shape_text}"


@attrs.frozen(slots=True, eq=False, repr=False)
class Let(EqualByFields):
    """A named quantity; the signature lists them so that each reads only earlier ones."""

    name: str
    kind: Kind
    expr: Expr
    phase: Phase
    span: Span = attrs.field(eq=False)


@attrs.frozen(slots=True, eq=False, repr=False)
class Rule(EqualByFields):
    """A refinement; ``text`` is the entry's own."""

    expr: Expr
    text: str
    phase: Phase
    span: Span = attrs.field(eq=False)


@attrs.frozen(slots=True, eq=False, repr=False)
class DTypeCombos(EqualByFields):
    """Which dtypes of several indices and parameters go together; any other choice is refused."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    span: Span = attrs.field(eq=False)

    def allow(self, dtypes: Mapping[str, Any]) -> bool:
        """Whether these dtypes, by short names, stand in one row."""
        return tuple(dtypes[name] for name in self.names) in self.rows

    @property
    def text(self) -> str:
        """The rows as a condition: ``(T, KV) in ((float16, float16), ...)``."""
        rows = ", ".join(f"({', '.join(row)})" for row in self.rows)
        return f"({', '.join(self.names)}) in ({rows}{',' if len(self.rows) == 1 else ''})"

    def condition(self) -> Expr:
        """The rows as a refinement."""

        def together(names: tuple[str, ...]) -> TupleOf:
            return TupleOf(
                items=tuple(Name(id=name, span=self.span) for name in names), span=self.span
            )

        rows = TupleOf(items=tuple(map(together, self.rows)), span=self.span)
        return Compare(first=together(self.names), rest=(("in", rows),), span=self.span)


@attrs.frozen(slots=True, eq=False, repr=False)
class Stage(EqualByFields):
    """A named place of a composite op and the op held there; ``optional``: not by every instance
    or call.
    """

    name: str
    op: str
    optional: bool
    span: Span = attrs.field(eq=False)


@attrs.frozen(slots=True, eq=False, repr=False)
class Composition(EqualByFields):
    """The stages of a composite op, in their order."""

    stages: tuple[Stage, ...]
    span: Span = attrs.field(eq=False)


@attrs.frozen(slots=True, eq=False, repr=False)
class Roofline(EqualByFields):
    """``flops`` and ``bytes`` inline (``bytes`` None: derived from effects), or ``func``."""

    flops: Expr | None
    bytes: Expr | None
    func: str | None
    span: Span = attrs.field(eq=False)


@attrs.frozen(slots=True, eq=False, repr=False)
class Workload(EqualByFields):
    """A row: parameters given, the optional tensors passed, index values, dtype cases."""

    label: str
    params: Mapping[str, Any]
    some: tuple[str, ...]
    indices: Mapping[str, Any]
    dtype_cases: tuple[Mapping[str, str], ...]
    small: Mapping[str, Any] | None
    span: Span = attrs.field(eq=False)


@attrs.frozen(slots=True, eq=False, repr=False)
class Signature(EqualByFields):
    """One op's contract. Tuples keep the entry's order, but ``lets`` are sorted by need."""

    op: str
    family: str
    status: Literal["implemented", "spec-only"]
    ref_api: str | None
    indices: tuple[IndexDecl, ...]
    params: tuple[Param, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    lets: tuple[Let, ...]
    rules: tuple[Rule, ...]
    roofline: Roofline | None
    workloads: tuple[Workload, ...]
    entry_hash: str
    span: Span = attrs.field(eq=False)
    adts: tuple[AdtKind | OpaqueKind, ...] = ()
    dtype_combos: DTypeCombos | None = None
    composition: Composition | None = None

    def kind_of(self, name: str) -> Kind:
        """The kind of an index, parameter, let or tensor. Raises KeyError for other names."""
        return self._kinds()[name]

    def _kinds(self) -> dict[str, Kind]:
        from tileops_core.signature.kinds import TENSOR

        kinds: dict[str, Kind] = {d.name: d.kind for d in self.indices}
        kinds.update((p.name, p.kind) for p in self.params)
        kinds.update((d.name, d.kind) for d in self.lets)
        kinds.update((t.name, TENSOR) for t in (*self.inputs, *self.outputs))
        return kinds

    @property
    def construction_tensors(self) -> tuple[Input, ...]:
        """The types of the parameters that are tensors."""
        return tuple(param.tensor for param in self.params if param.tensor is not None)

    @property
    def out_buffer(self) -> Output | None:
        """The output that a caller may pass as ``out``, if the entry has one."""
        return next((o for o in self.outputs if o.buffer), None)
