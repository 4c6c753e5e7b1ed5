"""The validator: every fault of a manifest, and of the code that stands behind its entries.

``validate()`` looks at the installed manifest, at the spec files that backends name and at op
classes that state their own entry; ``validate(paths)`` at files, folders and classes. The checks of
entries import no torch; those of code (``code=True``) import the ops.
"""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tileops_core.spec.catalogue import load_spec_from
from tileops_core.spec.entries import Spec
from tileops_core.validate.entry_checks import check_entry
from tileops_core.validate.files import Entry, Files, Home
from tileops_core.validate.report import Counts, Finding, Report, in_order

if TYPE_CHECKING:
    from tileops_core.op import Op

__all__ = ["Counts", "Finding", "Report", "validate"]

Source: TypeAlias = "str | os.PathLike[str] | type[Op]"
Progress: TypeAlias = "Callable[[int, int, str], None]"


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
        try:
            findings += _of_entry(entry, code, counts)
        except Exception as error:
            findings.append(_of_library(entry.spec, error))
    notes = [*(_notes(files.entries) if code else ()), *(_unloaded() if paths is None else ())]
    return Report(in_order(findings), counts, tuple(notes))


def _notes(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        roofline = entry.spec.roofline
        if entry.home is Home.FILE and roofline is not None and roofline.func is not None:
            yield (
                f"{entry.spec.op}: its cost function {roofline.func} was not run, because nobody "
                "installed its file"
            )


def _of_entry(entry: Entry, code: bool, counts: Counts) -> list[Finding]:
    checked = check_entry(entry.spec, entry.types)
    counts.add(checked.counts)
    problems = [*checked.problems]
    if code:
        from tileops_core.validate.code_checks import check_code

        problems += check_code(
            checked,
            own=entry.home is Home.LIBRARY,
            installed=entry.home is not Home.FILE,
            counts=counts,
        )
    return [Finding.of(problem, entry.spec.op) for problem in problems]


def _of_library(spec: Spec, error: Exception) -> Finding:
    """A failure of the checks themselves: no other entry suffers from it, and it is not silent."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{place.filename.rpartition('tileops_core')[2].lstrip('/')}:{place.lineno}"
    return Finding(
        "library-fault",
        f"the checks themselves fail on this entry: {type(error).__name__}: {error} ({where})",
        spec.op,
        spec.span,
        "please report it, with the entry",
    )


def _sources(paths: Iterable[Source] | Source | None, code: bool) -> list[tuple[Path | Any, Home]]:
    if paths is None:
        return _installed(code)
    if isinstance(paths, (str, os.PathLike, type)):
        paths = (paths,)
    found: list[tuple[Any, Home]] = []
    own = _own_manifest()
    for item in paths:
        if isinstance(item, type):
            if getattr(item, "spec", None) is None:
                raise TypeError(f"{item.__name__} states no entry as its attribute spec")
            found.append((item, Home.INSTALLED))
        else:
            path = Path(item)
            inside = path.resolve().is_relative_to(own)
            found.append((path, Home.LIBRARY if inside else Home.FILE))
    return found


def _own_manifest() -> Path:
    from importlib.resources import files

    return Path(str(files("tileops_manifest"))).resolve()


def _installed(code: bool) -> list[tuple[Path | Any, Home]]:
    """The library's manifest; spec files that backends name; classes of their packages."""
    from tileops_core.backend.registry import REGISTRY

    found: list[tuple[Any, Home]] = [(_own_manifest(), Home.LIBRARY)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what fails is noted in the report
        REGISTRY.ensure_loaded()
    found += [(Path(path), Home.INSTALLED) for path in REGISTRY.manifest_paths()]
    if code:
        from tileops_core.op.definition import living_classes

        packages = {_package(b.entry_point) for b in REGISTRY.backends() if b.entry_point}
        found += [
            (cls, Home.INSTALLED)
            for cls in living_classes().values()
            if "spec" in cls.__dict__ and _package(cls.__module__) in packages
        ]
    return found


def _package(path: str) -> str:
    """The top package of ``package.module:attribute``."""
    return path.partition(":")[0].partition(".")[0]


def _unloaded() -> Iterator[str]:
    from tileops_core.backend.registry import REGISTRY

    for failure in REGISTRY.load_failures():
        yield f"backend {failure.backend} cannot be loaded, so none of its entries was checked"
