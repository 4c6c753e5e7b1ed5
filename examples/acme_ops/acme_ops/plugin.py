"""What TileOPs is told of this distribution.

It imports the classes, so that commands which load this module find them.
"""

from __future__ import annotations

from pathlib import Path

from acme_ops.ops import ENTRIES, SoftcapFwdOp
from tileops_core.backend import (
    InterfaceRegistration,
    KernelTypeRegistration,
    OracleRegistration,
    hookimpl,
)

_OP = SoftcapFwdOp.__name__


@hookimpl
def tileops_manifest_paths() -> list[Path]:
    """The entries."""
    return [ENTRIES]


@hookimpl
def tileops_kernel_interfaces() -> list[InterfaceRegistration]:
    """What a kernel has to be."""
    return [InterfaceRegistration(_OP, "softcap", "acme_ops.interfaces:SoftcapFwdInterface")]


@hookimpl
def tileops_kernel_types() -> list[KernelTypeRegistration]:
    """A kernel."""
    return [KernelTypeRegistration(_OP, "acme_ops", "acme_ops.kernels:Softcap")]


@hookimpl
def tileops_oracles() -> list[OracleRegistration]:
    """What the conformance suite compares with, called with float64 tensors."""
    return [OracleRegistration(_OP, "acme_ops.kernels:softcap")]
