"""The ops, one module per family; each is also found here by its name.

Nothing is imported until a name is asked for, and then its family alone.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from tileops_core.collector import rare_collection
from tileops_core.ops._index import FAMILIES, OPS
from tileops_core.ops._missing import install, sentence
from tileops_core.suggest import did_you_mean

__all__ = [*OPS, *FAMILIES]


def __getattr__(name: str) -> Any:
    """An op, or a family's module, imported at its first use."""
    if name in OPS:
        with rare_collection():
            value = getattr(import_module(f"{__name__}.{OPS[name]}"), name)
    elif name in FAMILIES:
        with rare_collection():
            return import_module(f"{__name__}.{name}")
    else:
        unknown = f"module {__name__!r} has no op {name!r}{did_you_mean(name, __all__)}"
        raise AttributeError((None if name.startswith("_") else sentence(name)) or unknown)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


install(sys.modules[__name__])
