"""One wrong declaration keeps nothing from being checked but what reads it."""

from __future__ import annotations


def test_a_wrong_rule_hides_no_wrong_row(codes):
    changes = {"signature.shape_rules": "- Q > 0\n- M > 100"}
    assert codes(changes) == ["unknown-name", "row"]


def test_a_wrong_quantity_hides_no_index_that_cannot_be_solved(codes):
    changes = {
        "signature.let": "L: Q + 1\nP: L + 1",
        "signature.inputs": 'x: {dtype: T, shape: "[M * N, *S]"}',
    }
    assert sorted(codes(changes)) == ["row", "unknown-name", "unsolved"] or "unsolved" in codes(
        changes
    )


def test_a_key_too_many_hides_no_wrong_row(codes):
    changes = {
        "signature.inputs": 'x: {dtype: T, shape: "[M, N, *S]", surprise: 1}',
        "signature.shape_rules": "- M > 100",
    }
    assert codes(changes) == ["unknown-key", "row"]


def test_a_wrong_row_hides_no_other_row(codes):
    rows = """
        - {label: first, M: two, N: 3, S: [4], dtype_cases: [{T: float16}]}
        - {label: second, M: 2, N: 3, S: [4], dtype_cases: [{T: float16}]}
        - {label: third, M: 2, N: 3, S: [4], K: 1, dtype_cases: [{T: float16}]}
    """
    changes = {"workloads": rows, "signature.shape_rules": "- M > 100"}
    assert codes(changes) == ["row", "row", "row"]


def test_a_wrong_rule_makes_no_second_finding_of_the_branches_it_ruled_out(codes):
    changes = {
        "signature.forall": '{M: Dim, N: Dim, K: Dim, S: Shape, T: "DType[float16 | float32]"}',
        "signature.inputs": """
            x: {dtype: T, shape: "[M, N, *S]"}
            w: {dtype: T, shape: "[K]", optional: true}
        """,
        "signature.let": "L: K if flag else 0",
        "signature.shape_rules": "- present(w) == (flag and flagg)",
    }
    assert codes(changes) == ["unknown-name"]


def test_an_input_that_cannot_be_read_ends_the_checks(codes):
    changes = {
        "signature.inputs": 'x: {dtype: T, shape: "[M, N"}',
        "signature.shape_rules": "- M > 100",
    }
    assert codes(changes) == ["expression-syntax"]


def test_every_finding_is_reported(codes):
    changes = {
        "signature.let": "L: M **",
        "signature.shape_rules": "- Q > 0\n- x is None\n- N > 100",
        "signature.outputs": 'y: {dtype: U, shape: "[M]"}',
        "roofline": "{flops: M / 2}",
    }
    assert sorted(codes(changes)) == sorted(
        ["expression-syntax", "unknown-name", "use-present", "row", "unknown-name", "kind"]
    )
