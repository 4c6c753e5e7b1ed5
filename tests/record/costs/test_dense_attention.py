"""Closed forms in the entries of dense attention, against counting pairs one by one."""

from __future__ import annotations

from itertools import product

import pytest
from plan_support import plan_of, spec, statics
from visible_pairs import pairs

from tileops_core.record.signature_call import Served, SignatureCall

MASKS = list(product((False, True), (-1, 0, 2, 9), (-1, 0, 1, 9)))


def flops(plan, mask, *inputs, **more):
    names = ("is_causal", "window_size_left", "window_size_right")
    known = statics(plan, **dict(zip(names, mask, strict=True)), **more)
    return SignatureCall(plan, known, inputs, False, Served(None)).roofline()[0]


@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (1, 5), (3, 5), (5, 5), (6, 4)])
def test_forward_with_lse(queries, keys):
    plan = plan_of("GQADenseWithLSEFwdOp")
    q, kv, rows = spec(2, queries, 4, 8), spec(2, keys, 2, 8), 2 * 4 * queries
    for mask in MASKS:
        seen = 2 * 4 * len(pairs(queries, keys, *mask))
        assert flops(plan, mask, q, kv, kv) == seen * (4 * 8 + 5) + rows * (8 + 2), mask
        assert flops(plan, mask, q, kv, kv, softcap=9.0) == seen * (4 * 8 + 7) + rows * 10, mask


@pytest.mark.parametrize("length", [1, 4, 7])
def test_backward(length):
    plan = plan_of("GQADenseBwdOp")
    q, kv, lse = spec(2, length, 4, 8), spec(2, length, 2, 8), spec(2, 4, length)
    rest = 2 * length * 8 * (2 * 4 + 4 + 2)  # delta, and the scale of dq and dk
    for mask in MASKS:
        seen = 2 * 4 * len(pairs(length, length, *mask))
        given = q, q, kv, kv, q, lse
        assert flops(plan, mask, *given) == seen * (10 * 8 + 5) + rest, mask
        assert flops(plan, mask, *given, softcap=9.0) == seen * (10 * 8 + 10) + rest, mask
