"""What there is to say of tensors besides their types."""

from __future__ import annotations

from tileops_core.pages.effects import sentences
from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import load_spec


def said(entries, op: str) -> dict[str, str]:
    lines = [line for line in sentences(entries[op].signature) if line.startswith("- **")]
    return dict(line.removeprefix("- **").split("**: ") for line in lines if "**: " in line)


def test_an_op_of_which_there_is_nothing_to_say() -> None:
    assert list(sentences(build_signature(load_spec("GEMMFwdOp")))) == []


def test_presence_is_told_with_its_condition(entries) -> None:
    assert said(entries, "AcmeTileFwdOp")["Presence"] == (
        "`left` may be left out; `right` is passed exactly if `present(left)`; "
        "`y` is None if `not present(left)`."
    )


def test_tensors_of_one_condition_are_told_together() -> None:
    (presence, *_) = sentences(build_signature(load_spec("GQADenseFwdOp")))
    assert (
        "`rope_cos` and `rope_sin` are passed exactly if `pos_encoding_mode == 'rope'`" in presence
    )


def test_a_tensor_at_construction_is_told(entries) -> None:
    assert said(entries, "AcmeTileFwdOp")["Construction"] == (
        "`table` is a tensor, given once, when the op is constructed."
    )


def test_what_is_overwritten_is_told_with_the_output_that_it_is(entries) -> None:
    assert said(entries, "AcmeScaleFwdOp")["Effects"] == (
        "`x` is overwritten if `inplace`; `y` is then `x` itself."
    )


def test_what_is_written_only_and_where_a_result_may_go_are_told(entries) -> None:
    assert said(entries, "AcmeTileFwdOp")["Effects"] == (
        "`made` is written, and never read; `y` goes into `out=` if that is passed."
    )


def test_where_memory_must_lie_is_told(entries) -> None:
    assert said(entries, "AcmeScaleFwdOp")["Memory"] == "`x` must be contiguous."
    assert said(entries, "AcmeTileFwdOp")["Memory"] == "`host` is on the CPU."


def test_metadata_are_told_with_what_they_meet_and_how_rows_make_them(entries) -> None:
    *_, head, line = sentences(entries["AcmeTileFwdOp"].signature)
    assert head == "- **Metadata**:"
    assert line == (
        "  - `offsets` meets `prefix_offsets(L)`; in workloads it is `prefix_sum(lens)`"
    )
