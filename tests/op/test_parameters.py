"""Constructor parameters: by value, in one form, fixed afterwards."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from call_support import faulty, op_class, served, small, target

from tileops_core import BUILTIN
from tileops_core.errors import SignatureError
from tileops_core.ops import (
    AddFwdOp,
    GELUFwdOp,
    GEMMFwdOp,
    LayerNormFwdOp,
    RMSNormFwdOp,
    SoftmaxFwdOp,
    SumFwdOp,
)


def with_param(declared, value):
    """A probe with one more parameter, called p, and a value of it as entries write it."""
    entry = faulty.SPECS["ProbeFwdOp"]
    row = {**entry["workloads"][0], "p": value}
    signature = {**entry["signature"], "params": {"p": {"type": declared}}}
    return op_class("ProbeFwdOp", spec={**entry, "signature": signature, "workloads": [row]})


# -- by value ---------------------------------------------------------------------------------


def test_a_list_that_is_edited_later_changes_nothing():
    """DIS-04"""
    dims = [0, 1]
    op = SumFwdOp(dim=dims)
    before = op(torch.ones(2, 3, 4))
    dims.append(2)
    assert op.dim == (0, 1)
    assert torch.equal(op(torch.ones(2, 3, 4)), before)


@pytest.mark.parametrize(
    "dim", [[0, 1], (0, 1), range(2), torch.Size((0, 1)), np.array([0, 1])], ids=repr
)
def test_any_sequence_of_ints_is_a_tuple_of_ints(dim):
    """DIS-04"""
    op = SumFwdOp(dim=dim)
    assert op.dim == (0, 1)
    assert type(op.dim) is tuple
    assert [type(d) for d in op.dim] == [int, int]
    assert torch.equal(op(torch.ones(2, 3, 4)), torch.full((4,), 6.0))


def test_a_list_and_a_tuple_are_the_same_op():
    """DIS-04"""
    one, two = SumFwdOp(dim=[0, 1]), SumFwdOp(dim=(0, 1))
    assert one._key == two._key


@pytest.mark.parametrize(
    "shape", [[3, 4], (3, 4), torch.Size((3, 4)), np.array([3, 4], dtype=np.int32)], ids=repr
)
def test_a_shape_may_be_any_sequence(shape):
    op = RMSNormFwdOp(shape)
    assert op.normalized_shape == (3, 4)
    assert op(torch.ones(2, 3, 4)).shape == (2, 3, 4)


@pytest.mark.parametrize("length", [4, np.int64(4), torch.Size((4,))[0]], ids=repr)
def test_an_int_for_a_shape_is_a_shape_of_one_axis(length):
    op = LayerNormFwdOp(length)
    assert op.normalized_shape == (4,)
    assert op(small()).shape == (3, 4)


@pytest.mark.parametrize("number", [np.int64(1), np.int8(1), np.uint32(1)], ids=repr)
def test_numpys_integers_are_ints(number):
    op = SumFwdOp(dim=number)
    assert type(op.dim) is int
    assert torch.equal(op(small()), small().sum(1))


@pytest.mark.parametrize("number", [np.float64(1e-3), np.float32(0.5), 1], ids=repr)
def test_numbers_for_a_float_are_floats(number):
    op = RMSNormFwdOp((4,), eps=number)
    assert type(op.eps) is float
    assert op.eps == float(number)


@pytest.mark.parametrize("value", [True, np.bool_(True)], ids=repr)
def test_booleans_are_bools(value):
    op = GEMMFwdOp(trans_a=value)
    assert op.trans_a is True


@pytest.mark.parametrize("dtype", ["float16", "torch.float16", torch.float16], ids=str)
def test_a_dtype_may_be_given_by_name(dtype):
    op = SoftmaxFwdOp(dim=0, dtype=dtype)
    assert op.dtype is torch.float16
    assert op(small()).dtype is torch.float16


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: RMSNormFwdOp("4"), "normalized_shape must be"),
        (lambda: RMSNormFwdOp((4.0,)), "normalized_shape must be"),
        (lambda: RMSNormFwdOp((-4,)), "normalized_shape must be"),
        (lambda: RMSNormFwdOp((True,)), "normalized_shape must be"),
        (lambda: RMSNormFwdOp(()), "normalized_shape"),
        (lambda: RMSNormFwdOp(None), "normalized_shape must be"),
        (lambda: RMSNormFwdOp((4,), eps="small"), "eps must be"),
        (lambda: RMSNormFwdOp((4,), eps=True), "eps must be"),
        (lambda: RMSNormFwdOp((4,), eps=torch.tensor(1e-5)), "eps must be"),
        (lambda: GEMMFwdOp(trans_a=1), "trans_a must be True or False, got 1"),
        (lambda: SumFwdOp(dim=1.5), "dim must be"),
        (lambda: SumFwdOp(dim="0"), "dim must be"),
        (lambda: SumFwdOp(dim=True), "dim must be"),
        (lambda: SumFwdOp(dim=torch.tensor(0)), "dim must be"),
        (lambda: SoftmaxFwdOp(dim=0, dtype="float99"), "dtype must be"),
        (lambda: SoftmaxFwdOp(dim=0, dtype=torch.int32), "dtype must be"),
        (lambda: AddFwdOp(alpha="1"), "alpha must be"),
        (lambda: AddFwdOp(alpha=1j), "alpha must be"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_both_sides(make, says):
    with pytest.raises(SignatureError, match=says) as caught:
        make()
    assert caught.value.span is not None


def test_an_unknown_word_is_refused_with_a_guess():
    with pytest.raises(SignatureError, match=r"approximate must be .*got 'tahn'.*'tanh'"):
        GELUFwdOp(approximate="tahn")


def test_a_refused_construction_leaves_no_half_made_op():
    with pytest.raises(SignatureError):
        RMSNormFwdOp((4,), eps="small")
    assert RMSNormFwdOp((4,))(small()).shape == (3, 4)


# -- fixed afterwards -------------------------------------------------------------------------


def test_a_parameter_is_read_only():
    op = RMSNormFwdOp((4,), eps=1e-3)
    with pytest.raises(AttributeError, match=r"RMSNormFwdOp: eps is fixed.*construct a new op"):
        op.eps = 1.0
    with pytest.raises(AttributeError, match="eps is fixed"):
        del op.eps
    assert op.eps == 1e-3


def test_the_target_is_read_only():
    op = RMSNormFwdOp((4,))
    with pytest.raises(AttributeError, match=r"RMSNormFwdOp: target is fixed.*construct a new op"):
        op.target = "reference"
    assert op.target is None


@pytest.mark.parametrize("name", ["serving_target", "last_call"])
def test_what_calls_tell_is_read_only(name):
    with pytest.raises(AttributeError):
        setattr(RMSNormFwdOp((4,)), name, None)


def test_other_attributes_are_the_users():
    op = RMSNormFwdOp((4,))
    op.label = "first"
    assert op.label == "first"


@pytest.mark.parametrize("given", [None, BUILTIN, "reference"], ids=repr)
def test_the_target_is_what_was_given(given):
    assert RMSNormFwdOp((4,), target=given).target is given


# -- values that Python takes for equal -------------------------------------------------------


def test_equal_numbers_of_different_types_are_different_ops():
    """DIS-03"""
    keys = {AddFwdOp(alpha=alpha)._key for alpha in (1, 1.0, 2, 2.0, 0.0, -0.0)}
    assert len(keys) == 6


def test_a_bool_is_no_number():
    """DIS-03: True is not taken for the 1 that it equals."""
    with pytest.raises(SignatureError, match="alpha must be"):
        AddFwdOp(alpha=True)


def test_the_sign_of_zero_reaches_the_kernel():
    """DIS-03"""
    seen = []

    def build(x, *, factor):
        seen.append(factor)
        return lambda x, out=None: torch.mul(x, factor, out=out)

    with target(build, op="BufferFwdOp"):
        cls = op_class("BufferFwdOp")
        results = [cls(factor, target="acme")(torch.ones(1, 1)) for factor in (0.0, -0.0)]
    assert [torch.signbit(r).item() for r in results] == [False, True]
    assert str(seen) == "[0.0, -0.0]"


def test_not_a_number_is_one_value():
    """DIS-03: a NaN does not make every call new."""
    switch_builds = []

    def build(x, *, factor):
        switch_builds.append(factor)
        return lambda x, out=None: torch.mul(x, factor, out=out)

    with served("BufferFwdOp", build, factor=float("nan")) as op:
        for _ in range(100):
            assert op(torch.ones(1, 1)).isnan().all()
    assert len(switch_builds) == 1
    assert len(op._binding) == 1
    again = op_class("BufferFwdOp")
    keys = {again(float("nan"))._key for _ in range(3)}
    assert len(keys) == 1


def test_not_a_number_in_tree_is_one_kernel():
    """DIS-03"""
    op = RMSNormFwdOp((4,), eps=float("nan"))
    for rows in range(1, 20):
        op(small(rows, 4))
    assert len(op._binding.built_entries) == 1
    for _ in range(20):
        op.kernel_for("rms_norm", op.call_spec(*specs(small(3, 4), None)))
    assert len(op._binding.entries_by_call) == 1


def specs(*tensors):
    from tileops_core import TensorSpec

    return [None if t is None else TensorSpec.of(t) for t in tensors]


# -- the generated constructor ----------------------------------------------------------------


def test_the_constructor_shows_the_entrys_parameters():
    signature = inspect.signature(RMSNormFwdOp)
    assert str(signature) == (
        "(normalized_shape: 'list[int] | tuple[int, ...]', eps: 'float | None' = None, *, "
        "target: 'str | Builtin | None' = None) -> None"
    )


def test_a_parameter_by_name_only_is_not_taken_by_position():
    with pytest.raises(TypeError, match="GELUFwdOp"):
        GELUFwdOp("tanh")
    assert inspect.signature(GELUFwdOp).parameters["approximate"].kind is (
        inspect.Parameter.KEYWORD_ONLY
    )


def test_a_missing_parameter_is_a_type_error_with_the_ops_name():
    with pytest.raises(TypeError, match=r"RMSNormFwdOp\(\) missing 1 required.*normalized_shape"):
        RMSNormFwdOp()


def test_help_names_every_parameter():
    doc = inspect.getdoc(LayerNormFwdOp.__init__)
    for name in ("normalized_shape", "eps", "target"):
        assert f"{name}:" in doc


def test_defaults_are_the_entrys():
    """A default passed and a default left out are the same op."""
    assert LayerNormFwdOp((4,)).eps == 1e-5
    assert LayerNormFwdOp((4,))._key == LayerNormFwdOp((4,), 1e-5)._key


def test_an_op_prints_its_parameters_and_target():
    assert repr(RMSNormFwdOp((4,), target="reference")) == (
        "RMSNormFwdOp(normalized_shape=(4,), eps=None, target='reference')"
    )


# -- kinds that no op above has ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "row", "good", "kept", "bad"),
    [
        ("int", 1, 3, 3, 3.0),
        ("int | None", 1, None, None, "3"),
        ("bool", True, False, False, 0),
        ("float", 1.0, 2, 2.0, "2"),
        ("str", "w", "word", "word", 1),
        ("int | tuple[int, int]", 1, 3, (3, 3), (1, 2, 3)),
        ("int | tuple[int, int]", [1, 1], [1, 2], (1, 2), (1.0, 2)),
        ("'a' | 'b'", "a", "b", "b", "c"),
        ("torch.dtype", "int8", "int8", torch.int8, "int9"),
        ("int | float", 1, 1, 1, True),
    ],
)
def test_each_kind_takes_its_values_only(declared, row, good, kept, bad):
    cls = with_param(declared, row)
    value = cls(good).p
    assert value == kept
    assert type(value) is type(kept)
    with pytest.raises(SignatureError, match="ProbeFwdOp: p must be"):
        cls(bad)
