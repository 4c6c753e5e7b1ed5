"""Rotary position embedding."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable
from functools import partial
from math import prod

import torch
from torch import Tensor

from tileops_core.interfaces.rope import (
    RoPECall,
    RoPEFwdInterface,
    RoPENeoxPositionIdsCall,
    RoPENeoxPositionIdsFwdInterface,
    greatest_position,
)
from tileops_reference.kernels.rope import RotaryTables
from tileops_tilelang.cpu.call import agree, disagreement, in_large_pages, threads_for
from tileops_tilelang.cpu.functions import function
from tileops_tilelang.kernels.base import CPU, SHORT_NAMES, CPUKernel, slower


class RoPETileLang(CPUKernel, RoPEFwdInterface):
    """Rotary embedding by index, in one pass, from tables in float32."""

    def __init__(self, dtype: torch.dtype, layout: str, rotary_dim: int, base: float) -> None:
        super().__init__(dtype)
        self.rotary_dim = rotary_dim
        self.tables = RotaryTables(rotary_dim, base)
        self.run = function(
            "rope:rope", dtype=SHORT_NAMES[dtype], interleaved=layout == "interleaved"
        )

    def forward(self, x: Tensor) -> Tensor:
        """Turn every pair."""
        shape, width = x.shape, self.rotary_dim
        count = x.numel()
        rows = count // width
        if not agree(x, self.dtype, rows * width) or len(shape) not in (2, 4) or shape[-1] != width:
            raise disagreement("RoPE", x=x)
        length, heads = (shape[0], 1) if len(shape) == 2 else (shape[1], shape[2])
        y = torch.empty_like(x)
        if not count:
            return y
        if count >= self.large:
            in_large_pages(y)
        cosine, sine = self.tables.first(length, CPU)
        self.run(
            x.data_ptr(),
            cosine.data_ptr(),
            sine.data_ptr(),
            y.data_ptr(),
            width,
            length,
            width // 2,
            heads,
            rows,
            threads_for(count),
        )
        return y

    @classmethod
    def defers(cls, call: RoPECall) -> str | None:
        """Interleaved pairs in float16, which are converted one by one."""
        # Measured on a Zen 4: 0.6 to 1.0 of the reference between 16,384 elements and 2 M, 1.1 and
        # more outside; every other layout and dtype at 1.3 to 20.
        elements = prod(call.shape)
        if (
            call.layout == "interleaved"
            and call.dtype is torch.float16
            and 1 << 14 <= elements < 1 << 21
        ):
            return slower("interleaved pairs in float16")
        return None

    @classmethod
    def entry_for(cls, call: RoPECall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per dtype, kind of pairs, width and base."""
        facts = (call.dtype, call.layout, call.rotary_dim, call.base)
        return facts, partial(cls, *facts)


class RoPENeoxPositionIdsTileLang(CPUKernel, RoPENeoxPositionIdsFwdInterface):
    """Rotary embedding by position: a row of the tables per token, looked up on the way."""

    def __init__(
        self,
        dtype: torch.dtype,
        positions_dtype: torch.dtype,
        rotary_dim: int,
        max_position: int,
        base: float,
    ) -> None:
        super().__init__(dtype)
        self.positions_dtype, self.rotary_dim = positions_dtype, rotary_dim
        self.max_position = max_position
        self.tables = RotaryTables(rotary_dim, base)
        self.run = function(
            "rope:rope_position_ids",
            dtype=SHORT_NAMES[dtype],
            index_dtype=str(positions_dtype).removeprefix("torch."),
        )

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Turn the leading features and copy the others."""
        tokens, heads, width = x.shape
        if (
            not agree(x, self.dtype, tokens * heads * width)
            or not agree(positions, self.positions_dtype, tokens)
            or width < self.rotary_dim
        ):
            raise disagreement("RoPENeoxPositionIds", x=x, positions=positions)
        y = torch.empty_like(x)
        if x.numel() >= self.large:
            in_large_pages(y)
        cosine, sine = self.tables.first(1, CPU)
        if self._run(x, positions, cosine, sine, y):
            return y
        # Either one is out of range, which this raises, or the tables are too short.
        greatest = greatest_position(positions, self.max_position)
        if greatest < self.tables.most_rows:
            cosine, sine = self.tables.first(greatest + 1, CPU)
        else:
            cosine, sine = self.tables.rows_of(positions, greatest + 1)
            positions = torch.arange(tokens, dtype=self.positions_dtype, device=CPU)
        done = self._run(x, positions, cosine, sine, y, limit=cosine.shape[0])
        assert done, "every position has a row"
        return y

    def _run(
        self,
        x: Tensor,
        positions: Tensor,
        cosine: Tensor,
        sine: Tensor,
        y: Tensor,
        limit: int | None = None,
    ) -> bool:
        """Turn what there are angles for; whether that was everything."""
        tokens, heads, width = x.shape
        missed = ctypes.c_int32(0)
        self.run(
            x.data_ptr(),
            positions.data_ptr(),
            cosine.data_ptr(),
            sine.data_ptr(),
            y.data_ptr(),
            ctypes.addressof(missed),
            width,
            # Tables may reach further than positions are allowed to.
            min(cosine.shape[0], self.max_position) if limit is None else limit,
            self.rotary_dim // 2,
            heads,
            tokens * heads,
            threads_for(x.numel()),
        )
        return not missed.value

    @classmethod
    def rows_and_columns(cls, call: RoPENeoxPositionIdsCall) -> tuple[int, int]:
        """A row per token and head; positions are counted like columns."""
        return prod(call.shape[:-1]), max(call.shape[-1], call.shape[0])

    @classmethod
    def entry_for(cls, call: RoPENeoxPositionIdsCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per pair of dtypes, width, bound and base."""
        facts = (call.dtype, call.positions_dtype, call.rotary_dim, call.max_position, call.base)
        return facts, partial(cls, *facts)
