from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from call_support import Switch, good, odd_tensors, op_class, served, small, target

from tileops_core.errors import NotATensorError, SignatureError, TileOpsError
from tileops_core.ops import (
    AddFwdOp,
    LayerNormFwdOp,
    ReLUFwdOp,
    RMSNormFwdOp,
    SoftmaxFwdOp,
    SumFwdOp,
)

ODD = [pytest.param(word, make, id=name) for name, word, make in odd_tensors()]

NON_TENSORS = [
    pytest.param(3, id="int"),
    pytest.param("x", id="str"),
    pytest.param([1.0, 2.0], id="list"),
    pytest.param(np.ones((3, 4), dtype=np.float32), id="array"),
    pytest.param(torch.float32, id="dtype"),
    pytest.param(torch.ones, id="function"),
]


@pytest.fixture
def probe():
    with served() as op:
        yield op


@pytest.fixture
def warm(probe):
    probe(small())
    return probe


def refused(call, *says, kind=SignatureError):
    """The call is refused with all of these in the message; returns the error."""
    with pytest.raises(kind) as caught:
        call()
    for pattern in says:
        assert re.search(pattern, str(caught.value)), (pattern, str(caught.value))
    return caught.value


def still_works(op, x=None):
    x = small() if x is None else x
    assert torch.equal(op(x), x * 2)


# -- dtype, rank, axis ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.int32, torch.bool, torch.complex64, torch.int64], ids=str
)
def test_a_dtype_outside_the_declared_ones_is_refused(warm, dtype):
    """MAN-06: the input, what came, and what is allowed are named."""
    came = str(dtype).removeprefix("torch.")
    error = refused(
        lambda: warm(torch.ones(3, 4, dtype=dtype)),
        r"ProbeFwdOp: x has dtype " + came,
        r"float16 \| bfloat16 \| float32",
    )
    assert error.tensor == "x"
    assert error.actual == dtype
    still_works(warm)


def test_a_second_tensor_of_another_dtype_is_refused():
    op = RMSNormFwdOp((4,))
    x = small()
    refused(lambda: op(x, torch.ones(4, dtype=torch.bfloat16)), "weight", "bfloat16", "float32")
    assert op(x, torch.ones(4)).shape == x.shape


@pytest.mark.parametrize("shape", [(), (4,), (1, 3, 4)], ids=str)
def test_another_rank_is_refused(warm, shape):
    refused(lambda: warm(torch.ones(shape)), "ProbeFwdOp: x has", re.escape("[M, N]"))
    still_works(warm)


def test_the_error_names_op_axis_declared_form_actual_value_and_place():
    """Peer fault 14: a shape error says the actual and the expected size."""
    op = RMSNormFwdOp((4, 8))
    error = refused(
        lambda: op(torch.ones(2, 4, 8), torch.ones(4, 7)),
        r"RMSNormFwdOp: weight has shape \(4, 7\)",
        re.escape("[*normalized_shape] = (4, 8)"),
        r"\[norm\.yaml:\d+\]",
    )
    assert (error.op, error.tensor) == ("RMSNormFwdOp", "weight")
    assert (error.actual, error.expected) == ((4, 7), (4, 8))
    assert error.span is not None


def test_a_weight_of_length_one_is_not_broadcast():
    """MAN-14"""
    for op in (RMSNormFwdOp((8,)), LayerNormFwdOp((8,))):
        refused(lambda op=op: op(torch.ones(2, 8), torch.ones(1)), r"\(1,\)", r"\(8,\)")
        assert op(torch.ones(2, 8), torch.ones(8)).shape == (2, 8)


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [((0, 3), (1, 3), (0, 3)), ((0, 3), (2, 3), None), ((3, 1), (3, 0), (3, 0))],
)
def test_a_length_of_zero_broadcasts_as_in_torch(a, b, result):
    """MAN-18"""
    op = AddFwdOp()
    if result is None:
        refused(lambda: op(torch.ones(a), torch.ones(b)), "AddFwdOp")
    else:
        assert op(torch.ones(a), torch.ones(b)).shape == result


@pytest.mark.parametrize("dim", [-4, 3, (0, 5)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4)], ids=str)
def test_an_axis_that_is_not_there_is_an_index_error_too(dim, shape):
    """MAN-09, PIPE-03: an empty tensor gets the same error as any other."""
    op = SumFwdOp(dim=dim)
    refused(lambda: op(torch.ones(shape)), "SumFwdOp", "rank 3", kind=IndexError)
    refused(lambda: op(torch.ones(shape)), kind=SignatureError)
    assert op(torch.ones((1,) * 6)).ndim < 6


def test_softmax_of_an_empty_tensor_checks_its_axis():
    """PIPE-03"""
    refused(lambda: SoftmaxFwdOp(dim=-46)(torch.ones(0, 3)), "SoftmaxFwdOp", kind=IndexError)


def test_one_axis_named_twice_is_refused():
    """MAN-09"""
    op = SumFwdOp(dim=(0, -3))
    refused(lambda: op(torch.ones(2, 3, 4)), "SumFwdOp")
    assert torch.equal(op(torch.ones(2, 3, 4, 5)), torch.ones(2, 3, 4, 5).sum((0, -3)))


@pytest.mark.parametrize("dim", [-3, -2, -1, 0, 1, 2, (1, -3)])
def test_an_axis_counts_from_either_side(dim):
    """MAN-09"""
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(SumFwdOp(dim=dim)(x), x.sum(dim))
    if isinstance(dim, int):
        torch.testing.assert_close(SoftmaxFwdOp(dim=dim)(x), x.softmax(dim))


# -- device -----------------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [0, 1])
def test_tensors_on_two_devices_are_refused_before_dispatch(moved):
    """PIPE-14: op, argument and both devices are named."""
    op = RMSNormFwdOp((4,))
    tensors = [small(), torch.ones(4)]
    tensors[moved] = tensors[moved].to("meta")
    refused(lambda: op(*tensors), "RMSNormFwdOp", "weight", "cpu", "meta", kind=ValueError)
    assert op.serving_target is None
    assert op(small(), torch.ones(4)).shape == (3, 4)


def test_a_number_on_the_cpu_is_no_exception_on_another_device():
    """PIPE-14: no tensor without axes slips through."""
    op = AddFwdOp()
    refused(lambda: op(torch.ones(3, device="meta"), torch.tensor(1.0)), "other", "cpu", "meta")


def test_a_tensor_that_stays_on_the_cpu_is_refused_elsewhere():
    with served("LengthsFwdOp") as op:
        lengths = torch.tensor([1, 2, 3], device="meta")
        refused(lambda: op(small(), lengths), "lengths is on meta", "CPU")
        assert op(small(), torch.tensor([1, 2, 3])).count_nonzero() == 6


# -- missing, extra, unknown ------------------------------------------------------------------


@pytest.mark.parametrize("warmed", [False, True])
def test_a_missing_input_is_a_type_error_with_the_ops_name(probe, warmed):
    """Peer fault 14: not of a function inside the library."""
    if warmed:
        still_works(probe)
    with pytest.raises(TypeError, match=r"^ProbeFwdOp\(\) missing 1 required positional.*'x'"):
        probe()
    still_works(probe)


@pytest.mark.parametrize("warmed", [False, True])
def test_an_extra_input_is_a_type_error_with_the_ops_name(probe, warmed):
    if warmed:
        still_works(probe)
    with pytest.raises(TypeError, match=r"^ProbeFwdOp\(\) takes 2 positional arguments"):
        probe(small(), small())
    still_works(probe)


@pytest.mark.parametrize("warmed", [False, True])
def test_an_unknown_keyword_is_a_type_error_with_the_ops_name(probe, warmed):
    if warmed:
        still_works(probe)
    with pytest.raises(TypeError, match=r"^ProbeFwdOp\(\) got an unexpected keyword.*'scale'"):
        probe(small(), scale=2)
    still_works(probe)


def test_an_unknown_parameter_is_a_type_error_with_the_ops_name():
    with pytest.raises(TypeError, match=r"RMSNormFwdOp\(\) got an unexpected keyword.*'epsilon'"):
        RMSNormFwdOp((4,), epsilon=1)


def test_out_is_no_keyword_of_an_op_without_a_buffer(probe):
    with pytest.raises(TypeError, match="ProbeFwdOp"):
        probe(small(), out=small())


def test_inputs_are_taken_by_name():
    op = RMSNormFwdOp((4,))
    x, weight = small(), torch.full((4,), 2.0)
    assert torch.equal(op(weight=weight, x=x), op(x, weight))


def test_an_input_that_goes_by_name_is_not_taken_by_position():
    with served("MaskFwdOp") as op:
        with pytest.raises(TypeError, match="MaskFwdOp"):
            op(small(), small() > 2)
        assert torch.equal(op(small(), keep=small() > 2), torch.where(small() > 2, small(), 0))


# -- no tensor --------------------------------------------------------------------------------


@pytest.mark.parametrize("warmed", [False, True])
@pytest.mark.parametrize("value", NON_TENSORS)
def test_something_else_than_a_tensor_is_refused(probe, value, warmed):
    if warmed:
        still_works(probe)
    error = refused(
        lambda: probe(value),
        r"ProbeFwdOp: x must be a torch\.Tensor, got ",
        type(value).__name__,
        kind=NotATensorError,
    )
    assert isinstance(error, TypeError)
    still_works(probe)


class Unprintable:
    """Fails at being shown."""

    def __repr__(self):
        raise ValueError("no text")


@pytest.mark.parametrize("value", [torch.ones(3, 3).numpy(), Unprintable()], ids=["lines", "none"])
def test_what_stands_for_a_tensor_is_shown_in_one_line(warm, value):
    error = refused(lambda: warm(value), type(value).__name__, kind=NotATensorError)
    assert "\n" not in str(error)


def test_none_for_a_required_input_is_refused(warm):
    refused(lambda: warm(None), r"x must be a torch\.Tensor, got None", kind=NotATensorError)
    still_works(warm)


def test_a_scalar_for_an_optional_input_is_refused():
    op = RMSNormFwdOp((4,))
    refused(lambda: op(small(), 2.0), "weight", "float", kind=NotATensorError)
    assert op(small()).shape == (3, 4)


def test_something_else_for_out_is_refused():
    with served("BufferFwdOp") as op:
        refused(lambda: op(small(), out=[0.0]), "out must be", "list", kind=NotATensorError)
        assert torch.equal(op(small(), out=torch.empty(3, 4)), small() * 2)


# -- other forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("warmed", [False, True])
@pytest.mark.parametrize(("word", "make"), ODD)
def test_a_tensor_of_another_form_is_refused(probe, word, make, warmed):
    if warmed:
        still_works(probe)
    error = refused(lambda: probe(make()), f"ProbeFwdOp: x is a {word} tensor", "dense")
    assert type(error) is SignatureError
    still_works(probe)


@pytest.mark.parametrize("dense_layout", ["contiguous", "strided"])
@pytest.mark.parametrize(("word", "make"), ODD)
def test_a_tensor_of_another_form_is_refused_where_an_input_is_written(word, make, dense_layout):
    """On a known route too, whether a dense or a strided tensor made it."""
    with served("AccumulateFwdOp") as op:
        x = small() if dense_layout == "contiguous" else small(4, 3).t()
        state = torch.zeros(3, 4)
        op(state, x)
        refused(lambda: op(state, make()), f"x is a {word} tensor")
        assert torch.equal(state, x)
        refused(lambda: op(make(), x), f"state is a {word} tensor")
        op(state, x)
        assert torch.equal(state, x * 2)


@pytest.mark.parametrize(("word", "make"), ODD)
def test_an_optional_input_of_another_form_is_refused(word, make):
    with served("ProbePairFwdOp") as op:
        assert torch.equal(op(small(), small()), small() * 2)
        refused(lambda: op(small(), make()), f"z is a {word} tensor")
        assert torch.equal(op(small(), small()), small() * 2)


@pytest.mark.parametrize(("word", "make"), ODD)
def test_a_buffer_of_another_form_is_refused(word, make):
    with served("BufferFwdOp") as op:
        out = torch.empty(3, 4)
        assert op(small(), out=out) is out
        refused(lambda: op(small(), out=make()), f"out is a {word} tensor")
        assert torch.equal(op(small(), out=out), small() * 2)


def test_the_error_says_how_to_make_the_tensor_dense(warm):
    refused(lambda: warm(small().to_sparse()), re.escape(".to_dense()"))
    still_works(warm, small().to_sparse().to_dense())


# -- what every refusal leaves ----------------------------------------------------------------


BAD = [
    pytest.param(lambda: torch.ones(3, 4, dtype=torch.float64), id="dtype"),
    pytest.param(lambda: torch.ones(3), id="rank"),
    pytest.param(lambda: None, id="none"),
    pytest.param(lambda: small().to_sparse(), id="form"),
]


@pytest.mark.parametrize("bad", BAD)
def test_a_refused_first_call_asks_nobody_and_builds_nothing(bad):
    switch = Switch(good)
    asked = []
    with target(switch.build, detect=lambda device: asked.append(device) or False):
        op = op_class("ProbeFwdOp")(target="acme")
        with pytest.raises(TileOpsError):
            op(bad())
        assert (switch.builds, asked, op.serving_target) == (0, [], None)
        with pytest.raises(RuntimeError, match="no call"):
            op.last_call  # noqa: B018
        still_works(op)


@pytest.mark.parametrize("bad", BAD)
def test_a_refused_later_call_changes_neither_record_nor_kernels(bad):
    switch = Switch(good)
    with served(build=switch.build) as op:
        op(small())
        record = op.last_call
        with pytest.raises(TileOpsError):
            op(bad())
        assert op.last_call is record
        still_works(op)
        assert switch.builds == 1


def test_a_refused_call_does_not_blame_the_backend(warm):
    with pytest.raises(SignatureError) as caught:
        warm(torch.ones(3))
    assert not getattr(caught.value, "__notes__", [])


def test_a_contiguous_input_is_taken_only_contiguous():
    with served("ContiguousFwdOp") as op:
        op(small())
        refused(lambda: op(small(4, 3).t()), "x is not contiguous", re.escape("x.contiguous()"))
        still_works(op)


def test_in_place_on_a_wrong_dtype_leaves_the_input_alone():
    x = torch.tensor([-1, 2])
    refused(lambda: ReLUFwdOp(inplace=True)(x), "ReLUFwdOp", "int64")
    assert x.tolist() == [-1, 2]
