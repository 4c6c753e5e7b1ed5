"""What an instance remembers of its calls: bounded by use, and nothing built twice."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from call_support import Switch, faulty, good, layouts, op_class, served, small, target

from tileops_core.call import routes
from tileops_core.call.emit_key import key_function
from tileops_core.call.routes import Generations
from tileops_core.ops import AddFwdOp, GELUFwdOp, RMSNormFwdOp
from tileops_core.tensor_spec import TensorSpec


@pytest.fixture
def few(monkeypatch):
    """Generations of eight routes."""
    monkeypatch.setattr(routes, "GENERATION", 8)


class Counted:
    """Builds kernels that can be counted while they live."""

    def __init__(self):
        self.builds = []
        self.alive = weakref.WeakSet()

    def __call__(self, x):
        self.builds.append(x.shape)

        class Kernel:
            def __call__(self, x):
                return x * 2

        kernel = Kernel()
        self.alive.add(kernel)
        return kernel


# -- the table --------------------------------------------------------------------------------


def test_a_table_holds_between_one_generation_and_two(few):
    table = Generations()
    for i in range(100):
        table.keep(i, f"route {i}")
        assert min(i + 1, 8) <= len(table) <= 16


def test_the_routes_used_last_stay(few):
    table = Generations()
    for i in range(100):
        table.keep(i, f"route {i}")
        assert table.promote(0) or table.young.get(0)
    assert table.promote(50) is None


def test_a_promoted_route_is_young_again(few):
    table = Generations()
    for i in range(9):
        table.keep(i, i)
    assert (0 in table.young, 0 in table.old) == (False, True)
    table.promote(0)
    assert 0 in table.young


def test_a_route_that_nobody_knows_is_not_promoted():
    assert Generations().promote("key") is None


# -- routes of an op --------------------------------------------------------------------------


def test_many_shapes_keep_a_bounded_number_of_routes():
    """Peer fault 12"""
    op = GELUFwdOp()
    for i in range(2 * routes.GENERATION + 100):
        op(torch.empty(i + 1))
    assert routes.GENERATION <= len(op._binding) <= 2 * routes.GENERATION


def test_257_shapes_in_rotation_are_built_once_each():
    """Peer fault 12"""
    counted = Counted()
    with served(build=counted) as op:
        for _ in range(3):
            for rows in range(257):
                op(torch.empty(rows + 1, 2))
    assert len(counted.builds) == 257


def test_more_shapes_in_rotation_than_are_remembered_are_right(few):
    with served() as op:
        for _ in range(3):
            for rows in range(1, 40):
                assert torch.equal(op(small(rows, 4)), small(rows, 4) * 2)


def test_a_route_of_the_old_generation_hits_without_a_build(few):
    counted = Counted()
    with served(build=counted) as op:
        for rows in range(1, 10):
            op(small(rows, 4))
        assert op._binding.old
        assert torch.equal(op(small(1, 4)), small(1, 4) * 2)
        assert op.last_call.tensors["x"][0] == (1, 4)
    assert len(counted.builds) == 9


def test_a_faulty_kernel_on_a_promoted_route_is_named(few):
    switch = Switch(good)
    with served(build=switch.build) as op:
        for rows in range(1, 10):
            op(small(rows, 4))
        switch.does = lambda x: x.sum()
        with pytest.raises(Exception, match=r"'acme'.*returned shape \(\)"):
            op(small(1, 4))


def test_a_targets_kernels_die_with_their_routes(few):
    """Peer fault 12"""
    counted = Counted()
    with served(build=counted) as op:
        for rows in range(1, 101):
            op(small(rows, 4))
        gc.collect()
        assert len(counted.alive) == len(op._binding) <= 16
        assert len(op._binding.target_kernels) == len(op._binding)


def test_a_targets_kernels_die_with_the_op():
    counted = Counted()
    with served(build=counted) as op:
        op(small())
        assert len(counted.alive) == 1
        del op
    gc.collect()
    assert len(counted.alive) == 0


@pytest.mark.parametrize("name", ["ProbeFwdOp", "BufferFwdOp"])
def test_no_route_waits_for_the_collector(name):
    with served(name) as op:
        op(small(), **({} if name == "ProbeFwdOp" else {"out": small()}))
        (route,) = map(weakref.ref, op._binding.young.values())
        gc.disable()
        try:
            del op._binding.young[next(iter(op._binding.young))]
            assert route() is None
        finally:
            gc.enable()


def test_a_target_builds_once_per_shape_however_the_tensor_lies():
    counted = Counted()
    with served(build=counted) as op:
        for _, x in layouts():
            op(x)
            op(x)
    assert counted.builds == [(3, 4), (1, 4)]


def test_a_target_builds_once_per_dtype():
    counted = Counted()
    with served(build=counted) as op:
        for dtype in (torch.float32, torch.float16, torch.float32, torch.float16):
            op(small(dtype=dtype))
    assert len(counted.builds) == 2


def test_a_target_builds_once_per_presence():
    switch = Switch(faulty.KERNELS["ProbePairFwdOp"]())
    with served("ProbePairFwdOp", switch.build) as op:
        for _ in range(2):
            assert torch.equal(op(small()), small())
            assert torch.equal(op(small(), small()), small() * 2)
    assert switch.builds == 2


def test_a_buffer_does_not_build_another_kernel():
    switch = Switch(faulty.KERNELS["BufferFwdOp"](2.0))
    with served("BufferFwdOp", switch.build) as op:
        for _ in range(2):
            op(small())
            op(small(), out=torch.empty(3, 4))
            op(small(), out=torch.empty(4, 3).t())
    assert switch.builds == 1


def test_kernels_of_one_builder_differ_by_what_they_captured():
    """DIS-11"""

    def build(x):
        columns = x.shape[1]
        return lambda x: x * 2 if x.shape[1] == columns else None

    with served(build=build) as op:
        for _ in range(2):
            for columns in (128, 256):
                assert torch.equal(op(small(2, columns)), small(2, columns) * 2)


def test_two_instances_have_kernels_of_their_own():
    """DIS-11"""
    with target(faulty.builder("BufferFwdOp"), op="BufferFwdOp"):
        cls = op_class("BufferFwdOp")
        two, three = cls(2.0, target="acme"), cls(3.0, target="acme")
        for _ in range(2):
            assert torch.equal(two(small()), small() * 2)
            assert torch.equal(three(small()), small() * 3)


def test_in_tree_entries_are_kept_for_the_life_of_the_instance(few):
    built = []

    def factory():
        built.append(1)
        return kernel_type()

    interfaces, kernel_type = faulty.in_tree(factory=factory)
    op = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        kernel_types={"only": kernel_type},
        call_spec=lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    )()
    for rows in range(1, 60):
        op(small(rows, 4))
    assert built == [1]
    assert len(op._binding) <= 16


def test_call_specs_are_remembered_in_a_bounded_number():
    op = GELUFwdOp()
    for i in range(2 * routes.GENERATION + 100):
        op.kernel_for("elementwise", op.call_spec(TensorSpec("cpu", torch.float32, (i + 1,))))
    assert routes.GENERATION < len(op._binding.entries_by_call) <= 2 * routes.GENERATION


def test_the_short_form_remembers_no_call_spec_besides_its_routes():
    op = GELUFwdOp()
    for i in range(5):
        op(torch.empty(i + 1))
    assert len(op._binding) == 5
    assert len(op._binding.entries_by_call) == 0


# -- what a key holds -------------------------------------------------------------------------


def test_broadcast_shapes_are_not_mixed_up():
    op = AddFwdOp()
    pairs = [((3, 1), (1, 4)), ((1, 4), (3, 1)), ((3, 4), (1,)), ((3, 4), (4,)), ((1,), (3, 4))]
    for _ in range(2):
        for a, b in pairs:
            assert torch.equal(op(small(*a), small(*b)), small(*a) + small(*b))


def test_the_presence_of_an_input_is_not_mixed_up():
    op = RMSNormFwdOp((4,))
    x, weight = small(), torch.full((4,), 3.0)
    plain = op(x)
    for _ in range(2):
        assert torch.equal(op(x), plain)
        torch.testing.assert_close(op(x, weight), plain * 3)


def test_a_route_is_no_wider_than_a_call():
    """A call that differs in one fact from a known one is checked like the first."""
    with served() as op:
        op(small())
        for other in (small(3, 5), small(4, 4), small(dtype=torch.float16), small(4, 3).t()):
            assert torch.equal(op(other), other * 2)
            assert op.last_call.tensors["x"] == (tuple(other.shape), other.dtype)


def test_a_conjugate_input_of_a_complex_op_is_not_mixed_up():
    spec = dict(faulty.SPECS["ProbeFwdOp"])
    for dtype in ("DType[complex64 | float32]", None):
        signature = {**spec["signature"], "forall": {"M": "Dim", "N": "Dim"}}
        name = "T" if dtype else "complex64"
        if dtype:
            signature["forall"]["T"] = dtype
        signature["inputs"] = {"x": {"dtype": name, "shape": "[M, N]"}}
        signature["outputs"] = {"y": {"dtype": name, "shape": "[M, N]"}}
        rows = [{**spec["workloads"][0], "dtype_cases": [{"T": "complex64"}] if dtype else [{}]}]
        seen = []

        def kernel(x, seen=seen):
            seen.append(x.is_conj())
            return (x * 2).resolve_conj()

        with target(lambda x, kernel=kernel: kernel):
            op = op_class("ProbeFwdOp", spec={**spec, "signature": signature, "workloads": rows})(
                target="acme"
            )
            z = torch.complex(small(), small())
            for x in (z, z.conj(), z, z.conj()):
                assert torch.equal(op(x), x * 2)
        assert seen == [False] * 4


# -- keys -------------------------------------------------------------------------------------


def test_an_optional_input_that_is_there_and_one_that_is_not_are_two_routes():
    op, x, weight = RMSNormFwdOp((4,)), small(), torch.full((4,), 3.0)
    for _ in range(2):
        assert torch.allclose(op(x, weight), 3 * op(x))
    assert len(op._binding) == 2


def test_a_key_says_the_same_before_a_call_and_in_it():
    op, x, weight = RMSNormFwdOp((4,)), small(), torch.ones(4)
    for given in ((x, weight), (x, None)):
        op.prepare(*(None if t is None else TensorSpec.of(t) for t in given))
        before = set(op._binding.young)
        op(*given)
        assert set(op._binding.young) == before


def test_tensors_on_other_devices_than_the_cpu_keep_their_device_in_the_key():
    key = key_function(RMSNormFwdOp._plan)
    on_meta = torch.empty(2, 4, device="meta")
    assert torch.device("meta") in key(RMSNormFwdOp((4,)), on_meta, None)
    assert torch.device("cpu") not in key(RMSNormFwdOp((4,)), small(), None)


def test_a_route_tells_its_results_and_device_however_it_keeps_them():
    op = RMSNormFwdOp((4,))
    op(small())
    (route,) = op._binding.young.values()
    assert route.expected == ((small().shape, torch.float32),)
    assert route.device == torch.device("cpu")
