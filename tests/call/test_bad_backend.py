"""Targets, builders and kernels that misbehave: who is told what, and what the next call finds."""

from __future__ import annotations

import re

import pytest
import torch
from call_support import (
    Switch,
    faulty,
    good,
    never,
    odd_tensors,
    op_class,
    python,
    served,
    small,
    target,
)

from tileops_core import BUILTIN, default_target
from tileops_core.backend import (
    BuilderRegistration,
    KernelTypeRegistration,
    TargetRegistration,
    registered,
)
from tileops_core.errors import (
    AmbiguousTargetError,
    BackendError,
    DispatchError,
    OpNotAvailableError,
    SignatureError,
    UnknownTargetError,
)
from tileops_core.ops import GELUFwdOp, RMSNormFwdOp, SumFwdOp

KERNEL_FAULTS = [pytest.param(fault, id=fault.name) for fault in faulty.kernel_faults()]
BUILDER_FAULTS = [pytest.param(fault, id=fault.name) for fault in faulty.builder_faults()]


def notes(error):
    return "\n".join(getattr(error, "__notes__", ()))


def told(call, fault, *owner):
    """The call raises what the fault says, and names who is responsible."""
    with pytest.raises(fault.error) as caught:
        call()
    error = caught.value
    assert fault.is_told_by(error), (fault.says, str(error))
    where = notes(error) if fault.noted else str(error)
    for name in owner:
        assert name in where, (name, where)
    return error


# -- kernels of a target ----------------------------------------------------------------------


@pytest.mark.parametrize("fault", KERNEL_FAULTS)
def test_a_faulty_kernel_is_named_at_the_first_call(fault):
    """Peer fault 16: target, backend, what came and what was due."""
    switch = Switch(fault.does)
    with served(build=switch.build) as op:
        told(lambda: op(small()), fault, "'acme'", "'vendor'", "ProbeFwdOp")
        assert op.serving_target is None
        switch.does = good
        assert torch.equal(op(small()), small() * 2)
        assert op.serving_target == "acme"


@pytest.mark.parametrize("fault", KERNEL_FAULTS)
def test_a_kernel_that_turns_faulty_is_named_on_a_known_route(fault):
    switch = Switch(good)
    with served(build=switch.build) as op:
        op(small())
        record = op.last_call
        switch.does = fault.does
        told(lambda: op(small()), fault, "'acme'", "'vendor'", "ProbeFwdOp")
        assert op.last_call is record
        switch.does = good
        assert torch.equal(op(small()), small() * 2)
        assert switch.builds == 1


@pytest.mark.parametrize("fault", KERNEL_FAULTS)
@pytest.mark.parametrize("warm", [False, True])
def test_a_faulty_kernel_type_is_named(fault, warm):
    switch = Switch(good if warm else fault.does)
    interfaces, kernel_type = faulty.in_tree(lambda x: switch.does(x))
    cls = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        call_spec=lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    )
    with registered(KernelTypeRegistration("ProbeFwdOp", "fast", kernel_type), backend="vendor"):
        op = cls()
        if warm:
            op(small())
        switch.does = fault.does
        told(lambda: op(small()), fault, "'vendor'", "ProbeFwdOp")
        switch.does = good
        assert torch.equal(op(small()), small() * 2)
        assert op.last_call.served_by.kernels == {"probe": "fast"}


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("result", "says"),
    [
        pytest.param(lambda x: x * 2, "2 outputs (values, where)", id="one tensor"),
        pytest.param(lambda x: list(x.max(1)), "a list of 2", id="a list"),
        pytest.param(lambda x: (*x.max(1), x), "a tuple of 3", id="three"),
        pytest.param(lambda x: None, "None", id="None"),
        pytest.param(lambda x: (x.max(1).values, None), "None for where", id="one is None"),
        pytest.param(
            lambda x: (x.max(1).indices, x.max(1).values), "values", id="in another order"
        ),
        pytest.param(
            lambda x: (x.max(1).values, x.max(1).indices.int()), "where", id="another dtype"
        ),
    ],
)
def test_a_kernel_of_several_outputs_is_checked_in_each(result, says, warm):
    switch = Switch(faulty.KERNELS["MaximaFwdOp"](True) if warm else result)
    with served("MaximaFwdOp", switch.build) as op:
        if warm:
            op(small())
        switch.does = result
        with pytest.raises(BackendError, match=re.escape(says)):
            op(small())
        switch.does = faulty.KERNELS["MaximaFwdOp"](True)
        assert op(small())[1].tolist() == [3, 3, 3]


@pytest.mark.parametrize("warm", [False, True])
def test_two_outputs_in_one_memory_are_refused(warm):
    entry = {
        **faulty.SPECS["ProbeFwdOp"],
        "signature": {
            **faulty.SPECS["ProbeFwdOp"]["signature"],
            "outputs": {
                "y": {"dtype": "T", "shape": "[M, N]"},
                "z": {"dtype": "T", "shape": "[M, N]"},
            },
        },
    }
    switch = Switch(lambda x: (x * 2, x * 2))
    with target(switch.build):
        op = op_class("ProbeFwdOp", spec=entry)(target="acme")
        if warm:
            op(small())
        switch.does = lambda x: ((y := x * 2), y)
        with pytest.raises(BackendError, match="z in the memory of y"):
            op(small())
        switch.does = lambda x: (x * 2, x * 2)
        assert len(op(small())) == 2


@pytest.mark.parametrize("warm", [False, True])
def test_a_result_for_an_output_that_is_not_there_is_refused(warm):
    switch = Switch(faulty.KERNELS["MaximaFwdOp"](False))
    with served("MaximaFwdOp", switch.build, indices=False) as op:
        if warm:
            op(small())
        switch.does = faulty.KERNELS["MaximaFwdOp"](True)
        with pytest.raises(BackendError, match="for where, which this call does not have"):
            op(small())
        switch.does = faulty.KERNELS["MaximaFwdOp"](False)
        assert op(small())[1] is None


@pytest.mark.parametrize("warm", [False, True])
def test_a_result_of_a_pure_write_is_refused(warm):
    fine = faulty.KERNELS["AccumulateFwdOp"]()
    switch = Switch(fine)
    with served("AccumulateFwdOp", switch.build) as op:
        if warm:
            op(small(), small())
        switch.does = lambda state, x: state + x
        with pytest.raises(BackendError, match="the op returns nothing"):
            op(small(), small())
        switch.does = fine
        assert op(small(), small()) is None


@pytest.mark.parametrize("warm", [False, True])
def test_another_tensor_than_the_callers_buffer_is_refused(warm):
    fine = faulty.KERNELS["BufferFwdOp"](2.0)
    switch = Switch(fine)
    with served("BufferFwdOp", switch.build) as op:
        out = torch.empty(3, 4)
        if warm:
            op(small(), out=out)
        switch.does = lambda x, out=None: x * 2
        with pytest.raises(BackendError, match="write into the tensor it was given") as caught:
            op(small(), out=out)
        assert "'acme'" in str(caught.value)
        switch.does = fine
        assert op(small(), out=out) is out


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("form", ["sparse_coo", "sparse_csr", "mkldnn"])
def test_a_result_of_another_form_is_refused(form, warm):
    odd = {name: make for name, _, make in odd_tensors()}[form]()
    switch = Switch(good)
    with served(build=switch.build) as op:
        if warm:
            op(small())
        switch.does = lambda x: odd
        with pytest.raises(BackendError, match="layout"):
            op(small())
        switch.does = good
        assert torch.equal(op(small()), small() * 2)


def test_a_zero_tensor_of_autograd_is_no_result():
    """Nobody may write into it, and it has no memory to be read."""
    with (
        served(build=lambda *specs: lambda x: torch._efficientzerotensor(x.shape)) as op,
        pytest.raises(BackendError, match=r"'acme'.*returned y as a zero tensor.*no memory"),
    ):
        op(small())


def test_a_kernel_may_return_none_for_the_buffer_it_wrote():
    with served("BufferFwdOp", lambda x, factor: lambda x, out=None: _fill(x, out)) as op:
        out = torch.empty(3, 4)
        assert op(small(), out=out) is out
        assert torch.equal(out, small() * 2)


def _fill(x, out):
    torch.mul(x, 2, out=out)


# -- builders ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", BUILDER_FAULTS)
def test_a_faulty_builder_is_named_at_the_first_call(fault):
    build = [fault.does]
    with target(lambda *specs, **params: build[0](*specs, **params) if build else None):
        op = op_class("ProbeFwdOp")(target="acme")
        told(lambda: op(small()), fault, "'acme'", "'vendor'", "ProbeFwdOp")
        assert op.serving_target is None
        build[0] = faulty.builder("ProbeFwdOp")
        assert torch.equal(op(small()), small() * 2)


@pytest.mark.parametrize("fault", BUILDER_FAULTS)
def test_a_faulty_later_build_leaves_what_was_built_before(fault):
    switch = Switch(good)
    build = [switch.build]
    with target(lambda *specs, **params: build[0](*specs, **params)):
        op = op_class("ProbeFwdOp")(target="acme")
        op(small())
        build[0] = fault.does
        told(lambda: op(small(2, 5)), fault, "'acme'", "'vendor'")
        assert op.serving_target == "acme"
        assert torch.equal(op(small()), small() * 2)
        assert switch.builds == 1
        build[0] = switch.build
        assert torch.equal(op(small(2, 5)), small(2, 5) * 2)


def test_a_builder_that_cannot_be_imported_is_named():
    with target("no_such_vendor.norm:build"):
        op = op_class("ProbeFwdOp")(target="acme")
        with pytest.raises(
            BackendError, match=r"no_such_vendor\.norm:build.*does not resolve"
        ) as e:
            op(small())
        assert (e.value.backend, e.value.op, e.value.target) == ("vendor", "ProbeFwdOp", "acme")
        assert isinstance(e.value.__cause__, ImportError)
        assert op.serving_target is None


def test_a_builder_gets_specs_by_position_and_parameters_by_name():
    seen = []

    def build(*specs, **params):
        seen.append((specs, params))
        return lambda x, out=None: torch.mul(x, 3, out=out)

    with served("BufferFwdOp", build, factor=3) as op:
        op(small())
    ((spec,), params) = seen[0]
    assert (spec.shape, spec.dtype, spec.device.type) == ((3, 4), torch.float32, "cpu")
    assert params == {"factor": 3.0}
    assert type(params["factor"]) is float


def test_a_builder_gets_none_for_an_absent_input():
    seen = []

    def build(x, z):
        seen.append(z)
        return faulty.KERNELS["ProbePairFwdOp"]()

    with served("ProbePairFwdOp", build) as op:
        op(small())
        op(small(), small())
    assert seen[0] is None
    assert seen[1].shape == (3, 4)


# -- targets ----------------------------------------------------------------------------------


def test_an_unknown_target_is_refused_at_construction_with_a_guess():
    with target(), pytest.raises(UnknownTargetError, match=r"'acne'.*did you mean 'acme'"):
        op_class("ProbeFwdOp")(target="acne")


def test_something_else_than_a_name_is_no_target():
    with pytest.raises(TypeError, match=r"RMSNormFwdOp: target=3"):
        RMSNormFwdOp((4,), target=3)


def test_a_target_that_is_gone_at_the_first_call_is_refused_there():
    with target():
        op = op_class("ProbeFwdOp")(target="acme")
    with pytest.raises(UnknownTargetError, match="'acme'"):
        op(small())
    with target():
        assert torch.equal(op(small()), small() * 2)


def test_an_unknown_target_is_told_for_an_empty_call_too():
    with target():
        op = op_class("ProbeFwdOp")(target="acme")
    with pytest.raises(UnknownTargetError, match="'acme'"):
        op(torch.ones(0, 4))


def test_a_target_that_is_gone_later_serves_on():
    with target():
        op = op_class("ProbeFwdOp")(target="acme")
        op(small())
    assert torch.equal(op(small()), small() * 2)
    assert torch.equal(op(small(5, 5)), small(5, 5) * 2)


def test_a_named_target_without_a_builder_for_the_op_is_an_error_never_a_fall_back():
    """DIS-14: decided before any kernel is built."""
    switch = Switch(good)
    with target(switch.build):
        op = GELUFwdOp(target="acme")
        with pytest.raises(OpNotAvailableError, match=r"GELUFwdOp.*'acme'") as caught:
            op(small())
        assert isinstance(caught.value, NotImplementedError)
        assert (switch.builds, op.serving_target) == (0, None)


def test_a_target_with_one_op_does_not_switch_off_the_others():
    """DIS-14: where nobody with a builder claims the device, in-tree kernels serve."""
    with target(detect=lambda device: True):
        op = GELUFwdOp()
        op(small())
        assert op.serving_target is BUILTIN


def test_two_targets_for_one_device_are_ambiguous_until_something_chooses():
    """REG-03"""
    both = (
        TargetRegistration("one", lambda device: True),
        TargetRegistration("two", lambda device: True),
        BuilderRegistration("ProbeFwdOp", "one", lambda x: good),
        BuilderRegistration("ProbeFwdOp", "two", lambda x: good),
    )
    with registered(*both):
        op = op_class("ProbeFwdOp")()
        with pytest.raises(AmbiguousTargetError, match=r"'one'.*'two'.*target='one'"):
            op(small())
        assert op.serving_target is None
        with default_target("two"):
            assert torch.equal(op(small()), small() * 2)
        assert op.serving_target == "two"
        assert torch.equal(op(small()), small() * 2)
        chosen = op_class("ProbeFwdOp")(target="one")
        chosen(small())
        assert chosen.serving_target == "one"


def test_two_kernel_types_for_one_call_are_ambiguous():
    interfaces, first = faulty.in_tree()
    second = type("Second", (first,), {})
    cls = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        kernel_types={"first": first, "second": second},
        call_spec=lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    )
    op = cls()
    with pytest.raises(DispatchError, match=r"ambiguous.*first.*second"):
        op(small())
    assert op.serving_target is None


def test_kernel_types_that_all_refuse_are_named_with_their_reasons():
    def refusal(cls, call):
        return None if call.shape[1] == 4 else "rows must have 4 columns"

    interfaces, only = faulty.in_tree(refusal=classmethod(refusal))
    cls = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        kernel_types={"only": only},
        call_spec=lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    )
    op = cls()
    with pytest.raises(DispatchError, match=r"only.*rows must have 4 columns"):
        op(small(2, 5))
    assert torch.equal(op(small()), small() * 2)


def test_a_factory_that_cannot_be_called_is_told_at_the_call_that_builds():
    interfaces, only = faulty.in_tree(
        entry_for=classmethod(lambda cls, call: ((), lambda dim: cls))
    )
    cls = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        call_spec=lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    )
    with (
        registered(KernelTypeRegistration("ProbeFwdOp", "fast", only), backend="vendor"),
        pytest.raises(BackendError, match=r"kernel type 'fast' \(vendor\): .* takes arguments"),
    ):
        cls()(small())


def test_an_op_that_nobody_serves_says_so():
    op = op_class("ProbeFwdOp")()
    with pytest.raises(OpNotAvailableError, match="ProbeFwdOp"):
        op(small())
    with target(), default_target("acme"):
        assert torch.equal(op(small()), small() * 2)


def test_a_detector_that_raises_claims_nothing():
    def detect(device):
        raise RuntimeError("driver not loaded")

    with target(detect=detect):
        op = op_class("ProbeFwdOp")()
        with pytest.raises(OpNotAvailableError):
            op(small())


@pytest.mark.parametrize("asked", [None, BUILTIN, "reference"])
def test_a_forward_without_a_kernel_interface_is_told_that_it_lacks_one(asked):
    cls = op_class("ProbeFwdOp", forward=lambda self, x: x * 2)
    with pytest.raises(OpNotAvailableError) as caught:
        cls(target=asked)(small())
    text = str(caught.value)
    assert "its class has no `interfaces`, so a `forward` of its own is never run" in text
    assert "a BuilderRegistration for 'ProbeFwdOp' would do too" in text
    assert "a backend for 'cpu'" not in text


def test_an_interface_without_a_kernel_type_is_told_that_it_lacks_one():
    interfaces, _ = faulty.in_tree()
    cls = op_class(
        "ProbeFwdOp",
        interfaces=interfaces,
        call_spec=lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    )
    with pytest.raises(OpNotAvailableError, match="no kernel type of its interface 'probe' is"):
        cls()(small())


def test_without_any_backend_the_error_says_why_nobody_serves():
    done = python(
        """
        import torch
        from tileops_core.errors import OpNotAvailableError
        from tileops_core.ops import RMSNormFwdOp
        op = RMSNormFwdOp((4,))
        said = []
        for _ in range(2):
            try:
                op(torch.ones(2, 4))
            except OpNotAvailableError as error:
                said.append(str(error))
        assert said[0] == said[1]
        print(said[0])
        try:
            op.last_call
        except RuntimeError as error:
            print(error)
        """,
        TILEOPS_DISABLE_BACKENDS="*",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("RMSNormFwdOp: nobody serves it on cpu")
    assert "'reference' is skipped by TILEOPS_DISABLE_BACKENDS" in done.stdout
    assert done.stdout.endswith("no call has completed yet\n")


def test_a_broken_backend_leaves_calls_to_the_others(tmp_path):
    """Peer fault 15: a SystemExit of a plugin does not leave an op's constructor."""
    for name, body in {"bad": "raise SystemExit(3)", "worse": "import no_such_compiler"}.items():
        (tmp_path / f"{name}_plugin.py").write_text(body)
        info = tmp_path / f"tileops_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tileops-{name}\nVersion: 1.0")
        (info / "entry_points.txt").write_text(f"[tileops.backends]\n{name} = {name}_plugin\n")
    done = python(
        """
        import warnings
        import torch
        from tileops_core import load_failures
        from tileops_core.errors import UnknownTargetError
        from tileops_core.ops import RMSNormFwdOp
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            op = RMSNormFwdOp((4,))
        print(op(torch.ones(1, 4)).sum().item())
        print(sorted(f.backend for f in load_failures()))
        try:
            RMSNormFwdOp((4,), target="bad")
        except UnknownTargetError as error:
            print(type(error.__cause__).__name__)
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["4.0", "['bad', 'worse']", "SystemExit"]


# -- who is blamed ----------------------------------------------------------------------------


def test_an_exception_out_of_a_kernel_keeps_its_type_and_is_noted_once():
    switch = Switch(good)
    with served(build=switch.build) as op:
        op(small())
        error = ValueError("bad block size")
        switch.does = lambda x: (_ for _ in ()).throw(error)
        for _ in range(3):
            with pytest.raises(ValueError, match="bad block size"):
                op(small())
    assert notes(error).count("acme") == 1


def test_a_callers_fault_is_not_noted_as_a_kernels():
    """Memory is asked inside a route, which is still the caller's side of it."""
    with served("BufferFwdOp") as op:
        base = torch.zeros(24)
        x, out = base[:12].view(3, 4), base[6:18].view(3, 4)
        for _ in range(2):
            with pytest.raises(SignatureError) as caught:
                op(x, out=out)
            assert notes(caught.value) == ""
            op(x, out=torch.empty(3, 4))


def test_nothing_in_tree_for_a_hand_written_body_is_not_noted_as_a_kernels():
    interfaces, only = faulty.in_tree(refusal=classmethod(lambda cls, call: "not today"))

    def forward(self, x):
        return self.kernel_for(
            "probe", interfaces["probe"].request(x.device, x.dtype, tuple(x.shape))
        )(x)

    op = op_class(
        "ProbeFwdOp", interfaces=interfaces, kernel_types={"only": only}, forward=forward
    )()
    with pytest.raises(DispatchError, match="not today") as caught:
        op(small())
    assert notes(caught.value) == ""


def test_the_error_carries_backend_op_and_target():
    with served(build=lambda x: lambda x: None) as op, pytest.raises(BackendError) as caught:
        op(small())
    error = caught.value
    assert (error.backend, error.op, error.target) == ("vendor", "ProbeFwdOp", "acme")


def test_an_op_of_another_target_is_not_touched_by_a_fault():
    with target(lambda x: lambda x: None), target(name="fine"):
        cls = op_class("ProbeFwdOp")
        bad, fine = cls(target="acme"), cls(target="fine")
        fine(small())
        with pytest.raises(BackendError):
            bad(small())
        assert torch.equal(fine(small()), small() * 2)


def test_a_claiming_target_serves_without_being_named():
    with target(detect=lambda device: device.type == "cpu"):
        op = op_class("ProbeFwdOp")()
        assert torch.equal(op(small()), small() * 2)
        assert op.serving_target == "acme"


def test_a_target_that_claims_nothing_serves_when_named():
    with target(detect=never):
        op = op_class("ProbeFwdOp")(target="acme")
        assert torch.equal(op(small()), small() * 2)


def test_a_backends_name_restricts_in_tree_kernels_to_its_own():
    op = SumFwdOp(dim=0, target="reference")
    op(small())
    assert op.serving_target == "reference"
    assert op.last_call.served_by.backends == {"reduce": "reference"}
