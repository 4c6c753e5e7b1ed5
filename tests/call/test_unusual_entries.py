"""Entries of every shape: without inputs, with optional ones only, with some on the CPU."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from call_support import Switch, faulty, op_class, small, target
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from tileops_core.errors import BackendError, SignatureError


@contextmanager
def made(build, *args, inputs=None, outputs=None, forall=None, op="ProbeFwdOp", **more):
    """An op of an entry put together here, served by a target."""
    params = more.pop("params", {})
    values = more.pop("values", {})
    indices = {"M": "Dim", "N": "Dim", "T": "DType[float16 | float32]"}
    signature = {
        "forall": indices if forall is None else forall,
        "params": params,
        "inputs": inputs if inputs is not None else {"x": tensor()},
        "outputs": outputs if outputs is not None else {"y": tensor()},
        **more,
    }
    row = {"label": "row", "dtype_cases": [{"T": "float32"}], **values}
    row |= {name: 2 for name, kind in signature["forall"].items() if kind == "Dim"}
    if "T" not in signature["forall"]:
        row["dtype_cases"] = [{}]
    signature = {key: value for key, value in signature.items() if value or key == "outputs"}
    entry = {"family": "probe", "status": "implemented", "signature": signature, "workloads": [row]}
    with target(build, op=op):
        yield op_class(op, spec=entry)(*args, target="acme")


def tensor(shape="[M, N]", dtype="T", **more):
    return {"dtype": dtype, "shape": shape, **more}


# -- few inputs -------------------------------------------------------------------------------


def no_inputs(build, *args):
    return made(
        build,
        *args,
        forall={},
        inputs={},
        outputs={"y": tensor("[n]", "float32")},
        params={"n": {"type": "int"}},
        values={"n": 3},
    )


def test_an_op_without_inputs_makes_its_result_on_the_current_device():
    switch = Switch(lambda: torch.arange(3.0))
    with no_inputs(lambda **params: switch.build(**params), 3) as op:
        for _ in range(3):
            assert op().tolist() == [0, 1, 2]
        assert switch.builds == 1
        assert op.last_call.tensors == {"y": ((3,), torch.float32)}
        switch.does = lambda: torch.arange(4.0)
        with pytest.raises(BackendError, match=r"shape \(4,\)"):
            op()
        with pytest.raises(TypeError, match="ProbeFwdOp"):
            op(small())


def test_an_op_without_inputs_works_in_modes():
    with no_inputs(lambda **params: lambda: torch.arange(3.0), 3) as op:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            assert op().dtype is torch.float32
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            assert op().tolist() == [0, 1, 2]


def test_an_op_without_inputs_runs_nobody_in_a_fake_mode():
    switch = Switch(lambda: torch.arange(3.0))
    with no_inputs(lambda **params: switch.build(), 3) as op:
        with FakeTensorMode():
            y = op()
        assert (type(y), y.shape, switch.builds) == (FakeTensor, (3,), 0)
        assert op().tolist() == [0, 1, 2]


def test_an_op_without_inputs_is_where_its_device_parameter_says():
    seen = []

    def build(*, n, device):
        seen.append(device)
        return lambda: torch.arange(3.0)

    def an_op(device):
        return made(
            build,
            3,
            device,
            forall={},
            inputs={},
            outputs={"y": tensor("[n]", "float32")},
            params={
                "n": {"type": "int"},
                "device": {"type": "torch.device | str | None", "default": None},
            },
            values={"n": 3},
        )

    with an_op("cpu") as op:
        for _ in range(2):
            assert op().tolist() == [0, 1, 2]
        assert op.last_call.device == torch.device("cpu")
    assert seen == [torch.device("cpu")]
    with an_op("meta") as op:
        assert (op().device.type, op.serving_target) == ("meta", None)
    for wrong in ("nowhere", 3, torch.float32):
        with pytest.raises(SignatureError, match="device must be a torch device"), an_op(wrong):
            pass


def only_optional(build):
    return made(
        build,
        inputs={"x": tensor("[M]", optional=True), "z": tensor("[M]", optional=True)},
        outputs={"y": tensor("[]", "float32")},
        forall={"M": "Dim", "T": "DType[float32]"},
    )


def test_an_op_with_optional_inputs_only():
    def build(x, z):
        return lambda x, z: sum((t.sum() for t in (x, z) if t is not None), torch.zeros(()))

    with only_optional(build) as op:
        for _ in range(2):
            assert op().item() == 0
            assert op(small(3)).item() == 6
            assert op(None, small(3)).item() == 6
            assert op(z=small(2), x=small(2)).item() == 6
            with pytest.raises(SignatureError, match="z has shape"):
                op(small(2), small(3))
            with pytest.raises(SignatureError, match="z is on meta"):
                op(small(2), small(2).to("meta"))
    assert op.last_call.present("z")


def test_an_input_that_stays_on_the_cpu_may_be_the_only_one():
    def build(x):
        return lambda x: x * 2

    with made(build, inputs={"x": tensor(device="cpu")}) as op:
        for _ in range(2):
            assert torch.equal(op(small()), small() * 2)
        with pytest.raises(SignatureError, match="x is on meta"):
            op(small().to("meta"))


# -- presence and nullness --------------------------------------------------------------------


def test_a_parameter_may_decide_that_an_input_must_come():
    def build(x, z, *, on):
        return lambda x, z: x * 2 if z is None else x + z

    def an_op(on):
        return made(
            build,
            on,
            inputs={"x": tensor(), "z": tensor(optional="on")},
            params={"on": {"type": "bool"}},
            values={"on": True},
        )

    with an_op(True) as op:
        for _ in range(2):
            assert torch.equal(op(small(), small()), small() * 2)
            with pytest.raises(SignatureError, match=r"z must be given with on=True"):
                op(small())
    with an_op(False) as op:
        for _ in range(2):
            assert torch.equal(op(small()), small() * 2)
            with pytest.raises(SignatureError, match=r"z must not be given with on=False"):
                op(small(), small())


def test_a_single_output_may_be_absent():
    switch = Switch(lambda x: None)
    with made(
        lambda *specs, **params: switch.build(*specs),
        False,
        outputs={"y": tensor(nullable="not on")},
        params={"on": {"type": "bool"}},
        values={"on": True},
    ) as op:
        for _ in range(2):
            assert op(small()) is None
        switch.does = lambda x: x
        with pytest.raises(BackendError, match="y, which this call does not have"):
            op(small())
        switch.does = lambda x: None
        assert op(small()) is None
        assert op.last_call.branch_key == "without_y"


def test_an_output_may_be_there_when_an_input_is():
    def build(x, z):
        return lambda x, z: (x * 2, None if z is None else z * 2)

    with made(
        build,
        inputs={"x": tensor(), "z": tensor(optional=True)},
        outputs={"y": tensor(), "w": tensor(nullable="not present(z)")},
    ) as op:
        for _ in range(2):
            assert op(small())[1] is None
            assert torch.equal(op(small(), small())[1], small() * 2)


def test_an_op_whose_outputs_are_all_absent_but_written():
    """Nothing new comes of it, and everything is right."""

    def build(x, *, on):
        def kernel(x):
            x.add_(1)
            return None, None

        return kernel

    with made(
        build,
        False,
        inputs={"x": tensor(mutated=True)},
        outputs={"y": tensor(nullable="not on"), "w": tensor(nullable="not on")},
        params={"on": {"type": "bool"}},
        values={"on": True},
    ) as op:
        for _ in range(2):
            x = small()
            assert op(x) == (None, None)
            assert torch.equal(x, small() + 1)


# -- writes beside new outputs ----------------------------------------------------------------


@contextmanager
def accumulating():
    """state += x, y = 2 state before, into out if given; z is new."""

    def build(state, x):
        def kernel(state, x, out=None):
            y = torch.mul(state, 2, out=out)
            state.add_(x)
            return state, y, x * 3

        return kernel

    with made(
        build,
        inputs={"state": tensor(mutated=True), "x": tensor()},
        outputs={"s": tensor(alias="state"), "y": tensor(buffer="out"), "z": tensor()},
    ) as op:
        yield op


@pytest.mark.parametrize("strided", [False, True])
def test_a_written_input_a_buffer_and_a_new_output_together(strided):
    with accumulating() as op:
        for _ in range(2):
            state = small(4, 3).t() if strided else small()
            out = torch.zeros(4, 3).t() if strided else torch.zeros(3, 4)
            before = state.clone()
            s, y, z = op(state, small(), out=out)
            assert s is state
            assert y is out
            assert torch.equal(s, before + small())
            assert torch.equal(y, before * 2)
            assert torch.equal(z, small() * 3)
        assert op.last_call.branch_key == "writes_state_out"


def test_a_new_output_beside_a_written_input_is_checked():
    switch = Switch(None)
    with made(
        lambda *specs: switch.build(),
        inputs={"state": tensor(mutated=True), "x": tensor()},
        outputs={"y": tensor()},
    ) as op:
        for does, says in (
            (lambda s, x: s, "memory of its input state"),
            (lambda s, x: x, "memory of its input x"),
            (lambda s, x: None, "None for y"),
            (lambda s, x: x.half(), "dtype float16"),
            (lambda s, x: (x * 2).t(), "shape"),
        ):
            for warm in (False, True):
                if warm:
                    switch.does = lambda s, x: x * 2
                    op(small(), small())
                switch.does = does
                with pytest.raises(BackendError, match=says):
                    op(small(), small())


def test_written_new_and_absent_outputs_under_autograd():
    with accumulating() as op:
        for _ in range(2):
            state = small() * 1
            x = small().requires_grad_()
            s, y, z = op(state, x)
            assert s is state
            assert torch.equal(y.detach(), small() * 2)
            for result in (s, y, z):
                assert result.requires_grad
                with pytest.raises(NotImplementedError, match="ProbeFwdOp has no gradient"):
                    result.sum().backward(retain_graph=True)


# -- dtypes -----------------------------------------------------------------------------------


def test_inputs_of_fixed_and_of_solved_dtypes():
    def build(x, where):
        return lambda x, where: x.gather(1, where)

    with made(
        build,
        inputs={"x": tensor(), "where": tensor(dtype="int64")},
        outputs={"y": tensor()},
    ) as op:
        where = torch.zeros(3, 4, dtype=torch.int64)
        for _ in range(2):
            assert op(small(), where).shape == (3, 4)
            with pytest.raises(SignatureError, match=r"where has dtype int32, .* int64"):
                op(small(), where.int())


def test_an_output_of_a_dtype_that_a_parameter_gives():
    def build(x, *, dtype):
        return lambda x: x.to(dtype, copy=True)

    def an_op(*args):
        return made(
            build,
            *args,
            outputs={"y": tensor(dtype="coalesce_dtype(dtype, T)")},
            params={"dtype": {"type": "float16 | float32 | None", "default": None}},
        )

    for given, due in ((None, torch.float32), ("float16", torch.float16)):
        with an_op(given) as op:
            for _ in range(2):
                assert op(small()).dtype is due


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["input", "key", "route", "result", "error", "torch", "node"])
def test_an_input_may_be_called_almost_anything(name):
    def build(*specs):
        return lambda value: value * 2

    with made(build, inputs={name: tensor()}) as op:
        for _ in range(2):
            assert torch.equal(op(small()), small() * 2)
            assert torch.equal(op(**{name: small()}), small() * 2)


def test_the_faulty_ops_are_all_usable():
    """The entries that the other tests are made of."""
    inputs = {"T": torch.float32, "bool": torch.bool, "int64": torch.int64}
    for name, entry in faulty.SPECS.items():
        with target(op=name):
            op = op_class(name)(target="acme")
            given = {
                n: torch.ones((3, 4) if t["shape"] == "[M, N]" else (3,), dtype=inputs[t["dtype"]])
                for n, t in entry["signature"]["inputs"].items()
            }
            for _ in range(2):
                op(**given)
            assert op.serving_target == "acme"
