"""Rotary position embedding."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import torch
from torch import Tensor

from tileops_core.interfaces.rope import (
    LongRoPECall,
    LongRoPEFwdInterface,
    RoPECall,
    RoPEFwdInterface,
    RoPENeoxPositionIdsCall,
    RoPENeoxPositionIdsFwdInterface,
)
from tileops_reference.functions import rope
from tileops_reference.functions.rope import Tables
from tileops_reference.kernels.general import GeneralKernel

_FEWEST_ROWS = 256
"""Rows that a first table has: a short prompt's."""

_MOST_BYTES = 1 << 27
"""Kept of cosines and sines together per device; for more rows they are made anew at each call.

A million positions at 32 features, 131,072 at 256.
"""


class RotaryTables:
    """Cosines and sines of the first positions in float32, per device: made when first needed.

    They grow by doubling. No lock: threads that miss together each make a table and keep one, and
    a table is never changed once it is there.
    """

    def __init__(
        self,
        features: int,
        base: float,
        factors: Tensor | None = None,
        amplitude: float = 1.0,
    ) -> None:
        self.features, self.base = features, base
        self.factors, self.amplitude = factors, amplitude
        self.most_rows = _MOST_BYTES // (4 * features)
        self._kept: dict[torch.device, Tables] = {}
        self._outgrown: list[Tables] = []

    def first(self, rows: int, device: torch.device) -> Tables:
        """Tables on a device with at least so many rows."""
        kept = self._kept.get(device)
        if kept is not None and kept[0].shape[0] >= rows:
            return kept
        if rows > self.most_rows:
            return self._made(rows, device)
        doubled = max(_FEWEST_ROWS, 1 << max(rows - 1, 0).bit_length())
        made = self._made(min(doubled, self.most_rows), device)
        if kept is not None and device.type != "cpu":
            # Another stream, or a captured graph, may read it still.
            self._outgrown.append(kept)
        self._kept[device] = made
        return made

    def rows_of(self, positions: Tensor, bound: int) -> Tables:
        """The rows of positions that are all in ``[0, bound)``."""
        if bound > self.most_rows:
            return self._at(positions)
        cos, sin = self.first(bound, positions.device)
        return cos.index_select(0, positions), sin.index_select(0, positions)

    def _made(self, rows: int, device: torch.device) -> Tables:
        # Outside inference mode, because what is kept outlives the call that needs it first. On
        # the CPU, because not every device has float64.
        with torch.inference_mode(False), torch.no_grad():
            cos, sin = self._at(torch.arange(rows, device="cpu"))
            return cos.to(device), sin.to(device)

    def _at(self, positions: Tensor) -> Tables:
        return rope.rotary_tables(
            positions, self.features, self.base, torch.float32, self.factors, self.amplitude
        )


class RoPEReference(GeneralKernel, RoPEFwdInterface):
    """Rotary embedding by index."""

    def __init__(self, layout: str, rotary_dim: int, base: float) -> None:
        self.interleaved = layout == "interleaved"
        self.tables = RotaryTables(rotary_dim, base)

    def forward(self, x: Tensor) -> Tensor:
        """Turn every pair."""
        length = x.shape[0 if x.ndim == 2 else 1]
        tables = self.tables.first(length, x.device)
        return rope.turned_in_order(x, tables, self.interleaved)

    @classmethod
    def entry_for(cls, call: RoPECall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per kind of pairs, width and base."""
        facts = (call.layout, call.rotary_dim, call.base)
        return facts, partial(cls, *facts)


class RoPENeoxPositionIdsReference(GeneralKernel, RoPENeoxPositionIdsFwdInterface):
    """Rotary embedding by position."""

    def __init__(self, rotary_dim: int, max_position: int, base: float) -> None:
        self.rotary_dim, self.max_position = rotary_dim, max_position
        self.tables = RotaryTables(rotary_dim, base)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turn the leading features and copy the others."""
        return rope.turned_at(x, positions, self.max_position, self.rotary_dim, self.tables.rows_of)

    @classmethod
    def entry_for(cls, call: RoPENeoxPositionIdsCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per width, bound and base."""
        facts = (call.rotary_dim, call.max_position, call.base)
        return facts, partial(cls, *facts)


class LongRoPEReference(GeneralKernel, LongRoPEFwdInterface):
    """Rotary embedding by index, of angles that are divided by factors, and scaled."""

    def __init__(self, rotary_dim: int, base: float, amplitude: float) -> None:
        self.facts = rotary_dim, base
        self.amplitude = amplitude
        self.tables: RotaryTables | None = None

    def forward(self, x: Tensor, *, rescale_factors: Tensor | None) -> Tensor:
        """Turn every pair and scale it."""
        tables = self.tables
        if tables is None:
            # The factors are the same at every call, on whatever device; angles are computed on
            # the CPU.
            with torch.inference_mode(False), torch.no_grad():
                factors = None if rescale_factors is None else rescale_factors.cpu()
            self.tables = tables = RotaryTables(*self.facts, factors, self.amplitude)
        length = x.shape[0 if x.ndim == 2 else 1]
        return rope.turned_in_order(x, tables.first(length, x.device), False)

    @classmethod
    def entry_for(cls, call: LongRoPECall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per width, base and amplitude, and for factors of a dtype or none."""
        facts = (call.rotary_dim, call.base, call.amplitude)
        return (*facts, call.factors), partial(cls, *facts)
