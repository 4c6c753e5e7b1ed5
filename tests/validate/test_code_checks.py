"""The class of an implemented op is what its entry says."""

from __future__ import annotations

import attrs
import pytest

from tileops_core.op import Op
from tileops_core.ops.norm import RMSNormFwdOp
from tileops_core.signature.build import build_signature
from tileops_core.signature.kinds import INT, AdtKind, Constructor
from tileops_core.signature.model import Signature
from tileops_core.signature.problems import Problems
from tileops_core.spec.catalogue import load_spec
from tileops_core.validate import Counts, validate
from tileops_core.validate.code_checks import _check_shared_types, _ClassChecker, check_code
from tileops_core.validate.entry_checks import check_entry

ENTRY = {
    "family": "probe",
    "status": "implemented",
    "signature": {
        "forall": {"M": "Dim", "T": "DType[float16 | float32]"},
        "params": {
            "size": {"type": "int"},
            "eps": {"type": "float", "default": 0.5},
            "dtype": {"type": "float16 | float32 | None", "default": None, "kw_only": True},
        },
        "inputs": {
            "x": {"dtype": "T", "shape": "[M]"},
            "w": {"dtype": "T", "shape": "[M]", "optional": True},
            "lengths": {"dtype": "int32", "shape": "[M]", "kw_only": True},
        },
        "outputs": {"y": {"dtype": "T", "shape": "[M]", "buffer": "out"}},
    },
    "workloads": [
        {"label": "with", "size": 1, "M": 2, "some": ["w"], "dtype_cases": [{"T": "float16"}]},
        {"label": "without", "size": 1, "M": 2, "dtype_cases": [{"T": "float16"}]},
    ],
    "roofline": {"flops": "M"},
}


def faults(**members: object) -> list[tuple[str, str]]:
    """The findings about a class with these members."""
    cls = type("ProbedFwdOp", (Op,), {"spec": ENTRY, **members})
    return [(finding.code, finding.message) for finding in validate(cls)]


def test_a_class_that_writes_nothing_has_no_finding():
    assert faults() == []


def test_a_class_that_writes_what_the_entry_says_has_no_finding():
    def __init__(self, size, eps=0.5, *, dtype=None, target=None):
        raise AssertionError

    def forward(self, x, w=None, out=None, *, lengths, tuned=False):
        raise AssertionError

    assert faults(__init__=__init__, forward=forward) == []


def missing(self, size, *, dtype=None, target=None): ...
def renamed(self, size, epsilon=0.5, *, dtype=None, target=None): ...
def turned(self, eps=0.5, size=1, *, dtype=None, target=None): ...
def another(self, size, eps=0.25, *, dtype=None, target=None): ...
def defaulted(self, size=1, eps=0.5, *, dtype=None, target=None): ...
def an_int(self, size, eps=1, *, dtype=None, target=None): ...
def positional(self, size, eps=0.5, dtype=None, *, target=None): ...
def by_name(self, size, *, eps=0.5, dtype=None, target=None): ...
def no_target(self, size, eps=0.5, *, dtype=None): ...
def any_target(self, size, eps=0.5, *, dtype=None, target="acme"): ...
def too_many(self, size, eps=0.5, *, dtype=None, tuned=True, target=None): ...


@pytest.mark.parametrize(
    "init",
    [missing, renamed, turned, another, defaulted, an_int, positional, by_name, no_target,
     any_target, too_many],
)  # fmt: skip
def test_a_constructor_that_differs_from_the_entry_is_a_finding(init):
    """MAN-04."""
    assert {code for code, _ in faults(__init__=init)} == {"code-init"}


def test_what_a_class_injects_is_taken_by_name():
    def __init__(self, size, eps=0.5, *, dtype=None, experts=None, target=None): ...

    assert faults(__init__=__init__, injected_parameters=("experts",)) == []
    ((code, message),) = faults(injected_parameters=("experts",))
    assert code == "code-init"
    assert "experts" in message


def swapped(self, w, x, out=None, *, lengths): ...
def unnamed(self, a, w=None, out=None, *, lengths): ...
def no_out(self, x, w=None, *, lengths): ...
def no_lengths(self, x, w=None, out=None): ...


@pytest.mark.parametrize("forward", [swapped, unnamed, no_out, no_lengths])
def test_a_body_that_does_not_begin_with_the_inputs_is_a_finding(forward):
    assert {code for code, _ in faults(forward=forward)} == {"code-forward"}


def test_a_call_spec_takes_the_inputs_and_no_more():
    def call_spec(self, x, w, lengths, tuned): ...

    assert {code for code, _ in faults(call_spec=call_spec)} == {"code-forward"}

    def exact(self, x, w, lengths): ...

    assert faults(call_spec=exact) == []


def test_a_body_that_takes_whatever_there_is_is_believed():
    def forward(self, *inputs): ...

    assert faults(forward=forward) == []


def test_operators_are_there_when_they_are_due():
    cls = type("ProbedFwdOp", (Op,), {"spec": ENTRY})
    assert len(cls.compile_op_names) == 2
    assert list(validate(cls)) == []
    cls.compile_op_names = ()
    (finding,) = validate(cls)
    assert finding.code == "code-operators"
    assert "some are due" in finding.message


def test_sub_ops_are_the_stages():
    cls = type("ProbedFwdOp", (Op,), {"spec": ENTRY})
    cls.delegate_types = {"norm": RMSNormFwdOp}  # stated in the class, it would not get as far
    ((code, message),) = [(finding.code, finding.message) for finding in validate(cls)]
    assert code == "code-composition"
    assert "RMSNormFwdOp" in message


def test_a_stage_is_an_op():
    stages = [{"name": "norm", "op": "RMSNrmFwdOp"}]
    entry = {**ENTRY, "composition": {"kind": "composite", "stages": stages}}
    found = faults(spec=entry, delegate_types={"norm": type("RMSNrmFwdOp", (RMSNormFwdOp,), {})})
    assert "composition" in {code for code, _ in found}
    assert any("did you mean 'RMSNormFwdOp'" in message for _, message in found)
    stages = [{"name": "norm", "op": "RMSNormFwdOp"}]
    entry = {**ENTRY, "composition": {"kind": "composite", "stages": stages}}
    assert faults(spec=entry, delegate_types={"norm": RMSNormFwdOp}) == []


def layouts(python: str) -> Signature:
    """An implemented op with a layout of which one form is this class."""
    signature = build_signature(load_spec("RMSNormFwdOp"))
    form = Constructor("masked", python, (("max_m", INT),))
    return attrs.evolve(signature, adts=(AdtKind("Layout", (form,)),))


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("tileops_core.interfaces.moe.MaskdLayout", "there is no class"),
        ("tileops_core.interfaces.nothing.MaskedLayout", "there is no class"),
        ("tileops_core.interfaces.moe.ContiguousLayout", "takes packing"),
    ],
)
def test_the_forms_of_a_sealed_sum_are_classes_with_their_fields(python, message):
    problems = Problems()
    _check_shared_types(layouts(python), problems, installed=True)
    (problem,) = problems
    assert problem.code == "code-class"
    assert message in problem.message
    _check_shared_types(layouts("tileops_core.interfaces.moe.MaskedLayout"), problems,
                        installed=True)  # fmt: skip
    assert len(problems) == 1


def test_the_forms_of_an_op_without_code_are_classes_too():
    problems = Problems()
    planned = attrs.evolve(layouts("tileops_core.interfaces.moe.MaskdLayout"), status="spec-only")
    _check_shared_types(planned, problems, installed=False)
    assert list(problems) == []
    _check_shared_types(planned, problems, installed=True)
    assert [problem.code for problem in problems] == ["code-class"]


def rms_norm(**changes: object) -> list[tuple[str, str]]:
    """The findings about the library's own RMSNormFwdOp, its entry changed."""
    checked = check_entry(load_spec("RMSNormFwdOp"))
    signature = attrs.evolve(build_signature(load_spec("RMSNormFwdOp")), **changes)
    checked = attrs.evolve(checked, signature=signature)
    found = check_code(checked, own=True, installed=True, counts=Counts())
    return [(problem.code, problem.message) for problem in found]


def test_an_op_of_the_library_is_exported_by_its_family(monkeypatch):
    assert rms_norm() == []
    ((code, message),) = rms_norm(family="gemm")
    assert (code, message) == ("code-class", "tileops_core.ops.gemm has no op RMSNormFwdOp")
    ((code, message),) = rms_norm(family="nothing")
    assert code == "code-class"
    monkeypatch.setattr("tileops_core.ops.norm.__all__", [])
    ((code, message),) = rms_norm()
    assert message == "tileops_core.ops.norm does not export RMSNormFwdOp"


def test_the_reference_exists_where_its_module_is_at_hand():
    assert rms_norm(ref_api="torch.nn.functional.layer_norm") == []
    assert rms_norm(ref_api="not_installed.at_all") == []
    ((code, message),) = rms_norm(ref_api="torch.nn.functional.rms_nrm")
    assert (code, message) == ("ref-api", "torch.nn.functional has no 'rms_nrm'")


def test_a_reference_is_a_dotted_name(codes):
    assert codes({"ref_api": "softmax"}) == ["ref-api"]
    assert codes({"ref_api": "not_installed.softmax"}) == []


def test_a_class_without_an_entry_of_its_own_cannot_be_validated():
    with pytest.raises(TypeError, match="states no entry"):
        validate(RMSNormFwdOp)


def test_the_checks_of_a_class_name_it():
    problems = Problems()
    signature = build_signature(load_spec("RMSNormFwdOp"))
    _ClassChecker(type("Other", (), {"__init__": missing, "injected_parameters": ()}), signature,
                  problems).check()  # fmt: skip
    assert all(problem.message.startswith("Other.") for problem in problems)
