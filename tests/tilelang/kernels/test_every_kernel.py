"""What holds of every kernel in every dtype, whatever it computes."""

from __future__ import annotations

import math

import pytest
import torch
from tilelang_cases import CASES, DTYPES, WIDTHS

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


@every_case
@every_dtype
@pytest.mark.parametrize("width", WIDTHS)
def test_rows_of_any_width_equal_float64(case, dtype, width, check_close):
    inputs = case.inputs(3, width, dtype)
    before = [x and None if x is None else bits(x.clone()) for x in inputs]
    results = case.run(width, *inputs)
    for result, exact in zip(results, case.expected(*inputs), strict=True):
        assert result.is_contiguous()
        check_close(result, exact.value, terms=exact.terms, magnitude=exact.magnitude)
    # PIPE-04
    for x, same in zip(inputs, before, strict=True):
        assert x is None or (torch.equal(bits(x), same) and x._version == 0)


@every_case
@every_dtype
@pytest.mark.parametrize("rows", [1, 2, 257])
def test_any_number_of_rows_equals_float64(case, dtype, rows, check_close):
    inputs = case.inputs(rows, 40, dtype)
    for result, exact in zip(case.run(40, *inputs), case.expected(*inputs), strict=True):
        check_close(result, exact.value, terms=exact.terms, magnitude=exact.magnitude)


@every_case
@every_dtype
def test_no_rows_give_no_rows(case, dtype):
    """PIPE-01."""
    inputs = case.inputs(0, 8, dtype)
    for result, exact in zip(case.run(8, *inputs), case.expected(*inputs), strict=True):
        assert result.shape == exact.value.shape
        assert result.dtype is (torch.int64 if case.name == "argmax" else dtype)


@every_case
def test_the_kernel_that_is_asked_for_serves(case):
    op = case.op(8, target="tilelang")
    op(*case.inputs(2, 8, torch.float32))
    assert set(op.last_call.served_by.backends.values()) == {"tilelang"}
    assert op.serving_target == "tilelang"


def pitched(x):
    wide = torch.full((*x.shape[:-1], x.shape[-1] + 3), math.nan, dtype=x.dtype)
    wide[..., 1:-2] = x
    return wide[..., 1:-2]


def stepped(x):
    base = torch.full([2 * n for n in x.shape], math.nan, dtype=x.dtype)
    view = base[tuple(slice(None, None, 2) for _ in x.shape)]
    return view.copy_(x)


def shifted(x):
    flat = torch.cat((torch.full((1,), math.nan, dtype=x.dtype), x.flatten()))
    return flat[1:].view(x.shape)


def transposed(x):
    return x.movedim(0, -1).contiguous().movedim(-1, 0)


def expanded(x):
    return x[:1].clone().expand(x.shape)


def negative(x):
    if x.dtype is not torch.float32:  # no complex numbers of it
        return torch._neg_view(-x)
    return torch.complex(torch.zeros_like(x), -x).conj().imag


@every_case
@every_dtype
@pytest.mark.parametrize("view", [pitched, stepped, shifted, transposed, expanded, negative])
def test_a_view_is_read_as_a_dense_copy_of_it(case, dtype, view):
    """PIPE-06."""
    inputs = [
        x if x is None or not x.is_floating_point() else view(x) for x in case.inputs(5, 33, dtype)
    ]
    if view is negative:
        assert any(x is not None and x.is_neg() for x in inputs)
    dense = [None if x is None else x.resolve_neg().clone().contiguous() for x in inputs]
    op = case.op(33, target="tilelang")
    for _ in range(2):  # the call that finds a route, and one that follows it
        results = op(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        for result, expected in zip(results, case.run(33, *dense), strict=True):
            assert torch.equal(bits(result), bits(expected))


@every_case
@every_dtype
def test_a_nan_stays_in_its_row(case, dtype):
    clean = case.inputs(5, 40, dtype)
    inputs = [None if x is None else x.clone() for x in clean]
    inputs[0][2, ..., 7] = math.nan
    rows = torch.tensor([0, 1, 3, 4])
    for result, expected in zip(case.run(40, *inputs), case.run(40, *clean), strict=True):
        assert torch.equal(bits(result[rows]), bits(expected[rows]))
        spoiled = result[2] == 7 if case.name == "argmax" else result[2].isnan()
        assert spoiled.any()


@every_case
def test_one_kernel_serves_several_shapes(case, check_close):
    op = case.op(40, target="tilelang")
    for rows in (7, 1, 300, 2):
        inputs = case.inputs(rows, 40, torch.float32)
        results = op(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        for result, exact in zip(results, case.expected(*inputs), strict=True):
            check_close(result, exact.value, terms=exact.terms, magnitude=exact.magnitude)


@every_case
@every_dtype
@pytest.mark.parametrize("rows", [3, 1000, 1001])
def test_the_number_of_threads_changes_no_bit(case, dtype, rows, two_threads):
    inputs = case.inputs(rows, 129, dtype)
    several = case.run(129, *inputs)
    torch.set_num_threads(1)
    for one, two in zip(case.run(129, *inputs), several, strict=True):
        assert torch.equal(bits(one), bits(two))
