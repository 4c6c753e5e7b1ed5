"""The features of the manifest's language, and where each is used: the page ``docs/language.md``.

``python tests/support/language.py`` writes the page anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import metadata_ops
import yaml

from tileops_core.signature.build import build_signature
from tileops_core.signature.generators import GENERATORS
from tileops_core.signature.model import Signature
from tileops_core.signature.predicates import PREDICATES
from tileops_core.signature.primitives import PRIMITIVES
from tileops_core.signature.values import LISTS
from tileops_core.spec import expressions, reader
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.spec.expressions import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Unary

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


def features() -> list[Feature]:
    """Every feature of the language, as the library's own tables list them."""
    return [*_keys(), *_kinds(), *_types(), *_matches(), *_expressions(), *_functions()]


def _keys() -> Iterator[Feature]:
    places: tuple[tuple[str, tuple[str, ...], Callable[[Any], list[Any]]], ...] = (
        ("entry", reader._ENTRY, lambda e: [e]),
        ("signature", reader._SIGNATURE, lambda e: [e["signature"]]),
        ("parameter", reader._PARAM, lambda e: _below(e, "params")),
        ("input", reader._INPUT, lambda e: _below(e, "inputs")),
        ("output", reader._OUTPUT, lambda e: _below(e, "outputs")),
        ("type family", reader._FAMILY, lambda e: _below(e, "types")),
        ("roofline", reader._ROOFLINE, lambda e: [e.get("roofline", {})]),
        ("stage", reader._STAGE, lambda e: e.get("composition", {}).get("stages", [])),
        ("row", reader._ROW, lambda e: e["workloads"]),
    )
    for place, keys, find in places:
        for key in keys:
            yield Feature(
                f"key of the {place}",
                key,
                lambda entry, _, key=key, find=find: any(key in item for item in find(entry)),
            )
    yield Feature(
        "key of the parameter",
        "dtype and shape (a tensor)",
        lambda _, signature: bool(signature.construction_tensors),
    )
    for key in ("optional", "mutated"):
        yield Feature(
            "condition",
            f"{key} under an expression",
            lambda entry, _, key=key: any(
                isinstance(i.get(key), str) for i in _below(entry, "inputs")
            ),
        )


def _below(entry: Any, part: str) -> list[Any]:
    return list(entry["signature"].get(part, {}).values())


def _kinds() -> Iterator[Feature]:
    for kind in ("Dim", "Shape", "DType", "Seq[Int]"):
        yield Feature(
            "kind of an index",
            f"{kind}[a | b]" if kind == "DType" else kind,
            lambda entry, _, kind=kind: any(
                str(text).startswith(kind) for text in entry["signature"].get("forall", {}).values()
            ),
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
"""The types of parameters, and what their texts look like."""


def _types() -> Iterator[Feature]:
    for name, pattern in _TYPES.items():
        yield Feature(
            "type of a parameter",
            name,
            lambda entry, _, pattern=pattern: any(
                re.fullmatch(pattern, str(p.get("type", ""))) for p in _below(entry, "params")
            ),
        )


def _matches() -> Iterator[Feature]:
    def cases(entry: Any) -> list[Any]:
        return [case["when"] for family in _below(entry, "types") for case in family["cases"]]

    forms: Mapping[str, Callable[[Any], bool]] = {
        "a boolean": lambda when: isinstance(when, bool),
        "a word": lambda when: isinstance(when, str),
        "several at once": lambda when: isinstance(when, list),
        "{form: _}": lambda when: "'_'" in repr(when),
        "{form: {field: value}}": lambda when: bool(re.search(r"\{'\w+': \{'\w+'", repr(when))),
    }
    for name, fits in forms.items():
        yield Feature(
            "case of a type family",
            name,
            lambda entry, _, fits=fits: any(map(fits, cases(entry))),
        )


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


def _expressions() -> Iterator[Feature]:
    for name, fits in _NODES.items():
        yield _node("expression", name, fits)
    for op in ("+", "-", "*", "/", "//", "%", "**"):
        yield _node("operator", op, lambda n, op=op: isinstance(n, Binary) and n.op == op)
    for op in ("-", "not"):
        yield _node("operator", f"{op} x", lambda n, op=op: isinstance(n, Unary) and n.op == op)
    for op in ("and", "or"):
        yield _node("operator", op, lambda n, op=op: isinstance(n, BoolOp) and n.op == op)
    for op in ("==", "!=", "<", "<=", ">", ">=", "in", "not in"):
        yield _node("operator", op, lambda n, op=op: isinstance(n, Compare) and op in dict(n.rest))


def _node(group: str, name: str, fits: Callable[[Expr], bool]) -> Feature:
    return Feature(group, name, lambda _, signature: any(map(fits, expressions_of(signature))))


def _functions() -> Iterator[Feature]:
    tables: tuple[tuple[str, Any], ...] = (
        ("primitive", PRIMITIVES),
        ("generator", GENERATORS),
        ("predicate", PREDICATES),
    )
    for group, table in tables:
        for name in table:
            yield _node(
                group, name, lambda n, name=name: isinstance(n, Call) and n.function == name
            )
    for name in LISTS:
        yield Feature(
            "function of lists in rows",
            name,
            lambda entry, _, name=name: f"{name}(" in str(entry),
        )


# -- the page -----------------------------------------------------------------------------


def page() -> str:
    """The page, with a use for every feature that has one."""
    lines = [
        "# The language of entries",
        "",
        "What an entry may say, and an entry that says it: an op's, else one that is there for",
        "tests. A test compares this page with the library's own tables and with the entries, and",
        "fails when a feature is missing here, or is not used where the page says.",
    ]
    group = ""
    for feature in features():
        if feature.group != group:
            group = feature.group
            lines += ["", f"## {group}", "", "| feature | used by |"]
            lines.append("| --- | --- |")
        use = use_of(feature)
        name = feature.name.replace("|", "\\|")
        lines.append(f"| `{name}` | {use or '-'} |")
    return "\n".join([*lines, ""])


def rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Group, feature and use of each row of a page."""
    group = ""
    for line in text.splitlines():
        if line.startswith("## "):
            group = line[3:]
        elif match := re.fullmatch(r"\| `(.+)` \| (.+) \|", line):
            yield group, match[1].replace("\\|", "|"), match[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
