"""One fault in an entry is found, or the entry is still well formed: its rows prove it."""

from __future__ import annotations

import importlib
import random
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import attrs
import pytest
from inference import differences
from mutations import Mutation, Tree, mutations, text_of

from tileops_core.ops._index import FAMILIES
from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.validate import Report, validate

SUPPORT = Path(__file__).parents[1] / "support"
TEXTS = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted((files("tileops_manifest") / "spec").iterdir(), key=lambda p: p.name)
    if path.name.endswith(".yaml") and path.name != "types.yaml"
}
# Beside the real entries those that use what no real one uses yet; a file is called by its family.
for more in ("gallery.yaml", "hard_entries.yaml"):
    text = (SUPPORT / more).read_text(encoding="utf-8")
    TEXTS[f"{re.findall('family: (.+)', text)[0]}.yaml"] = text
ENTRIES = [(name, op) for name, text in TEXTS.items() for op in ManifestFile(name, text).ops]
MANY = 12_000
FEW = 150


@attrs.frozen
class Case:
    """A fault in one of the entries."""

    file: str
    op: str
    tree: Tree
    mutation: Mutation

    def __str__(self) -> str:
        return f"{self.op}: {self.mutation.kind} {self.mutation.path}"


def every_case() -> list[Case]:
    found = []
    for name, op in ENTRIES:
        tree = Tree(TEXTS[name], op)
        found += [Case(name, op, tree, mutation) for mutation in mutations(tree)]
    return found


@contextmanager
def patience(seconds: float, case: Case) -> Iterator[None]:
    """Fail where a hang would never end; far above what any entry takes."""

    def give_up(*_: object) -> None:
        raise AssertionError(f"{case}: no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def found_in(path: Path) -> Report:
    """What is found without running code, else with it."""
    return validate(path, code=False) or validate(path)


def proven(path: Path, text: str) -> list[str]:
    """Why an entry without findings is not well formed after all; nothing, when it is."""
    file = ManifestFile(path.name, text)
    return [why for op in file.ops for why in differences(build_signature(file.load(op)))]


def run(cases: list[Case], folder: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in cases:
        text = case.mutation.of(case.tree)
        path = folder / case.file
        path.write_text(text, encoding="utf-8")
        with patience(60, case):
            report = found_in(path)
            assert "library-fault" not in report.codes, f"{case}: {report.findings}"
            if not report:
                assert proven(path, text) == [], str(case)
        counts["found" if report else "well formed"] += 1
    return counts


@pytest.fixture(scope="module", autouse=True)
def classes() -> None:
    """The ops' classes are there, so that an entry that says something else than they is found."""
    for family in FAMILIES:
        importlib.import_module(f"tileops_core.ops.{family}")


@pytest.mark.parametrize("op", [op for _, op in ENTRIES])
def test_no_fault_means_no_finding(op: str, tmp_path: Path) -> None:
    """Writing an entry's nodes out again is no fault, so findings come from the fault alone."""
    name = next(name for name, entry in ENTRIES if entry == op)
    path = tmp_path / name
    path.write_text(text_of(Tree(TEXTS[name], op).nodes()), encoding="utf-8")
    assert list(validate(path)) == []


def test_a_fault_is_found_or_the_entry_is_well_formed(tmp_path: Path) -> None:
    cases = random.Random("a few").sample(every_case(), FEW)
    counts = run(cases, tmp_path)
    assert counts["found"] > FEW // 2


@pytest.mark.slow
def test_every_fault_is_found_or_the_entry_is_well_formed(tmp_path: Path) -> None:
    cases = every_case()
    assert len(cases) >= 10_000
    if len(cases) > MANY:
        cases = random.Random("many").sample(cases, MANY)
    counts = run(cases, tmp_path)
    assert sum(counts.values()) >= 10_000
    assert counts["found"] > counts["well formed"]
