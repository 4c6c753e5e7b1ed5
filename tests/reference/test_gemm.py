"""Matrix products: flags, empty axes, sums that float16 itself cannot hold."""

from __future__ import annotations

import pytest
import torch

from tileops_reference.functions.gemm import bmm, gemm

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_flags_say_how_square_operands_are_stored(trans_a, trans_b):
    a, b = torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[5.0, 6], [7, 8]])
    result = gemm(a, b, trans_a=trans_a, trans_b=trans_b)
    expected = [
        [
            sum(
                (a[k, m] if trans_a else a[m, k]) * (b[n, k] if trans_b else b[k, n])
                for k in (0, 1)
            )
            for n in (0, 1)
        ]
        for m in (0, 1)
    ]
    assert result.tolist() == [[float(x) for x in row] for row in expected]


def test_b_is_stored_transposed_by_default():
    assert gemm(torch.ones(2, 3), torch.ones(4, 3)).shape == (2, 4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_empty_contraction_is_zero(dtype, poisoned_memory):
    """PIPE-01."""
    a, b = torch.empty(2, 0, dtype=dtype), torch.empty(3, 0, dtype=dtype)
    assert torch.equal(gemm(a, b), torch.zeros(2, 3, dtype=dtype))
    result = bmm(torch.empty(2, 3, 0, dtype=dtype), torch.empty(2, 0, 4, dtype=dtype))
    assert torch.equal(result, torch.zeros(2, 3, 4, dtype=dtype))


@pytest.mark.parametrize("shapes", [((0, 4), (3, 4)), ((3, 4), (0, 4)), ((0, 0), (0, 0))])
def test_empty_rows_and_columns_give_an_empty_result(shapes):
    a, b = (torch.ones(shape) for shape in shapes)
    assert gemm(a, b).shape == (shapes[0][0], shapes[1][0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_are_accumulated_in_float32(dtype):
    # In float16 a sum of ones stops at 2048, in bfloat16 at 256; the last term cancels the rest.
    a = torch.ones(1, 8193, dtype=dtype)
    a[0, -1] = -8191
    a[0, -1] = -8192 if dtype is not torch.float32 else -8191
    b = torch.ones(1, 8193, dtype=dtype)
    exact = (a.double() @ b.double().T).item()
    assert gemm(a, b).item() == exact
    assert bmm(a[None], b.T[None].contiguous()).item() == exact


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4096, 7), (33, 129, 65), (64, 1000, 1)])
def test_odd_sizes_equal_float64(dtype, shape, check_close):
    m, k, n = shape
    a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    magnitude = a.double().abs() @ b.double().abs().T
    check_close(gemm(a, b), a.double() @ b.double().T, terms=k, magnitude=magnitude)
    result = bmm(a[None], b.T[None].contiguous())[0]
    check_close(result, a.double() @ b.double().T, terms=k, magnitude=magnitude)


def test_nan_and_inf_reach_their_row_alone():
    a = torch.ones(3, 4)
    a[0, 1], a[1, 2] = torch.nan, torch.inf
    result = gemm(a, torch.ones(2, 4))
    assert result[0].isnan().all()
    assert result[1].isinf().all()
    assert torch.equal(result[2], torch.full((2,), 4.0))
