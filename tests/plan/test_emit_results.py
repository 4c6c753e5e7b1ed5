"""Outputs, writes and costs of a call, against formulas written down a second time by hand."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from plan_support import optional, plan, plan_of, spec, statics

from tileops_core.errors import SignatureError
from tileops_core.ops._index import OPS
from tileops_core.record.signature_call import Served, SignatureCall
from tileops_core.signature.workload import cases
from tileops_core.tensor_spec import TensorSpec

BOTH = list(itertools.product([False, True], repeat=2))
HALF, FLOAT, EIGHT = torch.float16, torch.float32, torch.float8_e4m3fn


class Results:
    """What the generated functions say of a call of one of the manifest's ops."""

    def __init__(self, op, *shapes, dtype=FLOAT, params=None, **more):
        self.plan = plan_of(op) if isinstance(op, str) else op
        known = statics(self.plan, **(params or more))
        inputs = tuple(
            s if s is None or isinstance(s, TensorSpec) else spec(*s, dtype=dtype) for s in shapes
        )
        inputs += (None,) * (len(self.plan.signature.inputs) - len(inputs))
        found = self.plan.check(known, *inputs)
        self.outputs = self.plan.outputs(known, found)
        self.written = self.plan.written(known, found)
        record = SignatureCall(self.plan, known, inputs, False, Served(None))
        self.flops, self.bytes = record.roofline()

    @property
    def shape(self):
        ((shape, _),) = self.outputs
        return shape

    @property
    def dtype(self):
        ((_, dtype),) = self.outputs
        return dtype


# -- shapes and dtypes --------------------------------------------------------------------


@pytest.mark.parametrize(("trans_a", "trans_b"), BOTH)
def test_gemm(trans_a, trans_b):
    a, b = (3, 2) if trans_a else (2, 3), (5, 3) if trans_b else (3, 5)
    r = Results("GEMMFwdOp", a, b, dtype=HALF, trans_a=trans_a, trans_b=trans_b)
    assert (r.shape, r.dtype) == ((2, 5), HALF)
    assert r.flops == 2 * 2 * 5 * 3
    assert r.bytes == 2 * (2 * 3 + 3 * 5 + 2 * 5)


def test_bmm():
    r = Results("BMMFwdOp", (7, 2, 3), (7, 3, 5), dtype=HALF)
    assert (r.shape, r.dtype) == ((7, 2, 5), HALF)
    assert r.flops == 7 * 2 * 2 * 5 * 3
    assert r.bytes == 2 * 7 * (2 * 3 + 3 * 5 + 2 * 5)


@pytest.mark.parametrize("op", ["AddFwdOp", "MulFwdOp"])
@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((), (2, 3)), ((0, 3), (1, 3)),
     ((3, 1), (3, 0)), ((), ()), ((4, 1, 2), (3, 1)), ((1,), (1, 1))],
)  # fmt: skip
def test_binary(op, a, b):
    """MAN-18"""
    r = Results(op, a, b, dtype=torch.int32)
    due = torch.broadcast_shapes(a, b)
    assert (r.shape, r.dtype) == (due, torch.int32)
    assert r.flops == math.prod(due)
    assert r.bytes == 4 * (math.prod(a) + math.prod(b) + math.prod(due))


@pytest.mark.parametrize(("alpha", "products"), [(1, 0), (1.0, 0), (2, 3), (0.5, 3), (0, 3)])
def test_add_with_a_factor_costs_a_product_more_for_each_element_of_other(alpha, products):
    assert Results("AddFwdOp", (2, 3), (3,), alpha=alpha).flops == 6 + products


@pytest.mark.parametrize(("a", "b"), [((0, 3), (2, 3)), ((2,), (3,)), ((2, 3), (2,))])
def test_shapes_that_do_not_broadcast_give_no_output(a, b):
    """MAN-18"""
    with pytest.raises(SignatureError, match="do not broadcast"):
        Results("AddFwdOp", a, b)


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 4)])
def test_gelu(shape):
    count = math.prod(shape)
    r = Results("GELUFwdOp", shape, dtype=HALF)
    assert (r.shape, r.dtype, r.flops, r.bytes) == (shape, HALF, 5 * count, 2 * 2 * count)
    assert Results("GELUFwdOp", shape, approximate="tanh").flops == 8 * count


@pytest.mark.parametrize("inplace", [False, True])
def test_relu(inplace):
    r = Results("ReLUFwdOp", (2, 3), inplace=inplace)
    assert (r.shape, r.dtype, r.flops) == ((2, 3), FLOAT, 6)
    assert r.written == (("input",) if inplace else ())
    assert r.bytes == 2 * 4 * 6


@pytest.mark.parametrize("dtype", [None, HALF])
def test_softmax(dtype):
    r = Results("SoftmaxFwdOp", spec(2, 3, 4), params={"dim": -1, "dtype": dtype})
    assert (r.shape, r.dtype, r.flops) == ((2, 3, 4), dtype or FLOAT, 5 * 24)
    assert r.bytes == 24 * (4 + r.dtype.itemsize)


@pytest.mark.parametrize("dim", [None, (), 0, -1, 2, (0, 2), (-1, 1), (0, 1, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sum(dim, keepdim):
    shape = (2, 3, 4)
    r = Results("SumFwdOp", shape, dim=dim, keepdim=keepdim)
    due = tuple(torch.empty(shape).sum(dim, keepdim=keepdim).shape)
    assert (r.shape, r.dtype, r.flops) == (due, FLOAT, 24)
    assert r.bytes == 4 * (24 + math.prod(due))


@pytest.mark.parametrize(("dim", "said"), [(3, "out of range"), (-4, "out of range"),
                                           ((1, -2), "appears multiple times")])  # fmt: skip
def test_sum_over_axes_that_are_not_there_or_twice_there(dim, said):
    """MAN-09"""
    with pytest.raises(SignatureError, match=said):
        Results("SumFwdOp", (2, 3, 4), dim=dim)


@pytest.mark.parametrize("weight", [False, True])
def test_rms_norm(weight):
    w = (3, 4) if weight else None
    r = Results("RMSNormFwdOp", (2, 5, 3, 4), w, normalized_shape=(3, 4))
    assert (r.shape, r.dtype) == ((2, 5, 3, 4), FLOAT)
    assert r.flops == 10 * 12 * (4 if weight else 3) + 3 * 10
    assert r.bytes == 4 * (2 * 120 + (12 if weight else 0))


@pytest.mark.parametrize(("weight", "bias"), BOTH)
def test_layer_norm(weight, bias):
    given = [(4,) if there else None for there in (weight, bias)]
    r = Results("LayerNormFwdOp", (2, 3, 4), *given, normalized_shape=(4,))
    assert (r.shape, r.dtype) == ((2, 3, 4), FLOAT)
    assert r.flops == 6 * 4 * (5 + weight + bias) + 4 * 6
    assert r.bytes == 4 * (2 * 24 + 4 * (weight + bias))


def test_fused_add_layer_norm():
    r = Results("FusedAddLayerNormFwdOp", (2, 3, 4), (2, 3, 4), (4,), (4,), dtype=HALF)
    assert r.outputs == (((2, 3, 4), HALF), ((2, 3, 4), HALF))
    assert r.flops == 8 * 24 + 4 * 6
    assert r.bytes == 2 * (4 * 24 + 2 * 4)


def visible(s_q, s_kv, causal, left, right):
    """How many (query, key) pairs of one head see each other, counted one by one."""
    count = 0
    for i, j in itertools.product(range(s_q), range(s_kv)):
        p = i + s_kv - s_q
        if causal and j > p:
            continue
        if left >= 0 and j < p - left:
            continue
        if not causal and right >= 0 and j > p + right:
            continue
        count += 1
    return count


@pytest.mark.parametrize(("s_q", "s_kv"), [(0, 3), (1, 1), (1, 5), (3, 5), (5, 5), (6, 4)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_counts_the_pairs_that_see_each_other(s_q, s_kv, causal):
    for left, right in itertools.product([-1, 0, 1, 2, 9], repeat=2):
        params = {"is_causal": causal, "window_size_left": left, "window_size_right": right}
        q, kv = (2, s_q, 4, 8), (2, s_kv, 2, 8)
        r = Results("GQADenseFwdOp", q, kv, kv, **params)
        pairs = visible(s_q, s_kv, causal, left, right)
        assert r.flops == 2 * 4 * pairs * (4 * 8 + 5) + 2 * s_q * 4 * 8


def test_attention_with_every_extra():
    q, kv, scale = (2, 3, 4, 8), (2, 5, 2, 8), spec(2, 2)
    eight = {"dtype": EIGHT, "out_dtype": HALF, "is_causal": True}
    pairs = 3 + 4 + 5
    r = Results("GQADenseFwdOp", q, kv, kv, scale, scale, scale, **eight)
    assert (r.shape, r.dtype) == (q, HALF)
    plain = 2 * 4 * pairs * (4 * 8 + 5) + 2 * 3 * 4 * 8
    assert r.flops == plain
    assert r.bytes == 192 + 2 * 160 + 3 * 4 * 4 + 2 * 192

    r = Results("GQADenseFwdOp", q, kv, kv, *[None] * 5, spec(4), is_causal=True, softcap=30.0)
    assert r.flops == plain + 2 * 4 * pairs * 2 + 4 * 2 * 3 * 4
    assert r.bytes == 4 * (192 + 2 * 160 + 4 + 192)

    table = spec(7, 3)
    turned = {"pos_encoding_mode": "rope", "rotary_dim": 6, "is_causal": True}
    r = Results("GQADenseFwdOp", q, kv, kv, None, None, None, table, table, **turned)
    assert r.flops == plain + 3 * 6 * 2 * (3 * 4 + 5 * 2)
    assert r.bytes == 4 * (192 + 2 * 160 + 2 * 21 + 192)


def test_fused_add_rms_norm():
    r = Results("FusedAddRMSNormFwdOp", (2, 3, 7), (2, 3, 7), (7,), dtype=HALF)
    assert r.outputs == (((2, 3, 7), HALF), ((2, 3, 7), HALF))
    assert r.flops == 5 * 42 + 3 * 6
    assert r.bytes == 2 * (4 * 42 + 7)


@pytest.mark.parametrize(
    ("op", "params", "each"),
    [
        ("SiLUAndMulFwdOp", {}, 5),
        ("GELUAndMulFwdOp", {}, 6),
        ("GELUAndMulFwdOp", {"approximate": "tanh"}, 9),
    ],
)
def test_gated_activations_return_half_of_what_they_read(op, params, each):
    r = Results(op, (3, 14), dtype=HALF, **params)
    assert (r.shape, r.dtype) == ((3, 7), HALF)
    assert r.flops == each * 21
    assert r.bytes == 2 * (42 + 21)
    with pytest.raises(SignatureError, match="3 on axis 1"):
        Results(op, (2, 3))


@pytest.mark.parametrize(
    ("shape", "dim", "rows"),
    [
        ((2, 3, 4), -1, 6),
        ((2, 3, 4), 1, 8),
        ((2, 3, 4), None, 12),
        ((2, 3), None, 2),
        ((), None, 1),
    ],
)
@pytest.mark.parametrize("dtype", [None, FLOAT])
def test_log_softmax(shape, dim, rows, dtype):
    r = Results("LogSoftmaxFwdOp", shape, dtype=HALF, params={"dim": dim, "dtype": dtype})
    count = math.prod(shape)
    assert (r.shape, r.dtype) == (shape, dtype or HALF)
    assert r.flops == 5 * count + 2 * rows
    assert r.bytes == (2 + (4 if dtype else 2)) * count


@pytest.mark.parametrize(
    ("dim", "keepdim", "due"),
    [(None, False, ()), (None, True, (1, 1)), (0, False, (3,)), (-1, True, (2, 1))],
)
def test_argmax(dim, keepdim, due):
    r = Results("ArgmaxFwdOp", (2, 3), dtype=HALF, dim=dim, keepdim=keepdim)
    assert (r.shape, r.dtype) == (due, torch.int64)
    assert r.flops == 6
    assert r.bytes == 2 * 6 + 8 * math.prod(due)


def test_argmax_of_nothing_names_the_axis():
    with pytest.raises(IndexError, match="axis 1 has length 0"):
        Results("ArgmaxFwdOp", (2, 0), dim=-1)
    assert Results("ArgmaxFwdOp", (2, 0), dim=0).shape == (0,)


@pytest.mark.parametrize("dtype", [None, FLOAT])
def test_cumsum(dtype):
    r = Results("CumsumFwdOp", (2, 3), dtype=HALF, params={"dim": 0, "dtype": dtype})
    assert (r.shape, r.dtype) == ((2, 3), dtype or HALF)
    assert r.flops == 6
    assert r.bytes == 6 * (2 + (4 if dtype else 2))


@pytest.mark.parametrize(("layout", "shape"), [("1d", (5, 8)), ("2d", (2, 5, 3, 8))])
def test_rope_costs_three_per_feature(layout, shape):
    r = Results("RoPEFwdOp", shape, dtype=HALF, input_layout=layout)
    assert (r.shape, r.dtype) == (shape, HALF)
    assert r.flops == 3 * math.prod(shape)
    assert r.bytes == 4 * math.prod(shape)


@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_rope_by_position_costs_what_it_turns(rotary_dim):
    params = {"max_position": 9, "rotary_dim": rotary_dim}
    at = spec(5, dtype=torch.int32)
    r = Results("RoPENeoxPositionIdsFwdOp", (5, 3, 8), at, dtype=HALF, params=params)
    assert (r.shape, r.dtype) == ((5, 3, 8), HALF)
    assert r.flops == 3 * 5 * 3 * (rotary_dim or 8)
    assert r.bytes == 4 * 120 + 4 * 5


# -- all of them -------------------------------------------------------------------------


def test_costs_of_large_matrices_are_exact_ints():
    """MAN-16"""
    n = 2**18
    r = Results("GEMMFwdOp", (n, n), (n, n), dtype=HALF)
    assert type(r.flops) is type(r.bytes) is int
    assert (r.flops, r.bytes) == (2 * 2**54, 3 * 2 * 2**36)
    r = Results("BMMFwdOp", (n, n, n), (n, n, n), dtype=HALF)
    assert r.flops == 2 * 2**72
    r = Results("GQADenseFwdOp", *[(2**10, 2**20, 64, 128)] * 3, dtype=HALF, is_causal=True)
    pairs = 2**20 * (2**20 + 1) // 2
    assert r.flops == 2**10 * 64 * pairs * (4 * 128 + 5) + 2**10 * 2**20 * 64 * 128


@pytest.mark.parametrize("op", OPS)
def test_every_workload_costs_something_in_ints(op):
    """MAN-16"""
    made = plan_of(op)
    for case in cases(made.signature):
        known = statics(made, **case.params)
        inputs = [
            None if facts is None else spec(*facts[1], dtype=getattr(torch, facts[0]))
            for facts in case.inputs.values()
        ]
        values = case.metadata()
        record = SignatureCall(made, known, tuple(inputs), False, Served(None), metadata=values)
        flops, moved = record.roofline()
        assert type(flops) is type(moved) is int
        assert flops > 0, case.case_id
        assert moved > 0, case.case_id


@pytest.mark.parametrize("op", OPS)
def test_names_of_statics_and_facts(op):
    made = plan_of(op)
    signature = made.signature
    construction = [x.name for x in signature.lets if x.phase == "construction"]
    settled = [t.dtype_text for t in signature.construction_tensors]
    names = (*(p.name for p in signature.params), *settled, *construction)
    assert made.static_names == names
    assert made.fact_names[0] == "_device"
    optional_ones = [f"_has_{t.name}" for t in signature.inputs if t.optional is not False]
    assert list(made.fact_names[1 : 1 + len(optional_ones)]) == optional_ones
    rest = {x.name for x in signature.lets if x.phase == "call"}
    rest |= {index.name for index in signature.indices if not index.row_only} - {*settled}
    assert set(made.fact_names[1 + len(optional_ones) :]) == rest
    assert len(set(made.fact_names)) == len(made.fact_names)


# -- effects ------------------------------------------------------------------------------


def test_what_is_written_may_hang_on_a_parameter_and_on_presence():
    state = {"dtype": "T", "shape": "[M]", "mutated": True}
    made = plan(
        "M",
        {
            "a": {**state, "mutated": "flag"},
            "b": state,
            "x": "[M]",
            "c": {**state, "optional": True},
            "d": {**state, "optional": True, "mutated": "not flag"},
        },
        params={"flag": "bool"},
    )
    given = [spec(2)] * 5
    for flag, last in BOTH:
        given[3:] = [spec(2)] * 2 if last else [None] * 2
        known = statics(made, flag=flag)
        written = made.written(known, made.check(known, *given))
        due = {"a": flag, "b": True, "c": last, "d": last and not flag}
        assert written == tuple(name for name in "abcd" if due[name])


def test_a_nullable_output_is_there_or_none():
    made = plan(
        "M N",
        {"x": "[M, N]", "w": optional("[N]")},
        {
            "y": "[M]",
            "where": {"dtype": "int64", "shape": "[M]", "nullable": "not flag"},
            "sum": {"dtype": "T", "shape": "[N]", "nullable": "not present(w)"},
        },
        params={"flag": "bool"},
    )
    for flag, there in BOTH:
        known = statics(made, flag=flag)
        found = made.check(known, spec(2, 3), spec(3) if there else None)
        _, where, total = made.outputs(known, found)
        assert where == (((2,), torch.int64) if flag else None)
        assert total == (((3,), FLOAT) if there else None)


def test_an_output_of_a_type_family_takes_the_shape_of_its_branch():
    mat = {
        "params": {"turned": "Bool", "R": "Dim", "C": "Dim"},
        "match": "turned",
        "cases": [{"when": False, "is": "[R, C]"}, {"when": True, "is": "[C, R]"}],
    }
    made = plan(
        "M N",
        {"x": "[M, N]"},
        {"y": "Mat[flag, M, N]"},
        types={"Mat": mat},
        params={"flag": "bool"},
    )
    for flag, due in ((False, (2, 3)), (True, (3, 2))):
        known = statics(made, flag=flag)
        assert made.outputs(known, made.check(known, spec(2, 3))) == ((due, FLOAT),)


def test_bytes_stated_inline_may_read_the_tensors_sizes():
    made = plan(
        "M",
        {"x": "[M]", "w": optional("[M]")},
        {"y": "[M]"},
        roofline={"flops": "M + bytes(w)", "bytes": "2 * bytes(x) + bytes(y)"},
    )
    r = Results(made, (5,), (5,))
    assert (r.flops, r.bytes) == (5 + 20, 3 * 20)
    assert Results(made, (5,)).flops == 5


def test_an_op_that_states_no_cost_has_none():
    made = plan("M", {"x": "[M]"}, roofline={"func": "math.prod"})
    assert (made.flops, made.moved) == (None, None)


def test_a_op_may_write_on_some_branch_or_on_none():
    assert plan_of("ReLUFwdOp").may_write
    assert not plan_of("GELUFwdOp").may_write
    buffer = {"y": {"dtype": "T", "shape": "[M]", "buffer": "out"}}
    assert plan("M", {"x": "[M]"}, buffer).may_write
