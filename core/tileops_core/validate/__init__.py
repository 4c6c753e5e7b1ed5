"""The validator: every fault of a manifest, and of the code that stands behind its entries.

``validate()`` looks at the installed manifest, at the spec files that backends name and at op
classes that state their own entry; ``validate(paths)`` at files, folders and classes. The checks of
entries import no torch; those of code (``code=True``) import the ops.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tileops_core.spec.catalogue import load_spec_from
from tileops_core.validate.entry_checks import Checked, check_entry
from tileops_core.validate.files import Files
from tileops_core.validate.report import Counts, Finding, Report, in_order

if TYPE_CHECKING:
    from tileops_core.op import Op

__all__ = ["Counts", "Finding", "Report", "validate"]

Source: TypeAlias = "str | os.PathLike[str] | type[Op]"
Progress: TypeAlias = "Callable[[int, int, str], None]"

OWN = "the library"
STATED = "a class"


def validate(
    paths: Iterable[Source] | Source | None = None,
    *,
    code: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Find every fault.

    Args:
        paths: files, folders, and op classes with a ``spec`` of their own, checked together as one
            manifest; None for everything that is installed.
        code: also import and check the classes of ``implemented`` ops, and run the code generated
            from each entry on all its rows.
        progress: called as ``progress(done, total, op)`` before each entry.

    Raises:
        TypeError: a class that states no entry.
    """
    files = Files()
    for source, home in _sources(paths, code):
        if isinstance(source, Path):
            files.add(source, home)
        else:
            files.add_spec(load_spec_from(source.spec, source.__name__), home)
    counts = Counts(files=files.count)
    findings = list(files.findings)
    for number, entry in enumerate(files.entries):
        if progress is not None:
            progress(number, len(files.entries), entry.spec.op)
        checked = check_entry(entry.spec)
        counts.add(checked.counts)
        findings += [Finding.of(problem, entry.spec.op) for problem in checked.problems]
        if code:
            findings += _of_code(checked, entry.home == OWN, counts)
    return Report(in_order(findings), counts)


def _of_code(checked: Checked, own: bool, counts: Counts) -> list[Finding]:
    from tileops_core.validate.code_checks import check_code

    problems = check_code(checked, own=own, counts=counts)
    return [Finding.of(problem, checked.spec.op) for problem in problems]


def _sources(paths: Iterable[Source] | Source | None, code: bool) -> list[tuple[Path | Any, str]]:
    if paths is None:
        return _installed(code)
    if isinstance(paths, (str, os.PathLike, type)):
        paths = (paths,)
    found: list[tuple[Any, str]] = []
    own = _own_manifest()
    for item in paths:
        if isinstance(item, type):
            if getattr(item, "spec", None) is None:
                raise TypeError(f"{item.__name__} states no entry as its attribute spec")
            found.append((item, STATED))
        else:
            path = Path(item)
            inside = path.resolve().is_relative_to(own)
            found.append((path, OWN if inside else os.fspath(item)))
    return found


def _own_manifest() -> Path:
    from importlib.resources import files

    return Path(str(files("tileops_manifest"))).resolve()


def _installed(code: bool) -> list[tuple[Path | Any, str]]:
    """The library's manifest; spec files that backends name; classes that loading them made."""
    from tileops_core.backend.registry import REGISTRY

    found: list[tuple[Any, str]] = [(_own_manifest(), OWN)]
    found += [(Path(path), path) for path in REGISTRY.manifest_paths()]
    if code:
        from tileops_core.op.definition import living_classes

        found += [(c, STATED) for c in living_classes().values() if "spec" in c.__dict__]
    return found
