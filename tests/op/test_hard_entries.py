"""Op classes made of the hardest entries check their calls and pass on what they say."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
import torch
from hard_ops import answering, op_class

from tileops_core.errors import SignatureError
from tileops_core.interfaces.moe import ContiguousLayout, MaskedLayout, RoutingEpilogueSpec
from tileops_core.tensor_spec import TensorSpec

F16, BF16, F32, FP8 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn


def of(*shape, dtype=F16):
    return torch.zeros(shape, dtype=dtype)


def ints(*shape, dtype=torch.int32):
    return torch.zeros(shape, dtype=dtype)


def refused(message, op, *inputs, **named):
    with pytest.raises(SignatureError, match=re.escape(message)):
        op(*inputs, **named)


# -- type families on several discriminants -----------------------------------------------

GROUPED = [
    (False, False, (40, 8), (4, 8, 32), (40, 32)),
    (False, True, (40, 8), (4, 32, 8), (40, 32)),
    (True, False, (40, 32), (40, 8), (4, 32, 8)),
    (True, True, (40, 32), (8, 40), (4, 32, 8)),
]


@pytest.mark.parametrize(("trans_a", "trans_b", "a", "b", "d"), GROUPED)
def test_each_pair_of_discriminants_has_its_shapes(trans_a, trans_b, a, b, d):
    with answering("GroupedGEMMFwdOp", trans_a=trans_a, trans_b=trans_b) as (op, _):
        assert op(of(*a), of(*b), ints(4), ints(4)).shape == d


def test_an_index_settled_by_different_tensors_is_checked_on_each_branch():
    with answering("GroupedGEMMFwdOp", trans_a=True, trans_b=False) as (op, _):
        refused("b has shape (41, 8)", op, of(40, 32), of(41, 8), ints(4), ints(4))
        refused("requires N > 0, got N=0", op, of(40, 0), of(40, 8), ints(4), ints(4))


@pytest.mark.parametrize(
    ("lower", "upper", "shape"),
    [((8,), (2, 1, 1), (2, 4, 8)), ((8,), None, (4, 8)), (None, (2, 1, 1), (2, 4, 8))],
)
def test_a_result_has_the_shape_of_the_tensors_that_are_there(lower, upper, shape):
    bounds = [None if bound is None else of(*bound) for bound in (lower, upper)]
    with answering("ClampTensorFwdOp") as (op, _):
        assert op(of(4, 8), *bounds).shape == shape


def test_a_restriction_comes_before_the_branch_that_it_rules_out():
    with answering("ClampTensorFwdOp") as (op, _):
        refused("requires present(min) or present(max)", op, of(4, 8))


# -- sealed sums --------------------------------------------------------------------------


def test_the_form_of_a_sealed_sum_says_which_shapes_there_are():
    with answering("ExpertProductsFwdOp", layout=MaskedLayout(16)) as (op, _):
        assert op(of(4, 16, 8), of(4, 32, 8), ints(4)).shape == (4, 16, 32)
        refused("a has shape (4, 15, 8)", op, of(4, 15, 8), of(4, 32, 8), ints(4))
    with answering("ExpertProductsFwdOp", layout=ContiguousLayout()) as (op, _):
        assert op(of(40, 8), of(4, 32, 8), ints(4)).shape == (40, 32)
        refused("a has 3 axes", op, of(4, 16, 8), of(4, 32, 8), ints(4))


def test_a_pattern_with_a_field_chooses_a_case():
    layout = ContiguousLayout("aligned", "per_row", 8)
    with answering("ExpertProductsFwdOp", layout=layout) as (op, _):
        assert op(of(40, 8), of(4, 32, 8), ints(40)).shape == (40, 32)
        message = "shape (4,), the signature says LayoutMetadata[layout, E, P] = (40,"
        refused(message, op, of(40, 8), of(4, 32, 8), ints(4))
        refused("P % layout.alignment == 0", op, of(41, 8), of(4, 32, 8), ints(41))


def test_a_conditional_axis_is_solved_where_it_can_be():
    with answering("ExpertProductsFwdOp", layout=ContiguousLayout(), activation="silu_and_mul") as (
        op,
        _,
    ):
        assert op(of(40, 8), of(4, 32, 8), ints(4), bias=of(4, 32)).shape == (40, 16)
        refused("b has 33 on axis 1", op, of(40, 8), of(4, 33, 8), ints(4))
        refused("bias has shape (4, 16)", op, of(40, 8), of(4, 32, 8), ints(4), bias=of(4, 16))


def test_a_restriction_refuses_a_form_at_construction():
    message = "requires layout.kind == 'contiguous', got layout=MaskedLayout(max_m=16)"
    with pytest.raises(SignatureError, match=re.escape(message)):
        op_class("RowsToExpertsFwdOp")(MaskedLayout(16), 4)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("masked", "layout must be a MGroupedLayout (ContiguousLayout or MaskedLayout), got"),
        (MaskedLayout(0), "with max_m >= 1"),
        (MaskedLayout(1.5), "a MGroupedLayout whose max_m is an int"),
        (ContiguousLayout("aligned"), "with (packing == 'tight') == (alignment == 1)"),
        (ContiguousLayout("loose", alignment=2), "whose packing is one of 'tight', 'aligned'"),
    ],
)
def test_a_value_of_no_form_is_refused_at_construction(layout, message):
    with pytest.raises(SignatureError, match=re.escape(message)):
        op_class("ExpertProductsFwdOp")(layout)


def test_a_builder_gets_the_object_itself_with_plain_fields():
    class Int(int):
        pass

    with answering("ExpertProductsFwdOp", layout=MaskedLayout(Int(16))) as (op, answer):
        op(of(4, 16, 8), of(4, 32, 8), ints(4))
        assert answer.params["layout"] == MaskedLayout(16)
        assert type(answer.params["layout"].max_m) is int


def test_equal_layouts_make_equal_keys():
    make = op_class("ExpertProductsFwdOp")
    keys = [make(layout)._key for layout in (MaskedLayout(16), MaskedLayout(16))]
    assert keys[0] == keys[1]
    assert make(MaskedLayout(17))._key != keys[0]


def test_an_object_that_expressions_cannot_read_is_passed_on():
    scale = RoutingEpilogueSpec(2.5)
    with answering("RowsFromExpertsFwdOp", layout=MaskedLayout(8), epilogue=scale) as (op, answer):
        op(of(4, 8, 16), of(6, 2, dtype=F32), ints(12))
        assert answer.params["epilogue"] is scale
    with pytest.raises(SignatureError, match="epilogue must be a RoutingEpilogueSpec or None, got"):
        op_class("RowsFromExpertsFwdOp")(MaskedLayout(8), 2.5)


# -- dtypes that go together --------------------------------------------------------------


def paged(t, kv, **scales):
    named = dict.fromkeys(("q_scale", "k_scale", "v_scale"))
    cache = of(4, 16, 2, 64, dtype=kv)
    return (of(3, 8, 64, dtype=t), cache, cache, ints(2, 2), ints(2), ints(3)), named | scales


def test_a_combination_of_dtypes_without_a_row_is_refused():
    with answering("GQAPagedFwdOp") as (op, _):
        inputs, named = paged(F16, F16)
        assert op(*inputs, **named).dtype is F16
        inputs, named = paged(F16, BF16)
        refused(
            "requires (T, KV) in ((float16, float16), (bfloat16, bfloat16), ", op, *inputs, **named
        )
        refused("got T=float16, KV=bfloat16", op, *inputs, **named)


@pytest.mark.parametrize("shape", [(1,), (2, 2)])
def test_a_shape_of_two_ranks_is_refined_by_subscripts(shape):
    scale = of(*shape, dtype=F32)
    inputs, named = paged(F16, FP8, k_scale=scale, v_scale=scale)
    with answering("GQAPagedFwdOp") as (op, _):
        assert op(*inputs, **named).dtype is F16
        inputs, named = paged(F16, FP8, k_scale=of(3, dtype=F32), v_scale=of(3, dtype=F32))
        refused("len(SK) == 1 and SK[0] == 1", op, *inputs, **named)


def test_an_input_is_passed_exactly_when_another_is():
    with answering("GQAPagedFwdOp") as (op, _):
        inputs, named = paged(F16, FP8, k_scale=of(1, dtype=F32))
        refused("v_scale must be given with present(k_scale)=True", op, *inputs, **named)
        inputs, named = paged(F16, F16, v_scale=of(1, dtype=F32))
        refused("v_scale must not be given", op, *inputs, **named)


def test_a_let_reads_a_parameter_that_may_be_none_behind_its_presence():
    tables = {"rope_cos": of(7, 16), "rope_sin": of(7, 16)}
    inputs, named = paged(F16, F16)
    with answering("GQAPagedFwdOp", pos_encoding_mode="rope", rotary_dim=32) as (op, _):
        assert op(*inputs, **named, **tables).shape == (3, 8, 64)
    with answering("GQAPagedFwdOp", pos_encoding_mode="rope") as (op, _):
        refused("rope_cos has shape (7, 16)", op, *inputs, **named, **tables)


# -- devices, effects, buffers ------------------------------------------------------------


def delta(**named):
    return (of(1, 9, 2, 8), of(1, 9, 2, 8), of(1, 9, 2, 4), of(1, 9, 2)), named


def test_a_tensor_that_stays_on_the_cpu_does_not_decide_where_the_call_is():
    on_cpu = ints(4, dtype=torch.int64)
    inputs = [x.to("meta") for x in delta()[0]]
    with answering("DeltaNetFwdOp") as (op, _):
        o, state = op(*inputs, cu_seqlens=on_cpu.to("meta"), cu_seqlens_cpu=on_cpu)
        assert o.device.type == state.device.type == "meta"
        refused(
            "cu_seqlens_cpu is on meta, the signature says it stays on the CPU",
            op, *inputs, cu_seqlens=on_cpu.to("meta"), cu_seqlens_cpu=on_cpu.to("meta"),
        )  # fmt: skip


def test_a_shape_hangs_on_the_presence_of_another_tensor():
    with answering("DeltaNetFwdOp") as (op, _):
        inputs, _ = delta()
        assert op(*inputs)[1].shape == (1, 2, 8, 4)
        lengths = ints(4, dtype=torch.int64)
        assert op(*inputs, cu_seqlens=lengths)[1].shape == (3, 2, 8, 4)
        state = of(2, 2, 8, 4, dtype=F32)
        refused("cu_seqlens has shape (4,)", op, *inputs, initial_state=state, cu_seqlens=lengths)


def test_an_input_is_written_on_the_branches_that_say_so():
    mean, var = of(3, dtype=F32), of(3, dtype=F32)
    with answering("BatchNormFwdOp", training=True) as (op, _):
        y, save_mean, save_invstd = op(of(2, 3, 8), mean, var)
        assert (y.shape, save_mean.shape, save_invstd.shape) == ((2, 3, 8), (3,), (3,))
        assert op.last_call.written == ("running_mean", "running_var")
        op(of(2, 3, 8))
        assert op.last_call.written == ()
    with answering("BatchNormFwdOp") as (op, _):
        assert op(of(2, 3, 8), mean, var)[1:] == (None, None)
        assert op.last_call.written == ()


def test_an_input_called_out_is_an_input():
    cache, out = of(4, 16, 3), of(7, 3)
    with answering("PagedKVCacheGatherFwdOp") as (op, answer):
        result = op(cache, ints(2, 2), ints(3), out=out)
        assert result is out
        assert answer.named["out"] is out
        assert op(cache, ints(2, 2), ints(3), out=out) is out
        assert op.last_call.traffic["out"].reads == 0
        with pytest.raises(TypeError, match="out"):
            op(cache, ints(2, 2), ints(3))


def test_a_contiguous_output_takes_no_other_buffer():
    with answering("ExpertProductsFwdOp", layout=MaskedLayout(16)) as (op, _):
        inputs = (of(4, 16, 8), of(4, 32, 8), ints(4))
        out = of(4, 16, 32)
        assert op(*inputs, out=out) is out
        refused("out is not contiguous", op, *inputs, out=of(4, 32, 16).transpose(1, 2))


def test_a_buffer_stands_behind_inputs_by_name():
    with answering("ExpertProductsFwdOp", layout=MaskedLayout(16)) as (op, _):
        tensors = (of(4, 16, 8), of(4, 32, 8), ints(4), of(4, 16, 32))
        with pytest.raises(TypeError, match="takes 4 positional arguments"):
            op(*tensors)


# -- parameters of every form -------------------------------------------------------------


def test_a_padding_is_an_int_a_pair_or_a_word():
    inputs = of(1, 3, 8, 8), of(4, 3, 3, 3)
    for padding, size in ((0, (6, 6)), ((1, 0), (8, 6)), ("same", (8, 8)), ("valid", (6, 6))):
        with answering("Conv2dFwdOp", padding=padding) as (op, _):
            assert op(*inputs).shape == (1, 4, *size)
    with pytest.raises(SignatureError, match=r"padding != 'same' or \(sH == 1 and sW == 1\)"):
        op_class("Conv2dFwdOp")(padding="same", stride=2)
    with pytest.raises(SignatureError, match=r"padding must be .* \(did you mean 'same'\?\)"):
        op_class("Conv2dFwdOp")(padding="sane")


@pytest.mark.parametrize(
    ("size", "shape"),
    [(5, (5, 5)), (None, (8, 9)), ((None, 7), (8, 7)), ([7, None], (7, 9)), ((3, 4), (3, 4))],
)
def test_a_size_that_is_none_is_the_inputs(size, shape):
    with answering("AdaptiveAvgPool2dFwdOp", output_size=size) as (op, _):
        assert op(of(2, 3, 8, 9)).shape == (2, 3, *shape)


def test_an_infinite_default_is_infinite():
    with answering("SSDChunkCumsumFwdOp", chunk_size=8) as (op, answer):
        assert op(of(1, 16, 4, dtype=F32), of(4, dtype=F32))[0].dtype is F32
        assert answer.params["dt_max"] == float("inf")


def test_an_op_without_inputs_is_where_its_parameter_says():
    with answering("BiasesFwdOp", seq_len=4, num_heads=2, dtype="float16", device="cpu") as (op, _):
        result = op()
        assert (result.shape, result.dtype, result.device.type) == ((2, 4, 4), F16, "cpu")


def test_a_refinement_runs_over_several_parameters():
    with pytest.raises(SignatureError, match=r"all\(-inf <= f <= inf and f != 0"):
        op_class("RoPELlama31FwdOp")(low_freq_factor=0.0)


# -- tensors given at construction --------------------------------------------------------


def test_a_builder_gets_the_spec_of_a_tensor_and_its_kernel_the_tensor_by_name():
    factors = torch.arange(1.0, 5.0)
    with answering("RescaledRoPEFwdOp", rescale_factors=factors) as (op, answer):
        assert op(of(5, 8)).shape == (5, 8)
        assert answer.params["rescale_factors"] == TensorSpec.of(factors)
        assert torch.equal(answer.named["rescale_factors"], factors)
    with answering("RescaledRoPEFwdOp") as (op, answer):
        op(of(5, 8))
        assert answer.params["rescale_factors"] is answer.named["rescale_factors"] is None


def test_a_tensor_is_copied_at_construction():
    factors = torch.nn.Parameter(torch.arange(1.0, 5.0))
    with answering("RescaledRoPEFwdOp", rescale_factors=factors) as (op, answer):
        with torch.no_grad():
            factors.zero_()
        op(of(5, 8))
        assert torch.equal(answer.named["rescale_factors"], torch.arange(1.0, 5.0))
        assert type(op.rescale_factors) is torch.Tensor
        with pytest.raises(AttributeError, match="rescale_factors is fixed at construction"):
            op.rescale_factors = factors


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (torch.ones(2, 2), "rescale_factors has 2 axes (2, 2), the signature says [D // 2], which"),
        (
            torch.ones(4, dtype=torch.int8),
            "rescale_factors has dtype int8, the signature says R in",
        ),
        ([1.0], "rescale_factors must be a torch.Tensor or None, got [1.0] (list)"),
        (
            torch.eye(4).to_sparse(),
            "rescale_factors is a sparse_coo tensor, the op takes dense (strided) tensors only",
        ),
    ],
)
def test_what_construction_can_tell_of_a_tensor_it_checks(factors, message):
    with pytest.raises(SignatureError, match=re.escape(message)):
        op_class("RescaledRoPEFwdOp")(rescale_factors=factors)


def test_a_tensor_without_data_serves_no_call_that_has_some():
    with answering("RescaledRoPEFwdOp", rescale_factors=torch.ones(4, device="meta")) as (op, _):
        refused("rescale_factors was given on the meta device, where it has no data", op, of(5, 8))


def test_a_tensor_without_data_serves_a_call_without():
    with answering("RescaledRoPEFwdOp", rescale_factors=torch.ones(4, device="meta")) as (op, _):
        assert op(of(5, 8).to("meta")).device.type == "meta"


def test_what_only_a_call_can_tell_of_a_tensor_is_checked_there():
    with answering("RescaledRoPEFwdOp", rescale_factors=torch.ones(4)) as (op, _):
        refused("rescale_factors has shape (4,), the signature says [D // 2] = (3,)", op, of(5, 6))


def test_a_tensor_given_at_construction_is_part_of_the_record():
    with answering("RescaledRoPEFwdOp", rescale_factors=torch.ones(4)) as (op, _):
        op(of(5, 8))
        record = op.last_call
        assert record.tensors["rescale_factors"] == ((4,), F32)
        assert record.traffic["rescale_factors"].reads == 1
        assert record.bytes("rescale_factors") == 16
        assert record.indices["R"] is F32
        assert "rescale_factors" not in record.indices
        assert op.eval_roofline() == (3 * 5 * 8, 2 * 5 * 8 * 2 + 16)


def test_an_op_shows_of_a_tensor_what_it_is():
    shown = repr(op_class("RescaledRoPEFwdOp")(rescale_factors=torch.ones(4)))
    assert "rescale_factors=<float32[4]>" in shown


def test_no_two_instances_with_a_tensor_share_a_key():
    factors = torch.ones(4)
    make = op_class("RescaledRoPEFwdOp")
    keys = {make(rescale_factors=factors)._key for _ in range(3)}
    assert len(keys) == 3
    assert make()._key == make()._key


def test_a_copy_has_a_tensor_of_its_own():
    with answering("RescaledRoPEFwdOp", rescale_factors=torch.ones(4)) as (op, _):
        for again in (copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
            assert torch.equal(again.rescale_factors, op.rescale_factors)
            assert again.rescale_factors.data_ptr() != op.rescale_factors.data_ptr()
            assert again(of(5, 8)).shape == (5, 8)


# -- compositions -------------------------------------------------------------------------


def test_a_composite_has_its_stages_on_its_signature():
    composition = op_class("Mamba2FwdOp")._plan.signature.composition
    assert [(s.name, s.op, s.optional) for s in composition.stages][::4] == [
        ("ssd_chunk_cumsum", "CumsumFwdOp", False),
        ("chunk_scan", "BMMFwdOp", True),
    ]
