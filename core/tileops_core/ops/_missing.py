"""What somebody is told who imports an op, or a family, that has a contract and no class yet.

``from tileops_core.ops import X`` asks the package for X and then looks for a module of that name.
Nobody else can answer that, so a finder at the end of ``sys.meta_path`` is asked. Of a family's
module Python asks that only if it calls itself a package.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn

from tileops_core.suggest import did_you_mean

_PACKAGE = __name__.rpartition(".")[0]
_OPS = ("FwdOp", "BwdOp")


def sentence(name: str, family: str | None = None) -> str | None:
    """Why there is no op, or no family, of a name; None where there is nothing to say.

    Args:
        name: The op, or the family.
        family: The family's module in which the op was looked for; None for the package.
    """
    from tileops_core.spec.catalogue import installed, known_ops

    index = installed().index()
    if name in index:
        row = index[name]
        home = f"{_PACKAGE}.{row['family']}"
        if row["status"] == "implemented":
            return f"{_PACKAGE}.{family} has no op {name}: it is in {home}" if family else None
        return (
            f"{home} has no {name} yet: the manifest has its contract (status: spec-only), and "
            f"nobody has written its class. `tileops show {name}` prints the contract, `tileops "
            "ops --status implemented` lists the ops that have a class; a class of this name, "
            "derived from tileops_core.Op anywhere, takes the contract"
        )
    waiting = sorted(op for op, row in index.items() if row["family"] == name)
    if waiting and family is None:
        return (
            f"{_PACKAGE}.{name} has no op yet: the manifest has contracts of this family (status: "
            f"spec-only, {_some(waiting)}), and nobody has written their classes. `tileops ops "
            f"--family {name}` lists them, `tileops show OP` prints one"
        )
    if family is not None and name.endswith(_OPS):
        return f"{_PACKAGE}.{family} has no op {name}{did_you_mean(name, known_ops())}"
    return None


def _some(ops: Sequence[str]) -> str:
    return ops[0] if len(ops) == 1 else f"{ops[0]} and {len(ops) - 1} more"


class Finder(importlib.abc.MetaPathFinder):
    """Is asked for modules that nobody else finds."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for what is none of our business.

        Raises:
            ImportError: An op, or a family, that has a contract and no class.
        """
        package, _, name = fullname.rpartition(".")
        if name.startswith("_") or not (package == _PACKAGE or package.startswith(f"{_PACKAGE}.")):
            return None
        said = sentence(name, package[len(_PACKAGE) + 1 :] or None)
        if said is None:
            return None
        if package == _PACKAGE and not name.endswith(_OPS):
            # Without the name that was looked for: Python keeps silent about an error that has it.
            raise ModuleNotFoundError(said)
        raise ImportError(said, name=package)


class Package(ModuleType):
    """The package, which gives each family's module words for what that lacks."""

    def __setattr__(self, name: str, value: object) -> None:
        """Take a submodule that has been imported."""
        super().__setattr__(name, value)
        if isinstance(value, ModuleType) and value.__name__ == f"{_PACKAGE}.{name}":
            _prepare(value, name)


def _prepare(module: ModuleType, family: str) -> None:
    def __getattr__(name: str) -> NoReturn:
        plain = f"module {module.__name__!r} has no attribute {name!r}"
        raise AttributeError((None if name.startswith("_") else sentence(name, family)) or plain)

    if not family.startswith("_"):
        vars(module).setdefault("__getattr__", __getattr__)
        vars(module).setdefault("__path__", [])


def install(package: ModuleType) -> None:
    """Have the package tell what it lacks."""
    package.__class__ = Package
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
