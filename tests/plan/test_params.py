"""Parameters are taken by value, once, in one form; what is of another kind is refused."""

from __future__ import annotations

import decimal
import enum
import fractions
import math

import numpy as np
import pytest
import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tileops_core.errors import SignatureError
from tileops_core.interfaces.moe import ContiguousLayout, MaskedLayout, RoutingEpilogueSpec
from tileops_core.plan.params import normalize
from tileops_core.signature.kinds import (
    ANY_DTYPE,
    BOOL,
    DIM,
    INT,
    SHAPE,
    TENSOR,
    AdtKind,
    AxesKind,
    Constructor,
    DeviceKind,
    DTypeKind,
    EnumKind,
    IntTupleKind,
    MaybeKind,
    OpaqueKind,
    ScalarKind,
    WordOrKind,
)
from tileops_core.signature.model import REQUIRED, Input, Param
from tileops_core.spans import NOWHERE, Span
from tileops_core.spec.entries import AdtValue
from tileops_core.spec.expressions import Name
from tileops_core.spec.grammar import parse_expression

MODE = EnumKind(("none", "tanh"))
FLOAT = ScalarKind(("float",))
NUMBER = ScalarKind(("int", "float"))
ANY_SCALAR = ScalarKind(("int", "float", "bool", "str", "complex"))
PAIR = IntTupleKind(2)
AXES = AxesKind(optional=True)
SOME_AXES = AxesKind(optional=False)
TWO_DTYPES = DTypeKind(("float16", "float32"))


class Word(str, enum.Enum):
    TANH = "tanh"


class Number(enum.IntEnum):
    TWO = 2


class Indexed:
    """Counts as an int to Python."""

    def __index__(self):
        return 7


def taken(kind, value):
    return normalize(
        "ProbeFwdOp", Param("p", kind, REQUIRED, False, "", Span("a/b.yaml", 3)), value
    )


TAKEN = [
    (BOOL, True, True),
    (BOOL, np.bool_(False), False),
    (INT, -3, -3),
    (INT, np.int64(-3), -3),
    (INT, np.uint8(200), 200),
    (INT, np.array(5), 5),
    (INT, Number.TWO, 2),
    (INT, Indexed(), 7),
    (INT, 10**30, 10**30),
    (DIM, 0, 0),
    (DIM, np.int32(4), 4),
    (MODE, "tanh", "tanh"),
    (MODE, np.str_("tanh"), "tanh"),
    (MODE, Word.TANH, "tanh"),
    (TWO_DTYPES, torch.float16, torch.float16),
    (TWO_DTYPES, "float16", torch.float16),
    (TWO_DTYPES, "torch.float32", torch.float32),
    (TWO_DTYPES, "half", torch.float16),
    (ANY_DTYPE, torch.int4, torch.int4),
    (SHAPE, [2, 3], (2, 3)),
    (SHAPE, (2, 3), (2, 3)),
    (SHAPE, torch.Size([2, 3]), (2, 3)),
    (SHAPE, range(1, 4), (1, 2, 3)),
    (SHAPE, np.array([2, 3]), (2, 3)),
    (SHAPE, (n for n in (2, 3)), (2, 3)),
    (SHAPE, [np.int64(2), Number.TWO], (2, 2)),
    (SHAPE, 5, (5,)),
    (SHAPE, np.int16(5), (5,)),
    (SHAPE, [], ()),
    (AXES, None, None),
    (AXES, -1, -1),
    (AXES, [0, -1], (0, -1)),
    (AXES, torch.Size([1]), (1,)),
    (AXES, (), ()),
    (SOME_AXES, np.int64(1), 1),
    (PAIR, 3, (3, 3)),
    (PAIR, [3, -4], (3, -4)),
    (PAIR, torch.Size([1, 2]), (1, 2)),
    (FLOAT, 0.5, 0.5),
    (FLOAT, 1, 1.0),
    (FLOAT, np.float64(0.5), 0.5),
    (FLOAT, np.float32(0.5), 0.5),
    (FLOAT, np.float16(0.5), 0.5),
    (FLOAT, np.int64(2), 2.0),
    (FLOAT, fractions.Fraction(1, 4), 0.25),
    (FLOAT, decimal.Decimal("0.25"), 0.25),
    (FLOAT, math.inf, math.inf),
    (NUMBER, 2, 2),
    (NUMBER, 2.0, 2.0),
    (NUMBER, np.int8(2), 2),
    (ANY_SCALAR, True, True),
    (ANY_SCALAR, np.bool_(True), True),
    (ANY_SCALAR, "word", "word"),
    (ANY_SCALAR, Word.TANH, "tanh"),
    (ANY_SCALAR, 1 + 2j, 1 + 2j),
    (ANY_SCALAR, np.complex64(1 + 2j), 1 + 2j),
    (MaybeKind(INT), None, None),
    (MaybeKind(INT), 3, 3),
    (MaybeKind(TWO_DTYPES), "float16", torch.float16),
    (DeviceKind(), None, None),
    (DeviceKind(), "cpu", torch.device("cpu")),
    (DeviceKind(), "cuda:1", torch.device("cuda:1")),
    (DeviceKind(), torch.device("meta"), torch.device("meta")),
]


@pytest.mark.parametrize(("kind", "value", "due"), TAKEN, ids=map(str, range(len(TAKEN))))
def test_a_value_of_the_kind_takes_its_one_form(kind, value, due):
    found = taken(kind, value)
    assert found == due
    assert type(found) is type(due)
    if isinstance(found, tuple):
        assert all(type(item) is int for item in found)


def test_a_list_passed_in_and_edited_later_changes_nothing():
    given = [2, 3]
    found = taken(SHAPE, given)
    given.append(4)
    assert found == (2, 3)


def test_negative_zero_keeps_its_sign():
    for value in (-0.0, np.float32(-0.0)):
        assert math.copysign(1, taken(FLOAT, value)) == -1
    assert math.copysign(1, taken(NUMBER, -0.0)) == -1


def test_not_a_number_is_a_float():
    for value in (math.nan, np.float32("nan")):
        assert math.isnan(taken(FLOAT, value))


def test_a_number_keeps_its_type():
    assert [type(taken(ANY_SCALAR, v)) for v in (1, 1.0, True)] == [int, float, bool]


def test_a_symbolic_int_is_refused():
    size = ShapeEnv().create_symintnode(sympy.Symbol("s", integer=True, positive=True), hint=7)
    with pytest.raises(SignatureError, match="construct ops outside of traced code"):
        taken(INT, size)
    with pytest.raises(SignatureError):
        taken(SHAPE, [2, size])


SETS = ({1, 2}, frozenset({1, 2}))
REFUSED = [
    (BOOL, (1, 0, "True", None, np.int64(1), torch.tensor(True), [True])),
    (INT, (True, 1.0, "1", None, [1], np.float64(1), np.bool_(True), torch.tensor(1), 1j, *SETS)),
    (DIM, (-1, np.int64(-1), True, 1.5)),
    (MODE, ("Tanh", "", None, 1, b"tanh", ["tanh"])),
    (TWO_DTYPES, (torch.int8, "int8", None, float, np.float32, "nn", "nonsense", 3)),
    (ANY_DTYPE, ("nonsense", "nn.Linear", None, torch.strided)),
    (SHAPE, ([-1], -1, [1.0], ["1"], "12", b"12", [[1, 2], [3]], [True], None, {1: 2}, 1.5, *SETS)),
    (SHAPE, ([None], torch.ones(2, dtype=torch.int64), [torch.tensor(1)], np.array([[1]]))),
    (AXES, ([1.0], "1", True, {0}, [[0]], 0.0, [None])),
    (SOME_AXES, (None,)),
    (PAIR, ((1,), (1, 2, 3), 1.5, "12", None, {1, 2}, (1, True), ((1, 2), 3))),
    (
        FLOAT,
        ("1.0", None, True, 1j, np.complex64(1), [0.5], torch.tensor(0.5), np.ones(2), 10**400),
    ),
    (NUMBER, ("1", True, None, 1j)),
    (ScalarKind(("str",)), (1, 1.0, True, None, b"word")),
    (ScalarKind(("bool",)), (1, 0.0, "True")),
    (ScalarKind(("int",)), (1.0, True, "1")),
    (MaybeKind(INT), (True, 1.0, "None")),
    (DeviceKind(), ("nonsense", "cpu:x", 0, True, 1.5, ["cpu"])),
]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(kind, value) for kind, values in REFUSED for value in values],
    ids=lambda part: repr(part)[:40],
)
def test_a_value_of_another_kind_is_refused(kind, value):
    with pytest.raises(SignatureError) as caught:
        taken(kind, value)
    error = caught.value
    assert str(error).startswith("ProbeFwdOp: p must be ")
    assert f", got {repr(value)[:40]}" in str(error)
    assert f" ({type(value).__name__})" in str(error)
    assert str(error).endswith("  [b.yaml:3]")
    assert (error.op, error.tensor) == ("ProbeFwdOp", "p")
    assert error.actual is value
    assert error.expected in str(error)


@pytest.mark.parametrize(
    ("kind", "value", "due"),
    [
        (BOOL, 1, "True or False"),
        (INT, 1.5, "an int"),
        (DIM, -1, "a non-negative int"),
        (MODE, 1, "one of 'none', 'tanh'"),
        (TWO_DTYPES, "int8", "one of float16, float32"),
        (ANY_DTYPE, "integer", "a torch dtype"),
        (SHAPE, {1}, "a sequence of non-negative ints"),
        (AXES, "0", "an int or a sequence of ints, or None"),
        (SOME_AXES, None, "an int or a sequence of ints"),
        (PAIR, (1,), "an int or 2 of them"),
        (FLOAT, "x", "a float"),
        (NUMBER, "x", "an int or a float"),
        (MaybeKind(INT), "x", "an int or None"),
        (MaybeKind(MODE), "x", "one of 'none', 'tanh' or None"),
        (DeviceKind(), 0, "a torch device, its name or None"),
    ],
)
def test_a_refusal_says_what_is_due(kind, value, due):
    with pytest.raises(SignatureError) as caught:
        taken(kind, value)
    assert caught.value.expected == due


def test_a_value_per_axis_or_a_word_is_either():
    kind = WordOrKind(("valid", "same"), PAIR)
    assert [taken(kind, value) for value in (1, [1, 2], "same", np.str_("valid"))] == [
        (1, 1),
        (1, 2),
        "same",
        "valid",
    ]
    with pytest.raises(SignatureError) as caught:
        taken(kind, "vaild")
    assert caught.value.expected == "an int or 2 of them or 'valid' or 'same'"
    assert "did you mean 'valid'?" in str(caught.value)


def test_a_value_per_axis_may_have_holes_where_the_entry_says_so():
    kind = MaybeKind(IntTupleKind(2, holes=True))
    for value, expected in (
        (None, None),
        (3, (3, 3)),
        ((None, 3), (None, 3)),
        ([3, None], (3, None)),
        (np.array([3, 4]), (3, 4)),
    ):
        assert taken(kind, value) == expected
    for value in ((None,), (None, "3"), "33", (None, 1.5)):
        with pytest.raises(SignatureError):
            taken(kind, value)
    with pytest.raises(SignatureError):
        taken(PAIR, (None, 3))


FORMS = AdtKind(
    "MGroupedLayout",
    (
        Constructor(
            "masked",
            "tileops_core.interfaces.moe.MaskedLayout",
            (("max_m", INT),),
            (("max_m >= 1", parse_expression("max_m >= 1", lambda *place: NOWHERE)),),
        ),
    ),
)


def test_an_object_of_a_form_is_taken_by_value():
    assert taken(FORMS, MaskedLayout(np.int64(4))) == MaskedLayout(4)
    assert type(taken(FORMS, MaskedLayout(np.int64(4))).max_m) is int


def test_a_value_as_an_entry_writes_it_becomes_an_object():
    assert taken(FORMS, AdtValue("masked", (("max_m", 4),))) == MaskedLayout(4)


@pytest.mark.parametrize(
    ("value", "due"),
    [
        (ContiguousLayout(), "a MGroupedLayout (MaskedLayout)"),
        (None, "a MGroupedLayout (MaskedLayout)"),
        (MaskedLayout("4"), "a MGroupedLayout whose max_m is an int"),
        (MaskedLayout(0), "a MGroupedLayout with max_m >= 1"),
        (AdtValue("masked", (("max_m", 0),)), "a MGroupedLayout with max_m >= 1"),
    ],
)
def test_an_object_of_no_form_is_refused(value, due):
    with pytest.raises(SignatureError) as caught:
        taken(FORMS, value)
    assert caught.value.expected == due


def test_an_object_that_expressions_cannot_read_is_kept_as_it_is():
    kind = OpaqueKind("RoutingEpilogueSpec", "tileops_core.interfaces.moe.RoutingEpilogueSpec")
    value = RoutingEpilogueSpec(2.0)
    assert taken(kind, value) is value
    with pytest.raises(SignatureError, match="must be a RoutingEpilogueSpec, got 2"):
        taken(kind, 2.0)


def test_an_object_that_a_row_writes_is_made_of_its_fields():
    kind = OpaqueKind("RoutingEpilogueSpec", "tileops_core.interfaces.moe.RoutingEpilogueSpec")
    written = AdtValue("RoutingEpilogueSpec", (("routed_scaling_factor", 2.0),))
    assert taken(kind, written) == RoutingEpilogueSpec(2.0)
    with pytest.raises(SignatureError, match="what RoutingEpilogueSpec takes"):
        taken(kind, AdtValue("RoutingEpilogueSpec", (("factor", 2.0),)))


def tensor_param(*, optional):
    name = Name(id="T", span=NOWHERE)
    declared = Input("p", name, (), "T", "[]", NOWHERE, NOWHERE, NOWHERE, optional=optional)
    return Param("p", TENSOR, REQUIRED, False, "Tensor", NOWHERE, declared)


def test_a_tensor_is_taken_as_a_dense_copy_without_history():
    given = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3)).t()
    found = normalize("ProbeFwdOp", tensor_param(optional=False), given)
    assert torch.equal(found, given)
    assert found.is_contiguous()
    assert not found.requires_grad
    assert found.data_ptr() != given.data_ptr()


@pytest.mark.parametrize("value", [[1.0], 1.0, "x"])
def test_what_is_no_tensor_is_refused(value):
    with pytest.raises(SignatureError, match=r"p must be a torch\.Tensor"):
        normalize("ProbeFwdOp", tensor_param(optional=False), value)


@pytest.mark.parametrize("form", ["sparse_coo", "sparse_csr"])
def test_a_tensor_of_another_layout_is_refused_by_its_layout(form):
    value = torch.eye(2).to_sparse(layout=getattr(torch, form))
    with pytest.raises(SignatureError, match=rf"p is a {form} tensor, .* dense \(strided\)"):
        normalize("ProbeFwdOp", tensor_param(optional=False), value)


def test_a_tensor_that_may_be_left_out_may_be_none():
    assert normalize("ProbeFwdOp", tensor_param(optional=True), None) is None
    with pytest.raises(SignatureError):
        normalize("ProbeFwdOp", tensor_param(optional=False), None)


def test_a_word_nearly_right_is_guessed():
    with pytest.raises(SignatureError, match=r"did you mean 'tanh'\?"):
        taken(MODE, "tahn")


def test_an_int_too_large_for_a_float_is_refused_with_pythons_reason():
    with pytest.raises(SignatureError, match="int too large to convert to float"):
        taken(FLOAT, 10**400)
