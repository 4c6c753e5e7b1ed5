from __future__ import annotations

import pytest

from tileops_core.spec.catalogue import shared_types
from tileops_core.spec.shared_types import SharedTypes

TEXT = """\
Layout:
  rows:
    python: acme.Rows
    fields: {count: int, order: "'up' | 'down'"}
    invariant:
      - count > 0
  none: {python: acme.NoRows}

Epilogue:
  python: acme.Epilogue
"""


def types_of(text):
    return SharedTypes(lambda: text)


def test_a_sealed_sum_has_forms_with_fields_and_invariants():
    entry = types_of(TEXT).get("Layout")
    rows, none = entry.constructors
    assert (rows.name, rows.python.value) == ("rows", "acme.Rows")
    assert [(name, kind.value) for name, kind in rows.fields] == [
        ("count", "int"),
        ("order", "'up' | 'down'"),
    ]
    assert [rule.text for rule in rows.invariant] == ["count > 0"]
    assert (none.fields, none.invariant) == ((), ())


def test_a_type_with_the_one_key_python_is_opaque():
    entry = types_of(TEXT).get("Epilogue")
    assert (entry.opaque.value, entry.constructors) == ("acme.Epilogue", ())


def test_the_text_is_read_when_a_type_is_asked_for_and_once():
    asked = []
    types = SharedTypes(lambda: asked.append(1) or TEXT)
    assert asked == []
    assert types.get("Layout") is types.get("Layout")
    assert types.get("Nothing") is None
    assert types.names == ("Layout", "Epilogue")
    assert asked == [1]


@pytest.mark.parametrize("types", [SharedTypes(), types_of(""), types_of("# nothing\n")])
def test_a_manifest_may_share_no_types(types):
    assert (types.names, types.problems, types.get("Layout")) == ((), (), None)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a: ]", "yaml-syntax", 1),
        ("- Layout", "wrong-value", 1),
        ("Layout: rows", "wrong-value", 1),
        ("Layout: {}", "wrong-value", 1),
        ("Layout:\n  rows: {fields: {n: int}}", "missing-key", 2),
        ("Layout:\n  rows: {python: a.B, field: {n: int}}", "unknown-key", 2),
        ("Layout:\n  rows:\n    python: a.B\n    invariant: ['n >']", "expression-syntax", 4),
        ("Layout:\n  rows: {python: a.B, fields: {class: int}}", "bad-name", 2),
        ("Layout: {python: a.B, rows: {python: a.C}}", "unknown-key", 1),
        ("Layout: {python: a.B}\nLayout: {python: a.C}", "duplicate-key", 2),
    ],
)
def test_each_fault_is_noted_where_it_stands(text, code, line):
    (problem,) = types_of(text).problems
    assert (problem.code, problem.span.path, problem.span.line) == (code, "types.yaml", line)


def test_a_fault_in_one_type_leaves_the_others_whole():
    types = types_of(f"{TEXT}\nBroken: 1\n")
    assert types.get("Broken").problems
    assert not types.get("Layout").problems


def test_the_installed_manifest_shares_what_the_ops_need():
    assert shared_types().names == ("MGroupedLayout", "RoutingEpilogueSpec")
    assert shared_types().problems == ()
