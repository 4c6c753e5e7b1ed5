"""What this distribution registers: kernel types compiled by TileLang, under the key ``tilelang``,
and what keeps them from working on a machine.

Only names: a kernel's module is imported when an op first needs it, and TileLang itself when a
program is first built.
"""

from __future__ import annotations

from tileops_core.backend import DiagnosticRegistration, KernelTypeRegistration, hookimpl

_KERNEL_TYPES = {
    "ArgmaxFwdOp": "reduction:ArgmaxTileLang",
    "FusedAddLayerNormFwdOp": "norm:FusedAddLayerNormTileLang",
    "FusedAddRMSNormFwdOp": "norm:FusedAddRMSNormTileLang",
    "GELUAndMulFwdOp": "elementwise:GatedTileLang",
    "LayerNormFwdOp": "norm:LayerNormTileLang",
    "RMSNormFwdOp": "norm:RMSNormTileLang",
    "RoPEFwdOp": "rope:RoPETileLang",
    "RoPENeoxPositionIdsFwdOp": "rope:RoPENeoxPositionIdsTileLang",
    "SiLUAndMulFwdOp": "elementwise:GatedTileLang",
    "SoftmaxFwdOp": "reduction:SoftmaxTileLang",
}


@hookimpl
def tileops_kernel_types() -> list[KernelTypeRegistration]:
    """One kernel type per op that has a program."""
    return [
        KernelTypeRegistration(op, "tilelang", f"tileops_tilelang.kernels.{kernel_type}")
        for op, kernel_type in _KERNEL_TYPES.items()
    ]


@hookimpl
def tileops_diagnostics() -> list[DiagnosticRegistration]:
    """What programs for the CPU are built with."""
    return [
        DiagnosticRegistration("C++ compiler", "tileops_tilelang.cpu.toolchain:missing"),
    ]
