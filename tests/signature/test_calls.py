"""Calls that no row describes."""

from __future__ import annotations

import pytest
from probe_calls import call, signature

from tileops_core.signature.branches import Branches
from tileops_core.signature.build import build_signature
from tileops_core.signature.calls import Calls, values_of
from tileops_core.signature.kinds import (
    BOOL,
    DIM,
    INT,
    AxesKind,
    DTypeKind,
    EnumKind,
    MaybeKind,
    ShapeKind,
)
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import known_ops, load_spec

ROPE = {"pos_encoding_mode": "rope"}


def calls_of(op):
    of = build_signature(load_spec(op))
    return Calls(of, [case.instance for case in cases(of, small=True)])


def test_a_whole_call_has_a_value_for_every_index():
    calls = calls_of("GQADenseFwdOp")
    assert all({i.name for i in calls.signature.indices} <= base.keys() for base in calls.bases)


def test_a_branch_changes_parameters_tensors_and_dtypes():
    of = signature()
    calls = Calls(of, [call(of)])
    given = {"flag": True, "present(w)": True, "T": "float32", "present(cap)": True}
    made = calls.on_branch(calls.bases[0], given)
    assert (made["flag"], made["some"], made["T"]) == (True, {"w"}, "float32")
    assert made["cap"] is not None
    again = calls.on_branch(made, {"present(w)": False, "present(cap)": False})
    assert (again["some"], again["cap"]) == (set(), None)
    assert calls.bases[0]["some"] == set()


def test_a_settled_call_leaves_out_what_its_branch_does_not_use():
    calls = calls_of("GQADenseFwdOp")
    made = calls.settled(calls.on_branch(calls.bases[0], ROPE), "other")
    assert "P_pad" in made.given
    assert made.inputs["rope_cos"] is not None
    back = calls.settled(calls.on_branch(calls.bases[0], {"pos_encoding_mode": "none"}), "other")
    assert "P_pad" not in back.given


def test_a_call_that_the_entry_refuses_is_none():
    calls = calls_of("GQADenseFwdOp")
    assert calls.settled({**calls.bases[0], "H": 7}, "other") is None


@pytest.mark.parametrize("op", sorted(known_ops()))
def test_every_row_settles_as_itself(op):
    calls = calls_of(op)
    for case, base in zip(cases(calls.signature, small=True), calls.bases, strict=True):
        made = calls.settled(base, case.case_id)
        assert made is not None
        assert made.inputs == case.inputs


@pytest.mark.parametrize("op", ["RMSNormFwdOp", "GQADenseFwdOp", "MoEGroupedGEMMFwdOp"])
def test_every_branch_of_an_entry_can_be_asked_for(op):
    calls = calls_of(op)
    for key in calls.branches.values:
        for given in Branches(calls.signature).accepted({key}):
            made = calls.on_branch(calls.bases[0], given)
            assert calls.call(made, "x").params.keys() == calls.bases[0].keys() & {
                p.name for p in calls.signature.params
            }


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (DIM, lambda v: type(v) is int and v >= 0),
        (INT, lambda v: type(v) is int),
        (BOOL, lambda v: type(v) is bool),
        (EnumKind(("a", "b")), lambda v: v in ("a", "b")),
        (DTypeKind(("float16",)), lambda v: v == "float16"),
        (ShapeKind(), lambda v: type(v) is tuple),
        (AxesKind(), lambda v: v is None or type(v) in (int, tuple)),
        (MaybeKind(INT), lambda v: v is None or type(v) is int),
    ],
    ids=lambda value: None if callable(value) else str(value)[:30],
)
def test_values_are_of_their_kind(kind, holds):
    values = list(values_of(kind))
    assert values
    assert all(map(holds, values))


def test_a_present_value_is_never_none():
    assert None not in list(values_of(MaybeKind(INT), present=True))
    assert None not in list(values_of(AxesKind(), present=True))


def test_near_ints_come_first():
    assert next(values_of(INT, near=(17,))) == 17
    assert next(values_of(DIM, near=(-1, 17))) == 17
