"""What a page says about one op, and about a type that several ops share."""

from __future__ import annotations

from collections.abc import Iterator

from tileops_core.pages.effects import sentences
from tileops_core.pages.manifest import Entry
from tileops_core.pages.markdown import block, code
from tileops_core.pages.prose import Link, paragraphs
from tileops_core.pages.workloads import workloads
from tileops_core.signature.mathematics import WIDTH, as_mathematics, broken
from tileops_core.signature.notation import text_of
from tileops_core.spec.comments import Comments
from tileops_core.spec.entries import ConstructorEntry, SharedTypeEntry

_SHORT = 90


def op_section(entry: Entry, link: Link) -> Iterator[str]:
    """An op: its mathematics, its type, what there is to say of its tensors, its cost, its rows."""
    signature = entry.signature
    reference = f", computes what {code(signature.ref_api)} does" if signature.ref_api else ""
    yield from (f"### {entry.op}", "", f"{signature.status}{reference}", "")
    yield from _with_gap(paragraphs(entry.mathematics, link))
    told = as_mathematics(signature, entry.spec.types, lambda span: entry.comments.above(span.line))
    yield from (*block(told), "")
    yield from _with_gap(list(sentences(signature)))
    yield from _with_gap(list(_cost(entry, link)))
    yield from workloads(signature, entry.comments)


def _with_gap(lines: list[str]) -> list[str]:
    return [*lines, ""] if lines else []


def _cost(entry: Entry, link: Link) -> Iterator[str]:
    """How the author counts, and what is counted; short formulas within the line."""
    cost = entry.signature.roofline
    if cost is None:
        yield "**Cost**: not stated."
        return
    said = paragraphs(entry.comments.below(cost.span.line), link)
    if said and not said[-1].endswith((".", ":", "`")):
        said[-1] += "."
    named = (("flops", cost.flops), ("bytes", cost.bytes))
    formulas = [f"{name} = {text_of(expr)}" for name, expr in named if expr is not None]
    if cost.func is not None:
        said.append(f"{'C' if said else 'c'}ounted by {code(cost.func)}.")
    elif len(formulas) == 1 and len(formulas[0]) <= _SHORT:
        said.append(f"{code(formulas.pop())}.")
    yield f"**Cost**: {said[0]}" if said else "**Cost**:"
    yield from said[1:]
    if formulas:
        yield ""
        yield from block("\n".join(line for formula in formulas for line in _indented(formula)))


def _indented(formula: str) -> list[str]:
    first, *others = broken(formula, WIDTH - 2)
    return [first, *(f"  {line}" for line in others)]


def shared_type_section(entry: SharedTypeEntry, comments: Comments, link: Link) -> Iterator[str]:
    """A type that entries share: its forms, their fields, and what holds of these."""
    yield from (f"### {entry.name}", "")
    yield from _with_gap(paragraphs(comments.below(entry.span.line), link))
    if entry.opaque is not None:
        yield f"An object of the class {code(entry.opaque.value)}."
        return
    yield from block("\n".join(_forms(entry)))
    for form in entry.constructors:
        said = paragraphs(comments.below(form.span.line), link)
        yield from ("", *_form(form, said))


def _forms(entry: SharedTypeEntry) -> Iterator[str]:
    """``Name = form(field: type) | ...``, each form with what its fields must meet."""
    yield entry.name
    for number, form in enumerate(entry.constructors):
        fields = ", ".join(f"{name}: {kind.value}" for name, kind in form.fields)
        first, *others = broken(f"{'|' if number else '='} {form.name}({fields})", WIDTH - 6)
        yield from (f"  {first}", *(f"      {line}" for line in others))
        for i, rule in enumerate(form.invariant):
            yield f"      {'requires' if i == 0 else '':8} {rule.text}"


def _form(form: ConstructorEntry, said: list[str]) -> Iterator[str]:
    python = f", in Python {code(form.python.value)}" if form.python is not None else ""
    yield f"- **{form.name}**{python}" + (":" if said else "")
    yield from (f"  {line}".rstrip() for line in said)
