"""Hosts: who runs the calls of graphs, for how long, and what is remembered of them."""

from __future__ import annotations

import gc
import json
import threading
import weakref

import pytest
import torch
from call_support import Switch, good, op_class, served, small, target
from graphs import breaks, fresh, graphs, shared_graphs, whole  # noqa: F401

from tileops_core import BUILTIN
from tileops_core.errors import StaleGraphError
from tileops_core.op import definition, hosts
from tileops_core.ops import AddFwdOp, GEMMFwdOp, ReLUFwdOp, RMSNormFwdOp

pytestmark = pytest.mark.filterwarnings("ignore")
norm = torch.ops.tileops_core.rms_norm_fwd


@pytest.fixture(autouse=True)
def _fresh():
    with fresh():
        yield


def key_of(name="RMSNormFwdOp", params=((4,), 0.25), chosen=None, digits=None):
    if digits is None:
        digits = RMSNormFwdOp._plan.signature.entry_hash
    return json.dumps([name, params, chosen, digits], separators=(",", ":"))


# -- what graphs leave on ops -----------------------------------------------------------------


def test_a_graphs_calls_run_on_an_op_that_is_no_instance():
    switch = Switch(good)
    with served(build=switch.build) as op:
        whole(op)(small())
        host = hosts.known_host(op._key)
        assert host is not op
        assert type(host) is type(op)
        assert host._key == op._key
        assert len(op._binding) == 0
        assert len(host._binding) == 1


def test_an_op_that_only_graphs_have_called_tells_what_they_did():
    op = RMSNormFwdOp((4,))
    assert op.serving_target is None
    whole(op)(small())
    assert op.serving_target is not None
    assert op.last_call.tensors["x"] == ((3, 4), torch.float32)
    assert op.eval_roofline()[0] > 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_reads_who_serves_when_it_runs(backend):
    with served(build=Switch(good).build) as op:
        compiled = torch.compile(lambda x: (op(x), op.serving_target), backend=backend)
        assert [compiled(small())[1] for _ in range(2)] == ["acme", "acme"]


def test_compiled_code_reads_the_last_call_when_it_runs():
    op = RMSNormFwdOp((4,))
    compiled = torch.compile(lambda x: (op(x), op.last_call), backend="eager", dynamic=True)
    assert [compiled(small(n, 4))[1].tensors["x"][0][0] for n in (3, 5, 7)] == [3, 5, 7]
    assert not any("get_ident" in reason for reason in breaks())  # of that dynamo warns


def test_an_op_that_was_called_itself_tells_its_own_calls():
    op = RMSNormFwdOp((4,))
    compiled = whole(op)
    compiled(small())
    op(small(5, 4))
    compiled(small())
    assert op.last_call.tensors["x"][0] == (5, 4)


def test_equal_ops_share_what_graphs_did():
    one, two = RMSNormFwdOp((4,)), RMSNormFwdOp((4,))
    whole(one)(small())
    assert two.last_call.tensors["x"][0] == (3, 4)


def test_tracing_alone_selects_nobody_and_records_nothing():
    switch = Switch(good)
    with served(build=switch.build) as op:
        torch.export.export(torch.nn.Sequential(Holder(op)), (small(),), strict=True)
        assert switch.builds == 0
        assert hosts.known_host(op._key)._binding.target is None
        with pytest.raises(RuntimeError, match="no call"):
            hosts.known_host(op._key).last_call  # noqa: B018


class Holder(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x):
        return self.op(x)


def test_a_call_through_the_operator_of_an_instance_runs_on_the_instance():
    """A dispatch mode, a profiler or vmap change nothing about whose call it is."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with served() as op:
        with Mode():
            op(small())
        assert len(op._binding) == 1
        assert hosts.known_host(op._key) is None


def test_another_op_called_by_a_kernel_under_a_mode_runs_on_itself():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    inner = AddFwdOp()
    with served(build=lambda x: lambda x: inner(x, x)) as op, Mode():
        assert torch.equal(op(small()), small() * 2)
    assert op.last_call.op == "ProbeFwdOp"
    assert inner.last_call.op == "AddFwdOp"


# -- how long ---------------------------------------------------------------------------------


def test_a_host_goes_with_the_last_op_of_its_key():
    one, two = RMSNormFwdOp((4,), 0.5), RMSNormFwdOp((4,), 0.5)
    norm(one._key, small(), None)
    host = weakref.ref(hosts.known_host(one._key))
    del one
    gc.collect()
    assert host() is not None
    key = two._key
    del two
    assert host() is None
    assert hosts.known_host(key) is None


def left_of(keys):
    """Those of the keys that something is still kept for."""
    gc.collect()
    return keys & {*hosts._ANCHORS, *hosts.HOSTS, *hosts._WITHOUT_INSTANCE}


def test_thousands_of_ops_leave_nothing():
    """Called, dropped, and met again."""
    x, keys = small(), set()
    for _ in range(2):
        for i in range(2000):
            op = RMSNormFwdOp((4,), 1234.5 + i)
            keys.add(op._key)
            if i % 10 == 0:
                y = norm(op._key, x, None)
                assert torch.equal(y, op(x))
        del op
        assert len(keys) == 2000
        assert left_of(keys) == set()


@pytest.mark.usefixtures("shared_graphs")
def test_thousands_of_compiled_ops_leave_nothing():
    def f(op, x):
        return op(x)

    keys = set()
    for i in range(50):
        op = RMSNormFwdOp((4,), 4321.5 + i % 5)
        keys.add(op._key)
        y = whole(f)(op, small())
        assert torch.equal(y, op(small()))
    del op
    torch._dynamo.reset()
    assert left_of(keys) == set()


def test_hosts_without_an_instance_are_bounded(monkeypatch):
    monkeypatch.setattr(hosts, "KEPT", 5)
    keys = [key_of(params=((4,), 1.0 + i)) for i in range(20)]
    for _ in range(2):
        for i, key in enumerate(keys):
            assert torch.equal(norm(key, small(), None), RMSNormFwdOp((4,), 1.0 + i)(small()))
            assert len(hosts._WITHOUT_INSTANCE) <= 5
    assert sum(key in hosts.HOSTS for key in keys) == 5


def test_a_host_without_an_instance_stays_when_an_instance_comes_and_goes():
    key = key_of()
    norm(key, small(), None)
    host = hosts.known_host(key)
    op = RMSNormFwdOp((4,), 0.25)
    assert op._key == key
    assert op.last_call is not None
    del op
    gc.collect()
    assert hosts.known_host(key) is host


def test_threads_that_meet_a_key_together_get_one_host():
    key, found, barrier = key_of(), [], threading.Barrier(4)

    def meet():
        barrier.wait()
        norm(key, small(), None)
        found.append(hosts.known_host(key))

    threads = [threading.Thread(target=meet, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 4
    assert len({id(host) for host in found}) == 1


# -- from the key alone -----------------------------------------------------------------------


def test_a_key_alone_is_enough():
    y = norm(key_of(), small(), None)
    assert torch.equal(y, RMSNormFwdOp((4,), 0.25)(small()))


def test_a_host_made_in_a_mode_outlives_it():
    from torch._subclasses.fake_tensor import FakeTensorMode

    key = key_of()
    with torch.inference_mode(), FakeTensorMode():
        norm(key, torch.ones(3, 4), None)
    assert torch.equal(norm(key, small(), None), RMSNormFwdOp((4,), 0.25)(small()))


def test_a_key_of_an_entry_that_has_changed_is_refused():
    with pytest.raises(StaleGraphError, match=r"RMSNormFwdOp: this graph was made for an entry"):
        norm(key_of(digits="0" * 16), small(), None)


def test_a_key_whose_op_nobody_defines_is_refused():
    with pytest.raises(StaleGraphError, match=r"UnheardOfFwdOp: .*no class is defined"):
        norm(key_of("UnheardOfFwdOp"), small(), None)


def test_a_key_whose_target_nobody_has_is_refused():
    from tileops_core.errors import UnknownTargetError

    with pytest.raises(UnknownTargetError, match="'nobody'"):
        norm(key_of(chosen="nobody"), small(), None)


def test_an_op_whose_key_no_text_names_works_in_graphs_while_it_lives():
    with injected() as op:
        key = op._key
        assert torch.equal(whole(op)(small()), small() * 2)
        assert hosts.known_host(key).scale is op.scale
        run = torch.ops.tileops_external.probe_injected_fwd
        assert torch.equal(run(key, small()), small() * 2)
        del op
        torch._dynamo.reset()
        gc.collect()
        with pytest.raises(
            StaleGraphError, match=r"an instance that holds .*that instance is gone"
        ):
            run(key, small())


def injected():
    """An op that holds an object that no text can name."""
    import contextlib

    @contextlib.contextmanager
    def made():
        with target(lambda x: good, op="InjectedFwdOp"):
            from faulty import SPECS

            def init(self, scale=None, target=None):
                self.scale = scale
                cls.__mro__[1].__init__(self, target=target)

            cls = op_class(
                "InjectedFwdOp",
                spec=SPECS["ProbeFwdOp"],
                injected_parameters=("scale",),
                __init__=init,
            )
            yield cls(scale=object(), target="acme")

    return made()


def test_ops_with_injected_objects_never_share_a_key():
    with injected() as op:
        cls = type(op)
        assert len({cls(scale=op.scale, target="acme")._key for _ in range(3)}) == 3
        assert cls(target="acme")._key == cls(target="acme")._key


def test_a_graph_compiled_for_one_target_does_not_serve_another():
    compiled = whole(lambda op, a, b: op(a, b))
    a, b = torch.randn(3, 4), torch.randn(5, 4)
    for op in (GEMMFwdOp(), GEMMFwdOp(target="reference")):
        compiled(op, a, b)
        assert op.serving_target == ("reference" if op.target else op.serving_target)
    assert GEMMFwdOp()._key != GEMMFwdOp(target="reference")._key


def test_an_op_that_holds_a_tensor_works_in_graphs_while_it_lives():
    from hard_ops import answering

    factors = torch.arange(1.0, 5.0)
    with answering("RescaledRoPEFwdOp", rescale_factors=factors) as (op, seen):
        key, x = op._key, torch.ones(5, 8)
        assert whole(op)(x).shape == (5, 8)
        assert torch.equal(seen.named["rescale_factors"], factors)
        run = torch.ops.tileops_external.hard_rescaled_rope_fwd
        del op
        torch._dynamo.reset()
        gc.collect()
        assert hosts.known_host(key) is None
        with pytest.raises(StaleGraphError, match=r"RescaledRoPEFwdOp: .*Tensor of its own"):
            run(key, x)


def test_equal_ops_that_hold_tensors_have_graphs_of_their_own():
    from hard_ops import answering

    with answering("RescaledRoPEFwdOp", rescale_factors=torch.ones(4)) as (op, _):
        compiled = whole(lambda op, x: op(x))
        for each in (op, type(op)(rescale_factors=torch.ones(4), target="acme"), op):
            compiled(each, torch.ones(5, 8))
        assert graphs() == 2


def test_a_new_class_has_no_host_of_a_namesake_that_nobody_remembers():
    with served(build=Switch(good).build) as op:
        whole(op)(small())
        assert hosts.known_host(op._key) is not None
        definition._CLASSES.pop("ProbeFwdOp")
        op_class("ProbeFwdOp")
        assert hosts.known_host(op._key) is None


def test_a_new_class_has_no_host_made_after_an_instance_of_its_namesake():
    with served(build=Switch(good).build) as old:
        new = op_class("ProbeFwdOp")(target="acme")
        assert new._key == old._key
        whole(new)(small())
        assert type(hosts.known_host(new._key)) is type(new)


class Shifted(ReLUFwdOp):
    """Computes something else than the op does."""

    def forward(self, x):
        return torch.relu(x) + 1


class Same(ReLUFwdOp):
    """Computes what the op does."""

    def twice(self, x):
        return self(self(x))


@pytest.mark.parametrize("first", [Shifted, ReLUFwdOp])
def test_a_class_that_changes_an_op_and_the_op_run_their_own_bodies_in_graphs(first):
    x = small() - 6
    made = {cls: cls(target=BUILTIN) for cls in (first, *{Shifted, ReLUFwdOp} - {first})}
    for cls, op in made.items():
        assert torch.equal(whole(op)(x), torch.relu(x) + (cls is Shifted))


def test_a_class_that_only_adds_to_an_op_shares_its_graphs():
    assert Same()._key == ReLUFwdOp()._key


def test_a_class_changes_what_its_parents_change():
    class Named(Shifted):
        """With nothing added."""

    class Mixin:
        def call_spec(self, x):
            raise NotImplementedError

    class Mixed(Mixin, ReLUFwdOp):
        """Changed by what is no op."""

    assert Named()._key == Shifted()._key
    assert Mixed()._changes.startswith(f"{__name__}.")


def test_a_changed_ops_graph_runs_while_any_of_its_equals_is_there():
    first, second = Shifted(target=BUILTIN), Shifted(target=BUILTIN)
    del first
    assert torch.equal(whole(second)(small()), small() + 1)


def test_a_class_is_unchanged_by_a_mixin_that_comes_behind_the_op():
    class Mixin:
        def call_spec(self, x):
            raise NotImplementedError

    class Mixed(ReLUFwdOp, Mixin):
        """Finds everything where the op does."""

    assert Mixed()._key == ReLUFwdOp()._key


def test_a_graph_of_a_changed_op_that_is_gone_is_refused():
    key = Shifted()._key
    with pytest.raises(StaleGraphError, match=r"what \S*Shifted changes of the op"):
        torch.ops.tileops_core.elementwise_relu_fwd(key, small())
