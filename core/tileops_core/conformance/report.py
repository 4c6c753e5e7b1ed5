"""The report of a run: as data, as JSON, as text, as one HTML page."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs

from tileops_core.backend.registry import REGISTRY
from tileops_core.conformance.checks import ALL_COLUMNS
from tileops_core.conformance.outcomes import (
    FAILED,
    OUTCOMES,
    PASSED,
    REFUSED,
    SKIPPED,
    XFAILED,
    XPASSED,
    Result,
    counts,
)
from tileops_core.conformance.suite import Suite
from tileops_core.conformance.xfails import Xfails

FORMATS = (".json", ".html", ".txt")
"""What a report may be written as, by the file's ending."""

_PLACE = "__REPORT__"


@attrs.frozen
class Report:
    """Everything about a run.

    Attributes:
        target: the target.
        device: the device.
        seed: the seed.
        columns: what each column is about.
        results: every result.
        notes: what else was noticed, in sentences.
        about: versions and the time, by name.
    """

    target: str
    device: str
    seed: int
    columns: Mapping[str, str]
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    about: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing failed that nobody expects, and something was looked at."""
        found = counts(r for r in self.results if r.column != "registration")
        looked_at = found[PASSED] + found[XFAILED] + found[XPASSED]
        return bool(looked_at) and not counts(self.results)[FAILED]

    def sentence(self) -> str:
        """The run in one sentence."""
        found = counts(self.results)
        ops = {result.op for result in self.results}
        what = f"{self.target} on {self.device}: "
        if not found[FAILED] and all(r.column == "registration" for r in self.results):
            return f"{what}serves no op that was asked for, so nothing was checked"
        failing = {result.op for result in self.results if result.outcome == FAILED}
        head = (
            f"{found[FAILED]} of {len(self.results)} checks fail, in {_many(len(failing), 'op')} "
            f"of {len(ops)}"
            if failing
            else f"{_many(len(ops), 'op')} as the manifest says, {found[PASSED]} checks passed"
        )
        more = [
            (found[REFUSED], "refused"),
            (found[SKIPPED], "skipped"),
            (found[XFAILED], "failed as expected"),
            (found[XPASSED], "passed against expectation"),
        ]
        rest = [f"{count} {words}" for count, words in more if count]
        return what + ", ".join([head, *rest])

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "target": self.target,
            "device": self.device,
            "seed": self.seed,
            "passed": self.passed,
            "sentence": self.sentence(),
            "about": dict(self.about),
            "counts": counts(self.results),
            "columns": dict(self.columns),
            "outcomes": dict(OUTCOMES),
            "notes": list(self.notes),
            "results": [result.as_dict() for result in self.results],
        }

    # -- forms ------------------------------------------------------------------------------

    def json(self) -> str:
        """JSON."""
        return json.dumps(self.as_dict(), indent=1) + "\n"

    def html(self) -> str:
        """A page that needs nothing else: no network, no other file."""
        page = files("tileops_core.conformance").joinpath("page.html").read_text(encoding="utf-8")
        data = json.dumps(self.as_dict(), separators=(",", ":"))
        # Inside of a script element only these would end it or begin a comment.
        data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        before, _, after = page.partition(_PLACE)
        return f"{before}{data}{after}"

    def text(self) -> str:
        """The matrix, and what failed."""
        lines = [self.sentence(), ""]
        lines += matrix(self.results, tuple(self.columns))
        failures = [r for r in self.results if r.outcome in (FAILED, XPASSED)]
        if failures:
            lines += ["", "what is not as expected:"]
            lines += [f"  {result.id}\n    {result.message}" for result in failures]
        for note in self.notes:
            lines += ["", f"note: {note}"]
        return "\n".join([*lines, ""])

    def write(self, path: str | Path) -> None:
        """Write the report in the form that the file's ending says.

        Raises:
            ValueError: another ending.
            OSError: the file cannot be written.
        """
        form = form_of(path)
        text = {".json": self.json, ".html": self.html, ".txt": self.text}[form]()
        # A backend's message may hold what no file in UTF-8 can, such as half a surrogate pair.
        Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")


def form_of(path: str | Path) -> str:
    """The form that a file's ending asks for.

    Raises:
        ValueError: none of ``FORMATS``.
    """
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise ValueError(f"a report ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {path}")
    return ending


def matrix(results: Iterable[Result], columns: Sequence[str]) -> list[str]:
    """Op by column, as lines: how many of how many checks are as they should be."""
    cells: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        cells.setdefault(result.op, {}).setdefault(result.column, []).append(result)
    used = [column for column in columns if any(column in row for row in cells.values())]
    width = max((len(op) for op in cells), default=0)
    lines = [" ".join([" " * width, *used])] if cells else []
    for op, row in cells.items():
        shown = [cell_text(row.get(column, ())).ljust(len(column)) for column in used]
        lines.append(" ".join([op.ljust(width), *shown]).rstrip())
    return lines


def cell_text(results: Sequence[Result]) -> str:
    """``12``: all passed; ``3!12``: three failed; ``-``: none was looked at; ``~``: refused."""
    if not results:
        return ""
    found = counts(results)
    looked = sum(found[outcome] for outcome in (PASSED, FAILED, XFAILED, XPASSED))
    if found[FAILED]:
        return f"{found[FAILED]}!{len(results)}"
    if found[XFAILED]:
        return f"{found[XFAILED]}x{len(results)}"
    if not looked:
        return "~" if found[REFUSED] else "-"
    return f"{looked}~" if found[REFUSED] else str(looked)


def report_of(suite: Suite, results: Sequence[Result], xfails: Xfails) -> Report:
    """The report of a run.

    Args:
        suite: what was run.
        results: every result, judged.
        xfails: what was expected to fail.
    """
    request = suite.request
    whole = not (request.ops or request.families)
    return Report(
        target=request.target,
        device=request.device,
        seed=request.seed,
        columns=ALL_COLUMNS,
        results=tuple(results),
        notes=(*suite.told(), *xfails.told(results, whole=whole)),
        about=about(request.target),
    )


def about(target: str) -> dict[str, str]:
    """Versions of what took part, and the time.

    Args:
        target: whose backend's version is told too.
    """
    found = {"time": datetime.now(timezone.utc).isoformat(timespec="seconds")}
    found["python"] = platform.python_version()
    found["machine"] = f"{platform.system()} {platform.machine()}"
    for name in ("tileops-core", "tileops-manifest", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    registered = REGISTRY.targets().get(target)
    origins = [backend for backend in REGISTRY.backends() if backend.name == target]
    origin = registered.origin if registered is not None else next(iter(origins), None)
    if origin is not None:
        found["backend"] = f"{origin.distribution or origin.name} {origin.version or ''}".strip()
    return found


def _many(count: int, one: str) -> str:
    return f"{count} {one}{'' if count == 1 else 's'}"
