"""The primitives of one family each, against torch or against what they promise."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops_core.signature.primitives import PRIMITIVES, PrimitiveError
from tileops_core.signature.primitives.families import FAMILY

PROFILE = settings(max_examples=100, derandomize=True, database=None, deadline=None)

positive = st.integers(1, 7)


def run(name, *args):
    return PRIMITIVES[name].run(*args)


@PROFILE
@given(st.integers(1, 30), positive, positive, st.integers(0, 4), st.integers(1, 3))
def test_a_convolution_is_as_long_as_torchs(length, kernel, stride, padding, dilation):
    found = run("conv.out", length, kernel, stride, padding, dilation)
    if length + 2 * padding < dilation * (kernel - 1) + 1:
        assert found <= 0
        return
    x, weight = torch.zeros(1, 1, length), torch.zeros(1, 1, kernel)
    y = torch.nn.functional.conv1d(x, weight, None, stride, padding, dilation)
    assert found == y.shape[-1]


@PROFILE
@given(st.integers(1, 30), positive, positive, st.data(), st.booleans())
def test_a_pooling_is_as_long_as_torchs(length, kernel, stride, data, ceil_mode):
    padding = data.draw(st.integers(0, kernel // 2))
    found = run("pool.out", length, kernel, stride, padding, 1, ceil_mode)
    x = torch.zeros(1, 1, length)
    try:
        y = torch.nn.functional.avg_pool1d(x, kernel, stride, padding, ceil_mode)
    except RuntimeError:  # torch: the output would be too small
        assert found <= 0
    else:
        assert found == y.shape[-1]


@PROFILE
@given(st.integers(1, 30), positive, positive, st.data(), st.booleans())
def test_a_dilated_pooling_is_as_long_as_torchs(length, kernel, stride, data, ceil_mode):
    padding, dilation = data.draw(st.integers(0, kernel // 2)), data.draw(positive)
    found = run("pool.out", length, kernel, stride, padding, dilation, ceil_mode)
    x = torch.zeros(1, 1, length)
    try:
        y = torch.nn.functional.max_pool1d(x, kernel, stride, padding, dilation, ceil_mode)
    except RuntimeError:
        assert found <= 0
    else:
        assert found == y.shape[-1]


@pytest.mark.parametrize("name", ["conv.out", "pool.out"])
@pytest.mark.parametrize("stride", [0, -2])
def test_a_stride_that_is_not_positive_is_refused(name, stride):
    args = (8, 3, stride, 1, 1, *([False] if name == "pool.out" else []))
    with pytest.raises(PrimitiveError, match=rf"{name}: the stride is {stride}"):
        run(name, *args)


def layout(kind, **fields):
    return SimpleNamespace(kind=kind, **fields)


def worst(rows, experts, alignment):
    """The most rows that any distribution over the experts fills, by trying all."""
    return max(
        sum(-(-n // alignment) * alignment for n in counts)
        for counts in itertools.product(range(rows + 1), repeat=experts)
        if sum(counts) == rows
    )


@pytest.mark.parametrize("rows", range(6))
@pytest.mark.parametrize("experts", [1, 2, 3])
@pytest.mark.parametrize("alignment", [2, 3, 4])
def test_an_aligned_buffer_holds_the_worst_distribution_and_no_row_more(rows, experts, alignment):
    aligned = layout("contiguous", alignment=alignment)
    assert run("moe.capacity", aligned, rows, experts) == worst(rows, experts, alignment)


def test_a_tight_buffer_holds_what_there_is_and_a_masked_one_all_that_there_could_be():
    assert run("moe.capacity", layout("contiguous", alignment=1), 37, 8) == 37
    assert run("moe.capacity", layout("masked", max_m=64), 37, 8) == 512


@pytest.mark.parametrize("n", range(1, 9))
def test_the_expansion_follows_from_the_width_of_its_mappings(n):
    assert run("mhc.expansion", n + n + n * n) == n


@pytest.mark.parametrize("width", [0, 1, 2, 4, 9, 16, 23])
def test_a_width_of_no_expansion_is_refused(width):
    with pytest.raises(PrimitiveError, match=f"mhc.expansion: {width} is not"):
        run("mhc.expansion", width)


def test_a_family_primitive_bears_its_familys_prefix():
    assert {primitive.name for primitive in FAMILY} == {name for name in PRIMITIVES if "." in name}


@pytest.mark.parametrize(
    "text",
    [
        "conv.out(M, 3, 1, 0)",
        "conv.out(M, 3, 1, 0, flag)",
        "pool.out(M, 3, 1, 0, 1, 1)",
        "moe.capacity(M, 3, 1)",
        "mhc.expansion(S)",
    ],
)
def test_arguments_are_of_their_kinds(problems, text):
    (problem,) = problems(let={"L": text})
    assert problem.code in ("arguments", "kind")
