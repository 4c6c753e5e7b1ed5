"""The validator: every fault of a manifest, and of the code that stands behind its entries.

``validate()`` looks at the installed manifest, at the spec files that backends name and at op
classes that state their own entry; ``validate(paths)`` at files, folders and classes. The checks of
entries import no torch; those of code (``code=True``) import the ops.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tileops_core.collector import rare_collection
from tileops_core.spec.catalogue import known_ops, load_spec_from
from tileops_core.spec.entries import Spec
from tileops_core.validate.entry_checks import check_entry
from tileops_core.validate.files import Entry, Files, Home
from tileops_core.validate.report import Counts, Finding, Report, in_order
from tileops_core.validate.stage_checks import unknown_stages

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
        ValueError: an empty list of paths.
    """
    with rare_collection():
        return _find(None if paths is None else _listed(paths), code, progress)


def _find(sources: list[Source] | None, code: bool, progress: Progress | None) -> Report:
    if sources is None or code:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what fails is noted in the report
            _registry().ensure_loaded()
    files = Files(_homes(loaded=sources is None or code))
    for source in _installed(code) if sources is None else sources:
        if isinstance(source, type):
            _add_class(files, source)
        else:
            files.add(Path(source))
    counts, findings = files.counts, list(files.findings)
    notes = files.notes
    held = _held(_of_others(files.entries))
    known = known_ops() | {entry.spec.op for entry in files.entries} | held.keys()
    for number, item in enumerate(files.entries):
        if progress is not None:
            progress(number, len(files.entries), item.spec.op)
        try:
            findings += _of_entry(item, held, code, counts, notes)
        except Exception as error:
            findings.append(_of_library(item.spec, error))
        for problem in unknown_stages(item.spec, known):
            if code or item.home is Home.LIBRARY:
                findings.append(Finding.of(problem, item.spec.op))
            else:  # a backend may know the op, and none was loaded
                notes.append(f"{item.spec.op}: {problem.message}, unless a backend has it")
    if code:
        notes += _not_run(files.entries, held)
    if sources is None:
        notes += _unloaded()
    return Report(in_order(findings), counts, tuple(notes))


def _add_class(files: Files, cls: Any) -> None:
    if getattr(cls, "spec", None) is None:
        raise TypeError(f"{cls.__name__} states no entry as its attribute spec")
    files.add_class(cls.spec, load_spec_from(cls.spec, cls.__name__))


def _of_others(entries: Iterable[Entry]) -> Iterator[str]:
    """The ops whose classes the library does not have, if anybody does: of entries, and stages.

    A stage that may be misspelled is compared with all of them.
    """
    own = known_ops()
    for entry in entries:
        if entry.home is not Home.LIBRARY:
            yield entry.spec.op
        composition = entry.spec.composition
        for stage in composition.stages if composition is not None else ():
            if stage.op.value not in own:
                yield from _living() - own
                break


def _not_run(entries: Iterable[Entry], held: Collection[str]) -> Iterator[str]:
    """What of the code behind entries was not looked at, and why."""
    for entry in entries:
        roofline = entry.spec.roofline
        if entry.home is Home.FILE and roofline is not None and roofline.func is not None:
            yield (
                f"{entry.spec.op}: its cost function {roofline.func} was not run, because nobody "
                "installed its file"
            )
    missing: dict[Home, list[str]] = {}
    for entry in entries:
        own = entry.home is Home.LIBRARY
        if entry.spec.status == "implemented" and not own and entry.spec.op not in held:
            missing.setdefault(entry.home, []).append(entry.spec.op)
    for home, ops in missing.items():
        first = ", ".join(ops[:_SHOWN]) + (f" and {len(ops) - _SHOWN} more" * (len(ops) > _SHOWN))
        yield f"no class was checked of {first}, because {_WHY_NO_CLASS[home]}"


_SHOWN = 4
_WHY_NO_CLASS = {
    Home.FILE: "nobody installed the file: a backend names it in tileops_manifest_paths, or a "
    "class states it as its attribute spec",
    Home.INSTALLED: "nothing imported one: the module of the backend's entry point does that",
}


def _of_entry(
    entry: Entry, held: Mapping[str, type], code: bool, counts: Counts, notes: list[str]
) -> list[Finding]:
    checked = check_entry(entry.spec, entry.types)
    counts.add(checked.counts)
    notes += checked.notes
    problems = [*checked.problems]
    if code:
        from tileops_core.validate.code_checks import check_code

        problems += check_code(
            checked,
            own=entry.home is Home.LIBRARY,
            op_class=held.get(entry.spec.op),
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


# -- what to look at ----------------------------------------------------------------------


def _listed(paths: Iterable[Source] | Source) -> list[Source]:
    """The sources, a class once however often it is given."""
    sources = [paths] if isinstance(paths, (str, os.PathLike, type)) else list(paths)
    if not sources:
        raise ValueError("no path to validate; None stands for everything that is installed")
    return list(dict.fromkeys(sources))


def _own_manifest() -> str:
    from importlib.resources import files

    return str(files("tileops_manifest"))


def _homes(loaded: bool) -> Callable[[str], Home]:
    """Tells whose the entries of a file are by its real path; of backends' only if ``loaded``."""
    own = Path(os.path.realpath(_own_manifest()))
    named = _registry().manifest_paths() if loaded else ()
    installed = [Path(os.path.realpath(path)) for path in named]

    def home(path: str) -> Home:
        file = Path(path)
        if file.is_relative_to(own):
            return Home.LIBRARY
        return Home.INSTALLED if any(map(file.is_relative_to, installed)) else Home.FILE

    return home


def _registry() -> Any:
    from tileops_core.backend.registry import REGISTRY

    return REGISTRY


def _living() -> Set[str]:
    """The names of the ops that have classes, in use or dropped."""
    module = sys.modules.get("tileops_core.op.definition")
    return set(module.living_classes()) if module is not None else set()


def _held(ops: Iterable[str]) -> dict[str, type]:
    """The classes of some ops that are in use; none before anything imported what makes them."""
    module = sys.modules.get("tileops_core.op.definition")
    return module.held_classes(set(ops)) if module is not None else {}


def _installed(code: bool) -> list[Source]:
    """The library's manifest; spec files that backends name; classes of their packages."""
    registry = _registry()
    found: list[Source] = [_own_manifest(), *registry.manifest_paths()]
    if code:
        from tileops_core.op.definition import living_classes

        packages = {_package(b.entry_point) for b in registry.backends() if b.entry_point}
        theirs = (
            op
            for op, cls in living_classes().items()
            if "spec" in cls.__dict__ and _package(cls.__module__) in packages
        )
        found += _held(theirs).values()
    return found


def _package(path: str) -> str:
    """The top package of ``package.module:attribute``."""
    return path.partition(":")[0].partition(".")[0]


def _unloaded() -> Iterator[str]:
    for failure in _registry().load_failures():
        yield f"backend {failure.backend} cannot be loaded, so none of its entries was checked"
