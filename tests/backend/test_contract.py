from __future__ import annotations

import attrs
import pytest

from tileops_core import tensor_spec
from tileops_core.backend import (
    BuilderRegistration,
    DeviceFactsRegistration,
    DiagnosticRegistration,
    InterfaceRegistration,
    KernelTypeRegistration,
    LoadFailure,
    OracleRegistration,
    TargetRegistration,
    TensorSpec,
)
from tileops_core.backend.contract import ManifestPath

GOOD = [
    TargetRegistration("acme", lambda device: False),
    BuilderRegistration("SumFwdOp", "acme", print),
    InterfaceRegistration("SumFwdOp", "sum", int),
    KernelTypeRegistration("SumFwdOp", "fast", int),
    DeviceFactsRegistration("acme", print),
    OracleRegistration("SumFwdOp", print),
    DiagnosticRegistration("C compiler", print),
]
NAMES = [
    (type(registration), field.name)
    for registration in GOOD
    for field in attrs.fields(type(registration))[:-1]
    if not isinstance(registration, DiagnosticRegistration)
]


def changed(kind: type, field: str, value: object) -> object:
    (good,) = (registration for registration in GOOD if type(registration) is kind)
    return attrs.evolve(good, **{field: value})


@pytest.mark.parametrize("registration", GOOD)
def test_a_registration_is_frozen(registration: object) -> None:
    for field in attrs.fields(type(registration)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(registration, field.name, "other")


@pytest.mark.parametrize(("kind", "field"), NAMES)
@pytest.mark.parametrize("name", ["my-target", "", "1st", "a b", "a.b", "class", "a\n"])
def test_names_are_identifiers(kind: type, field: str, name: str) -> None:
    """REG-14"""
    with pytest.raises(ValueError, match=f"{kind.__name__}: {field}="):
        changed(kind, field, name)


@pytest.mark.parametrize(("kind", "field"), NAMES)
@pytest.mark.parametrize("name", [None, 3, b"acme", ["acme"]])
def test_names_are_strings(kind: type, field: str, name: object) -> None:
    with pytest.raises(TypeError, match=f"{kind.__name__}: {field} must be a str"):
        changed(kind, field, name)


def test_a_name_that_is_nearly_one_is_told_how() -> None:
    """REG-14"""
    with pytest.raises(ValueError, match="did you mean 'my_target'"):
        TargetRegistration("my-target", print)


@pytest.mark.parametrize("name", ["BUILTIN", "builtin"])
def test_no_target_is_called_as_in_tree_kernels_are_asked_for(name: str) -> None:
    """REG-14: ``target=BUILTIN`` is an object, so the name would not mean what it says."""
    with pytest.raises(ValueError, match=f"name='{name}' is kept for in-tree kernels"):
        TargetRegistration(name, print)
    assert TargetRegistration("builtin_kernels", print).name == "builtin_kernels"


@pytest.mark.parametrize("name", ["", " ", " compiler", "compiler\n", "C\ncompiler", "a\tb"])
def test_a_diagnostic_is_called_by_a_few_words_in_one_line(name: str) -> None:
    with pytest.raises(ValueError, match="for example 'C compiler'"):
        DiagnosticRegistration(name, print)
    assert DiagnosticRegistration("C++ compiler (clang)", print).name == "C++ compiler (clang)"


@pytest.mark.parametrize("name", [None, 3, b"C compiler"])
def test_the_name_of_a_diagnostic_is_a_string(name: object) -> None:
    with pytest.raises(TypeError, match="DiagnosticRegistration: name must be a str"):
        DiagnosticRegistration(name, print)


@pytest.mark.parametrize("registration", GOOD, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("value", [None, 3, ["f"], object()])
def test_the_referent_is_a_callable_a_class_or_a_string(
    registration: object, value: object
) -> None:
    field = attrs.fields(type(registration))[-1].name
    with pytest.raises(TypeError, match=f"{field} must be"):
        changed(type(registration), field, value)


@pytest.mark.parametrize("kind", [InterfaceRegistration, KernelTypeRegistration])
def test_a_kernel_type_and_an_interface_are_classes(kind: type) -> None:
    with pytest.raises(TypeError, match="must be a class"):
        changed(kind, attrs.fields(kind)[-1].name, print)


@pytest.mark.parametrize("registration", GOOD, ids=lambda r: type(r).__name__)
def test_a_string_names_module_and_attribute(registration: object) -> None:
    field = attrs.fields(type(registration))[-1].name
    changed(type(registration), field, "acme.norm:Kernels.build")
    for text in (
        "acme.norm.build",
        "acme.norm:",
        ":build",
        "acme:a:b",
        "acme norm:f",
        "",
        "a..b:c",
    ):
        with pytest.raises(ValueError, match="'module:attr'"):
            changed(type(registration), field, text)


def test_a_string_is_not_imported_when_it_is_registered() -> None:
    BuilderRegistration("SumFwdOp", "acme", "no.such.module:build")


def test_device_facts_that_the_core_reads_itself_are_refused() -> None:
    """REG-09"""
    with pytest.raises(ValueError, match="the core reads the facts of 'cuda'"):
        DeviceFactsRegistration("cuda", print)
    assert DeviceFactsRegistration("cudacustom", print).device_type == "cudacustom"


def test_registrations_take_their_fields_in_the_documented_order() -> None:
    fields = {type(r).__name__: [f.name for f in attrs.fields(type(r))] for r in GOOD}
    assert fields == {
        "TargetRegistration": ["name", "detect"],
        "BuilderRegistration": ["op", "target", "build_kernel"],
        "InterfaceRegistration": ["op", "name", "interface"],
        "KernelTypeRegistration": ["op", "key", "kernel_type"],
        "DeviceFactsRegistration": ["device_type", "read"],
        "OracleRegistration": ["op", "function"],
        "DiagnosticRegistration": ["name", "find"],
    }
    assert [f.name for f in attrs.fields(LoadFailure)][:5] == [
        "backend",
        "distribution",
        "version",
        "error",
        "traceback",
    ]


def test_a_spec_file_is_a_path() -> None:
    with pytest.raises(TypeError):
        ManifestPath(3)


def test_tensor_specs_come_from_one_place() -> None:
    assert TensorSpec is tensor_spec.TensorSpec


def test_a_failure_whose_exception_cannot_be_printed_can() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    failure = LoadFailure("acme", "acme", "1.0", Mute(), "")
    assert "acme 1.0" in str(failure)
    assert "Mute" in str(failure)


def test_a_failure_is_one_line_however_many_its_message_has() -> None:
    error = RuntimeError("no license\n\n  for this host,\task for one")
    told = str(LoadFailure("acme", "acme", "1.0", error, ""))
    assert told.endswith("RuntimeError: no license for this host, ask for one")


def test_of_a_long_message_the_beginning_and_the_end_are_told() -> None:
    error = RuntimeError("compiling norm.cu\n" + "note\n" * 10_000 + "error: out of registers")
    told = str(LoadFailure("acme", "acme", "1.0", error, ""))
    assert "RuntimeError: compiling norm.cu note" in told
    assert told.endswith("note error: out of registers")
    assert len(told) < 1_200
