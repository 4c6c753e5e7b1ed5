from __future__ import annotations

import pytest
import torch

from tileops_core.conformance.layouts import laid_out, poison
from tileops_core.conformance.variants import LAYOUTS

SHAPES = [(3, 5, 7), (4,), (), (0, 3), (1, 6)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_a_layout_keeps_the_values(layout, shape, dtype):
    values = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    assert torch.equal(laid_out(values, layout), values)


@pytest.mark.parametrize("layout", ["transposed", "strided", "padded"])
def test_a_layout_is_not_in_order(layout):
    assert not laid_out(torch.zeros(3, 5), layout).is_contiguous()


def test_an_offset_is_one_element():
    assert laid_out(torch.zeros(3, 5), "offset").storage_offset() == 1


def test_a_negative_view_has_the_bit():
    assert laid_out(torch.ones(3), "negative").is_neg()


@pytest.mark.parametrize("shape", [(1, 4, 2), (3, 1)], ids=str)
def test_an_expanded_axis_is_one_that_has_elements(shape):
    x = laid_out(torch.randn(shape), "expanded")
    assert x.shape == shape
    assert 0 in x.stride()


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.complex64, torch.int8, torch.uint8, torch.bool], ids=str
)
def test_poison_is_what_nobody_computes(dtype):
    x = poison(torch.zeros(2, dtype=dtype))
    special = x.isnan() if dtype.is_floating_point or dtype.is_complex else x == x.max()
    assert special.all()
    assert x.any()
