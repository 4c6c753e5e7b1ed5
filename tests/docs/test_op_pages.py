"""The pages that the build makes of entries."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

import op_pages
import pytest

from tileops_core.cli.survey import Survey
from tileops_core.pages.manifest import Manifest, read_manifest
from tileops_core.spec.catalogue import known_ops


@cache
def manifest() -> Manifest:
    return read_manifest(Path(str(files("tileops_manifest"))) / "spec")


@cache
def page(op: str) -> str:
    (entry,) = (e for f in manifest().families for e in f.entries if e.op == op)
    return "\n".join(op_pages.op_page(entry, manifest(), Survey()))


def section(op: str, title: str) -> str:
    return page(op).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.slow
def test_there_is_a_page_for_every_op_and_an_index() -> None:
    due = {op_pages.INDEX, *(f"{op}.md" for op in known_ops())}
    assert set(op_pages.pages()) == due


def test_the_index_has_every_op() -> None:
    index = "\n".join(op_pages._index(manifest()))
    assert [op for op in sorted(known_ops()) if f"[{op}]({op}.md)" not in index] == []


def test_a_page_begins_with_the_op_and_has_its_type_its_cost_and_its_cases() -> None:
    text = page("RMSNormFwdOp")
    assert text.startswith("# RMSNormFwdOp\n")
    assert "RMSNormFwdOp : ∀ B: Shape;" in text
    assert "**Cost**" in text
    assert "| `llama-3.2-1b-prefill-float16` |" in text


def test_a_page_has_the_call_in_python_and_where_to_import_the_op_from() -> None:
    text = section("RMSNormFwdOp", "In Python")
    assert "from tileops_core.ops.norm import RMSNormFwdOp" in text
    assert "output = op(x, weight=None)" in text


def test_an_op_without_a_class_is_imported_from_nowhere() -> None:
    assert "import" not in section("FFTC2CFwdOp", "In Python")
    assert "Nobody yet" in section("FFTC2CFwdOp", "Who serves it")


def test_a_page_has_parameters_with_their_defaults() -> None:
    text = section("RMSNormFwdOp", "Parameters")
    assert "| `normalized_shape` | `list[int] \\| tuple[int, ...]` | required |" in text
    assert "| `eps` | `float \\| None` | `None` |" in text


def test_a_page_has_what_branches_are_decided_by() -> None:
    assert "| `present(weight)` | `False`, `True` |" in section("RMSNormFwdOp", "Branches")


def test_a_page_has_who_serves_the_op() -> None:
    assert "| `reference` | `reference` | any |" in section("RMSNormFwdOp", "Who serves it")


def test_a_page_says_how_a_builder_and_its_kernel_are_called() -> None:
    text = section("RMSNormFwdOp", "For a target")
    assert (
        "build_kernel(x: TensorSpec, weight: TensorSpec | None, *, normalized_shape, eps)" in text
    )
    assert "kernel(x, weight) -> output" in text


def test_inputs_by_name_and_the_buffer_are_passed_to_a_kernel_by_name() -> None:
    assert "[out=out]" in section("MoEPostPermuteFwdOp", "For a target")
    assert "weight=weight" in section("BatchNormBwdOp", "For a target")


def test_a_page_has_the_call_spec_and_the_interface_as_code() -> None:
    text = section("RMSNormFwdOp", "For a kernel type")
    assert "class RMSNormCall(CallSpec):" in text
    assert "class RMSNormFwdInterface(KernelInterface):" in text


def test_writing_leaves_a_page_that_says_the_same_and_removes_one_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(op_pages, "pages", lambda: {"a.md": "new", "b.md": "same"})
    for name, text in (("a.md", "old"), ("b.md", "same"), ("c.md", "gone")):
        (tmp_path / name).write_text(text)
    before = (tmp_path / "b.md").stat().st_mtime_ns
    op_pages.write(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a.md": "new",
        "b.md": "same",
    }
    assert (tmp_path / "b.md").stat().st_mtime_ns == before
