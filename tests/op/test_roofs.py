"""What of a roofline a subclass may say better than the entry."""

from __future__ import annotations

import pytest
import torch
from call_support import op_class, served, small

from tileops_core.ops import BMMFwdOp, GEMMFwdOp, GQADenseFwdOp, ReLUFwdOp
from tileops_core.record.profiles import DEFAULT_KEY


def test_what_computes_element_by_element_does_it_in_float32():
    op = ReLUFwdOp()
    op(small(dtype=torch.float16))
    assert op.roof_key() == DEFAULT_KEY
    assert op.roofline_data_terms() == {}


@pytest.mark.parametrize(
    ("make", "shape", "count"),
    [(GEMMFwdOp, (4, 4), 2), (BMMFwdOp, (2, 4, 4), 2), (GQADenseFwdOp, (1, 4, 2, 8), 3)],
    ids=["gemm", "bmm", "attention"],
)
def test_what_multiplies_matrices_has_the_unit_of_its_operands(make, shape, count):
    op = make()
    for dtype, key in ((torch.bfloat16, "tensor_core.bf16"), (torch.float32, DEFAULT_KEY)):
        op(*(torch.ones(shape, dtype=dtype) for _ in range(count)))
        assert op.roof_key() == key


def test_before_any_call_there_is_no_unit_and_no_cost():
    op = GEMMFwdOp()
    for ask in (op.roof_key, op.eval_roofline, op.eval_roofline_read_bytes):
        with pytest.raises(RuntimeError, match="no call"):
            ask()


@pytest.mark.parametrize(
    ("name", "count", "read"),
    [("ProbeFwdOp", 1, 48), ("AccumulateFwdOp", 2, 96), ("StoreFwdOp", 2, 48)],
)
def test_what_is_read_is_without_the_writes_of_the_signature(name, count, read):
    """A written input is read too, unless it is never read."""
    with served(name) as op:
        op(*(small() for _ in range(count)))
    _, moved = op.eval_roofline()
    assert op.eval_roofline_read_bytes() == read
    assert moved - read == 48


def test_a_subclass_may_know_more():
    body = {
        "roof_key": lambda self: "tensor_core.fp8",
        "eval_roofline_read_bytes": lambda self: None,
        "roofline_data_terms": lambda self: {"experts": 3},
    }
    op = op_class("ProbeFwdOp", **body)()
    assert op.roof_key() == "tensor_core.fp8"
    assert op.eval_roofline_read_bytes() is None
    assert op.roofline_data_terms() == {"experts": 3}
