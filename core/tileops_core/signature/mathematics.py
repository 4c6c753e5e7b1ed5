"""A signature as a type: what it quantifies over, takes, gives and requires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby

from tileops_core.signature.kinds import DTypeKind
from tileops_core.signature.model import (
    REQUIRED,
    IndexDecl,
    Input,
    Output,
    Param,
    ShapeCase,
    Signature,
    Stage,
    TensorDecl,
)
from tileops_core.signature.notation import kind_name, list_of, parameter, text_of
from tileops_core.spans import Span
from tileops_core.spec.entries import CaseEntry, FamilyEntry, Pattern
from tileops_core.spec.expressions import ShapeExpr

WIDTH = 98
"""No line is longer, as long as there is a place to break it."""

_INDENT = 11

_RANKS = (
    ("if", "else", "for", "|"),
    ("or",),
    ("and",),
    ("not", "in", "==", "!=", "<", "<=", ">", ">="),
    ("+", "-"),
    ("*", "/", "//", "%", "**"),
)
"""Operators in front of which a line may be broken, the best ones first."""

_RANK = {operator: rank for rank, operators in enumerate(_RANKS) for operator in operators}


def as_mathematics(
    signature: Signature,
    families: Sequence[FamilyEntry] = (),
    comment: Callable[[Span], Sequence[str]] = lambda span: (),
) -> str:
    """The type of the op, on several lines.

    Args:
        signature: The op's signature.
        families: Its type families; without them their applications are told, one by one.
        comment: What the entry's author says about a quantity or a refinement, by its place.
    """
    lines = [*_quantifiers(signature)]
    given = [_named(output) for output in signature.outputs]
    groups = [given if len(given) == 1 else _bracketed(given)]
    groups.insert(0, _bracketed(_with_star(signature.inputs, _named)))
    if signature.params:
        groups.insert(0, _bracketed(_with_star(signature.params, _param)))
    for number, group in enumerate(groups):
        lines += _fitted(group, "  → " if number else "  ")

    def told(span: Span, text: str) -> Iterator[str]:
        yield from (f"# {line}" for line in comment(span))
        yield from _fill(text, "", "  ", WIDTH - _INDENT)

    lets = [told(let.span, f"{let.name} = {text_of(let.expr)}") for let in signature.lets]
    rules = [told(rule.span, rule.text) for rule in signature.rules]
    stages = signature.composition.stages if signature.composition is not None else ()
    only = [index for index in signature.indices if index.row_only]
    lines += _under("with", chain.from_iterable(lets))
    lines += _under("where", _equations(families) if families else _applied(signature))
    lines += _under("requires", chain.from_iterable(rules))
    lines += _under("stages", map(_stage, stages))
    lines += _under("rows", _grouped(only))
    return "\n".join(lines)


# -- quantifiers, parameters, tensors -----------------------------------------------------


def _quantifiers(signature: Signature) -> Iterator[str]:
    """``Op : ∀ M, N: Dim; T ∈ {float16, float32}.``, broken between kinds if it is long."""
    line = f"{signature.op} :"
    indices = [index for index in signature.indices if not index.row_only]
    for number, group in enumerate(_grouped(indices)):
        text = f"∀ {group}" if number == 0 else f"; {group}"
        if len(line + text) < WIDTH - 1:
            line += f" {text}" if number == 0 else text
        else:
            yield line + (";" if number else "")
            *whole, line = _fill(text.removeprefix("; "), "    ", "      ")
            yield from whole
    yield f"{line}." if indices else line


def _grouped(indices: Iterable[IndexDecl]) -> Iterator[str]:
    """Neighbors of one kind together: ``M, N: Dim``."""
    for sort, some in groupby(indices, _sort):
        yield f"{', '.join(index.name for index in some)}{sort}"


def _sort(index: IndexDecl) -> str:
    if isinstance(index.kind, DTypeKind) and index.kind.members is not None:
        return f" ∈ {{{', '.join(index.kind.members)}}}"
    return f": {kind_name(index.kind)}"


def _with_star(items: Sequence[Param] | Sequence[Input], write: Callable[..., str]) -> list[str]:
    """The items, and a star in front of those that are passed by name."""
    plain = [write(item) for item in items if not item.kw_only]
    named = [write(item) for item in items if item.kw_only]
    return [*plain, *(["*", *named] if named else [])]


def _param(param: Param) -> str:
    if param.tensor is None:
        return parameter(param)
    return _named(param.tensor) + ("" if param.default is REQUIRED else " = None")


def _named(tensor: TensorDecl) -> str:
    return f"{tensor.name}: {_tensor_type(tensor)}"


def _tensor_type(tensor: TensorDecl) -> str:
    written = f"Tensor[{tensor.dtype_text}, {tensor.shape_text}]"
    may_lack = (isinstance(tensor, Input) and tensor.optional is not False) or (
        isinstance(tensor, Output) and tensor.nullable is not None
    )
    return f"{written} | None" if may_lack else written


def _bracketed(items: list[str]) -> list[str]:
    if not items:
        return ["()"]
    return [
        f"{'(' if i == 0 else ' '}{item}{')' if i == len(items) - 1 else ','}"
        for i, item in enumerate(items)
    ]


def _fitted(lines: list[str], before: str) -> Iterator[str]:
    """On one line if they fit there, else each on its own."""
    whole = before + " ".join(line.strip() for line in lines)
    if len(whole) <= WIDTH:
        yield whole
        return
    for number, line in enumerate(lines):
        lead = before if number == 0 else " " * len(before)
        yield from _fill(line, lead, " " * (len(before) + 5))


# -- type families ------------------------------------------------------------------------


def _equations(families: Iterable[FamilyEntry]) -> Iterator[str]:
    """``Mat[trans, M, K] = [M, K] if not trans``, and so on with every case."""
    for family in families:
        head = f"{family.name}[{', '.join(name for name, _ in family.params)}]"
        shapes = [_axes(case.shape) for case in family.cases]
        room = max(map(len, shapes), default=0)
        cases = [
            f"{shape:{room}} if {_condition(family, case)}"
            for case, shape in zip(family.cases, shapes, strict=True)
        ]
        before = f"{head} = "
        if len(before) + max(map(len, cases), default=0) > WIDTH - _INDENT:
            yield head
            before = "  = "
        for number, case in enumerate(cases):
            yield (before if number == 0 else " " * len(before)) + case


def _axes(shape: ShapeExpr | None) -> str:
    return "?" if shape is None else text_of(shape)


def _condition(family: FamilyEntry, case: CaseEntry) -> str:
    matched = [match.value for match in family.match]
    return " and ".join(map(_equal, matched, case.when))


def _equal(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if isinstance(value, Pattern):
        fields = ", ".join(f"{field}={known!r}" for field, known in value.fields)
        return f"{name} is {value.constructor}{f'({fields})' if fields else ''}"
    return f"{name} == {value!r}"


def _applied(signature: Signature) -> Iterator[str]:
    """What a type family's application stands for, once per application."""
    told = set()
    for tensor in (*signature.inputs, *signature.construction_tensors, *signature.outputs):
        if len(tensor.shape) > 1 and tensor.shape_text not in told:
            told.add(tensor.shape_text)
            yield f"{tensor.shape_text} = {'; '.join(map(_case, tensor.shape))}"


def _case(case: ShapeCase) -> str:
    axes = f"[{list_of(case.axes)}]"
    return axes if case.when is None else f"{axes} if {text_of(case.when)}"


def _stage(stage: Stage) -> str:
    return f"{stage.name}: {stage.op}{' | None' if stage.optional else ''}"


# -- lines --------------------------------------------------------------------------------


def _under(word: str, items: Iterable[str]) -> list[str]:
    return [f"  {word if i == 0 else '':{_INDENT - 3}} {item}" for i, item in enumerate(items)]


def _fill(text: str, first: str, others: str, width: int = WIDTH) -> Iterator[str]:
    lines = broken(text, width - len(others))
    return (f"{first if number == 0 else others}{line}" for number, line in enumerate(lines))


def broken(text: str, width: int) -> list[str]:
    """A text on lines of at most ``width`` characters, if there are places to break it.

    It is broken in front of an operator or behind a comma, within as few brackets as possible;
    a line that begins inside of brackets is indented.
    """
    lines, start, inside = [], 0, 0
    depths = _depths(text)
    while len(text) - start + 2 * inside > width:
        last = start + width - 2 * inside
        places = [place for place in range(start + 1, last + 1) if text[place] == " "]
        ranked = [(depths[p], _rank(text, p), -p) for p in places if depths[p] >= 0]
        ranked = [found for found in ranked if found[1] is not None]
        late = [found for found in ranked if -found[2] - start > width // 5] or ranked
        if not late:
            break
        depth, _, place = min(late)
        lines.append("  " * inside + text[start:-place])
        start, inside = 1 - place, depth
    return [*lines, "  " * inside + text[start:]]


def _rank(text: str, place: int) -> int | None:
    """How good it is to break a line here, 0 being best; None where it must not be."""
    if text[place - 1] in ",;":
        return 0
    return _RANK.get(text[place + 1 :].split(" ", 1)[0])


def _depths(text: str) -> list[int]:
    """In how many brackets each character stands, -1 within quotes."""
    depths, depth, quoted = [], 0, False
    for sign in text:
        if sign == "'":
            quoted = not quoted
        elif not quoted and sign in ")]}":
            depth -= 1
        depths.append(-1 if quoted else depth)
        if not quoted and sign in "([{":
            depth += 1
    return depths
