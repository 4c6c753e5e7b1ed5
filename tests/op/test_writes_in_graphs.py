"""Ops that write, in compiled code: the memory that was passed, and no other; autograd is told."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
import torch
from graphs import each_backend, fresh, whole

from tileops_core.interfaces.moe import ContiguousLayout
from tileops_core.ops import FusedAddRMSNormFwdOp, MoEGroupedGEMMFwdOp, ReLUFwdOp

pytestmark = pytest.mark.filterwarnings("ignore")

relu_ = ReLUFwdOp(inplace=True)
grouped = MoEGroupedGEMMFwdOp(ContiguousLayout())
A, B, ENDS = torch.ones(3, 8), torch.ones(2, 4, 8), torch.tensor([1, 3], dtype=torch.int32)


@pytest.fixture(autouse=True)
def _fresh():
    # What a former version of this library made of a graph may lie on the disk.
    with fresh(), torch._inductor.config.patch(force_disable_caches=True):
        yield


def memory(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


# -- parts of what a graph is given -----------------------------------------------------------


def row(y):
    relu_(y[1])
    return y * 1.5


def columns(y):
    relu_(y[:, :4])
    return y * 1.5


def transposed(y):
    relu_(y[1:].t())
    return y * 1.5


def all_of_it(y):
    relu_(y)
    return y * 1.5


def flat(y):
    relu_(y.reshape(-1) if y.is_contiguous() else y)
    return y * 1.5


def cache(y):
    grouped(A, B, ENDS, out=y[1])
    return y * 2


def twice(y):
    relu_(y[0])
    z = y * 2
    relu_(y[1])
    return y + z


def one_of_two(p, q):
    relu_(p)
    return p + q


def of_its_own(y):
    z = y * 2
    relu_(z[1])
    return z


ROWS = [
    ("a row of a slice", row, lambda b: (b[2:5],), (6, 8)),
    ("a row of the whole", row, lambda b: (b,), (6, 8)),
    ("columns of a slice", columns, lambda b: (b[2:5],), (6, 8)),
    ("columns of the first rows", columns, lambda b: (b[:3],), (6, 8)),
    ("columns of columns", columns, lambda b: (b[:, 2:],), (6, 8)),
    ("a transposed part", transposed, lambda b: (b[2:5],), (6, 8)),
    ("a whole slice", all_of_it, lambda b: (b[2:5],), (6, 8)),
    ("a flat view", flat, lambda b: (b[2:5],), (6, 8)),
    ("out in a cache", cache, lambda b: (b,), (4, 3, 4)),
    ("out in a part of a pool", cache, lambda b: (b[1:],), (5, 3, 4)),
    ("two rows, read between", twice, lambda b: (b[2:5],), (6, 8)),
    ("views that overlap", one_of_two, lambda b: (b[:3], b[2:5]), (6, 8)),
    ("views that do not", one_of_two, lambda b: (b[:3], b[3:]), (6, 8)),
    ("a part of its own", of_its_own, lambda b: (b,), (6, 8)),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("f", "views", "shape"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_a_write_reaches_what_was_passed_and_nothing_else(f, views, shape, backend, dynamic):
    ours, eager = memory(*shape), memory(*shape)
    result = whole(f, backend, dynamic=dynamic)(*views(ours))
    assert torch.equal(result, f(*views(eager)))
    assert torch.equal(ours, eager)


def test_a_cache_row_stays_right_when_its_length_becomes_dynamic():
    compiled = whole(all_of_it, "inductor")
    for length in (3, 5, 4):
        ours, eager = memory(2, length, 8), memory(2, length, 8)
        assert torch.equal(compiled(ours[1]), all_of_it(eager[1]))
        assert torch.equal(ours, eager)


def test_two_written_parts_that_are_one_share_a_copy():
    op = FusedAddRMSNormFwdOp()
    weight = torch.ones(8)

    def f(x, y):
        return op(x[1:], y[1:], weight)

    ours, eager = (memory(3, 8), memory(3, 8) + 1), (memory(3, 8), memory(3, 8) + 1)
    for mine, theirs in zip(whole(f, "aot_eager")(*ours), f(*eager), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(ours[0], eager[0])
    assert torch.equal(ours[1], eager[1])


def _program(seed: int):
    """A random function that writes views of its two arguments, and reads in between."""
    choose = random.Random(seed)
    steps = [
        (
            choose.randrange(2),
            choose.choice(
                [
                    lambda t: t[1],
                    lambda t: t[1:],
                    lambda t: t[:, 2:6],
                    lambda t: t.t()[1:],
                    lambda t: t,
                    lambda t: t[::2],
                    lambda t: t[:, None, 1:][:, 0],
                ]
            ),
            choose.choice([-1.0, 0.5, 1.0]),
        )
        for _ in range(choose.randrange(1, 4))
    ]

    def f(p, q):
        total = p.sum() * 0
        for which, view, factor in steps:
            written = view((p, q)[which])
            relu_(written)
            total = total + written.sum() * factor + q[0].sum()
        return p * 2, q + 1, total

    return f


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_random_writes_are_as_in_eager_mode(seed, dynamic):
    f = _program(seed)
    backend = "inductor" if seed % 3 == 0 else "aot_eager"
    ours, eager = memory(9, 8), memory(9, 8)
    results = whole(f, backend, dynamic=dynamic)(ours[:4], ours[5:])
    for mine, theirs in zip(results, f(eager[:4], eager[5:]), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert torch.equal(ours, eager)


# -- what autograd is told --------------------------------------------------------------------


def _by_view(w):
    relu_(w.view(2, 2).t())


def _by_vmap(w):
    torch.vmap(relu_)(w)


def _without_grad(w):
    with torch.no_grad():
        relu_(w)


@each_backend
@pytest.mark.parametrize("write", [relu_, _by_view, _by_vmap, _without_grad])
def test_a_write_to_what_autograd_has_saved_is_told(write, backend):
    """PEER-01: what is written needs no gradient itself; compilers tell it while they trace."""

    def f(x, w):
        y = x * w
        write(w)
        return y.sum()

    x, w = torch.ones(4, requires_grad=True), torch.tensor([-1.0, 2, -3, 4])
    with pytest.raises(Exception, match="modified by an inplace operation"):
        whole(f, backend)(x, w).backward()


@each_backend
def test_an_out_that_autograd_has_saved_is_told(backend):
    def f(x, out):
        y = x * out
        grouped(A, B, ENDS, out=out)
        return y.sum()

    x, out = torch.ones(3, 4, requires_grad=True), torch.ones(3, 4)
    with pytest.raises(Exception, match="modified by an inplace operation"):
        whole(f, backend)(x, out).backward()


@each_backend
def test_a_write_before_anything_is_saved_gives_the_right_gradient(backend):
    def f(x, w):
        relu_(w)
        return (x * w).sum()

    x, w = torch.ones(4, requires_grad=True), torch.tensor([-1.0, 2, -3, 4])
    whole(f, backend)(x, w).backward()
    assert torch.equal(x.grad, torch.tensor([0.0, 2, 0, 4]))


def test_a_write_into_a_wrapper_subclass_is_told():
    from torch.testing._internal.two_tensor import TwoTensor

    w = torch.tensor([-1.0, 2, -3, 4])
    pair, x = TwoTensor(w.clone(), w.clone()), torch.ones(4, requires_grad=True)
    y = x * pair
    relu_(pair)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_write_into_a_tensor_without_data_counts(device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() if device == "cpu" else nullcontext():
        w = torch.ones(4, device=device)
        before = w._version
        relu_(w)
        assert w._version > before


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ("f(str key, Tensor x) -> Tensor", ()),
        ("f(str key, Tensor(a!) x, Tensor? y) -> ()", (1,)),
        ("f(str key, Tensor x, Tensor(b!)? y, Tensor(c!) out) -> (Tensor, Tensor)", (2, 3)),
    ],
)
def test_a_schema_says_what_is_written(schema, written):
    from tileops_core.call.torch_operators import written_arguments

    assert written_arguments(schema) == written
