"""Defines the library's operators as soon as torch is there.

An exported program that calls ops names torch operators, and loading it looks them up. Whoever has
imported the library, and nothing else of it, shall be able to load one; but importing the library
imports no torch, which takes a second that reading a manifest does not need.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

_OPERATORS = "tileops_core.call.torch_operators"
_BELOW = "tileops_core.call.torch_private"  # which it imports


def define_operators() -> None:
    """Define the operators now, if torch is imported, else right after it will be.

    Raises:
        ImportError: another copy of the library is in the process.
    """
    if "_tileops_registry" in sys.modules:
        import_module("tileops_core.backend.registry")  # which says whose copy it is
    if "torch" in sys.modules:
        import_module(_OPERATORS)
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds torch like everybody else, and has its loader define the operators afterwards."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of torch; None for any other module."""
        if name != "torch":
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = cast("Loader", _Loader(spec.loader, self))
                return spec
        return None


class _Loader:
    """Loads torch by its own loader, then defines the operators."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """What the loader itself makes."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Run torch, and leave no trace of having been here."""
        # A new list: another thread that goes through the old one would pass over a finder.
        sys.meta_path = [finder for finder in sys.meta_path if finder is not self._finder]
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        # Where these are there, another thread is importing them and waits for torch, which this
        # one holds; it goes on to define the operators.
        if not any(name in sys.modules for name in (_OPERATORS, _BELOW)):
            import_module(_OPERATORS)
