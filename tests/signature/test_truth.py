"""Conditions that hold whatever a call gives."""

from __future__ import annotations

import pytest

from tileops_core.signature.truth import Truths


def truth(build, text, **changes):
    signature = build(shape_rules=[text], **changes)
    return Truths(signature).of(signature.rules[0].expr)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("1 == 1", True),
        ("2 * 3 > 7", False),
        ("True", True),
        ("not True", False),
        ("1 < 2 < 3", True),
        ("1 < 3 < 2", False),
        ("2 in (1, 2)", True),
        ("ceil_div(7, 2) == 4", True),
        ("float16 == float16", True),
        ("(1 if flag else 2) > 0", True),
        ("(2 if flag else 2) > 1", True),
    ],
)
def test_literals_are_computed(build, text, holds):
    assert truth(build, text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("M >= 0", True),
        ("0 <= M", True),
        ("M > -1", True),
        ("M != -3", True),
        ("M < 0", False),
        ("-1 >= M", False),
        ("len(S) >= 0", True),
        ("prod(S) >= 0", True),
        ("M * N + 1 >= 0", True),
        ("M > 0", None),
        ("M <= 0", None),
        ("M == 0", None),
        ("M - N >= 0", None),
        ("M // N >= 0", None),
        ("M % N >= 0", None),
        ("ceil_div(M, N) >= 0", None),
        ("0 <= M <= 4", None),
    ],
)
def test_a_length_is_never_negative(build, text, holds):
    assert truth(build, text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("M == M", True),
        ("M + 1 <= M + 1", True),
        ("S != S", False),
        ("M < M", False),
        ("flag == flag", True),
        ("M == N", None),
        ("M // N == M // N", None),
        ("M // 2 == M // 2", True),
        ("S[0] == S[0]", None),
    ],
)
def test_a_value_is_equal_to_itself(build, text, holds):
    assert truth(build, text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("M * N == N * M", True),
        ("(M + 1) * N == N * M + N", True),
        ("(M - N) * (M + N) == M * M - N * N", True),
        ("2 * M + 1 > M + M", True),
        ("M + N < N + M", False),
        ("(M // 2) * N == N * (M // 2)", True),
        ("-(M - N) == N - M", True),
        ("M * N == N * M + N", None),
        ("M * M == M", None),
        ("M // N * N == N * (M // N)", None),
    ],
)
def test_a_whole_number_is_one_however_it_is_written(build, text, holds):
    assert truth(build, text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("M % 2 < 2", True),
        ("3 > M % 3", True),
        ("M % 4 != 4", True),
        ("M % 4 == 5", False),
        ("(M - N) % 4 >= 0", True),
        ("M % 1 == 0", True),
        ("M % 2 == 0", None),
        ("M % 2 < 1", None),
        ("M % 4 != 3", None),
        ("M % N < 2", None),
    ],
)
def test_a_remainder_is_less_than_what_it_is_of(build, text, holds):
    assert truth(build, text) is holds


def test_a_float_may_be_no_number_and_equal_to_nothing(build):
    assert truth(build, "eps == eps", params__eps={"type": "float", "default": 1.0}) is None
    assert truth(build, "not present(cap) or cap.value == cap.value") is None


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("flag or not flag", True),
        ("flag and not flag", False),
        ("mode in ('a', 'b')", True),
        ("present(w) or not present(w)", True),
        ("T in (float16, float32)", True),
        ("M > 1 or not (M > 1)", True),
        ("M > 1 or M < 2", None),
        ("flag or M >= 0", True),
        ("flag or M > 0", None),
        ("flag == (mode == 'a')", None),
        ("present(cap)", None),
    ],
)
def test_discriminants_are_gone_through(build, text, holds):
    assert truth(build, text) is holds


def test_quantities_are_seen_through(build):
    assert truth(build, "L > 3", let={"L": "K + 1", "K": "4"}) is True
    assert truth(build, "L", let={"L": "flag or not flag"}) is True


def test_nothing_is_said_of_more_combinations_than_can_be_gone_through(build):
    flags = {f"params__f{n}": {"type": "bool", "default": False} for n in range(20)}
    every = " or ".join(f"f{n}" for n in range(20))
    assert truth(build, f"{every} or not f0", **flags) is None
