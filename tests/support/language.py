"""The features of the manifest's language, what they mean, and where each is used: the page
``docs/language.md``, which ``python tests/support/language.py`` writes anew.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import metadata_ops
import yaml

from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature
from tileops_core.spec import expressions
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.spec.expressions import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Unary
from tileops_core.validate.language import SAMPLES, Topic, topics

SUPPORT = Path(__file__).parent
PAGE = SUPPORT.parents[1] / "docs" / "language.md"


@attrs.frozen
class Feature:
    """One feature: its group and name, and whether an entry uses it."""

    group: str
    name: str
    used: Callable[[Any, Signature], bool] = attrs.field(repr=False)


# -- where features are used --------------------------------------------------------------


@cache
def entries() -> dict[str, tuple[Any, Signature]]:
    """Entries as plain YAML and as signatures: the installed ones, then those of the tests.

    Those of the tests are called by their file and name.
    """
    found: dict[str, tuple[Any, Signature]] = {}
    for path in sorted((files("tileops_manifest") / "spec").iterdir(), key=lambda p: p.name):
        if path.name.endswith(".yaml") and path.name != "types.yaml":
            found.update(_in_text(path.read_text(encoding="utf-8"), ""))
    found = dict(sorted(found.items()))
    for name in ("gallery.yaml", "hard_entries.yaml"):
        text = (SUPPORT / name).read_text(encoding="utf-8")
        found.update(_in_text(text, f"tests/support/{name}: "))
    for op, entry in metadata_ops.SPECS.items():
        found[f"tests/support/metadata_ops.py: {op}"] = entry, metadata_ops.signature_of(op)
    return found


def _in_text(text: str, before: str) -> Iterator[tuple[str, tuple[Any, Signature]]]:
    file = ManifestFile("some.yaml", text)
    for op, entry in yaml.safe_load(text).items():
        yield f"{before}{op}", (entry, build_signature(file.load(op)))


def use_of(feature: Feature) -> str | None:
    """The first entry that uses a feature."""
    return next((name for name, parts in entries().items() if feature.used(*parts)), None)


# -- the features -------------------------------------------------------------------------


Used = Callable[[Any, Signature], bool]


@cache
def features() -> tuple[Feature, ...]:
    """Every feature of the language, as the library's own tables list them."""
    return tuple(
        Feature(topic.group, topic.name, _use(topic)) for topic in topics() if topic.group in _USES
    )


def _use(topic: Topic) -> Used:
    return _USES[topic.group](topic.name)


def _below(entry: Any, part: str) -> list[Any]:
    return list(entry["signature"].get(part, {}).values())


def _key_of(find: Callable[[Any], list[Any]]) -> Callable[[str], Used]:
    return lambda key: lambda entry, _: any(key in item for item in find(entry))


def _tensors_among_params(entry: Any) -> list[Any]:
    return [param for param in _below(entry, "params") if "shape" in param]


def _cases(entry: Any) -> list[Any]:
    return [case for family in _below(entry, "types") for case in family["cases"]]


def _condition(name: str) -> Used:
    key = name.split()[0]
    return lambda entry, _: any(isinstance(i.get(key), str) for i in _below(entry, "inputs"))


def _index(name: str) -> Used:
    kind = name.partition("[a")[0]
    return lambda entry, _: any(
        str(text).startswith(kind) for text in entry["signature"].get("forall", {}).values()
    )


_TYPES: Mapping[str, str] = {
    "bool": r"bool",
    "int": r"int",
    "float": r"float",
    "str": r"str",
    "Number": r"Number( \| None)?",
    "int | float": r"int \| float",
    "int | None": r"int \| None",
    "float | None": r"float \| None",
    "'a' | 'b'": r"'[^|]*'( \| '[^|]*')*",
    "'a' | 'b' | None": r"'[^|]*'( \| '[^|]*')* \| None",
    "float16 | float32": r"\w+\d+\w*( \| \w+\d+\w*)*",
    "float16 | float32 | None": r"\w+\d+\w*( \| \w+\d+\w*)* \| None",
    "torch.dtype": r"torch\.dtype",
    "torch.device | str | None": r"torch\.device \| str \| None",
    "list[int] | tuple[int, ...]": r"list\[int\] \| tuple\[int, \.\.\.\]",
    "int | list[int] | tuple[int, ...]": r"int \| list\[int\] \| tuple\[int, \.\.\.\]",
    "int | list[int] | tuple[int, ...] | None": r"int \| list\[int\] \| tuple.* \| None",
    "int | tuple[int, int]": r"int \| tuple\[int(, int)*\]",
    "int | tuple[int, int] | None": r"int \| tuple\[int(, int)*\] \| None",
    "int | tuple[int, int] | 'valid' | 'same'": r"int \| tuple\[int(, int)*\]( \| '\w+')+",
    "int | None | tuple[int | None, int | None] | list[int | None]": r".*list\[int \| None\].*",
    "a sealed sum of types.yaml": r"MGroupedLayout",
    "an object of a class (opaque)": r"RoutingEpilogueSpec( \| None)?",
}
"""What the texts of the types of parameters look like."""


def _type(name: str) -> Used:
    pattern = re.compile(_TYPES[name])
    return lambda entry, _: any(
        pattern.fullmatch(str(param.get("type", ""))) for param in _below(entry, "params")
    )


_CASES: Mapping[str, Callable[[Any], bool]] = {
    "a boolean": lambda when: isinstance(when, bool),
    "a word": lambda when: isinstance(when, str),
    "several at once": lambda when: isinstance(when, list),
    "{form: _}": lambda when: "'_'" in repr(when),
    "{form: {field: value}}": lambda when: bool(re.search(r"\{'\w+': \{'\w+'", repr(when))),
}


def _case(name: str) -> Used:
    return lambda entry, _: any(_CASES[name](case["when"]) for case in _cases(entry))


def expressions_of(value: Any) -> Iterator[Expr]:
    """Every expression node in a signature."""
    if isinstance(value, Expr):
        yield from value.walk()
    elif isinstance(value, tuple | list):
        for item in value:
            yield from expressions_of(item)
    elif isinstance(value, Mapping):
        yield from expressions_of(list(value.values()))
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            yield from expressions_of(getattr(value, field.name))


_NODES: Mapping[str, Callable[[Expr], bool]] = {
    "integers": lambda n: isinstance(n, Const) and type(n.value) is int,
    "floats": lambda n: isinstance(n, Const) and type(n.value) is float,
    "inf": lambda n: isinstance(n, Const) and n.value == float("inf"),
    "words": lambda n: isinstance(n, Const) and isinstance(n.value, str),
    "True and False": lambda n: isinstance(n, Const) and isinstance(n.value, bool),
    "tuples": lambda n: isinstance(n, expressions.TupleOf),
    "x if c else y": lambda n: isinstance(n, IfElse),
    "v[i]": lambda n: isinstance(n, expressions.Index),
    "v[a:b]": lambda n: isinstance(n, expressions.Slice),
    "v.value": lambda n: isinstance(n, expressions.Field) and n.name == "value",
    "v.kind": lambda n: isinstance(n, expressions.Field) and n.name == "kind",
    "a field of a form": lambda n: (
        isinstance(n, expressions.Field) and n.name not in ("value", "kind")
    ),
    "element for x in sequence": lambda n: isinstance(n, expressions.Each),
    "*S among axes": lambda n: isinstance(n, expressions.Splice),
    "*primitive(...) among axes": lambda n: (
        isinstance(n, expressions.Splice) and isinstance(n.value, expressions.Call)
    ),
    "keyword arguments": lambda n: isinstance(n, expressions.Call) and bool(n.keywords),
    "a chain of comparisons": lambda n: isinstance(n, Compare) and len(n.rest) > 1,
}


def _node(fits: Callable[[Expr], bool]) -> Used:
    return lambda _, signature: any(map(fits, expressions_of(signature)))


def _operator(name: str) -> Used:
    unary = {"- x": "-", "not x": "not"}.get(name)
    if unary:
        return _node(lambda n: isinstance(n, Unary) and n.op == unary)
    if name in ("and", "or"):
        return _node(lambda n: isinstance(n, BoolOp) and n.op == name)
    return _node(
        lambda n: (
            (isinstance(n, Binary) and n.op == name)
            or (isinstance(n, Compare) and name in dict(n.rest))
        )
    )


def _function(name: str) -> Used:
    return _node(lambda n: isinstance(n, Call) and n.function == name)


_USES: Mapping[str, Callable[[str], Used]] = {
    "key of the entry": _key_of(lambda e: [e]),
    "key of the signature": _key_of(lambda e: [e["signature"]]),
    "key of the parameter": _key_of(lambda e: [p for p in _below(e, "params") if "type" in p]),
    "key of the parameter that is a tensor": _key_of(_tensors_among_params),
    "key of the input": _key_of(lambda e: _below(e, "inputs")),
    "key of the output": _key_of(lambda e: _below(e, "outputs")),
    "key of the type family": _key_of(lambda e: _below(e, "types")),
    "key of the case": _key_of(_cases),
    "key of the roofline": _key_of(lambda e: [e.get("roofline", {})]),
    "key of the composition": _key_of(lambda e: [e.get("composition", {})]),
    "key of the stage": _key_of(lambda e: e.get("composition", {}).get("stages", [])),
    "key of the row": _key_of(lambda e: e["workloads"]),
    "condition": _condition,
    "kind of an index": _index,
    "type of a parameter": _type,
    "case of a type family": _case,
    "expression": lambda name: _node(_NODES[name]),
    "operator": _operator,
    "primitive": _function,
    "generator": _function,
    "predicate": _function,
    "function of lists in rows": lambda name: lambda entry, _: f"{name}(" in str(entry),
}
"""How to see that an entry uses a feature of each group."""


# -- the page -----------------------------------------------------------------------------


def page() -> str:
    """The page, with a use for every feature that has one."""
    lines = [
        "# The language of entries",
        "",
        "What an entry may say, what it means, and an entry that says it: an op's, else one that",
        "is there for tests. `tileops validate --explain WORD` shows one word of it. Tests compare",
        "this page with the library's own tables and with the entries, and fail when a feature is",
        "missing here or is not used where the page says; they evaluate the examples too.",
        "",
        "In the examples these names have values:",
        "",
        *(f"- `{name}`: {sample.said}" for name, sample in SAMPLES.items()),
    ]
    uses = {(feature.group, feature.name): use_of(feature) for feature in features()}
    for group in dict.fromkeys(topic.group for topic in topics()):
        lines += _section([topic for topic in topics() if topic.group == group], uses)
    return "\n".join([*lines, ""])


def _section(of_group: list[Topic], uses: Mapping[tuple[str, str], str | None]) -> Iterator[str]:
    group = of_group[0].group
    shown = any(topic.examples and not topic.signature for topic in of_group)
    columns = ["feature", "meaning", *["example"] * shown, *["used by"] * (group in _USES)]
    yield from ("", f"## {group}", "", _row(columns), _row(["---"] * len(columns)))
    for topic in of_group:
        cells = [f"`{topic.name}`", topic.brief if topic.signature else topic.meaning[0]]
        if shown:
            cells.append("; ".join(f"`{text}` is `{value}`" for text, value in topic.examples))
        if group in _USES:
            cells.append(uses[group, topic.name] or "-")
        yield _row(cells)
    for topic in of_group:
        if topic.signature:
            yield from _function_text(topic)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _function_text(topic: Topic) -> Iterator[str]:
    called, _, gives = topic.signature.partition(" gives ")
    yield from ("", f"### {topic.name}", "")
    yield from _wrapped(f"`{called}`{f' gives {gives}' if gives else ''}")
    for part in topic.meaning:
        yield from ("", *(line for text in part.splitlines() for line in _wrapped(text)))
    yield from ("", "```text")
    for text, value in topic.examples:
        yield from (f">>> {text}", value)
    yield "```"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 100, subsequent_indent="  " if text.startswith("- ") else "")


def rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Group, feature and use of each row of a page."""
    group = ""
    for line in text.splitlines():
        if line.startswith("## "):
            group = line[3:]
        elif line.startswith("| `"):
            name, *_, use = re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |"))
            if group in _USES:
                yield group, name.strip("`").replace("\\|", "|"), use


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
