"""Find the backends that are installed: the entry points of group ``tileops.backends``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import attrs

from tileops_core.by_fields import ShownByFields

GROUP = "tileops.backends"
CORE = "core"
CORE_DISTRIBUTION = "tileops-core"


class _Distribution(Protocol):
    def read_text(self, filename: str) -> str | None: ...

    @property
    def entry_points(self) -> Any: ...

    @property
    def metadata(self) -> Any: ...


@attrs.frozen(eq=False, repr=False)
class Found(ShownByFields):
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
    return sorted(found, key=rank)


def skip_of(point: Found, points: Iterable[Found]) -> str | None:
    """What ``TILEOPS_DISABLE_BACKENDS`` has to be to leave one backend out.

    Args:
        point: the backend's entry point.
        points: all that are installed.

    Returns:
        Its name; its distribution, where another one has a backend of that name; None where that
        would be read as a backend's name too, or both are of one distribution.
    """
    all_of_them = tuple(points)
    owners = [other.distribution for other in all_of_them if other.name == point.name]
    if len(owners) < 2:
        return point.name
    taken = {other.name for other in all_of_them}
    alone = owners.count(point.distribution) == 1 and point.distribution not in taken
    return point.distribution if alone else None


def rank(found: Found) -> tuple[bool, str, str, str]:
    """The order of loading."""
    return (not is_core(found), found.distribution, found.name, found.value)


def is_core(found: Found) -> bool:
    """Whether this is the library's own entry point, and not a stranger's of that name."""
    return found.name == CORE and found.distribution == CORE_DISTRIBUTION


def normalized(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _first_of_each(
    distributions: Iterable[_Distribution],
) -> Iterator[tuple[str, _Distribution]]:
    chosen: dict[str, _Distribution] = {}
    for distribution in distributions:
        name = _name(distribution)
        if name and (name not in chosen or _replaces(distribution, chosen[name])):
            chosen[name] = distribution
    yield from chosen.items()


def _replaces(new: _Distribution, held: _Distribution) -> bool:
    # A folder without metadata is what an interrupted uninstall leaves.
    if _is_whole(new) != _is_whole(held):
        return _is_whole(new)
    # Within one folder the order is the file system's, so there the newer version counts.
    path, other = _path(new), _path(held)
    same_folder = bool(path) and os.path.dirname(path) == os.path.dirname(other)
    return same_folder and _age(path) > _age(other)


def _is_whole(distribution: _Distribution) -> bool:
    return any(_text(distribution, file) is not None for file in ("METADATA", "PKG-INFO"))


def _path(distribution: _Distribution) -> str:
    return str(getattr(distribution, "_path", ""))


def _text(distribution: _Distribution, file: str) -> str | None:
    try:
        return distribution.read_text(file)
    except Exception:  # a file that cannot be read says nothing
        return None


def _name(distribution: _Distribution) -> str:
    """The normalized name, or "" where nothing says it."""
    stem, extension = os.path.splitext(os.path.basename(_path(distribution)))
    if extension in (".dist-info", ".egg-info"):
        return normalized(stem.partition("-")[0])
    try:
        return normalized(distribution.metadata.get("Name") or "")
    except Exception:  # metadata that cannot be read names no distribution
        return ""


def _age(path: str) -> tuple[list[int], bool]:
    stem, extension = os.path.splitext(os.path.basename(path))
    numbers = [int(part) for part in re.findall(r"\d+", stem.partition("-")[2])]
    return numbers, extension == ".dist-info"


def _backends_of(name: str, distribution: _Distribution) -> Iterator[Found]:
    if GROUP not in (_text(distribution, "entry_points.txt") or ""):
        return
    read_version = _version_reader(distribution)
    try:
        points = {(point.name, point.value): point for point in _points(distribution)}
    except Exception as error:
        broken = error

        def fail() -> object:
            raise broken

        backend = name.replace("-", "_")
        yield Found(backend, "entry_points.txt", name, fail, read_version)
        return
    for (backend, value), point in points.items():
        yield Found(backend, value, name, point.load, read_version)


def _points(distribution: _Distribution) -> Iterable[Any]:
    return [point for point in distribution.entry_points if point.group == GROUP]


def _version_reader(distribution: _Distribution) -> Callable[[], str | None]:
    def read_version() -> str | None:
        stem, extension = os.path.splitext(os.path.basename(_path(distribution)))
        if extension in (".dist-info", ".egg-info") and "-" in stem:
            # The folder says it; reading the file would import a parser of mail.
            version = stem.partition("-")[2]
            return re.sub(r"-py\d.*$", "", version) if extension == ".egg-info" else version
        try:
            stated: str | None = distribution.metadata.get("Version")
            return stated
        except Exception:  # a version that cannot be read is unknown
            return None

    return read_version
