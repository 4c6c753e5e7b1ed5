from __future__ import annotations

import math

import pytest
import torch

from tileops_core.signature.dtypes import DTYPES
from tileops_core.signature.primitives import PRIMITIVES, PrimitiveError


def run(name, *args, **keywords):
    return PRIMITIVES[name].run(*args, **keywords)


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        ([(0, 3), (1, 3)], (0, 3)),
        ([(3, 1), (3, 0)], (3, 0)),
        ([(2, 1, 4), (3, 1)], (2, 3, 4)),
        ([(), ()], ()),
        ([(5,)], (5,)),
        ([(1,), (1,), (7, 1)], (7, 1)),
    ],
)
def test_broadcasting_is_torchs(shapes, result):
    """MAN-18."""
    assert run("broadcast", *shapes) == result
    assert tuple(torch.broadcast_shapes(*shapes)) == result


@pytest.mark.parametrize("shapes", [[(0, 3), (2, 3)], [(2,), (3,)], [(2, 2), (2, 3)]])
def test_shapes_that_do_not_broadcast_are_named(shapes):
    """MAN-18."""
    with pytest.raises(PrimitiveError, match="do not broadcast"):
        run("broadcast", *shapes)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [-3, -2, -1, 0, 1, 2, (1, -1), (0, 1, 2), None, ()])
def test_reducing_is_torchs(dim, keepdim):
    """MAN-09."""
    expected = torch.sum(torch.empty(2, 3, 4), dim, keepdim=keepdim).shape
    assert run("reduced", (2, 3, 4), dim, keepdim, "full") == tuple(expected)


def test_an_empty_list_of_axes_means_what_the_mode_says():
    assert run("reduced", (2, 3), (), False, "full") == ()
    assert run("reduced", (2, 3), (), False, "noop") == (2, 3)
    assert run("reduced", (2, 3), None, False, "noop") == ()
    with pytest.raises(PrimitiveError, match="empty"):
        run("reduced", (2, 3), (), False, "reject")


@pytest.mark.parametrize(("dim", "rank"), [(3, 3), (-4, 3), (1, 0), (-2, 0), ((0, 5), 2)])
def test_an_axis_out_of_range_is_an_index_error_as_in_torch(dim, rank):
    """MAN-09."""
    shape = (2,) * rank
    assert run("valid_axes", shape, dim) is False
    error = PRIMITIVES["valid_axes"].explain(shape, dim)
    assert error.index_error
    assert f"rank {rank}" in str(error)
    with pytest.raises(PrimitiveError):
        run("reduced", shape, dim, False, "full")


@pytest.mark.parametrize("dim", [None, 0, -1, (), (0,)])
def test_a_tensor_without_axes_accepts_axes_0_and_minus_1(dim):
    assert run("valid_axes", (), dim) is True
    assert run("reduced", (), dim, True, "full") == ()


@pytest.mark.parametrize(
    ("dim", "unique"), [((1, -2), False), ((0, 0), False), ((0, 1), True), (1, True), (None, True)]
)
def test_axes_repeat_after_counting_from_the_end(dim, unique):
    """MAN-09."""
    assert run("unique_axes", (2, 3, 4), dim) is unique
    if not unique:
        assert "appears multiple times" in str(PRIMITIVES["unique_axes"].explain((2, 3, 4), dim))


@pytest.mark.parametrize(
    ("shape", "dim", "holds"),
    [
        ((2, 0, 3), 1, False),
        ((2, 0, 3), -2, False),
        ((2, 0, 3), (0, -2), False),
        ((2, 0, 3), None, False),
        ((2, 0, 3), 0, True),
        ((2, 0, 3), (0, 2), True),
        ((2, 3), None, True),
        ((), None, True),
        ((), 0, True),
        ((), -1, True),
    ],
)
def test_an_axis_of_no_elements_is_an_index_error_as_in_torch(shape, dim, holds):
    """PIPE-01."""
    assert run("nonempty_axes", shape, dim) is holds
    if not holds:
        error = PRIMITIVES["nonempty_axes"].explain(shape, dim)
        assert error.index_error
        assert "axis 1 has length 0" in str(error)


def test_a_value_per_axis_is_one_for_all_or_one_each():
    assert run("per_axis", 2, 1, 3) == 2
    assert run("per_axis", (1, 2, 3), 1, 3) == 2
    assert run("per_axis", (5,), 2, 3) == 5
    assert run("per_axis", None, 0, 3, fallback=7) == 7
    for value in (None, (1, 2)):
        with pytest.raises(PrimitiveError):
            run("per_axis", value, 0, 3)


def test_ceil_div_is_exact_and_refuses_zero():
    assert run("ceil_div", 2**63 + 1, 2) == 2**62 + 1
    assert run("ceil_div", 0, 5) == 0
    with pytest.raises(PrimitiveError, match="zero"):
        run("ceil_div", 3, 0)


def test_sequences_reduce_exactly():
    """MAN-16."""
    assert run("prod", (2**40, 2**40)) == 2**80
    assert run("prod", ()) == 1
    assert run("sum", (1, 2)) == 3
    assert run("max", 1, 2) == 2
    assert run("max", (1, 5, 2)) == 5
    assert run("min", (4, 2)) == 2
    assert run("len", (1, 2)) == 2
    assert run("all", [True, False]) is False
    with pytest.raises(PrimitiveError):
        run("max", ())


@pytest.mark.parametrize(
    ("value", "category"),
    [
        (True, "bool"),
        (3, "int"),
        (0.5, "float"),
        (1j, "complex"),
        ("float16", "float"),
        (torch.int8, "int"),
        (torch.bool, "bool"),
        (torch.complex64, "complex"),
    ],
)
def test_numbers_and_dtypes_have_a_category(value, category):
    assert run("category", value) == category


@pytest.mark.parametrize(
    ("value", "dtype", "fits"),
    [
        (255, "uint8", True),
        (256, "uint8", False),
        (-1, "uint8", False),
        (-128, "int8", True),
        (1, "bool", True),
        (2, "bool", False),
        (65504.0, "float16", True),
        (65536, "float16", False),
        (math.inf, "float16", True),
        (math.nan, "bfloat16", True),
        (math.inf, "int32", False),
        (0.5, "int32", False),
        (2.0, "int32", True),
        (1e39, "float32", False),
        (2**53 + 1, "float64", True),
        (1e300, torch.float64, True),
        (1j, "float32", False),
        (1j, "complex64", True),
    ],
)
def test_a_number_fits_a_dtype_by_range_and_category(value, dtype, fits):
    assert run("representable", value, dtype) is fits


def test_a_given_dtype_goes_before_the_tensors():
    assert run("coalesce_dtype", None, torch.float16) is torch.float16
    assert run("coalesce_dtype", torch.float32, torch.float16) is torch.float32


def test_ints_are_promoted_to_float_and_floats_kept():
    assert run("promote_int_to_float", torch.int8) is torch.float32
    assert run("promote_int_to_float", torch.bool) is torch.float32
    assert run("promote_int_to_float", torch.float16) is torch.float16
    assert run("promote_int_to_float", "int64") == "float32"


@pytest.mark.parametrize("name", [n for n in DTYPES if hasattr(torch, n)])
def test_the_facts_of_dtypes_are_torchs(name):
    dtype = getattr(torch, name)
    facts = DTYPES[name]
    assert facts.bits == dtype.itemsize * 8
    if facts.category in ("float", "complex"):
        info = torch.finfo(dtype)
    elif facts.category == "int":
        info = torch.iinfo(dtype)
    else:
        return
    assert facts.high == info.max
    if name != "float8_e8m0fnu":
        assert facts.low == info.min


def test_bytes_are_counted_exactly():
    """MAN-16."""
    assert run("bytes", ("float16", (3, 5))) == 30
    assert run("bytes", (torch.complex128, (2**40,))) == 2**44
    assert run("bytes", ("bool", ())) == 1
    assert run("bytes", None) == 0


def test_presence_is_not_being_none():
    assert run("present", 0) is True
    assert run("present", None) is False


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("ceil_div", "ceil_div(number: an int, divisor: an int)"),
        ("broadcast", "broadcast(shape: a shape, ...)"),
        ("max", "max(value: a number, value: a number, ...) or max(values: a sequence of numbers)"),
        (
            "per_axis",
            (
                "per_axis(value: an int or a value per axis, axis: an int, count: an int, "
                "fallback=an int)"
            ),
        ),
    ],
)
def test_how_one_is_called_names_its_arguments_in_order(name, usage):
    assert PRIMITIVES[name].usage == usage
