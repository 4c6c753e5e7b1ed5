from __future__ import annotations

import json
import threading

import pytest

from tileops_core.errors import ManifestError
from tileops_core.spec import catalogue
from tileops_core.spec.catalogue import Catalogue, ManifestFile

GOOD = """\
{op}:
  family: {family}
  status: implemented
  signature:
    forall: {{M: Dim, T: "DType[float16]"}}
    inputs:
      x: {{dtype: T, shape: "[M]"}}
    outputs:
      y: {{dtype: T, shape: "[M]"}}
  workloads:
    - {{label: row, M: 3, dtype_cases: [{{T: float16}}]}}
"""


@pytest.fixture
def manifest(tmp_path):
    """A manifest in a folder: family a with two ops, family b with one."""

    def write(**files: str) -> Catalogue:
        (tmp_path / "spec").mkdir()
        ops = {}
        for name, text in files.items():
            (tmp_path / "spec" / f"{name}.yaml").write_text(text)
            for op in ManifestFile(name, text).ops:
                ops[op] = {"family": name, "file": f"{name}.yaml", "status": "implemented"}
        (tmp_path / "index.json").write_text(json.dumps({"ops": ops}))
        return Catalogue(tmp_path)

    return write


def test_an_op_is_read_from_its_own_file_and_no_other(manifest, tmp_path):
    entries = manifest(
        a=GOOD.format(op="AFwdOp", family="a"), b=GOOD.format(op="BFwdOp", family="b")
    )
    (tmp_path / "spec" / "b.yaml").unlink()
    assert entries.load("AFwdOp").op == "AFwdOp"
    with pytest.raises(OSError, match=r"b\.yaml"):
        entries.load("BFwdOp")


@pytest.mark.parametrize(
    "broken",
    [
        "BFwdOp:\n  family: [a\n",
        "BFwdOp:\n  family: a\n   bad: indent\n",
        "BFwdOp: 'unclosed\n",
        "BFwdOp: {family: a, family: b, shape: @}\n",
        "BFwdOp: !!python/object/apply:os.abort []\n",
        "BFwdOp: null\n",
        "BFwdOp:\n\tfamily: a\n",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_broken_entry_breaks_no_other_of_its_file(manifest, broken, first):
    good = GOOD.format(op="AFwdOp", family="a") + GOOD.format(op="CFwdOp", family="a")
    entries = manifest(a=broken + good if first else good + broken)
    for op in ("AFwdOp", "CFwdOp"):
        spec = entries.load(op)
        assert not spec.problems
        line = spec.span.text
        assert line == f"{op}:"
    assert entries.load("BFwdOp").problems


def test_an_entry_that_is_no_yaml_says_where(manifest):
    entries = manifest(a=GOOD.format(op="AFwdOp", family="a") + "BFwdOp:\n  family: [a\n  x: 1\n")
    (problem,) = entries.load("BFwdOp").problems
    assert problem.code == "yaml-syntax"
    assert problem.span.line > 11


def problems_of(text: str) -> list[tuple[str, int]]:
    """Code and line of each problem that a file has as a whole."""
    return [(problem.code, problem.span.line) for problem in ManifestFile("a.yaml", text).problems]


A, B = GOOD.format(op="AFwdOp", family="a"), GOOD.format(op="BFwdOp", family="a")
LENGTH = len(A.splitlines())


@pytest.mark.parametrize("sign", ["!!map", "&a", "!own", "--- !!map", "--- &a"])
def test_a_tag_or_anchor_before_all_entries_is_refused_once(sign):
    text = f"{sign}\n{A}"
    assert problems_of(text) == [("yaml-tag", 1)]
    assert not ManifestFile("a.yaml", text).load("AFwdOp").problems


def test_an_anchor_before_a_key_is_refused_once():
    assert problems_of(f"&a {A}") == [("yaml-tag", 1)]


@pytest.mark.parametrize("text", ["!!set {A}", "!!str x", "&a [1]"])
def test_a_tag_before_what_is_no_mapping_is_refused_too(text):
    assert ("yaml-tag", 1) in problems_of(text)


@pytest.mark.parametrize(
    ("mark", "line"),
    [("---\n", 1), ("...\n", 2), ("---  \n", 1), ("...\n---\n", 2), ("--- # next\n", 1)],
)
def test_a_second_document_is_told_once_where_it_begins_and_both_are_read(mark, line):
    file = ManifestFile("a.yaml", A + mark + B)
    (problem,) = file.problems
    assert problem.code == "yaml-syntax"
    assert problem.message.startswith("a second document begins here")
    assert problem.span.line == LENGTH + line
    assert [file.load(op).problems for op in ("AFwdOp", "BFwdOp")] == [(), ()]


@pytest.mark.parametrize("text", [f"---\n{A}", f"{A}...\n", f"# first\n---\n{A}"])
def test_the_marks_of_the_one_document_are_no_fault(text):
    file = ManifestFile("a.yaml", text)
    assert not file.problems
    assert not file.load("AFwdOp").problems


def test_a_byte_order_mark_before_the_text_is_no_fault():
    file = ManifestFile("a.yaml", "\ufeff" + A)
    assert not file.problems
    spec = file.load("AFwdOp")
    assert not spec.problems
    assert spec.span.text == "AFwdOp:"


def test_a_byte_order_mark_inside_the_text_is_told():
    (problem,) = ManifestFile("a.yaml", f"{A}\ufeff{B}").problems
    assert (problem.code, problem.span.line) == ("yaml-syntax", LENGTH + 1)
    assert "U+FEFF" in problem.message


def test_a_tab_is_told_with_what_to_write():
    (problem,) = ManifestFile("a.yaml", A.replace("  family", "\tfamily")).problems
    assert (problem.message, problem.hint) == (
        "a tab stands where YAML takes only spaces",
        "indent with spaces",
    )
    assert (problem.span.line, problem.span.column) == (2, 1)


@pytest.mark.parametrize("char", ["\x00", "\x1b", "\x07", "\ud800"])
def test_a_character_that_yaml_lacks_is_told_with_its_place(char):
    file = ManifestFile("a.yaml", A + f"BFwdOp: a{char}b\n")
    (problem,) = file.problems
    assert f"U+{ord(char):04X}" in problem.message
    assert (problem.span.line, problem.span.column) == (LENGTH + 1, 10)


@pytest.mark.parametrize("junk", ["}\n", "- item\n", "%bad\n", ", x\n"])
def test_what_stands_between_entries_is_told_and_hides_none(junk):
    file = ManifestFile("a.yaml", f"{A}{junk}{B}")
    assert {(problem.code, problem.span.line) for problem in file.problems} == {
        ("yaml-syntax", LENGTH + 1)
    }
    assert file.ops == ("AFwdOp", "BFwdOp")
    assert not file.load("BFwdOp").problems


def test_a_place_in_a_file_that_is_read_in_pieces_is_that_in_the_file():
    text = f"{A}CFwdOp: [\n" + B.replace("[M]", "[M, ]]")
    (problem, *_) = ManifestFile("a.yaml", text).load("BFwdOp").problems
    assert text.splitlines()[problem.span.line - 1] == problem.span.text
    assert problem.span.line == LENGTH + 1 + B.splitlines().index(next(
        line for line in B.splitlines() if "[M]" in line)) + 1  # fmt: skip


def test_an_op_that_stands_twice_in_a_file_is_refused(manifest):
    text = GOOD.format(op="AFwdOp", family="a")
    entries = manifest(a=text + text)
    (problem,) = entries.load("AFwdOp").problems
    assert problem.code == "duplicate-key"
    assert problem.span.line == 12


def test_an_unknown_op_is_answered_with_a_guess():
    with pytest.raises(ManifestError, match="did you mean 'RMSNormFwdOp'"):
        catalogue.load_spec("RmsNormFwdOp")


def test_an_entry_missing_from_the_indexed_file_names_the_remedy(manifest, tmp_path):
    entries = manifest(a=GOOD.format(op="AFwdOp", family="a"))
    (tmp_path / "spec" / "a.yaml").write_text(GOOD.format(op="BFwdOp", family="a"))
    with pytest.raises(ManifestError, match="generate_index"):
        entries.load("AFwdOp")


def test_threads_that_ask_together_get_one_spec(manifest):
    entries = manifest(a=GOOD.format(op="AFwdOp", family="a"))
    barrier, found = threading.Barrier(8), []

    def ask() -> None:
        barrier.wait()
        found.append(entries.load("AFwdOp"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(spec) for spec in found}) == 1


def test_family_and_status_are_known_without_reading_entries():
    assert catalogue.family_of("RMSNormFwdOp") == "norm"
    assert catalogue.status_of("RMSNormFwdOp") == "implemented"
    assert catalogue.family_of("NoSuchFwdOp") is None
    assert "AddFwdOp" in catalogue.known_ops()


ENTRY = {
    "family": "mine",
    "status": "implemented",
    "signature": {
        "forall": {"M": "Dim", "T": "DType[float16 | float32]"},
        "params": {"eps": {"type": "float", "default": 1e-6}},
        "inputs": {"x": {"dtype": "T", "shape": "[M]"}},
        "outputs": {"y": {"dtype": "T", "shape": "[M]"}},
    },
    "workloads": [{"label": "row", "M": 3, "dtype_cases": ({"T": "float16"},)}],
    "roofline": {"flops": "M"},
}


def test_an_entry_given_as_a_mapping_is_read_like_text():
    spec = catalogue.load_spec_from(ENTRY, "MineFwdOp")
    assert not spec.problems
    assert spec.params[0].default.value == 1e-6
    assert spec.span.path == "<spec of MineFwdOp>"


def test_a_fault_in_a_mapping_is_shown_like_one_in_text():
    entry = {**ENTRY, "roofline": {"flops": "M ** M"}}
    (problem,) = catalogue.load_spec_from(entry, "MineFwdOp").problems
    assert problem.span.snippet().splitlines() == ["flops: M ** M", "            ^"]


def test_an_entry_is_read_from_a_path(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.format(op="MineFwdOp", family="mine"))
    spec = catalogue.load_spec_from(path, "MineFwdOp")
    assert not spec.problems
    assert spec.span.short == "mine.yaml:1"


@pytest.mark.parametrize("source", ["/no/such/file.yaml", "/dev/zero", 7, None])
def test_a_source_that_cannot_be_read_is_an_error_that_names_the_op(source):
    with pytest.raises(ManifestError, match="MineFwdOp"):
        catalogue.load_spec_from(source, "MineFwdOp")


def test_a_file_without_the_entry_offers_the_closest(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.format(op="MineFwdOp", family="mine"))
    with pytest.raises(ManifestError, match="did you mean 'MineFwdOp'"):
        catalogue.load_spec_from(path, "MyneFwdOp")
