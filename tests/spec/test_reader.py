from __future__ import annotations

import textwrap

import pytest

from tileops_core.spec.catalogue import ManifestFile
from tileops_core.spec.entries import AdtValue, Pattern, Spec
from tileops_core.spec.expressions import Axes, FamilyUse, Name
from tileops_core.spec.problems import Problem

ENTRY = """\
XFwdOp:
  family: test
  status: implemented
  ref_api: torch.bmm
  signature:
    forall: {M: Dim, T: "DType[float16 | float32]"}
    params:
      flag: {type: bool, default: false, kw_only: true}
    inputs:
      x: {dtype: T, shape: "[M]", optional: flag, contiguous: true, mutated: true}
      y: {dtype: T, shape: "Row[flag, M]", optional: true, device: cpu, kw_only: true}
    outputs:
      z: {dtype: T, shape: "[M]", nullable: not flag, buffer: out}
    types:
      Row:
        params: {wide: Bool, N: Dim}
        match: wide
        cases:
          - {when: false, is: "[N]"}
          - {when: true, is: "[N, N]"}
    let:
      W: 2 * M
    shape_rules:
      - >-
        M > 0
        and W > 1
  workloads:
    - label: row
      M: 3
      flag: true
      some: [y]
      dtype_cases: [{T: float16}]
      small: {M: 1}
  roofline:
    flops: 0
"""


def read(text: str) -> Spec:
    return ManifestFile("test.yaml", textwrap.dedent(text)).load("XFwdOp")


def problems(old: str, new: str) -> tuple[Problem, ...]:
    assert old in ENTRY
    return read(ENTRY.replace(old, new)).problems


def test_an_entry_is_read_whole():
    spec = read(ENTRY)
    assert not spec.problems
    assert (spec.op, spec.family, spec.status, spec.ref_api) == (
        "XFwdOp",
        "test",
        "implemented",
        "torch.bmm",
    )
    assert [entry.name for entry in spec.forall] == ["M", "T"]
    (flag,) = spec.params
    assert flag.kw_only
    assert flag.default is not None
    assert flag.default.value is False
    x, y = spec.inputs
    assert isinstance(x.optional, Name)
    assert (x.contiguous, x.mutated, x.on_cpu, x.kw_only) == (True, True, False, False)
    assert (y.optional, y.on_cpu, y.kw_only) == (True, True, True)
    assert isinstance(x.shape, Axes)
    assert isinstance(y.shape, FamilyUse)
    (z,) = spec.outputs
    assert z.buffer
    assert z.nullable is not None
    (family,) = spec.types
    assert [case.when for case in family.cases] == [(False,), (True,)]
    assert spec.rules[0].text == "M > 0 and W > 1"
    (row,) = spec.workloads
    assert {name: written.value for name, written in row.values.items()} == {"M": 3, "flag": True}
    assert [name.value for name in row.some] == ["y"]


def test_declarations_carry_their_places():
    spec = read(ENTRY)
    x = spec.inputs[0]
    assert (x.span.line, x.span.column) == (10, 7)
    assert x.span.short == "test.yaml:10"
    assert x.shape_span.text[x.shape_span.column - 1 :].startswith("[M]")
    (rule,) = spec.rules
    assert rule.span.line == 25


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("  status: implemented", "  statuss: implemented", "did you mean 'status'"),
        ("    shape_rules:", "    shape_rule:", "did you mean 'shape_rules'"),
        ("optional: true,", "optinal: true,", "did you mean 'optional'"),
        ("nullable: not flag", "nulable: flag", "did you mean 'nullable'"),
        ("kw_only: true}\n    inputs", "kw_onyl: true}\n    inputs", "did you mean 'kw_only'"),
        ("        match: wide", "        matches: wide", "did you mean 'match'"),
        ("- {when: false", "- {wen: false", "did you mean 'when'"),
        ("    flops: 0", "    flop: 0", "did you mean 'flops'"),
    ],
)
def test_an_unknown_key_is_refused_with_a_guess(old, new, hint):
    found = [p for p in problems(old, new) if p.code == "unknown-key"]
    assert len(found) == 1
    assert hint in found[0].message
    assert found[0].span.snippet().count("^") == found[0].span.length


@pytest.mark.parametrize("key", ["family", "status", "signature", "workloads"])
def test_a_missing_key_is_named(key):
    lines = ENTRY.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"  {key}:"))
    stop = next(
        (i for i, line in enumerate(lines[start + 1 :], start + 1) if line[2:3].isalpha()),
        len(lines),
    )
    found = read("\n".join(lines[:start] + lines[stop:])).problems
    assert [(p.code, repr(key) in p.message) for p in found] == [("missing-key", True)]


@pytest.mark.parametrize(
    "written", ["[M]", "[M, N]", "['[M]', '[N]']", "{axes: 1}", "7", "null", "true"]
)
def test_a_shape_that_is_not_text_is_refused_and_never_guessed(written):
    """MAN-13."""
    spec = read(ENTRY.replace('x: {dtype: T, shape: "[M]"', f"x: {{dtype: T, shape: {written}"))
    assert [p.code for p in spec.problems] == ["wrong-value"]
    assert spec.inputs[0].shape is None


def test_a_shape_as_a_list_is_told_how_to_be_written():
    """MAN-13."""
    (problem,) = problems('x: {dtype: T, shape: "[M]"', "x: {dtype: T, shape: [M]")
    assert problem.hint.endswith('"[M]"')


@pytest.mark.parametrize("quotes", ["'[M]'", '"[M]"'])
def test_single_and_double_quotes_are_the_same(quotes):
    spec = read(ENTRY.replace('x: {dtype: T, shape: "[M]"', f"x: {{dtype: T, shape: {quotes}"))
    assert spec.inputs[0].shape == read(ENTRY).inputs[0].shape


def test_every_problem_is_reported_not_the_first():
    text = (
        ENTRY.replace("2 * M", "2 @ M").replace("W > 1", "W is None").replace("label: row", "x: 1")
    )
    found = read(text).problems
    assert {p.code for p in found} == {"not-in-language", "use-present", "missing-key"}


def test_what_cannot_be_read_is_left_out_and_the_rest_is_kept():
    spec = read(ENTRY.replace("2 * M", "2 @ M"))
    assert spec.lets[0].expr is None
    assert len(spec.rules) == 1


def test_a_problem_shows_the_text_with_a_caret():
    (problem,) = problems("2 * M", "2 @ M")
    assert str(problem).splitlines() == [
        "let W: '@' is not part of the expression language  [test.yaml:22, not-in-language]",
        "  22 |       W: 2 @ M",
        "                  ^",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("default: false", "default: off"),
        ("M: 3", "M: 010"),
        ("label: row", "label: 2024-01-01"),
        ("flag: true", "flag: yes"),
        ("when: true", "when: on"),
        ("status: implemented", "status: None"),
    ],
)
def test_yaml_traps_are_refused_wherever_a_value_stands(old, new):
    """MAN-08."""
    assert "yaml-trap" in {problem.code for problem in problems(old, new)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("flops: 0", "flops: 0\n    func: a.b"),
        ("    flops: 0", "    bytes: 1"),
    ],
)
def test_a_roofline_is_inline_or_a_function(old, new):
    assert "missing-key" in {problem.code for problem in problems(old, new)}


MORE = """\
XFwdOp:
  family: test
  status: spec-only
  signature:
    forall: {M: Dim, T: "DType[float16]", U: "DType[int8]"}
    params:
      layout: {type: MGroupedLayout, default: {masked: {max_m: 4}}}
      top: {type: float, default: inf}
      table: {dtype: float32, shape: "[M]", optional: true, kw_only: true}
    inputs:
      x: {dtype: T, shape: "Row[layout, M]"}
    outputs:
      z: {dtype: T, shape: "[M]", contiguous: true}
    types:
      Row:
        params: {layout: MGroupedLayout, N: Dim}
        match: [layout, layout]
        cases:
          - {when: [{masked: _}, {contiguous: {packing: tight, alignment: 1}}], is: "[N]"}
    dtype_combos:
      - {T: float16, U: int8}
  composition:
    kind: composite
    stages:
      - {name: first, op: OneFwdOp}
      - {name: second, op: TwoFwdOp, optional: true}
  workloads:
    - label: row
      layout: {contiguous: {packing: tight, metadata_kind: per_row, alignment: 1}}
      M: 3
      dtype_cases: [{T: float16, U: int8}]
"""


def test_what_few_entries_have_is_read_too():
    spec = read(MORE)
    assert spec.problems == ()
    layout, top, table = spec.params
    assert layout.default.value == AdtValue("masked", (("max_m", 4),))
    assert top.default.value == float("inf")
    assert (table.tensor.name, table.tensor.shape_text, table.tensor.optional) == (
        "table",
        "[M]",
        True,
    )
    assert (table.default.value, table.kw_only, table.type.value) == (None, True, "Tensor | None")
    assert spec.outputs[0].contiguous
    (case,) = spec.types[0].cases
    assert case.when == (
        Pattern("masked"),
        Pattern("contiguous", (("packing", "tight"), ("alignment", 1))),
    )
    assert [str(pattern) for pattern in case.when] == [
        "{masked: _}",
        "{contiguous: {packing: tight, alignment: 1}}",
    ]
    (combo,) = spec.dtype_combos
    assert {name: dtype.value for name, dtype in combo.dtypes.items()} == {
        "T": "float16",
        "U": "int8",
    }
    first, second = spec.composition.stages
    assert (first.name.value, first.op.value, first.optional) == ("first", "OneFwdOp", False)
    assert (second.name.value, second.op.value, second.optional) == ("second", "TwoFwdOp", True)
    assert str(spec.workloads[0].values["layout"].value) == (
        "{contiguous: {packing: tight, metadata_kind: per_row, alignment: 1}}"
    )


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("{masked: _}", "{masked: _, contiguous: _}", "wrong-value"),
        ("{masked: _}", "{masked: 1}", "wrong-value"),
        ("{masked: _}", "[masked]", None),
        ("default: {masked: {max_m: 4}}", "default: {masked: 4}", "wrong-value"),
        ("default: {masked: {max_m: 4}}", "default: {a: {b: 1}, c: {d: 2}}", "wrong-value"),
        ("optional: true, kw_only: true}", "default: null}", "unknown-key"),
        ("optional: true, kw_only: true}", "optional: M > 1}", "wrong-value"),
        ("contiguous: true", "contiguous: M > 1", "wrong-value"),
        ("{T: float16, U: int8}\n  comp", "T\n  comp", "wrong-value"),
        ("kind: composite", "kind: pipeline", "wrong-value"),
        ("kind: composite\n", "\n", "missing-key"),
        ("kind: composite", "kind: composite\n    note: 1", "unknown-key"),
        (", op: OneFwdOp", "", "missing-key"),
        ("op: OneFwdOp", "op: OneFwdOp, when: 1", "unknown-key"),
        ("default: inf", "default: .inf", "yaml-trap"),
    ],
)
def test_what_few_entries_have_is_refused_where_it_is_wrong(old, new, code):
    assert old in MORE
    found = read(MORE.replace(old, new, 1)).problems
    assert [problem.code for problem in found] == ([code] if code else [])


def test_names_are_identifiers_and_no_keywords():
    for name in ("1M", "_M", "class", "M-N", "é"):
        found = problems("{M: Dim,", f"{{{name}: Dim,")
        assert [p.code for p in found if p.span.line == 6] == ["bad-name"]


@pytest.mark.parametrize("op", ["A-BFwdOp", "aFwdOp", "FwdOp", "XFwd"])
def test_a_key_that_no_class_can_have_is_told_and_the_entry_read(op):
    spec = ManifestFile("test.yaml", ENTRY.replace("XFwdOp", op)).load(op)
    assert [problem.code for problem in spec.problems] == ["op-name"]
    assert len(spec.workloads) == 1


@pytest.mark.parametrize("value", ["1", "[a]", "{a: 1}", "null"])
def test_what_is_no_entry_at_all_is_told_once(value):
    spec = ManifestFile("test.yaml", f"stray: {value}\n").load("stray")
    assert [problem.code for problem in spec.problems] == ["op-name"]


def test_an_entry_that_is_no_mapping_lacks_nothing():
    assert [p.code for p in read("XFwdOp: 1\n").problems] == ["wrong-value"]


@pytest.mark.parametrize("name", ["Test", "class", "a-b"])
def test_a_family_is_called_like_a_module(name):
    (problem,) = problems("family: test", f"family: {name}")
    assert problem.code == "wrong-value"
    assert repr(name) in problem.message


def test_a_table_of_dtypes_has_a_row():
    (problem,) = problems("    let:\n", "    dtype_combos: []\n    let:\n")
    assert problem.code == "missing-key"
    assert "no row" in problem.message


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("family: test", "family: !!str test", "yaml-tag"),
        ("signature:\n", "signature: &a\n", "yaml-tag"),
        ('dtype: T, shape: "[M]", nullable', 'dtype: &t T, shape: "[M]", nullable', "yaml-tag"),
        ("label: row", "label: null", "wrong-value"),
        ("label: row", "label: 0x10", "yaml-trap"),
        ("M: 3", "M: 0x10", "yaml-trap"),
        ("M: 3", "M: 99999999999999999999", "too-large"),
        ("default: false", "default: -9223372036854775808", "too-large"),
    ],
)
def test_what_could_not_be_read_is_told_and_not_missed(old, new, code):
    assert [problem.code for problem in problems(old, new)] == [code]


@pytest.mark.parametrize(
    ("old", "new"),
    [("{M: Dim,", "{M: '',"), ("type: bool", "type: ''"), ("family: test", "family: ''")],
)
def test_empty_text_is_no_kind_type_or_name(old, new):
    assert [problem.code for problem in problems(old, new)] == ["wrong-value"]


@pytest.mark.parametrize("row", ["1", "{label: null}", "{M: 3}", "{label: a, M: 0x1}"])
def test_a_row_of_which_something_could_not_be_read_is_kept_as_such(row):
    text = ENTRY[: ENTRY.index("    - label: row")] + f"    - {row}\n  roofline: {{flops: 0}}\n"
    spec = read(text)
    assert len(spec.problems) == 1
    assert [row.whole for row in spec.workloads] == [False]


def test_where_a_declaration_is_left_out_is_known():
    assert read(ENTRY).left_out == frozenset()
    assert read(ENTRY.replace("x: {dtype", "class: {dtype")).left_out == {"inputs"}
    assert read(ENTRY.replace("params:\n      flag", "params: 1\n    x:\n      flag")).left_out == {
        "params"
    }
