"""Write the manifest's index: ``python -m tileops_core.spec.generate_index``.

The index says which file an op stands in, so that importing one op parses one file and
importing none parses none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from tileops_core.spans import Span
from tileops_core.spec.catalogue import ManifestFile
from tileops_core.spec.entries import Spec
from tileops_core.spec.names import family_problem, op_problem
from tileops_core.spec.problems import Problems
from tileops_core.spec.shared_types import FILE


def family_fits(family: str, file_name: str) -> bool:
    """Whether entries of a family may stand in ``<family>.yaml`` or ``<family>_<shard>.yaml``."""
    stem = file_name.removesuffix(".yaml")
    return stem == family or stem.startswith(f"{family}_")


def index_text(root: Path) -> str:
    """The index of the files below ``root / "spec"``, as JSON.

    Raises:
        ManifestError: When a file is empty, holds an op that another one has, is not named after
            the family of its entries, or has a key that names no op.
    """
    problems = Problems()
    rows: dict[str, dict[str, str]] = {}
    for file, spec in _entries(root, problems):
        if spec.op in rows:
            problems.add(
                "duplicate-op", f"{spec.op} stands in {rows[spec.op]['file']} too", spec.span
            )
        elif misnamed := op_problem(spec.op, spec.span) or family_problem(spec.family, spec.span):
            problems.note(misnamed)
        elif not family_fits(spec.family, file):
            problems.add(
                "file-family",
                f"{spec.op} is of family {spec.family!r}, its file is {file}",
                spec.span,
                "name the file after the family: <family>.yaml or <family>_<shard>.yaml",
            )
        else:
            rows[spec.op] = {"family": spec.family, "file": file, "status": spec.status}
    problems.raise_if_any("the manifest")
    return json.dumps({"ops": dict(sorted(rows.items()))}, indent=1) + "\n"


def _entries(root: Path, problems: Problems) -> Iterator[tuple[str, Spec]]:
    for path in sorted((root / "spec").glob("*.yaml")):
        if path.name == FILE:
            continue
        file = ManifestFile(path.name, path.read_text(encoding="utf-8"))
        for problem in file.problems:
            problems.add(problem.code, problem.message, problem.span, problem.hint)
        if not file.ops and not file.problems:
            problems.add("empty-file", f"{path.name} has no entry", Span(path.name, 1))
        for op in file.ops:
            yield path.name, file.load(op)


def main() -> None:
    """Write ``index.json`` next to the installed manifest's ``spec`` folder."""
    root = Path(str(files("tileops_manifest")))
    target = root / "index.json"
    target.write_text(index_text(root), encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
