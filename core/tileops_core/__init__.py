"""TileOPs: operators for LLM inference behind one contract, computed by whoever is installed.

Construct an op once, call it many times, and choose who computes with ``target=``::

    from tileops_core.ops import RMSNormFwdOp

    op = RMSNormFwdOp(normalized_shape=(4096,))
    y = op(x, weight)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tileops_core.arrival import define_operators
from tileops_core.collector import rare_collection
from tileops_core.lazily import lazily

if TYPE_CHECKING:
    from tileops_core import backend, errors, interfaces, kernels, ops
    from tileops_core.backend.order import set_backend_order
    from tileops_core.backend.registry import REGISTRY
    from tileops_core.backend.targets import (
        BUILTIN,
        default_target,
        registered_targets,
        set_default_target,
    )
    from tileops_core.call.checking import checks
    from tileops_core.op.base import Op
    from tileops_core.spec.generate_schema import manifest_schema
    from tileops_core.tensor_spec import TensorSpec

    __version__: str
    load_failures = REGISTRY.load_failures

__all__ = [
    "BUILTIN",
    "Op",
    "TensorSpec",
    "backend",
    "checks",
    "default_target",
    "errors",
    "interfaces",
    "kernels",
    "load_failures",
    "manifest_schema",
    "ops",
    "registered_targets",
    "set_backend_order",
    "set_default_target",
]

_HOMES = {
    "BUILTIN": "backend.targets",
    "Op": "op.base",
    "TensorSpec": "tensor_spec",
    "checks": "call.checking",
    "default_target": "backend.targets",
    "manifest_schema": "spec.generate_schema",
    "registered_targets": "backend.targets",
    "set_backend_order": "backend.order",
    "set_default_target": "backend.targets",
}


_of_home, _ = lazily(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that importing the package stays cheap."""
    if name in __all__ and name not in _HOMES:
        if name != "load_failures":
            return import_module(f"tileops_core.{name}")
        value = import_module("tileops_core.backend.registry").REGISTRY.load_failures
    elif name == "__version__":
        from importlib.metadata import version

        value = version("tileops-core")
    else:
        return _of_home(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__file__", "__name__", "__path__", "__version__"])


with rare_collection():
    define_operators()
