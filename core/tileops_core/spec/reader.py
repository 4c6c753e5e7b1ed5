"""YAML nodes as a Spec, with every problem noted and none of them the end of reading."""

from __future__ import annotations

import attrs

from tileops_core.spans import Span
from tileops_core.spec.entries import (
    UNREADABLE,
    CaseEntry,
    ComboEntry,
    CompositionEntry,
    FamilyEntry,
    IndexEntry,
    InputEntry,
    LetEntry,
    OutputEntry,
    ParamEntry,
    Pattern,
    RooflineEntry,
    RowEntry,
    RuleEntry,
    Spec,
    StageEntry,
    Written,
)
from tileops_core.spec.fields import (
    Fields,
    bindings,
    expression_of,
    plain_value,
    shape_of,
    text_of,
    text_or_empty,
)
from tileops_core.spec.problems import Problems
from tileops_core.spec.yaml_nodes import AnyNode, Mapping, Scalar, Sequence

_ENTRY = ("family", "status", "ref_api", "signature", "workloads", "roofline", "composition")
_SIGNATURE = (
    "forall", "params", "inputs", "outputs", "types", "let", "shape_rules", "dtype_combos",
)  # fmt: skip
_PARAM = ("type", "default", "kw_only")
_TENSOR_PARAM = ("dtype", "shape", "optional", "kw_only")
_INPUT = (
    "dtype", "shape", "optional", "kw_only", "contiguous", "mutated", "write_only", "device",
    "values", "requires",
)  # fmt: skip
_OUTPUT = ("dtype", "shape", "nullable", "buffer", "alias", "contiguous")
_FAMILY = ("params", "match", "cases")
_CASE = ("when", "is")
_ROOFLINE = ("flops", "bytes", "func")
_COMPOSITION = ("kind", "stages")
_STAGE = ("name", "op", "optional")
_ROW = ("label", "some", "dtype_cases", "small")
SPEC_ONLY = "spec-only"
STATUSES = ("implemented", SPEC_ONLY)


def read_entry(op: str, node: AnyNode | None, span: Span, problems: Problems) -> Spec:
    """An entry's node as a Spec.

    Args:
        op: The entry's key.
        node: The entry's value; None when it could not be read at all.
        span: Where the key stands.
        problems: Receives what is wrong; the Spec carries a copy of all of it.
    """
    fields = Fields(node, "the entry", _ENTRY, problems)
    complete = isinstance(node, Mapping)
    for key in ("family", "status", "signature", "workloads") if complete else ():
        fields.require(key, span)
    signature = Fields(fields.node("signature"), "signature", _SIGNATURE, problems)
    if fields.has("signature"):
        signature.require("outputs", span, "an op without outputs has the line outputs: {}")
    rows = [_row(item, problems) for item in fields.items("workloads")]
    if fields.has("workloads") and not rows:
        problems.add("missing-key", "workloads has no row", fields.place("workloads") or span)
    spec = Spec(
        op=op,
        family=fields.text("family") or "",
        status=fields.text("status", STATUSES) or SPEC_ONLY,
        ref_api=fields.text("ref_api"),
        forall=tuple(
            IndexEntry(name, kind, place)
            for name, place, value in signature.named("forall")
            if (kind := text_of(value, f"the kind of {name}", problems))
        ),
        params=tuple(_param(*item, problems) for item in signature.named("params")),
        inputs=tuple(_input(*item, problems) for item in signature.named("inputs")),
        outputs=tuple(_output(*item, problems) for item in signature.named("outputs")),
        types=tuple(_family(*item, problems) for item in signature.named("types")),
        lets=tuple(
            LetEntry(name, expression_of(value, f"let {name}", problems), place)
            for name, place, value in signature.named("let")
        ),
        rules=tuple(rule_of(item, problems) for item in signature.items("shape_rules")),
        dtype_combos=tuple(_combo(item, problems) for item in signature.items("dtype_combos")),
        composition=_composition(fields, problems),
        roofline=_roofline(fields, problems),
        workloads=tuple(row for row in rows if row),
        span=span,
    )
    return _with_problems(spec, problems)


def _with_problems(spec: Spec, problems: Problems) -> Spec:
    return attrs.evolve(spec, problems=tuple(problems)) if len(problems) else spec


def _param(name: str, span: Span, node: AnyNode, problems: Problems) -> ParamEntry:
    if isinstance(node, Mapping) and {"dtype", "shape"} & node.entries.keys():
        return _tensor_param(name, span, node, problems)
    fields = Fields(node, name, _PARAM, problems)
    fields.require("type", span)
    default = None
    if value := fields.node("default"):
        default = plain_value(value, f"{name}: default", problems)
        default = default or Written(UNREADABLE, value.span)
    stated = fields.written_text("type")
    if stated is not None and not stated.value:
        problems.add("wrong-value", f"{name}: type is empty, the name of a type is due", span)
    return ParamEntry(
        name=name,
        type=stated or Written("", span),
        default=default,
        kw_only=fields.flag("kw_only"),
        tensor=None,
        span=span,
    )


def _tensor_param(name: str, span: Span, node: AnyNode, problems: Problems) -> ParamEntry:
    """A parameter that is a tensor; one that may be left out has the default None."""
    fields = Fields(node, name, _TENSOR_PARAM, problems)
    optional, kw_only = fields.flag("optional"), fields.flag("kw_only")
    tensor = InputEntry(
        **_tensor(fields, name, span, problems),  # type: ignore[arg-type]
        optional=optional,
        kw_only=kw_only,
        contiguous=False,
        mutated=False,
        write_only=False,
        on_cpu=False,
    )
    return ParamEntry(
        name=name,
        type=Written("Tensor | None" if optional else "Tensor", span),
        default=Written(None, span) if optional else None,
        kw_only=kw_only,
        tensor=tensor,
        span=span,
    )


def _tensor(fields: Fields, name: str, span: Span, problems: Problems) -> dict[str, object]:
    for key in ("dtype", "shape"):
        fields.require(key, span)
    dtype, shape = fields.node("dtype"), fields.node("shape")
    return {
        "name": name,
        "dtype": expression_of(dtype, f"{name}: dtype", problems) if dtype else None,
        "shape": shape_of(shape, f"{name}: shape", problems) if shape else None,
        "dtype_text": text_or_empty(fields, "dtype"),
        "shape_text": text_or_empty(fields, "shape"),
        "span": span,
        "dtype_span": _text_span(dtype, span),
        "shape_span": _text_span(shape, span),
    }


def _text_span(node: AnyNode | None, otherwise: Span) -> Span:
    if isinstance(node, Scalar):
        return node.place(0, max(1, len(node.text)))
    return node.span if node else otherwise


def _input(name: str, span: Span, node: AnyNode, problems: Problems) -> InputEntry:
    fields = Fields(node, name, _INPUT, problems)
    device = fields.text("device", among=("cpu",))
    return InputEntry(
        **_tensor(fields, name, span, problems),  # type: ignore[arg-type]
        optional=fields.condition("optional"),
        kw_only=fields.flag("kw_only"),
        contiguous=fields.flag("contiguous"),
        mutated=fields.condition("mutated"),
        write_only=fields.flag("write_only"),
        on_cpu=device == "cpu",
        values=fields.expression("values") or (UNREADABLE if fields.has("values") else None),
        requires=tuple(
            rule_of(item, problems, f"{name}: requires") for item in fields.items("requires")
        ),
    )


def _output(name: str, span: Span, node: AnyNode, problems: Problems) -> OutputEntry:
    fields = Fields(node, name, _OUTPUT, problems)
    return OutputEntry(
        **_tensor(fields, name, span, problems),  # type: ignore[arg-type]
        nullable=fields.expression("nullable"),
        buffer=fields.text("buffer", among=("out",)) == "out",
        alias=fields.written_text("alias"),
        contiguous=fields.flag("contiguous"),
    )


def _family(name: str, span: Span, node: AnyNode, problems: Problems) -> FamilyEntry:
    what = f"the type family {name}"
    fields = Fields(node, what, _FAMILY, problems)
    for key in _FAMILY:
        fields.require(key, span)
    params = tuple(
        (param, kind)
        for param, _, value in fields.named("params")
        if (kind := text_of(value, f"{what}: {param}", problems))
    )
    match = fields.node("match")
    matched = match.items if isinstance(match, Sequence) else [match] if match else []
    discriminants = tuple(
        text for item in matched if (text := text_of(item, f"{what}: match", problems))
    )
    cases = tuple(case for item in fields.items("cases") if (case := _case(item, what, problems)))
    return FamilyEntry(name, params, discriminants, cases, span)


def _case(node: AnyNode, what: str, problems: Problems) -> CaseEntry | None:
    fields = Fields(node, f"a case of {what}", _CASE, problems)
    for key in _CASE:
        fields.require(key, node.span)
    when = fields.node("when")
    if when is None:
        return None
    values = [
        _matched(item, f"{what}: when", problems)
        for item in (when.items if isinstance(when, Sequence) else [when])
    ]
    if any(value is None for value in values):
        return None
    return CaseEntry(
        when=tuple(value.value for value in values if value),
        shape=fields.shape("is"),
        span=when.span,
    )


def _matched(node: AnyNode, what: str, problems: Problems) -> Written | None:
    """A boolean, a word, or a pattern ``{constructor: _}`` or ``{constructor: {field: value}}``."""
    if not isinstance(node, Mapping):
        return plain_value(node, what, problems)
    if len(node.entries) != 1:
        problems.add(
            "wrong-value",
            f"{what} names {len(node.entries)} constructors, a pattern names one",
            node.span,
            "write {constructor: _}, or {constructor: {field: value}}",
        )
        return None
    ((constructor, (_, inner)),) = node.entries.items()
    if isinstance(inner, Scalar) and inner.text == "_":
        return Written(Pattern(constructor), node.span)
    bound = bindings(inner, f"{what}: {constructor}", problems)
    fields = tuple((name, written.value) for name, written in bound.items())
    return Written(Pattern(constructor, fields), node.span) if fields else None


def _combo(node: AnyNode, problems: Problems) -> ComboEntry:
    return ComboEntry(bindings(node, "a row of dtype_combos", problems), node.span)


def _composition(fields: Fields, problems: Problems) -> CompositionEntry | None:
    span = fields.place("composition")
    if span is None:
        return None
    composition = Fields(fields.node("composition"), "composition", _COMPOSITION, problems)
    if composition.require("kind", span, "the one kind is composite"):
        composition.text("kind", among=("composite",))
    composition.require("stages", span)
    stages = tuple(
        stage for item in composition.items("stages") if (stage := _stage(item, problems))
    )
    return CompositionEntry(stages, span)


def _stage(node: AnyNode, problems: Problems) -> StageEntry | None:
    fields = Fields(node, "a stage", _STAGE, problems)
    there = [fields.require(key, node.span) for key in ("name", "op")]
    name, op = fields.written_text("name"), fields.written_text("op")
    optional = fields.flag("optional")
    if not all(there) or name is None or op is None:
        return None
    return StageEntry(name, op, optional, node.span)


def rule_of(node: AnyNode, problems: Problems, what: str = "a refinement") -> RuleEntry:
    """A condition, and its text as the entry writes it."""
    text = " ".join(node.text.split()) if isinstance(node, Scalar) else ""
    expr = expression_of(node, what, problems)
    return RuleEntry(text, expr, expr.span if expr else node.span)


def _roofline(fields: Fields, problems: Problems) -> RooflineEntry | None:
    if not fields.has("roofline"):
        return None
    span = fields.place("roofline")
    assert span is not None
    roofline = Fields(fields.node("roofline"), "roofline", _ROOFLINE, problems)
    if roofline.has("flops") == roofline.has("func"):
        problems.add(
            "missing-key",
            "roofline states flops, or func, and not both",
            span,
            "bytes may stand beside flops",
        )
    if roofline.has("func") and roofline.has("bytes"):
        problems.add("unknown-key", "roofline with func has no bytes: func returns both", span)
    return RooflineEntry(
        flops=roofline.expression("flops"),
        bytes=roofline.expression("bytes"),
        func=roofline.text("func"),
        span=span,
    )


def _row(node: AnyNode, problems: Problems) -> RowEntry | None:
    if not isinstance(node, Mapping):
        problems.add("wrong-value", f"a workload row is {node.kind}, a mapping is due", node.span)
        return None
    fields = Fields(node, "the row", (*_ROW, *node.entries), problems)
    if not fields.require("label", node.span):
        return None
    label = fields.written_text("label")
    if label is None:
        return None
    what = f"row {label.value}"
    small = fields.node("small")
    return RowEntry(
        label=label,
        values=bindings(node, what, problems, without=_ROW),
        some=tuple(
            name for item in fields.items("some") if (name := text_of(item, what, problems))
        ),
        dtype_cases=tuple(
            bindings(item, f"{what}: dtype_cases", problems) for item in fields.items("dtype_cases")
        ),
        small=bindings(small, f"{what}: small", problems) if small else None,
        span=label.span,
    )
