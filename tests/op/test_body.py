"""Hand-written bodies: ``forward``, ``kernel_for``, ``key_for``, ``derived``."""

from __future__ import annotations

import threading

import pytest
import torch
from call_support import faulty, in_threads, op_class, small, target
from torch._subclasses.fake_tensor import FakeTensorMode

from tileops_core import BUILTIN, TensorSpec, default_target
from tileops_core.call.binding import UNBOUND
from tileops_core.errors import BackendError, DispatchError, OpNotAvailableError
from tileops_core.ops import ReLUFwdOp, RMSNormFwdOp


class Bench:
    """A probe with a body that counts its runs, and a kernel type that counts its builds."""

    def __init__(self, forward=None, **declared):
        self.runs = self.builds = 0
        self.interfaces, self.kernel_type = faulty.in_tree(factory=self.build, **declared)
        self.request = self.interfaces["probe"].request
        bench = self

        def body(op, x):
            bench.runs += 1
            return op.kernel_for("probe", bench.request(x.device, x.dtype, tuple(x.shape)))(x)

        self.op = op_class(
            "ProbeFwdOp",
            interfaces=self.interfaces,
            kernel_types={"only": self.kernel_type},
            forward=forward or body,
        )()

    def build(self):
        self.builds += 1
        return self.kernel_type()

    def call(self, *shape):
        return self.request("cpu", torch.float32, shape)


# -- forward ----------------------------------------------------------------------------------


def test_a_hand_written_body_runs_at_every_call():
    bench = Bench()
    for _ in range(3):
        assert torch.equal(bench.op(small()), small() * 2)
    assert (bench.runs, bench.builds) == (3, 1)
    assert bench.op.serving_target is BUILTIN


def test_a_body_gets_dense_inputs():
    seen = []
    bench = Bench(forward=lambda self, x: seen.append(x.is_contiguous()) or x * 2)
    for _ in range(2):
        bench.op(small(4, 3).t())
    assert seen == [True, True]


def test_a_body_gets_the_callers_buffer_by_name():
    def forward(self, x, out=None):
        return torch.mul(x, self.factor, out=out)

    interfaces, kernel_type = faulty.in_tree()
    # Somebody has to run in-tree for a body to be asked at all.
    op = op_class(
        "BufferFwdOp",
        interfaces=interfaces,
        kernel_types={"only": kernel_type},
        forward=forward,
    )()
    out = torch.empty(3, 4)
    for _ in range(2):
        assert op(small(), out=out) is out
        assert torch.equal(op(small()), small() * 2)


def test_a_bodys_wrong_result_is_the_ops_own_fault():
    bench = Bench(forward=lambda self, x: x.sum())
    with pytest.raises(BackendError, match=r"ProbeFwdOp.*own kernels.*shape \(\)"):
        bench.op(small())


def test_a_target_serves_instead_of_a_body():
    bench = Bench()
    with target():
        op = type(bench.op)(target="acme")
        assert torch.equal(op(small()), small() * 2)
    assert bench.runs == 0


def test_the_short_forms_body_can_be_called_by_itself():
    op = RMSNormFwdOp((4,))
    x = small(4, 3).t()
    assert torch.equal(op.forward(x, None), op(x))


def test_a_class_that_derives_from_a_short_forms_may_add_to_its_body():
    class Shifted(RMSNormFwdOp):
        def forward(self, x, weight):
            return super().forward(x, weight) + 1

    x = small(4, 3).t()
    op = Shifted((4,), target=BUILTIN)
    for _ in range(2):
        assert torch.equal(op(x), RMSNormFwdOp((4,), target=BUILTIN)(x) + 1)


# -- kernel_for -------------------------------------------------------------------------------


def test_a_kernel_can_be_asked_for_outside_of_a_call():
    bench = Bench()
    kernel = bench.op.kernel_for("probe", bench.call(3, 4))
    assert torch.equal(kernel(small()), small() * 2)
    assert bench.op.serving_target is BUILTIN
    assert bench.op.kernel_for("probe", bench.call(3, 4)) is kernel
    bench.op(small())
    assert bench.builds == 1


def test_a_kernel_of_an_unknown_interface_is_refused():
    bench = Bench()
    with pytest.raises(OpNotAvailableError, match=r"ProbeFwdOp.*'prob'.*probe"):
        bench.op.kernel_for("prob", bench.call(3, 4))
    assert bench.op.serving_target is None
    assert torch.equal(bench.op(small()), small() * 2)


@pytest.mark.parametrize("known", [False, True])
def test_something_else_than_the_interfaces_call_spec_is_refused(known):
    bench = Bench()
    if known:
        bench.op(small())
    for wrong in ("call", 3, ("cpu", torch.float32, (3, 4))):
        with pytest.raises(TypeError, match="ProbeFwdOp"):
            bench.op.kernel_for("probe", wrong)


def test_a_call_spec_that_is_no_key_is_refused():
    bench = Bench()
    with pytest.raises(TypeError, match=r"shape.*list.*tuple"):
        bench.op.kernel_for("probe", bench.request("cpu", torch.float32, [3, 4]))


def test_a_call_spec_with_stated_facts_builds_nothing():
    bench = Bench()
    with pytest.raises(TypeError, match="key_for"):
        bench.op.kernel_for("probe", bench.call(3, 4).stating(arch=90))
    assert bench.builds == 0


def test_a_failed_question_leaves_the_op_unbound():
    bench = Bench(refusal=classmethod(lambda cls, call: "not today"))
    with pytest.raises(DispatchError, match="not today"):
        bench.op.kernel_for("probe", bench.call(3, 4))
    assert bench.op.serving_target is None
    assert bench.op._running.entered == {}


def test_a_known_route_asks_by_one_look_up():
    bench = Bench()
    bench.op(small())
    looked = []
    entries = bench.op._binding.entries_by_call.young

    class Watched(dict):
        def get(self, key, default=None):
            looked.append(key)
            return super().get(key, default)

    bench.op._binding.entries_by_call.young = Watched(entries)
    bench.op(small())
    assert len(looked) == 1


def test_a_body_that_asks_for_a_new_kernel_on_a_known_route_gets_it():
    """What a body asks for may depend on more than the route knows."""
    rows = [1]

    def forward(self, x):
        return self.kernel_for("probe", bench.call(rows[0]))(x)

    bench = Bench(forward=forward)
    bench.op(small())
    rows[0] = 2
    assert torch.equal(bench.op(small()), small() * 2)
    assert len(bench.op._binding.entries_by_call) == 2


def test_bodies_of_several_threads_find_their_own_kernels():
    bench = Bench()

    def work(rows):
        for _ in range(30):
            assert torch.equal(bench.op(small(rows, 4)), small(rows, 4) * 2)
            assert dict(bench.op.last_call.served_by.kernels) == {"probe": "only"}

    outcomes = in_threads(*[lambda n=n: work(n) for n in range(1, 9)])
    assert [o.error for o in outcomes] == [None] * 8
    assert bench.builds == 1


# -- key_for ----------------------------------------------------------------------------------


def test_a_key_is_told_without_a_build():
    bench = Bench()
    assert bench.op.key_for("probe", bench.call(3, 4)) == "only"
    assert (bench.builds, bench.op.serving_target) == (0, None)


def test_a_key_is_told_for_a_machine_that_is_not_here():
    bench = Bench(devices=frozenset({"cuda"}), supported_archs=frozenset({90}))
    call = bench.request("cuda:0", torch.float32, (3, 4))
    assert bench.op.key_for("probe", call.stating(arch=90)) == "only"
    with pytest.raises((DispatchError, OpNotAvailableError), match="80"):
        bench.op.key_for("probe", call.stating(arch=80))


def test_a_key_keeps_to_the_ops_target():
    op = RMSNormFwdOp((4,), target="reference")
    call = op.call_spec(TensorSpec("cpu", torch.float32, (3, 4)), None)
    assert op.key_for("rms_norm", call) == "reference"


def test_a_key_keeps_to_the_default_target_before_the_first_call():
    bench = Bench()
    call = bench.call(3, 4)
    with (
        default_target("reference"),
        pytest.raises(OpNotAvailableError, match="backend 'reference'"),
    ):
        bench.op.key_for("probe", call)
    bench.op.kernel_for("probe", call)
    with default_target("reference"):
        assert bench.op.key_for("probe", call) == "only"


# -- derived ----------------------------------------------------------------------------------


@pytest.fixture
def op():
    return RMSNormFwdOp((4,))


def test_a_derived_tensor_is_made_once(op):
    made = []

    def make():
        made.append(1)
        return torch.arange(4.0)

    first = op.derived("table", "cpu", make)
    assert op.derived("table", "cpu", make) is first
    assert op.derived("table", "other", make) is not first
    assert op.derived("other", "cpu", make) is not first
    assert len(made) == 3


@pytest.mark.parametrize("mode", [torch.inference_mode, FakeTensorMode], ids=lambda m: m.__name__)
def test_a_derived_tensor_is_an_ordinary_one_in_any_mode(op, mode):
    """CMP-16"""
    with mode():
        table = op.derived("table", "cpu", lambda: torch.arange(4.0))
    assert type(table) is torch.Tensor
    assert not table.is_inference()
    assert table.sum().item() == 6


def test_threads_share_one_derived_tensor(op):
    gate = threading.Barrier(4)

    def make():
        return torch.arange(4.0)

    def ask():
        gate.wait(30)
        return op.derived("table", "cpu", make)

    outcomes = in_threads(*[ask] * 4)
    assert len({id(o.result) for o in outcomes}) == 1


def test_derived_tensors_survive_an_undone_call():
    wrong = [True]

    def forward(self, x):
        table = self.derived("table", str(x.device), lambda: torch.full((4,), 2.0))
        tables.append(table)
        return None if wrong else x * table

    tables = []
    bench = Bench(forward=forward)
    with pytest.raises(BackendError):
        bench.op(small())
    wrong.clear()
    assert torch.equal(bench.op(small()), small() * 2)
    assert tables[0] is tables[1]


def test_a_body_asked_for_a_kernel_while_a_target_serves_touches_no_other_instance():
    with target(lambda *specs, **params: torch.relu, op="ReLUFwdOp"):
        op = ReLUFwdOp(target="acme")
        op(small())
        assert op.serving_target == "acme"
        kernel = op.kernel_for("elementwise", op.call_spec(TensorSpec.of(small())))
    assert torch.equal(kernel(-small()), torch.zeros(3, 4))
    assert len(op._binding.built_entries) == 1
    assert len(UNBOUND.built_entries) == 0
    assert len(UNBOUND.entries_by_call) == 0
