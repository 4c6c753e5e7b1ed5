"""Ops without inputs through the public API: where and what they give, and in graphs."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tileops_core import ops
from tileops_core.errors import OpNotAvailableError, SignatureError

pytestmark = pytest.mark.usefixtures("server")

CPU = {"device": "cpu"}
MADE = [
    (ops.AlibiFwdOp, {"seq_len": 3, "num_heads": 2}, (2, 3, 3)),
    (ops.SinusoidalFwdOp, {"seq_len": 3, "d_model": 5}, (3, 5)),
]
each = pytest.mark.parametrize(
    ("cls", "sizes", "shape"), MADE, ids=lambda x: getattr(x, "__name__", None)
)


@each
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_the_result_has_the_stated_dtype(cls, sizes, shape, dtype):
    for stated in (dtype, str(dtype).removeprefix("torch.")):
        result = cls(**sizes, out_dtype=stated, **CPU)()
        assert (result.shape, result.dtype) == (shape, dtype)


@each
def test_no_device_is_the_current_one_and_a_stated_one_counts(cls, sizes, shape):
    default = "cuda" if torch.cuda.is_available() else "cpu"
    assert cls(**sizes)().device.type == default
    for stated in ("meta", torch.device("meta")):
        result = cls(**sizes, device=stated)()
        assert (result.device.type, result.shape) == ("meta", shape)


# Torch knows each of these names, and no machine has such a device.
ABSENT = ["cuda:99", "xpu:99", "privateuseone", "vulkan"]
WITHOUT_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


@each
@pytest.mark.parametrize("device", [*ABSENT, pytest.param("cuda", marks=WITHOUT_CUDA)])
def test_a_call_on_a_device_that_is_not_there_is_refused(cls, sizes, shape, device):
    op = cls(**sizes, device=device)
    with pytest.raises(OpNotAvailableError) as caught:
        op()
    text = str(caught.value)
    assert f"{cls.__name__}: the op was constructed with device={device!r}, and this" in text
    assert f"this process has no device {device!r}; construct the op for a device" in text


@each
def test_preparing_for_a_device_that_is_not_there_is_refused(cls, sizes, shape):
    with pytest.raises(OpNotAvailableError, match="this process has no device 'vulkan'"):
        cls(**sizes, device="vulkan").prepare()


@each
def test_every_call_gives_memory_of_its_own(cls, sizes, shape):
    op = cls(**sizes, **CPU)
    first = op()
    expected = first.clone()
    first.zero_()
    assert torch.equal(op(), expected)


@each
def test_a_call_takes_nothing(cls, sizes, shape):
    op = cls(**sizes, **CPU)
    with pytest.raises(TypeError, match=cls.__name__):
        op(torch.ones(3))
    with pytest.raises(TypeError, match=f"{cls.__name__}.*out"):
        op(out=torch.ones(shape))


@each
def test_parameters_are_given_by_name(cls, sizes, shape):
    with pytest.raises(TypeError, match=cls.__name__):
        cls(*sizes.values())


@each
@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"seq_len": 0}, "seq_len > 0, got seq_len=0"),
        ({"seq_len": -1}, "seq_len > 0, got seq_len=-1"),
        ({"seq_len": 2.0}, "seq_len must be an int, got 2.0"),
        ({"out_dtype": torch.float64}, "out_dtype must be one of float16, bfloat16, float32"),
        ({"out_dtype": "int32"}, "out_dtype must be one of"),
        ({"device": "nowhere"}, "device must be a torch device, its name or None, got 'nowhere'"),
        ({"device": 3.5}, "device must be a torch device, its name or None"),
    ],
)
def test_what_the_entries_exclude_is_refused_at_construction(cls, sizes, shape, wrong, match):
    with pytest.raises(SignatureError, match=f"{cls.__name__}: .*{match}"):
        cls(**{**sizes, **wrong})


@pytest.mark.parametrize(
    ("cls", "name"), [(ops.AlibiFwdOp, "num_heads"), (ops.SinusoidalFwdOp, "d_model")]
)
@pytest.mark.parametrize("count", [0, -2])
def test_no_heads_and_no_columns_are_refused(cls, name, count):
    with pytest.raises(SignatureError, match=f"{cls.__name__}: .*{name} > 0, got {name}={count}"):
        cls(**{"seq_len": 3, name: count})


@each
def test_copies_give_the_same(cls, sizes, shape):
    op = cls(**sizes, **CPU)
    expected = op()
    for again in (copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        assert again.serving_target is None
        assert torch.equal(again(), expected)


@each
def test_prepared_ops_give_the_same(cls, sizes, shape):
    op = cls(**sizes, **CPU)
    op.prepare()
    assert op.serving_target is not None
    assert torch.equal(op(), cls(**sizes, **CPU)())


@each
def test_the_first_call_may_be_in_inference_mode(cls, sizes, shape):
    op = cls(**sizes, **CPU)
    with torch.inference_mode():
        first = op()
    second = op()
    assert torch.equal(first, second)
    assert not second.is_inference()


@each
def test_fake_mode_sees_a_shape_and_leaves_nothing_behind(cls, sizes, shape):
    """CMP-16."""
    op = cls(**sizes, **CPU)
    with FakeTensorMode():
        fake = op()
    assert type(fake).__name__ == "FakeTensor"
    assert fake.shape == shape
    assert torch.equal(op(), cls(**sizes, **CPU)())


@each
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_recorded_graph_holds_what_the_op_gave(cls, sizes, shape, mode):
    op, x = cls(**sizes, **CPU), torch.randn(shape)
    graph = make_fx(lambda x: x + op(), tracing_mode=mode)(x)
    assert torch.equal(graph(x), x + op())


@each
def test_an_exported_program_holds_what_the_op_gave(cls, sizes, shape):
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + op()

    op, x = cls(**sizes, **CPU), torch.randn(shape)
    file = io.BytesIO()
    torch.export.save(torch.export.export(Model(), (x,), strict=False), file)
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(x), x + op())


@each
def test_compiled_code_calls_the_op_between_graphs(cls, sizes, shape):
    op, x = cls(**sizes, **CPU), torch.randn(shape)
    compiled = torch.compile(lambda x: (x + op()) * 2, backend="eager")
    assert torch.equal(compiled(x), (x + op()) * 2)


@each
def test_autocast_changes_nothing(cls, sizes, shape):
    op = cls(**sizes, **CPU)
    with torch.autocast("cpu"):
        inside = cls(**sizes, **CPU)()
    assert torch.equal(inside, op())
    assert inside.dtype is torch.float32
