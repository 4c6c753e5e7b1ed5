"""Packages whose public names are imported at their first use, and none of them before.

A package that imports its own submodules while it is imported itself is a trap for threads: Python
takes the lock of ``package.module`` first and the lock of ``package`` then, and such a package
takes the two the other way round. Where two threads meet so, Python hands one of them a module that
is not finished. A package that imports nothing of its own has no second order.

A name must not be that of a submodule: whichever comes last would be what is found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tileops_core.collector import rare_collection


def lazily(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package.

    Args:
        package: the package's name.
        homes: for each public name the module that it is in, without ``tileops_core.`` in front.
    """

    def __getattr__(name: str) -> Any:
        found = sys.modules[package]
        if name not in homes:
            # In Python's own words, so that nobody takes it for something else than a name that
            # is not there: "from package import module" goes on to look for the module.
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=found
            )
        with rare_collection():
            value = getattr(import_module(f"tileops_core.{homes[name]}"), name)
        setattr(found, name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return __getattr__, __dir__
