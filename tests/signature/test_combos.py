from __future__ import annotations

CHANGES = {
    "forall__U": "DType[int8 | float16]",
    "inputs__w": {"dtype": "U", "shape": "[N]"},
    "workloads": [
        {"label": "row", "M": 2, "N": 3, "S": [], "dtype_cases": [{"T": "float16", "U": "int8"}]}
    ],
}
ROWS = [{"T": "float16", "U": "int8"}, {"T": "float32", "U": "float16"}]


def test_the_rows_are_a_table(build):
    combos = build(**CHANGES, dtype_combos=ROWS).dtype_combos
    assert (combos.names, combos.rows) == (
        ("T", "U"),
        (("float16", "int8"), ("float32", "float16")),
    )
    assert combos.allow({"T": "float16", "U": "int8", "M": 2})
    assert not combos.allow({"T": "float16", "U": "float16"})


def test_the_rows_are_the_first_refinement(build):
    signature = build(**CHANGES, dtype_combos=ROWS, shape_rules=["M > 0"])
    assert [rule.text for rule in signature.rules] == [
        "(T, U) in ((float16, int8), (float32, float16))",
        "M > 0",
    ]
    assert signature.rules[0].phase == "domain"


def test_a_dtype_parameter_may_be_related_to_an_index(build):
    changes = dict(CHANGES, params__dtype={"type": "float16 | float32", "default": "float16"})
    rows = [{"U": "int8", "dtype": "float16"}, {"U": "float16", "dtype": "float32"}]
    assert build(**changes, dtype_combos=rows).dtype_combos.names == ("U", "dtype")


def test_the_order_of_names_within_a_row_does_not_matter(build):
    turned = [ROWS[0], dict(reversed(ROWS[1].items()))]
    assert build(**CHANGES, dtype_combos=turned).dtype_combos.rows[1] == ("float32", "float16")


def test_an_entry_without_rows_relates_nothing(build):
    assert build().dtype_combos is None


def test_a_dtype_without_a_row_is_told(problems):
    (problem,) = problems(**CHANGES, dtype_combos=[ROWS[0], {"T": "float32", "U": "int8"}])
    assert problem.message == "no row of dtype_combos has U: float16"
    assert problem.hint == "add the row, or take float16 out of the kind of U"
