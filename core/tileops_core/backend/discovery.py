"""Find the backends that are installed: the entry points of group ``tileops.backends``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import attrs

GROUP = "tileops.backends"
CORE = "core"
CORE_DISTRIBUTION = "tileops-core"


class _Distribution(Protocol):
    def read_text(self, filename: str) -> str | None: ...

    @property
    def entry_points(self) -> Any: ...

    @property
    def metadata(self) -> Any: ...


@attrs.frozen(eq=False)
class Found:
    """One entry point.

    Args:
        name: the backend's name.
        value: ``module`` or ``module:attr``.
        distribution: the distribution's name, normalized.
        load: imports and returns what ``value`` names.
        read_version: reads the distribution's version.
    """

    name: str
    value: str
    distribution: str
    load: Callable[[], object]
    read_version: Callable[[], str | None] | None = None


def discover() -> list[Found]:
    """Every backend that the distributions on ``sys.path`` bring, each once.

    Of a distribution that is there several times the first on ``sys.path`` counts, as for imports.
    The order depends on names only: the library's own first, so that nobody else can take its
    place, then by distribution and backend.
    """
    import importlib_metadata

    found: list[Found] = []
    for name, distribution in _first_of_each(importlib_metadata.distributions()):
        found += _backends_of(name, distribution)
    return sorted(found, key=_rank)


def _rank(found: Found) -> tuple[bool, str, str, str]:
    own = found.name == CORE and found.distribution == CORE_DISTRIBUTION
    return (not own, found.distribution, found.name, found.value)


def _first_of_each(
    distributions: Iterable[_Distribution],
) -> Iterator[tuple[str, _Distribution]]:
    chosen: dict[str, tuple[str, tuple[Any, ...], _Distribution]] = {}
    for distribution in distributions:
        path = str(getattr(distribution, "_path", ""))
        try:
            name = _name(distribution, path)
        except Exception:  # metadata that cannot be read names no distribution
            continue
        folder, age = os.path.dirname(path), _age(path)
        held = chosen.get(name)
        # Within one folder the order is the file system's, so there the newer version counts.
        if held is None or (path and held[0] == folder and held[1] < age):
            chosen[name] = (folder, age, distribution)
    for name, (_, _, distribution) in chosen.items():
        yield name, distribution


def _name(distribution: _Distribution, path: str) -> str:
    stem, extension = os.path.splitext(os.path.basename(path))
    if extension in (".dist-info", ".egg-info"):
        name = stem.partition("-")[0]
    else:
        name = str(distribution.metadata["Name"])
    return re.sub(r"[-_.]+", "-", name).lower()


def _age(path: str) -> tuple[Any, ...]:
    stem, extension = os.path.splitext(os.path.basename(path))
    numbers = [int(part) for part in re.findall(r"\d+", stem.partition("-")[2])]
    return (numbers, extension == ".dist-info")


def _backends_of(name: str, distribution: _Distribution) -> Iterator[Found]:
    try:
        text = distribution.read_text("entry_points.txt")
        if text is None or GROUP not in text:
            return
    except Exception:  # a file that cannot be read names no backend
        return
    read_version = _version_reader(distribution)
    try:
        points = {(point.name, point.value): point for point in _points(distribution)}
    except Exception as error:
        broken = error

        def fail() -> object:
            raise broken

        yield Found(name, "entry_points.txt", name, fail, read_version)
        return
    for (backend, value), point in points.items():
        yield Found(backend, value, name, point.load, read_version)


def _points(distribution: _Distribution) -> Iterable[Any]:
    return [point for point in distribution.entry_points if point.group == GROUP]


def _version_reader(distribution: _Distribution) -> Callable[[], str | None]:
    def read_version() -> str | None:
        stem, extension = os.path.splitext(
            os.path.basename(str(getattr(distribution, "_path", "")))
        )
        if extension in (".dist-info", ".egg-info") and "-" in stem:
            # The folder says it; reading the file would import a parser of mail.
            version = stem.partition("-")[2]
            return re.sub(r"-py\d.*$", "", version) if extension == ".egg-info" else version
        try:
            return str(distribution.metadata["Version"])
        except Exception:  # a version that cannot be read is unknown
            return None

    return read_version
