"""Whatever stands in an entry, it is read or refused: nothing crashes, hangs or runs."""

from __future__ import annotations

import contextlib
import re
import textwrap
from importlib.resources import files

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops_core.errors import ManifestError
from tileops_core.signature.build import build_signature
from tileops_core.signature.workload import check_workloads
from tileops_core.spec.catalogue import ManifestFile

TEXTS = {
    path.name: path.read_text(encoding="utf-8")
    for path in (files("tileops_manifest") / "spec").iterdir()
    if path.name.endswith(".yaml")
}
WORDS = st.sampled_from(
    [
        *("M", "T", "S", "present(x)", "x.shape", "__import__('os').abort()", "9**9**9**9", "None"),
        *("on", "1e5", "[]", "{}", "[M, *S]", "!!python/name:os.abort", "&a", "*a", "~", "0x1"),
        *("sum(i for i in S)", "lambda: 0", "'", '"', "(", "M if T else S", "-1", "1.0e-5", "true"),
        *("prod(S)**8", "x", "dim.value", "Mat[trans_a, M, K]", "bool", "DType[float16]", "Shape"),
    ]
)


def use(name: str, text: str) -> None:
    """Read everything in a file as far as it can be read."""
    file = ManifestFile(name, text)
    for op in file.ops:
        spec = file.load(op)
        with contextlib.suppress(ManifestError):
            list(check_workloads(build_signature(spec)))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_any_value_of_an_entry_may_be_replaced_by_any_text(name, data):
    """MAN-11."""
    text = TEXTS[name]
    places = [m.span(1) for m in re.finditer(r"[:\-,{\[] ?([^\s:{}\[\],#][^:{}\[\],#\n]*)", text)]
    start, stop = data.draw(st.sampled_from(places))
    new = data.draw(st.one_of(WORDS, st.text(max_size=20)))
    use(name, text[:start] + new + text[stop:])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_any_line_of_a_file_may_be_lost_or_stand_twice(name, data):
    lines = TEXTS[name].splitlines(keepends=True)
    number = data.draw(st.integers(0, len(lines) - 1))
    copies = data.draw(st.sampled_from([0, 2]))
    use(name, "".join(lines[:number] + lines[number : number + 1] * copies + lines[number + 1 :]))


def test_nothing_of_an_entry_is_executed(tmp_path):
    """MAN-11."""
    witness = tmp_path / "executed"
    attacks = [
        f"open({str(witness)!r}, 'w')",
        f"[*open({str(witness)!r}, 'w')]",
        f"__import__('pathlib').Path({str(witness)!r}).touch()",
        "().__class__.__base__.__subclasses__()",
    ]
    base = """
    XFwdOp:
      family: test
      status: implemented
      signature:
        forall: {M: Dim, T: "DType[float16]"}
        inputs: {x: {dtype: ATTACK, shape: ATTACK, optional: ATTACK, mutated: ATTACK}}
        outputs: {y: {dtype: ATTACK, shape: ATTACK, nullable: ATTACK}}
        let: {L: ATTACK}
        shape_rules: [ATTACK]
      workloads: [{label: row, M: ATTACK, dtype_cases: [{T: ATTACK}]}]
      roofline: {flops: ATTACK, bytes: ATTACK}
    """
    for attack in attacks:
        quoted = yaml.dump(attack, default_style='"', width=10**6).strip()
        text = textwrap.dedent(base).replace("ATTACK", quoted)
        with pytest.raises(ManifestError) as caught:
            build_signature(ManifestFile("test.yaml", text).load("XFwdOp"))
        assert len(caught.value.problems) >= 10
    assert not witness.exists()


def test_numbers_cannot_be_made_to_explode():
    lets = "\n".join(f"      L{i}: L{i + 1} * L{i + 1}" for i in range(60))
    text = f"""\
XFwdOp:
  family: test
  status: implemented
  signature:
    forall: {{M: Dim, T: "DType[float16]"}}
    inputs: {{x: {{dtype: T, shape: "[M]"}}}}
    outputs: {{y: {{dtype: T, shape: "[L0]"}}}}
    let:
{lets}
      L60: M
  workloads: [{{label: row, M: 9, dtype_cases: [{{T: float16}}]}}]
"""
    with pytest.raises(ManifestError) as caught:
        build_signature(ManifestFile("test.yaml", text).load("XFwdOp"))
    assert {problem.code for problem in caught.value.problems} == {"too-large"}
