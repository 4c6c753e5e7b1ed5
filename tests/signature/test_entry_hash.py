from __future__ import annotations

import re

import pytest

from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import ManifestFile

TEXT = """\
XFwdOp:
  family: test
  status: implemented
  signature:
    forall: {M: Dim, T: "DType[float16 | float32]"}
    params:
      eps: {type: float, default: 1.0e-5}
    inputs:
      x: {dtype: T, shape: "[M, 2 * M]"}
    outputs:
      y: {dtype: T, shape: "[M]"}
    shape_rules:
      - M > 0
  workloads:
    - {label: row, M: 2, dtype_cases: [{T: float16}]}
  roofline:
    flops: 2 * M
"""


def hash_of(old: str = "", new: str = "") -> str:
    assert old in TEXT
    text = TEXT.replace(old, new) if old else TEXT
    return build_signature(ManifestFile("test.yaml", text).load("XFwdOp")).entry_hash


def test_it_is_sixteen_hex_digits():
    assert re.fullmatch("[0-9a-f]{16}", hash_of())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("XFwdOp:", "# a comment\nXFwdOp:"),
        ('"[M, 2 * M]"', "'[ M,2*(M) ]'"),
        ("1.0e-5", "0.00001"),
        ("      - M > 0", "      - >-\n        M\n        > 0"),
        ("M: 2,", "M: 4,"),
        ("status: implemented", "status: spec-only"),
    ],
)
def test_what_means_the_same_has_the_same_hash(old, new):
    assert hash_of(old, new) == hash_of()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"[M, 2 * M]"', '"[M, M * 2]"'),
        ("1.0e-5", "1.0e-6"),
        ("M > 0", "M > 1"),
        ("flops: 2 * M", "flops: 3 * M"),
        ("DType[float16 | float32]", "DType[float32 | float16]"),
        ("      x: {dtype: T,", "      x: {dtype: T, optional: true,"),
        ("default: 1.0e-5", "default: 1.0e-5, kw_only: true"),
        ('y: {dtype: T, shape: "[M]"}', 'y: {dtype: T, shape: "[M]", contiguous: true}'),
        ("eps: {type: float, default: 1.0e-5}", 'eps: {dtype: float32, shape: "[M]"}'),
        (
            "  roofline:",
            "  composition: {kind: composite, stages: [{name: a, op: AFwdOp}]}\n  roofline:",
        ),
    ],
)
def test_what_means_something_else_has_another_hash(old, new):
    assert hash_of(old, new) != hash_of()
