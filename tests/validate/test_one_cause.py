"""A value that cannot be read is one finding wherever it stands, and nothing that hangs on it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tileops_core.validate.examples import OP

MARK = "UNREADABLE"
ENTRY = yaml.safe_load(
    """
    family: probe
    status: spec-only
    ref_api: torch.bmm
    signature:
      forall: {M: Dim, N: Dim, S: Shape, T: "DType[float16 | float32]", U: "DType[int8]"}
      params:
        flag: {type: bool, default: false}
        mode: {type: "'a' | 'b'", default: a}
        size: {type: int, kw_only: true}
      inputs:
        x: {dtype: T, shape: "[M, N, *S]"}
        i: {dtype: U, shape: "[M]", values: "sample_indices(M, N)", requires: ["in_range(0, N)"]}
        w: {dtype: T, shape: "[N]", optional: true}
        v: {dtype: T, shape: "Mat[flag, M, N]", optional: "mode == 'b'"}
      outputs:
        y: {dtype: T, shape: "[L, N]", nullable: flag}
      types:
        Mat:
          params: {t: Bool, A: Dim, B: Dim}
          match: t
          cases:
            - {when: false, is: "[A, B]"}
            - {when: true, is: "[B, A]"}
      let: {L: M + K, K: size * 2}
      dtype_combos:
        - {T: float16, U: int8}
        - {T: float32, U: int8}
      shape_rules: [L > 0, size > 0]
    workloads:
      - {label: one, size: 1, M: 2, N: 3, S: [4], dtype_cases: [{T: float16, U: int8}]}
      - {label: two, size: 1, M: 2, N: 3, S: [4], some: [w], small: {M: 1},
         dtype_cases: [{T: float16, U: int8}]}
    roofline: {flops: L * M}
    """
)


def sites(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to each value below a node."""
    for step, inner in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*path, step)
        if isinstance(inner, dict | list):
            yield from sites(inner, (*path, step))


def text_of(path: tuple[Any, ...], value: str) -> str:
    """The entry with something else at a place."""
    entry = copy.deepcopy(ENTRY)
    here = entry
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = MARK
    return yaml.safe_dump({OP: entry}, sort_keys=False, width=10**6).replace(MARK, value)


def test_the_entry_has_no_finding(check):
    assert list(check(yaml.safe_dump({OP: ENTRY}, sort_keys=False))) == []


@pytest.mark.parametrize("value", ["0x10", "99999999999999999999", "''"])
@pytest.mark.parametrize("path", list(sites(ENTRY)), ids=lambda path: ".".join(map(str, path)))
def test_what_cannot_be_read_is_one_finding(check, path, value):
    report = check(text_of(path, value))
    assert len(report) == 1, [finding.message for finding in report]


@pytest.mark.parametrize("path", list(sites(ENTRY)), ids=lambda path: ".".join(map(str, path)))
def test_a_bracket_that_is_never_closed_is_one_finding(check, path):
    assert len(check(text_of(path, '"["'))) == 1
