"""Entries given in Python."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest

from tileops_core.errors import ManifestError
from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import load_spec_from
from tileops_core.spec.entries import Spec
from tileops_core.spec.problems import Problem

ENTRY: dict[str, Any] = {
    "family": "mine",
    "status": "implemented",
    "signature": {
        "forall": {"M": "Dim", "T": "DType[float16 | float32]"},
        "params": {"eps": {"type": "float", "default": 1e-06}},
        "inputs": {"x": {"dtype": "T", "shape": "[M]"}},
        "outputs": {"y": {"dtype": "T", "shape": "[M]"}},
        "shape_rules": ["M > 0"],
    },
    "workloads": [{"label": "row", "M": 3, "dtype_cases": [{"T": "float16"}]}],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The entry with a value at ``signature.inputs.x``, or deeper."""
    entry = copy.deepcopy(ENTRY)
    holder: Any = entry
    *before, last = path.split(".")
    for key in before:
        holder = holder[int(key)] if key.isdigit() else holder[key]
    holder[int(last) if last.isdigit() else last] = value
    return entry


def read(entry: Mapping[Any, Any]) -> Spec:
    return load_spec_from(entry, "MineFwdOp")


def fault(entry: Mapping[Any, Any]) -> Problem:
    """The first problem of an entry, which is one that its signature refuses too."""
    with pytest.raises(ManifestError, match=r"^MineFwdOp: "):
        build_signature(read(entry))
    return read(entry).problems[0]


def test_an_entry_in_python_is_what_it_is_in_a_file() -> None:
    spec = read(ENTRY)
    assert not spec.problems
    assert spec.params[0].default is not None
    assert spec.params[0].default.value == 1e-06
    assert spec.workloads[0].values["M"].value == 3


def test_a_tuple_is_a_list() -> None:
    assert not read(changed("signature.shape_rules", ("M > 0",))).problems


def test_text_means_itself_whatever_yaml_makes_of_it() -> None:
    assert read(changed("family", "on")).family == "on"


@pytest.mark.parametrize("value", [1e-06, 1e22, 0.5, -2.5e-07, math.inf, -math.inf])
def test_floats_are_taken_as_python_writes_them(value: float) -> None:
    default = read(changed("signature.params.eps.default", value)).params[0].default
    assert default is not None
    assert default.value == value


@pytest.mark.parametrize(
    ("path", "value", "keys", "lines"),
    [
        (
            "signature.inputs.x.shape", "[M, Q]", "signature.inputs.x.shape",
            ["shape: [M, Q]", "           ^"],
        ),
        (
            "signature.inputs.x.shap", "[M]", "signature.inputs.x.shap",
            ["shap: [M]", "^^^^"],
        ),
        (
            "signature.shape_rules.0", "M > 0\n and Q > 0", "signature.shape_rules[0]",
            ["shape_rules[0]:  and Q > 0", "                     ^"],
        ),
        (
            "signature.inputs.x.shape", ["M"], "signature.inputs.x.shape",
            ["shape: [M]", "       ^^^"],
        ),
    ],
)  # fmt: skip
def test_a_fault_is_shown_with_the_path_of_keys_and_a_caret(
    path: str, value: Any, keys: str, lines: list[str]
) -> None:
    entry = changed(path, value)
    with pytest.raises(ManifestError) as caught:
        build_signature(read(entry))
    (problem,) = caught.value.problems
    assert problem.span.keys == problem.span.short == keys
    assert problem.span.snippet().splitlines() == lines
    assert f"[{keys}, {problem.code}]" in str(caught.value)


def test_what_the_entry_lacks_is_told_of_the_entry() -> None:
    entry = {key: value for key, value in ENTRY.items() if key != "family"}
    assert fault(entry).span.short == "spec"


def test_a_sentence_that_names_another_place_names_its_keys() -> None:
    with pytest.raises(ManifestError, match=r"already, at signature\.forall\.M "):
        build_signature(read(changed("signature.let", {"M": "1"})))


def test_a_mapping_that_contains_itself_is_refused() -> None:
    entry = copy.deepcopy(ENTRY)
    entry["signature"]["inputs"]["x"] = entry["signature"]
    problem = fault(entry)
    assert (problem.code, problem.span.keys) == ("wrong-value", "signature.inputs.x")
    assert problem.message == "signature.inputs.x contains itself"


def test_a_list_that_contains_itself_is_refused() -> None:
    rows: list[Any] = []
    rows.append(rows)
    assert fault(changed("workloads", rows)).message == "workloads[0] contains itself"


def test_values_nested_deeply_are_refused_without_recursion() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    entry = changed("roofline", deep)
    assert {problem.code for problem in read(entry).problems} >= {"yaml-depth"}


def test_an_entry_that_unfolds_without_end_is_refused() -> None:
    held: list[Any] = []
    for _ in range(20):
        held = [held] * 10
    assert "no more than" in fault(changed("roofline", held)).message


@attrs.frozen
class Layout:
    alignment: int = 1


class Words(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        np.float32(1.0), np.float64(1.0), np.int64(3), np.bool_(True), np.zeros(2), Layout(),
        b"bytes", {1, 2}, object(), complex(1), Words("x"), ..., float, math.nan, 2**63, 10**5000,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_no_file_can_hold_is_refused_with_a_sentence(value: Any) -> None:
    problem = fault(changed("workloads.0.M", value))
    assert problem.code == "wrong-value"
    assert problem.message.startswith("workloads[0].M is ")
    assert problem.hint.startswith("an entry has text, numbers")


@pytest.mark.parametrize("key", [5, None, True, 1.5, ("a",), Words("x")], ids=repr)
def test_a_key_is_text(key: Any) -> None:
    entry = copy.deepcopy(ENTRY)
    entry["signature"][key] = 1
    problem = fault(entry)
    assert problem.span.keys == "signature"
    assert problem.message == f"signature has the key {key!r}, text is due"


def test_what_cannot_even_be_shown_is_refused() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "Broken" in fault(changed("workloads.0.M", Broken())).message


def test_places_are_in_the_order_of_the_entry() -> None:
    spec = read(ENTRY)
    lines = [spec.span.line, spec.forall[0].span.line, spec.inputs[0].span.line,
             spec.rules[0].span.line, spec.workloads[0].span.line]  # fmt: skip
    assert lines == sorted(set(lines))
