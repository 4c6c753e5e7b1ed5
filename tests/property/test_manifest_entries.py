"""Entries made at random from well-formed parts are accepted, and mean what their rows say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inference import differences

from tileops_core.signature.build import build_signature
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.validate import validate

DIMS = ("M", "N", "K")
DTYPES = ("float16", "bfloat16", "float32", "int32", "float8_e4m3fn")
PROFILE = settings(
    max_examples=120,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

MAT = {
    "params": {"turned": "Bool", "A": "Dim", "B": "Dim"},
    "match": "turned",
    "cases": [{"when": False, "is": "[A, B]"}, {"when": True, "is": "[B, A]"}],
}


@st.composite
def entries(draw: Any) -> dict[str, Any]:
    """An entry: a carrier of every index, then tensors, quantities and refinements over them."""
    dims = list(DIMS[: draw(st.integers(1, 3))])
    shaped = draw(st.booleans())
    members = draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=3, unique=True))
    forall: dict[str, str] = {**dict.fromkeys(dims, "Dim"), "T": f"DType[{' | '.join(members)}]"}
    forall |= {"S": "Shape"} if shaped else {}
    params, row_params = draw(parameters())
    row: dict[str, Any] = {"label": "made-up", **row_params}
    row |= {name: draw(st.integers(1, 5)) for name in dims}
    row |= {"S": draw(st.lists(st.integers(1, 4), max_size=2))} if shaped else {}
    row["dtype_cases"] = [{"T": member} for member in members]

    inputs: dict[str, Any] = {"x": {"dtype": "T", "shape": _shape(dims, shaped)}}
    used_family = False
    for number in range(draw(st.integers(0, 3))):
        tensor: dict[str, Any] = {"dtype": draw(st.sampled_from(["T", "float32", "int64"]))}
        if "flag" in params and len(dims) > 1 and draw(st.booleans()):
            tensor["shape"] = f"Mat[flag, {dims[0]}, {dims[1]}]"
            used_family = True
        else:
            tensor["shape"] = draw(shapes(dims, shaped))
        inputs[f"t{number}"] = tensor
    optional = draw(st.sampled_from([None, True, "flag" if "flag" in params else True]))
    if optional is not None:
        inputs["w"] = {"dtype": "T", "shape": f"[{dims[0]}]", "optional": optional}
        row |= {"some": ["w"]} if optional is True and draw(st.booleans()) else {}

    if draw(st.booleans()):  # packed sequences, described by their offsets
        lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
        forall |= {"G": "Dim", "lengths": "Seq[Int]"}
        row |= {"G": len(lengths), "lengths": lengths}
        inputs["offsets"] = {
            "dtype": "int32",
            "shape": "[G + 1]",
            "values": "prefix_sum(lengths)",
            "requires": [f"prefix_offsets({sum(lengths)})", "max_segment(4)"],
        }
        if "w" in inputs:  # optional ones come last
            inputs["w"] = inputs.pop("w")

    lets = {f"L{n}": draw(quantities(dims, shaped)) for n in range(draw(st.integers(0, 2)))}
    rules = [f"{name} * 2 >= {name}" for name in dims if draw(st.booleans())]
    rules += [f"{name} != 1000003" for name in lets]
    rules += [f"{dims[0]} % {n} == {row[dims[0]] % n}" for n in draw(st.sets(st.integers(2, 4)))]
    known = [*dims, *(name for name, text in lets.items() if "-" not in text)]
    outputs = {
        f"y{n}": {"dtype": "T", "shape": f"[{draw(st.sampled_from(known))}, {dims[0]}]"}
        for n in range(draw(st.integers(0, 2)))
    }
    signature: dict[str, Any] = {"forall": forall, "inputs": inputs, "outputs": outputs}
    signature |= {"params": params} if params else {}
    signature |= {"types": {"Mat": MAT}} if used_family else {}
    signature |= {"let": lets} if lets else {}
    signature |= {"shape_rules": rules} if rules else {}
    return {
        "family": "made",
        "status": "spec-only",
        "signature": signature,
        "workloads": [row],
        "roofline": {"flops": f"{' * '.join(dims)} + 1"},
    }


@st.composite
def parameters(draw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters, and what a row gives of them."""
    choices: dict[str, tuple[dict[str, Any], Any]] = {
        "flag": ({"type": "bool", "default": False}, st.booleans()),
        "mode": ({"type": "'a' | 'b'", "default": "a"}, st.sampled_from("ab")),
        "size": ({"type": "int", "default": 3}, st.integers(-4, 9)),
        "cap": ({"type": "float | None", "default": None}, st.sampled_from([None, 0.5])),
        "stride": ({"type": "int | tuple[int, int]", "default": 1}, st.integers(1, 3)),
        "dtype": ({"type": "float16 | float32 | None", "default": None}, st.just("float32")),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(choices)), unique=True))
    given = {name: draw(choices[name][1]) for name in chosen if draw(st.booleans())}
    return {name: choices[name][0] for name in chosen}, given


@st.composite
def shapes(draw: Any, dims: list[str], shaped: bool) -> str:
    """A shape of axes that follow from the carrier's."""
    axis = st.one_of(
        st.sampled_from(dims),
        st.sampled_from(dims).map(lambda n: f"2 * {n} + 1"),
        st.sampled_from(dims).map(lambda n: f"ceil_div({n}, 2)"),
        st.integers(1, 4).map(str),
    )
    axes = draw(st.lists(axis, max_size=3))
    if shaped and draw(st.booleans()):
        axes.insert(draw(st.integers(0, len(axes))), "*S")
    return f"[{', '.join(axes)}]"


@st.composite
def quantities(draw: Any, dims: list[str], shaped: bool) -> str:
    """A quantity over lengths."""
    forms = ["{a} * {b} + 1", "max({a}, {b})", "{a} if {a} > {b} else {b}", "ceil_div({a}, 3)",
             "{a} - {b}", "sum(i * 2 for i in ({a}, {b}))"]  # fmt: skip
    forms += ["prod(S) + {a}", "len(S) + {b}"] if shaped else []
    a, b = draw(st.sampled_from(dims)), draw(st.sampled_from(dims))
    text: str = draw(st.sampled_from(forms))
    return text.format(a=a, b=b)


def _shape(dims: list[str], shaped: bool) -> str:
    return f"[{', '.join([*dims, *(['*S'] if shaped else [])])}]"


def text_of(entry: dict[str, Any]) -> str:
    return yaml.safe_dump({"MadeUpFwdOp": entry}, sort_keys=False, width=10**6)


@PROFILE
@given(entries())
def test_a_well_formed_entry_has_no_finding(tmp_path: Path, entry: dict[str, Any]) -> None:
    path = tmp_path / "made.yaml"
    path.write_text(text_of(entry), encoding="utf-8")
    report = validate(path)
    assert list(report) == []
    stated = len(entry["signature"].get("shape_rules", []))
    stated += 2 * ("offsets" in entry["signature"]["inputs"])
    assert report.counts.rules_checked == report.counts.rules == stated


@PROFILE
@given(entries())
def test_a_row_is_found_again_in_its_tensors(entry: dict[str, Any]) -> None:
    signature = build_signature(ManifestFile("made.yaml", text_of(entry)).load("MadeUpFwdOp"))
    made = list(cases(signature))
    assert len(made) == len(entry["workloads"][0]["dtype_cases"])
    assert list(differences(signature)) == []
