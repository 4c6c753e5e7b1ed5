"""YAML nodes as a Spec, with every problem noted and none of them the end of reading."""

from __future__ import annotations

import attrs

from tileops_core.spans import Span
from tileops_core.spec.entries import (
    UNREADABLE,
    CaseEntry,
    FamilyEntry,
    IndexEntry,
    InputEntry,
    LetEntry,
    OutputEntry,
    ParamEntry,
    RooflineEntry,
    RowEntry,
    RuleEntry,
    Spec,
    Written,
)
from tileops_core.spec.fields import (
    Fields,
    expression_of,
    plain_value,
    shape_of,
    text_of,
    text_or_empty,
)
from tileops_core.spec.problems import Problems
from tileops_core.spec.yaml_nodes import AnyNode, Mapping, Scalar, Sequence

_ENTRY = ("family", "status", "ref_api", "signature", "workloads", "roofline")
_SIGNATURE = ("forall", "params", "inputs", "outputs", "types", "let", "shape_rules")
_PARAM = ("type", "default", "kw_only")
_INPUT = (
    "dtype", "shape", "optional", "kw_only", "contiguous", "mutated", "write_only", "device",
)  # fmt: skip
_OUTPUT = ("dtype", "shape", "nullable", "buffer", "alias")
_FAMILY = ("params", "match", "cases")
_CASE = ("when", "is")
_ROOFLINE = ("flops", "bytes", "func")
_ROW = ("label", "some", "dtype_cases", "small")
STATUSES = ("implemented", "spec-only")


def read_entry(op: str, node: AnyNode | None, span: Span, problems: Problems) -> Spec:
    """An entry's node as a Spec.

    Args:
        op: The entry's key.
        node: The entry's value; None when it could not be read at all.
        span: Where the key stands.
        problems: Receives what is wrong; the Spec carries a copy of all of it.
    """
    fields = Fields(node, "the entry", _ENTRY, problems)
    complete = node is not None
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
        status=fields.text("status", STATUSES) or "spec-only",
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
        rules=tuple(_rule(item, problems) for item in signature.items("shape_rules")),
        roofline=_roofline(fields, problems),
        workloads=tuple(row for row in rows if row),
        span=span,
    )
    return _with_problems(spec, problems)


def _with_problems(spec: Spec, problems: Problems) -> Spec:
    return attrs.evolve(spec, problems=tuple(problems)) if len(problems) else spec


def _param(name: str, span: Span, node: AnyNode, problems: Problems) -> ParamEntry:
    fields = Fields(node, name, _PARAM, problems)
    fields.require("type", span)
    default = None
    if value := fields.node("default"):
        default = plain_value(value, f"{name}: default", problems)
        default = default or Written(UNREADABLE, value.span)
    return ParamEntry(
        name=name,
        type=fields.written_text("type") or Written("", span),
        default=default,
        kw_only=fields.flag("kw_only"),
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
    )


def _output(name: str, span: Span, node: AnyNode, problems: Problems) -> OutputEntry:
    fields = Fields(node, name, _OUTPUT, problems)
    return OutputEntry(
        **_tensor(fields, name, span, problems),  # type: ignore[arg-type]
        nullable=fields.expression("nullable"),
        buffer=fields.text("buffer", among=("out",)) == "out",
        alias=fields.written_text("alias"),
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
    value = plain_value(when, f"{what}: when", problems) if when else None
    if value is None:
        return None
    return CaseEntry(
        when=value.value if isinstance(value.value, tuple) else (value.value,),
        shape=fields.shape("is"),
        span=value.span,
    )


def _rule(node: AnyNode, problems: Problems) -> RuleEntry:
    text = " ".join(node.text.split()) if isinstance(node, Scalar) else ""
    expr = expression_of(node, "a refinement", problems)
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
        values=_bindings(node, what, problems, without=_ROW),
        some=tuple(
            name for item in fields.items("some") if (name := text_of(item, what, problems))
        ),
        dtype_cases=tuple(
            _bindings(item, f"{what}: dtype_cases", problems)
            for item in fields.items("dtype_cases")
        ),
        small=_bindings(small, f"{what}: small", problems) if small else None,
        span=label.span,
    )


def _bindings(
    node: AnyNode, what: str, problems: Problems, without: tuple[str, ...] = ()
) -> dict[str, Written]:
    """Names and plain values of a row."""
    if not isinstance(node, Mapping):
        problems.add("wrong-value", f"{what} is {node.kind}, a mapping is due", node.span)
        return {}
    return {
        name: written
        for name, (_, value) in node.entries.items()
        if name not in without
        and (written := plain_value(value, f"{what}: {name}", problems)) is not None
    }
