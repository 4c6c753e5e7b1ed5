"""What a class statement sets off."""

from __future__ import annotations

import gc
import inspect
import linecache
import subprocess
import sys
import textwrap

import pytest
import torch
from call_support import faulty, good, op_class, served, small, target

from tileops_core import Op
from tileops_core.backend import KernelTypeRegistration, registered
from tileops_core.errors import ManifestError, OpNotAvailableError
from tileops_core.op import definition
from tileops_core.ops import GELUFwdOp, RMSNormFwdOp


class Base(Op):
    """A family's base: no manifest key is called so."""


def test_a_class_without_an_entry_is_no_op():
    with pytest.raises(TypeError, match=r"Base has no manifest entry.*spec"):
        Base()


PROBE = faulty.SPECS["ProbeFwdOp"]


def test_an_op_may_go_through_a_base_of_its_family():
    cls = type("ProbeFwdOp", (Base,), {"__module__": op_class.__module__, "spec": PROBE})
    with target():
        assert torch.equal(cls(target="acme")(small()), small() * 2)


def test_a_subclass_of_an_op_is_that_op():
    class Mine(RMSNormFwdOp):
        """With something added."""

        def twice(self, x):
            return self(self(x))

    op = Mine((4,))
    assert op.twice(small()).shape == (3, 4)
    assert op.last_call.op == "RMSNormFwdOp"


def test_an_entry_may_be_a_mapping_or_a_file(tmp_path):
    file = tmp_path / "probe.yaml"
    file.write_text(
        textwrap.dedent(
            """
            ProbeFwdOp:
              family: probe
              status: implemented
              signature:
                forall: {M: Dim, T: "DType[float32]"}
                inputs: {x: {dtype: T, shape: "[M, 4]"}}
                outputs: {y: {dtype: T, shape: "[M, 4]"}}
              workloads:
                - {label: small, M: 3, dtype_cases: [{T: float32}]}
            """
        )
    )
    for where in (file, str(file)):
        with target():
            op = op_class("ProbeFwdOp", spec=where)(target="acme")
            assert torch.equal(op(small()), small() * 2)
            with pytest.raises(ValueError, match=r"has shape.*\[probe\.yaml:7\]"):
                op(small(3, 5))


def test_a_broken_entry_of_the_manifest_breaks_its_own_op_and_no_other_of_the_family():
    code = """
        import attrs, torch
        from tileops_core.errors import ManifestError
        from tileops_core.op import definition
        from tileops_core.spec.expressions import Name

        real = definition.load_spec

        def load_spec(op):
            spec = real(op)
            if op != "RoPENeoxPositionIdsFwdOp":
                return spec
            first = attrs.evolve(spec.inputs[0], dtype=Name(id="Q", span=spec.span))
            return attrs.evolve(spec, inputs=(first, *spec.inputs[1:]))

        definition.load_spec = load_spec
        from tileops_core.ops.rope import RoPEFwdOp, RoPENeoxPositionIdsFwdOp

        assert RoPEFwdOp(target="reference")(torch.ones(2, 4)).shape == (2, 4)
        errors = []
        for _ in range(2):
            try:
                RoPENeoxPositionIdsFwdOp(max_position=8)
            except ManifestError as error:
                errors.append(error)
        assert all("'Q' is no dtype" in str(error) for error in errors)
        assert len(set(map(id, errors))) == 2
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_broken_entry_is_refused_at_the_class_statement():
    entry = {**PROBE, "signature": {**PROBE["signature"], "outputs": {"y": {"dtype": "Q"}}}}
    with pytest.raises(ManifestError, match="Q"):
        op_class("ProbeFwdOp", spec=entry)


@pytest.mark.parametrize("name", ["forward", "last_call", "kernel_for", "spec", "interfaces"])
def test_a_parameter_that_hides_a_member_of_every_op_is_refused(name):
    entry = {**PROBE, "signature": {**PROBE["signature"], "params": {name: {"type": "int"}}}}
    entry["workloads"] = [{**row, name: 1} for row in PROBE["workloads"]]
    with pytest.raises(ManifestError, match=f"'{name}' would hide what every op has") as caught:
        op_class("ProbeFwdOp", spec=entry)
    assert [problem.code for problem in caught.value.problems] == ["bad-name"]


def test_something_else_for_an_entry_is_refused():
    with pytest.raises(TypeError, match=r"ProbeFwdOp: spec must be a mapping.*got int"):
        op_class("ProbeFwdOp", spec=3)


def test_one_name_means_one_thing_in_a_process():
    """CMP-14"""
    kept = op_class("ProbeFwdOp")
    with pytest.raises(TypeError, match=r"ProbeFwdOp is defined twice.*call_support.*elsewhere"):
        type("ProbeFwdOp", (Op,), {"spec": PROBE, "__module__": "elsewhere"})
    assert kept is not None


def test_a_name_is_free_again_when_nobody_holds_its_class():
    """CMP-14: whether the collector has come by must not decide. An old class waits long for it."""
    dropped = op_class("ProbeFwdOp")
    gc.collect()
    assert dropped.__module__ != "elsewhere"
    del dropped
    second = type("ProbeFwdOp", (Op,), {"spec": PROBE, "__module__": "elsewhere"})
    assert definition.held_classes(["ProbeFwdOp", "NobodysFwdOp"]) == {"ProbeFwdOp": second}


def test_the_classes_that_somebody_holds_are_told_without_those_that_were_dropped():
    dropped = op_class("ProbeFwdOp")
    gc.collect()
    assert "ProbeFwdOp" in definition.living_classes()
    del dropped
    held = definition.held_classes()
    assert "ProbeFwdOp" not in held
    assert held["GELUFwdOp"] is GELUFwdOp


def test_a_name_of_the_librarys_ops_is_taken_before_their_family_is_imported():
    """CMP-14: else the import of the family would be what fails."""
    program = """
import sys
from tileops_core.op import Op
entry = {
    "family": "mine",
    "status": "implemented",
    "signature": {"inputs": {}, "outputs": {"y": {"dtype": "float32", "shape": "[]"}}},
    "workloads": [{"label": "only"}],
}
try:
    type("SumFwdOp", (Op,), {"spec": entry, "__module__": "mine"})
except TypeError as error:
    print(error)
assert "tileops_core.ops.reduction" not in sys.modules
from tileops_core.ops import SumFwdOp
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "by tileops_core.ops.reduction.SumFwdOp and by mine.SumFwdOp" in run.stdout


def test_a_module_that_runs_again_takes_its_name_over():
    """CMP-14"""
    first, second = op_class("ProbeFwdOp"), op_class("ProbeFwdOp")
    with target():
        assert torch.equal(first(target="acme")(small()), second(target="acme")(small()))


def test_generated_code_can_be_read_in_a_debugger():
    filename = inspect.unwrap(RMSNormFwdOp.__call__).__code__.co_filename
    assert "def __call__" in "".join(linecache.getlines(filename))


def test_a_constructor_must_assign_every_parameter():
    def __init__(self, factor=2.0, *, target=None):
        Op.__init__(self, target=target)

    cls = op_class("BufferFwdOp", __init__=__init__)
    with pytest.raises(TypeError, match=r"must assign self\.factor before"):
        cls()


def test_a_hand_written_constructor_works():
    def __init__(self, factor=2.0, *, target=None):
        self.factor = factor
        Op.__init__(self, target=target)
        self.doubled = self.factor * 2

    with target(op="BufferFwdOp"):
        op = op_class("BufferFwdOp", __init__=__init__)(3, target="acme")
        assert torch.equal(op(small()), small() * 3)
    assert op.doubled == 6.0


def test_a_class_with_neither_form_needs_a_target():
    op = op_class("ProbeFwdOp")()
    with pytest.raises(OpNotAvailableError, match="ProbeFwdOp"):
        op(small())
    with pytest.raises(OpNotAvailableError, match="neither call_spec nor forward"):
        op.forward(small())


def test_the_nearer_of_two_forms_counts():
    interfaces, kernel_type = faulty.in_tree()

    class Nearer(GELUFwdOp):
        def forward(self, input):
            return self.kernel_for("elementwise", GELUFwdOp.call_spec(self, input))(input * 0)

    assert GELUFwdOp()(small()).sum() > 0
    assert Nearer()(small()).sum() == 0
    assert interfaces["probe"] in kernel_type.__mro__


def test_output_shapes_follow_from_the_entry():
    op = RMSNormFwdOp((4,))
    assert op._infer_output_shapes(small(), None) == ((3, 4),)


def test_construction_reads_no_device_and_builds_nothing(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("asked a device")

    for name in ("current_device", "get_device_properties", "device_count"):
        monkeypatch.setattr(torch.cuda, name, refuse)
    op = RMSNormFwdOp((4,))
    assert len(op._binding.built_entries) == 0


def test_a_live_instance_keeps_what_it_resolved():
    interfaces, kernel_type = faulty.in_tree()
    body = {
        "interfaces": interfaces,
        "call_spec": lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    }
    cls = op_class("ProbeFwdOp", **body)
    with registered(KernelTypeRegistration("ProbeFwdOp", "fast", kernel_type)):
        op = cls()
    assert torch.equal(op(small()), small() * 2)
    with pytest.raises(OpNotAvailableError):
        cls()(small())


def test_a_kernel_type_that_breaks_its_contract_is_dropped_alone():
    interfaces, kernel_type = faulty.in_tree()
    broken = type("Broken", (kernel_type,), {"preferred_over": frozenset({"bad"})})
    body = {
        "interfaces": interfaces,
        "call_spec": lambda self, x: interfaces["probe"].request(x.device, x.dtype, x.shape),
    }
    with registered(
        KernelTypeRegistration("ProbeFwdOp", "bad", broken),
        KernelTypeRegistration("ProbeFwdOp", "fine", kernel_type),
    ):
        with pytest.warns(RuntimeWarning, match="'bad'.*preferred_over names the kernel type"):
            op = op_class("ProbeFwdOp", **body)()
        assert torch.equal(op(small()), small() * 2)
        assert dict(op.last_call.served_by.kernels) == {"probe": "fine"}


def test_an_op_defined_outside_of_the_library_behaves_like_one_of_its_own():
    with served(build=lambda x: good) as op:
        assert torch.equal(op(small()), small() * 2)
        assert op.eval_roofline() == (12, 96)
        assert op.last_call.op == "ProbeFwdOp"


def test_a_class_that_is_defined_again_is_found_when_it_is_complete(monkeypatch):
    found = []

    def install(cls, base, loaded):
        found.append(definition.living_classes()["ProbeFwdOp"])
        usual(cls, base, loaded)
        found.append(definition.living_classes()["ProbeFwdOp"])

    first, usual = op_class("ProbeFwdOp"), definition._install
    monkeypatch.setattr(definition, "_install", install)
    second = op_class("ProbeFwdOp")
    assert found == [first, first]
    assert definition.living_classes()["ProbeFwdOp"] is second


def test_a_class_that_cannot_be_defined_takes_no_name():
    first = op_class("ProbeFwdOp")
    with pytest.raises(ManifestError):
        op_class("ProbeFwdOp", spec={"family": "probe"})
    assert definition.living_classes()["ProbeFwdOp"] is first
