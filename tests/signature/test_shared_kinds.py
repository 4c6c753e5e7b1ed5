from __future__ import annotations

import importlib

import pytest

from tileops_core.kernels.typed_keys import field_names
from tileops_core.signature.kinds import AdtKind, EnumKind, IntKind, OpaqueKind
from tileops_core.signature.problems import Problems
from tileops_core.signature.shared_kinds import SharedKindsOf, kind_of
from tileops_core.spec.catalogue import shared_types
from tileops_core.spec.shared_types import SharedTypes


def kinds_of(text):
    problems = Problems()
    return SharedKindsOf(SharedTypes(lambda: text), problems), problems


def test_a_sealed_sum_has_the_kinds_of_its_fields():
    kind, problems = kind_of(shared_types().get("MGroupedLayout"))
    assert isinstance(kind, AdtKind)
    contiguous, masked = kind.constructors
    assert contiguous.field("metadata_kind") == EnumKind(("physical_psum", "per_row"))
    assert masked.field("max_m") == IntKind()
    assert masked.field("alignment") is None
    assert problems == ()


def test_an_opaque_type_has_a_class_and_nothing_to_read():
    kind, _ = kind_of(shared_types().get("RoutingEpilogueSpec"))
    assert kind == OpaqueKind(
        "RoutingEpilogueSpec", "tileops_core.interfaces.moe.RoutingEpilogueSpec"
    )


@pytest.mark.parametrize("name", shared_types().names)
def test_the_classes_have_the_fields_that_are_declared(name):
    kind, _ = kind_of(shared_types().get(name))
    for form in kind.constructors if isinstance(kind, AdtKind) else ():
        module, _, cls = form.python.rpartition(".")
        made_by = getattr(importlib.import_module(module), cls)
        assert made_by.kind == form.name
        assert field_names(made_by) == [n for n, _ in form.fields]


def test_only_the_types_that_an_entry_names_are_its_own():
    text = "A: {python: a.A}\nB: {python: a.B}\nC: {rows: {python: a.C, fields: {n: float}}}\n"
    kinds, problems = kinds_of(text)
    assert kinds("A") == OpaqueKind("A", "a.A")
    assert kinds("Nothing") is None
    assert list(kinds.used) == ["A"]
    assert len(problems) == 0


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ("{python: a.B, fields: {n: float}}", "unknown-type"),
        ("{python: a.B, fields: {n: lots}}", "unknown-type"),
        ("{python: a.B, fields: {kind: int}}", "bad-name"),
        ("{python: a.B, fields: {value: int}}", "bad-name"),
        ("{python: a.B, fields: {n: int}, invariant: [m > 0]}", "unknown-name"),
        ("{python: a.B, fields: {n: int}, invariant: [n + 1]}", "kind"),
        ("{python: a.B}\n  two: {python: a.B}", "wrong-value"),
    ],
)
def test_what_is_wrong_with_a_type_is_told_with_the_entry_that_names_it(form, code):
    kinds, problems = kinds_of(f"T:\n  one: {form}\n")
    assert kinds("T") is not None
    assert {problem.code for problem in problems} == {code}
    assert {problem.span.path for problem in problems} == {"types.yaml"}
