"""An op in compiled code: one node, right as in eager mode, whoever serves."""

from __future__ import annotations

import gc
from typing import ClassVar

import pytest
import torch
from call_support import Switch, faulty, good, layouts, op_class, served, small, target
from graphs import Seen, breaks, each_backend, fresh, graphs, shared_graphs, whole  # noqa: F401

from tileops_core import BUILTIN, Op
from tileops_core.errors import BackendError
from tileops_core.ops import (
    AddFwdOp,
    FusedAddRMSNormFwdOp,
    GELUFwdOp,
    GEMMFwdOp,
    LayerNormFwdOp,
    ReLUFwdOp,
    RMSNormFwdOp,
    SumFwdOp,
)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh():
    with fresh():
        yield


class Layer(torch.nn.Module):
    """A layer that holds an op and a weight of its own."""

    def __init__(self, width: int = 4, eps: float = 1e-6):
        super().__init__()
        self.norm = RMSNormFwdOp((width,), eps)
        self.weight = torch.nn.Parameter(torch.randn(width))

    def forward(self, x):
        return self.norm(x, self.weight) * 2


# -- one node ---------------------------------------------------------------------------------


def test_a_call_is_one_node_the_ops_own_operator():
    """CMP-04: whoever serves, the first call ever being a compiled one."""
    switch = Switch(good)
    with served(build=switch.build) as op:
        seen, x = Seen(), small(3, 300)
        assert torch.equal(whole(op, seen)(x), x * 2)
        assert seen.nodes == [torch.ops.tileops_external.probe_fwd.default]
        assert switch.builds == 1
        assert op.last_call.served_by.target == "acme"


def test_the_graph_is_the_same_whoever_serves():
    nodes = []
    for chosen in (None, "reference", BUILTIN):
        seen = Seen()
        whole(RMSNormFwdOp((4,), target=chosen), seen)(small())
        nodes.append(seen.nodes)
    assert nodes == 3 * [[torch.ops.tileops_core.rms_norm_fwd.default]]


def test_a_whole_function_is_one_graph():
    gelu, norm = GELUFwdOp(), RMSNormFwdOp((4,))

    def f(x):
        return norm(gelu(x + 1), torch.ones(4)) * 2

    compiled = whole(f, "inductor")
    torch.testing.assert_close(compiled(small()), f(small()))
    assert graphs() == 1
    assert not breaks()


def test_keyword_and_missing_arguments_bind_as_in_eager_mode():
    op, x, w = LayerNormFwdOp((4,)), small(), torch.randn(4)
    compiled = whole(lambda x, w: op(weight=w, input=x))
    assert torch.equal(compiled(x, w), op(x, w))
    with served("MaskFwdOp") as mask:
        assert torch.equal(whole(lambda x: mask(x, keep=x > 3))(x), torch.where(x > 3, x, 0))


# -- how many graphs --------------------------------------------------------------------------


@pytest.mark.usefixtures("shared_graphs")
@pytest.mark.parametrize("dynamic", [None, True, False])
@torch.no_grad()
def test_equal_layers_compiled_one_by_one_share_a_graph(dynamic):
    """Peer fault 7"""
    x = small()
    for _ in range(64):
        layer = Layer()
        assert torch.equal(whole(layer, dynamic=dynamic)(x), layer(x))
    assert graphs() == 1


@pytest.mark.usefixtures("shared_graphs")
@torch.no_grad()
def test_equal_layers_over_batch_sizes_take_one_graph_more_with_automatic_dynamic():
    """Peer fault 7"""
    layers = [Layer() for _ in range(64)]
    for rows in (3, 5, 7, 2, 11):
        for layer in layers:
            x = small(rows, 4)
            assert torch.equal(whole(layer)(x), layer(x))
    assert graphs() == 2


@torch.no_grad()
def test_dynamic_takes_one_graph_over_batch_sizes():
    layer = Layer()
    compiled = whole(layer, dynamic=True)
    for rows in (3, 5, 7, 2, 11):
        assert torch.equal(compiled(small(rows, 4)), layer(small(rows, 4)))
    assert graphs() == 1


@torch.no_grad()
def test_a_model_of_many_layers_is_one_graph():
    model = torch.nn.Sequential(*[Layer() for _ in range(64)])
    assert torch.equal(whole(model)(small()), model(small()))
    assert graphs() == 1
    assert not breaks()


@pytest.mark.usefixtures("shared_graphs")
def test_equal_ops_compiled_by_themselves_share_a_graph():
    """Peer fault 7"""
    for _ in range(64):
        op = RMSNormFwdOp((4,))
        whole(op)(small())
    assert graphs() == 1


def test_what_a_call_leaves_on_an_op_is_not_guarded():
    """CMP-09"""
    op = RMSNormFwdOp((4,))
    compiled = whole(lambda x: op(x))
    for _ in range(5):
        compiled(small())
        op(small())
    assert graphs() == 1


@pytest.mark.usefixtures("shared_graphs")
def test_ops_that_differ_in_a_parameter_have_graphs_of_their_own():
    """CMP-11"""
    compiled = whole(lambda op, x: op(x))
    for eps in (1e-5, 1.0, 1e-5):
        op = RMSNormFwdOp((4,), eps)
        assert torch.equal(compiled(op, small()), op(small()))
    assert graphs() == 2


@pytest.mark.usefixtures("shared_graphs")
def test_a_new_op_inherits_nothing_from_one_that_is_gone():
    """CMP-01"""
    keys, x = set(), small(4, 4)
    compiled = whole(lambda op, x: op(x))
    for i in range(50):
        op = SumFwdOp(dim=i % 2, keepdim=bool(i % 3))
        keys.add(op._key)
        assert compiled(op, x).shape == op(x).shape
        del op
        if i % 10 == 0:  # most go without
            gc.collect()
    assert len(keys) == 4


# -- equal with eager mode --------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_compiled_call_runs_the_kernel_of_an_eager_one(backend, dtype):
    """CMP-18"""
    op = FusedAddRMSNormFwdOp()
    tensors = [torch.randn(*shape).to(dtype) for shape in ((5, 64), (5, 64), (64,))]
    for mine, right in zip(whole(op, backend)(*tensors), op(*tensors), strict=True):
        assert torch.equal(mine, right)


@each_backend
@pytest.mark.parametrize("layout", [name for name, _ in layouts()])
def test_tensors_may_lie_in_any_way(backend, layout):
    """CMP-03: the result is dense whatever the input is."""
    if (backend, layout) == ("inductor", "negative bit"):
        pytest.skip("torch's own functions lose a negative bit there too")
    op, x = GELUFwdOp(), dict(layouts())[layout]
    y = whole(op, backend)(x)
    assert torch.equal(y, op(x))
    assert y.is_contiguous()


@each_backend
def test_channels_last_gives_a_dense_result(backend):
    """CMP-03"""
    op = GELUFwdOp()
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = whole(op, backend)(x)
    assert y.is_contiguous()
    assert torch.equal(y, op(x))


CALLS = [
    pytest.param("ProbePairFwdOp", {}, lambda x: ((x,), {}), id="optional absent"),
    pytest.param("ProbePairFwdOp", {}, lambda x: ((x, x * 3), {}), id="optional present"),
    pytest.param("BufferFwdOp", {}, lambda x: ((x,), {"out": torch.zeros(3, 4)}), id="out"),
    pytest.param("BufferFwdOp", {}, lambda x: ((x,), {}), id="no out"),
    pytest.param("AccumulateFwdOp", {}, lambda x: ((small(), x), {}), id="state"),
    pytest.param("StoreFwdOp", {}, lambda x: ((small(), x), {}), id="write only"),
    pytest.param("MaximaFwdOp", {}, lambda x: ((x,), {}), id="two outputs"),
    pytest.param("MaximaFwdOp", {"indices": False}, lambda x: ((x,), {}), id="without one"),
    pytest.param("MaybeMaskFwdOp", {}, lambda x: ((x,), {"keep": x > 0}), id="keyword"),
    pytest.param("MaybeMaskFwdOp", {}, lambda x: ((x,), {}), id="keyword left out"),
    pytest.param("ContiguousFwdOp", {}, lambda x: ((x,), {}), id="contiguous"),
    pytest.param("ContiguousInPlaceFwdOp", {}, lambda x: ((x,), {}), id="in place"),
    pytest.param("LengthsFwdOp", {}, lambda x: ((x, torch.tensor([1, 2, 3])), {}), id="cpu"),
    pytest.param("SwapFwdOp", {}, lambda x: ((x, small()), {}), id="two written"),
    pytest.param("RotateFwdOp", {}, lambda x: ((x, small()), {}), id="two aliases"),
    pytest.param("MaybeInPlaceFwdOp", {}, lambda x: ((x,), {}), id="not in place"),
    pytest.param("MaybeInPlaceFwdOp", {"in_place": True}, lambda x: ((x,), {}), id="maybe"),
]


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


@each_backend
@pytest.mark.parametrize(("name", "params", "arguments"), CALLS)
def test_every_effect_is_as_in_eager_mode(backend, name, params, arguments):
    """CMP-06: values, what is written, the caller's own objects, version counters."""
    with served(name, **params) as op:
        mine, theirs = arguments(small() - 5), arguments(small() - 5)
        results = []
        for call, (args, named) in ((op, mine), (whole(op, backend), theirs)):
            tensors = [*args, *named.values()]
            before = [x._version for x in tensors]
            result = as_tuple(call(*args, **named))
            bumped = [x._version > v for x, v in zip(tensors, before, strict=True)]
            own = [next((i for i, x in enumerate(tensors) if x is r), None) for r in result]
            results.append((result, tensors, bumped, own))
    eager, compiled = results
    assert compiled[2:] == eager[2:]
    for one, other in zip((*eager[0], *eager[1]), (*compiled[0], *compiled[1]), strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


@each_backend
def test_two_written_inputs_may_be_views_of_one_tensor(backend):
    """CMP-06"""
    with served("RotateFwdOp") as op:
        eager, compiled = (torch.stack([small(), small() * 10]) for _ in range(2))
        op(eager[0], eager[1])
        whole(lambda x: op(x[0], x[1])[0] + 0, backend)(compiled)
        assert torch.equal(eager, compiled)


@each_backend
def test_one_tensor_may_be_two_inputs(backend):
    add, x = AddFwdOp(), small()
    assert torch.equal(whole(lambda x: add(x, x), backend)(x), 2 * x)
    with served("AccumulateFwdOp") as op:
        state = small()
        whole(lambda s: op(s, s), backend)(state)
        assert torch.equal(state, 2 * small())


@each_backend
def test_dtypes_that_are_no_floats_work(backend):
    op, x = AddFwdOp(), small(dtype=torch.int32)
    assert torch.equal(whole(op, backend)(x, x), 2 * x)


def test_lengths_that_depend_on_data_work():
    op = RMSNormFwdOp((4,))
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = whole(lambda x: op(x[x[:, 0] > 1]), "inductor")
        for x in (small(), small(7, 4)):
            assert torch.equal(compiled(x), op(x[x[:, 0] > 1]))
    assert graphs() == 2  # the number of rows that came in became dynamic


def test_an_op_under_a_condition_of_data_works():
    op = RMSNormFwdOp((4,))
    compiled = whole(lambda x: torch.cond(x.sum() > 0, op, lambda y: y * 2, (x,)))
    assert torch.equal(compiled(small()), op(small()))
    assert torch.equal(compiled(-small()), -2 * small())


# -- failures ---------------------------------------------------------------------------------


@each_backend
def test_a_failing_kernel_in_a_graph_leaves_the_op_as_an_eager_one_does(backend):
    switch = Switch(lambda x: None)
    with served(build=switch.build) as op:
        compiled = whole(op, backend)
        for _ in range(2):
            with pytest.raises(BackendError, match=r"ProbeFwdOp: target 'acme'.*returned None"):
                compiled(small())
            assert op.serving_target is None
            with pytest.raises(RuntimeError, match="no call"):
                op.last_call  # noqa: B018
        assert switch.builds == 2
        switch.does = good
        assert torch.equal(compiled(small()), small() * 2)
        assert op.serving_target == "acme"


@each_backend
def test_a_failure_after_a_good_call_keeps_what_was_bound(backend):
    switch = Switch(good)
    with served(build=switch.build) as op:
        compiled = whole(op, backend)
        compiled(small())
        record = op.last_call
        switch.does = lambda x: None
        with pytest.raises(BackendError):
            compiled(small())
        assert op.last_call is record
        switch.does = good
        compiled(small())
        assert switch.builds == 1


@each_backend
def test_what_a_kernel_raises_comes_out_of_a_graph_as_it_is(backend):
    class OddError(Exception):
        pass

    def fail(x):
        raise OddError("odd")

    with served(build=lambda x: fail) as op:
        with pytest.raises(OddError, match="odd") as caught:
            whole(op, backend)(small())
        assert any("acme" in note for note in getattr(caught.value, "__notes__", ["acme"]))


def test_a_wrong_call_is_refused_while_it_is_traced():
    op = RMSNormFwdOp((4,))
    for wrong in (torch.ones(3, 5), torch.ones(3, 4, dtype=torch.int64)):
        with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="RMSNormFwdOp: x has"):
            whole(op)(wrong)


@pytest.mark.parametrize("nothing", [None, 3.0], ids=str)
def test_what_is_no_tensor_is_refused_while_it_is_traced(nothing):
    op = RMSNormFwdOp((4,))
    with pytest.raises(Exception, match=r"x must be a torch.Tensor|Expected a value of type"):
        whole(lambda x: op(nothing))(small())


def test_a_wrong_number_of_arguments_is_refused_while_it_is_traced():
    op = RMSNormFwdOp((4,))
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"bind arguments|too many positional"):
        whole(lambda x: op(x, x, x))(small())


def test_a_sparse_tensor_is_refused_as_in_eager_mode():
    op = RMSNormFwdOp((4,))
    with pytest.raises(ValueError, match="x is a sparse_coo tensor"):
        torch.compile(lambda x: op(x), backend="eager")(small().to_sparse())


def test_an_op_constructed_in_compiled_code_is_refused_with_a_sentence():
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=r"construct it once, outside|dynamo\.disable"
    ):
        whole(lambda x: RMSNormFwdOp((4,))(x))(small())


def test_an_op_constructed_in_compiled_code_breaks_the_graph_and_is_right():
    compiled = torch.compile(lambda x: RMSNormFwdOp((4,))(x) * 2, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(3, 4)), torch.full((3, 4), 2.0))


# -- surroundings -----------------------------------------------------------------------------


@each_backend
@pytest.mark.parametrize("inside", [False, True])
def test_autocast_does_not_change_what_a_graph_computes(backend, inside):
    op, a, b = GEMMFwdOp(), torch.randn(3, 4), torch.randn(5, 4)

    def f(a, b):
        if inside:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return op(a, b)
        return op(a, b)

    compiled = whole(f, backend)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not inside):
        assert torch.equal(compiled(a, b), op(a, b))


@each_backend
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda m: m.__name__)
def test_a_graph_runs_inside_and_outside_of_a_mode(backend, mode):
    op = RMSNormFwdOp((4,))
    compiled = whole(op, backend)
    with mode():
        y = compiled(small())
    assert torch.equal(y, op(small()))
    assert torch.equal(compiled(small()), y)


@each_backend
def test_a_default_device_does_not_move_a_compiled_call(backend):
    op = RMSNormFwdOp((4,))
    compiled, x = whole(op, backend), small()
    torch.set_default_device("meta")
    try:
        y, empty = compiled(x), compiled(x[:0])
    finally:
        torch.set_default_device(None)
    assert torch.equal(y, op(x))
    assert empty.device.type == "cpu"


@each_backend
def test_deterministic_algorithms_change_nothing(backend):
    op = RMSNormFwdOp((4,))
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(whole(op, backend)(small()), op(small()))
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_profiler_shows_a_compiled_call_by_its_operator():
    op = RMSNormFwdOp((4,))
    compiled = whole(op, "inductor")
    compiled(small())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(small())
    assert "tileops_core::rms_norm_fwd_raw" in {event.key for event in profile.key_averages()}


@pytest.mark.parametrize("mutated", [False, True])
def test_checks_reach_into_graphs(mutated):
    from tileops_core import checks

    def kernel(x):
        if mutated:
            x.add_(1)
        return x.clone()

    with served(build=lambda x: kernel) as op:
        compiled = whole(op)
        compiled(small())
        with checks(purity=True):
            if mutated:
                with pytest.raises(BackendError, match="wrote into x"):
                    compiled(small())
            else:
                compiled(small())


@pytest.mark.skipif(torch.__version__ < (2, 7), reason="that dynamo reads no such subclass")
def test_a_plain_subclass_works_in_compiled_code():
    class Plain(torch.Tensor):
        pass

    op = RMSNormFwdOp((4,))
    y = whole(lambda x: op(x))(small().as_subclass(Plain))
    assert torch.equal(y.as_subclass(torch.Tensor), op(small()))


@each_backend
def test_vmap_in_compiled_code_works(backend):
    op, x = RMSNormFwdOp((4,)), small(2, 3, 4)
    compiled = whole(lambda x: torch.vmap(op)(x), backend)
    assert torch.equal(compiled(x), op(x))


# -- ops without operators --------------------------------------------------------------------


def test_a_composite_is_traced_through_its_forward():
    tensor = {"dtype": "T", "shape": "[M, N]"}

    class TracedThroughFwdOp(Op):
        spec: ClassVar = {
            "family": "probe",
            "status": "implemented",
            "signature": {
                "forall": {"M": "Dim", "N": "Dim", "T": "DType[float32]"},
                "inputs": {"x": tensor},
                "outputs": {"y": tensor},
            },
            "composition": {"kind": "composite", "stages": [{"name": "relu", "op": "ReLUFwdOp"}]},
            "workloads": [{"label": "a", "M": 3, "N": 4, "dtype_cases": [{"T": "float32"}]}],
            "roofline": {"flops": "1"},
        }  # fmt: skip
        delegate_types = {"relu": ReLUFwdOp}  # noqa: RUF012

        def __init__(self, target=None):
            super().__init__(target=target)
            self.delegate_for("relu", ())

        def forward(self, x):
            return self.delegate_for("relu", ())(x) * 2

    op, seen = TracedThroughFwdOp(), Seen()
    assert op.compile_op_names == ()
    assert torch.equal(whole(op, seen)(small() - 5), torch.relu(small() - 5) * 2)
    assert seen.nodes[0] is torch.ops.tileops_core.elementwise_relu_fwd.default


def test_an_op_names_its_operators():
    assert RMSNormFwdOp.compile_op_names == ("tileops_core::rms_norm_fwd",)
    assert ReLUFwdOp.compile_op_names == (
        "tileops_core::elementwise_relu_fwd",
        "tileops_core::elementwise_relu_fwd_writes_input",
    )
    assert Op.compile_op_names == ()


def test_two_ops_whose_operators_would_have_one_name_are_refused():
    """CMP-14"""
    op_class("ProbeFwdOp")
    with pytest.raises(
        TypeError, match=r"PROBEFwdOp would have the operator .*probe_fwd, as ProbeFwdOp has"
    ):
        op_class("PROBEFwdOp", spec=faulty.SPECS["ProbeFwdOp"])


def test_a_class_defined_again_serves_its_operator_from_then_on():
    """CMP-14: a module that runs again."""
    with target(lambda x: good):
        first = op_class("ProbeFwdOp")(target="acme")
        compiled = whole(first)
        compiled(small())
        second = op_class("ProbeFwdOp")(target="acme")
        assert torch.equal(whole(second)(small()), small() * 2)
        assert type(second) is not type(first)
        assert torch.equal(compiled(small()), small() * 2)


def test_a_class_whose_entry_changed_gets_operators_anew():
    """CMP-13, CMP-14"""
    spec = faulty.SPECS["ProbeFwdOp"]
    with target(lambda *x: good, op="AgainFwdOp"):
        op = op_class("AgainFwdOp", spec=spec)(target="acme")
        assert torch.equal(whole(op)(small()), small() * 2)
    with target(lambda x, z: lambda x, z: x.clone(), op="AgainFwdOp"):
        changed = op_class("AgainFwdOp", spec=faulty.SPECS["ProbePairFwdOp"])(target="acme")
        assert torch.equal(whole(changed)(small()), small())
        assert "Tensor? z" in str(torch.ops.tileops_external.probe_again_fwd.default._schema)
    assert torch.equal(whole(RMSNormFwdOp((4,)))(small()), RMSNormFwdOp((4,))(small()))


def test_an_operator_lives_on_when_its_class_was_made_in_a_function():
    """CMP-13"""

    def define():
        with target(lambda x: good, op="ShortLivedFwdOp"):
            op = op_class("ShortLivedFwdOp", spec=faulty.SPECS["ProbeFwdOp"])(target="acme")
            op(small())
            return op

    op = define()
    gc.collect()
    assert torch.equal(op(small()), small() * 2)
    assert torch.equal(whole(GELUFwdOp())(small()), GELUFwdOp()(small()))


@each_backend
def test_a_random_op_is_called_as_often_as_it_stands_there(backend):
    """CMP-19: a compiler may leave out the second of two equal calls, but not of random ones."""
    spec = {
        **faulty.SPECS["ProbeFwdOp"],
        "signature": {
            **faulty.SPECS["ProbeFwdOp"]["signature"],
            "params": {"seed": {"type": "int | None", "default": None}},
        },
    }

    def build(x, *, seed):
        return lambda x: x + torch.rand(x.shape)

    with target(build, op="NoiseFwdOp"):
        op = op_class("NoiseFwdOp", spec=spec)(target="acme")
        compiled = whole(lambda x: (op(x), op(x)), backend)
        one, two = compiled(small())
        assert not torch.equal(one, two)
        torch.manual_seed(7)
        one = compiled(small())[0]
        torch.manual_seed(7)
        assert torch.equal(compiled(small())[0], one)
    tags = torch.ops.tileops_external.probe_noise_fwd.default.tags
    assert torch.Tag.nondeterministic_seeded in tags
    tags = torch.ops.tileops_core.rms_norm_fwd.default.tags
    assert torch.Tag.nondeterministic_seeded not in tags
