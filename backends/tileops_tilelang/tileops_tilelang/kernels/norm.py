"""Normalizations over trailing axes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from math import prod

import torch
from torch import Tensor

from tileops_core.interfaces.norm import (
    FusedAddLayerNormCall,
    FusedAddLayerNormFwdInterface,
    FusedAddRMSNormCall,
    FusedAddRMSNormFwdInterface,
    LayerNormCall,
    LayerNormFwdInterface,
    RMSNormCall,
    RMSNormFwdInterface,
)
from tileops_tilelang.cpu.call import agree, disagreement, in_large_pages, threads_for
from tileops_tilelang.cpu.functions import function
from tileops_tilelang.kernels.base import SHORT_NAMES, CPUKernel, in_fresh_pages, slower


class RMSNormTileLang(CPUKernel, RMSNormFwdInterface):
    """RMSNorm in two passes over a row that stays in the first cache."""

    # How many partial sums are best depends on the processor's vectors and on the row.
    autotune_configs = ({"lanes": 32}, {"lanes": 16}, {"lanes": 64}, {"lanes": 128})

    def __init__(
        self,
        dtype: torch.dtype,
        length: int,
        eps: float,
        weighted: bool,
        config: Mapping[str, int] = autotune_configs[0],
    ) -> None:
        super().__init__(dtype)
        self.length, self.eps, self.weighted = length, eps, weighted
        self.config = config
        # The usual number goes unsaid, so that one library serves tuned and other kernels.
        choice = {} if config == self.autotune_configs[0] else config
        self.run = function("norm:rms_norm", dtype=SHORT_NAMES[dtype], weighted=weighted, **choice)

    def with_config(self, config: Mapping[str, int]) -> RMSNormTileLang:
        """The same with another number of partial sums."""
        return RMSNormTileLang(self.dtype, self.length, self.eps, self.weighted, config)

    def forward(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """Normalize."""
        length, count = self.length, x.numel()
        rows = count // length if length else 0
        if not (
            agree(x, self.dtype, rows * length)
            and (not self.weighted if weight is None else agree(weight, self.dtype, length))
        ):
            raise disagreement("RMSNorm", x=x, weight=weight)
        y = torch.empty_like(x)
        if count >= self.large:
            in_large_pages(y)
        self.run(
            x.data_ptr(),
            None if weight is None else weight.data_ptr(),
            y.data_ptr(),
            length,
            self.eps,
            rows,
            threads_for(count),
        )
        return y

    @classmethod
    def rows_and_columns(cls, call: RMSNormCall) -> tuple[int, int]:
        """The trailing axes are one row."""
        return _rows_and_columns(call.shape, call.normalized_shape)

    @classmethod
    def defers(cls, call: RMSNormCall) -> str | None:
        """Many short rows: joining the partial sums of a row costs more than the row."""
        return _many_short_rows(*cls.rows_and_columns(call))

    @classmethod
    def entry_for(cls, call: RMSNormCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per dtype, length of a row, eps and presence of the weight."""
        facts = (call.dtype, prod(call.normalized_shape), call.eps, call.has_weight)
        return facts, partial(cls, *facts)


class FusedAddRMSNormTileLang(CPUKernel, FusedAddRMSNormFwdInterface):
    """A sum and its RMSNorm without a pass over memory between them."""

    def __init__(self, dtype: torch.dtype, length: int, eps: float) -> None:
        super().__init__(dtype)
        self.length, self.eps = length, eps
        self.run = function("norm:fused_add_rms_norm", dtype=SHORT_NAMES[dtype])

    def forward(self, input: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Add and normalize."""
        length, count = self.length, input.numel()
        rows = count // length if length else 0
        if not (
            agree(input, self.dtype, rows * length)
            and agree(residual, self.dtype, count)
            and agree(weight, self.dtype, length)
        ):
            raise disagreement("FusedAddRMSNorm", input=input, residual=residual, weight=weight)
        y, r = torch.empty_like(input), torch.empty_like(input)
        if count >= self.large:
            in_large_pages(y)
            in_large_pages(r)
        self.run(
            input.data_ptr(),
            residual.data_ptr(),
            weight.data_ptr(),
            y.data_ptr(),
            r.data_ptr(),
            length,
            self.eps,
            rows,
            threads_for(count),
        )
        return y, r

    @classmethod
    def defers(cls, call: FusedAddRMSNormCall) -> str | None:
        """Many short rows: joining the partial sums of a row costs more than the row."""
        return _many_short_rows(*cls.rows_and_columns(call))

    @classmethod
    def entry_for(cls, call: FusedAddRMSNormCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per dtype, length of a row and eps."""
        facts = (call.dtype, call.shape[-1], call.eps)
        return facts, partial(cls, *facts)


class LayerNormTileLang(CPUKernel, LayerNormFwdInterface):
    """LayerNorm in three passes over a row that stays in the first cache."""

    def __init__(
        self, dtype: torch.dtype, length: int, eps: float, weighted: bool, shifted: bool
    ) -> None:
        super().__init__(dtype)
        self.length, self.eps, self.weighted, self.shifted = length, eps, weighted, shifted
        self.run = function(
            "norm:layer_norm", dtype=SHORT_NAMES[dtype], weighted=weighted, shifted=shifted
        )

    def forward(self, input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalize."""
        length, count = self.length, input.numel()
        rows = count // length if length else 0
        if not (
            agree(input, self.dtype, rows * length)
            and (not self.weighted if weight is None else agree(weight, self.dtype, length))
            and (not self.shifted if bias is None else agree(bias, self.dtype, length))
        ):
            raise disagreement("LayerNorm", input=input, weight=weight, bias=bias)
        y = torch.empty_like(input)
        if count >= self.large:
            in_large_pages(y)
        self.run(
            input.data_ptr(),
            None if weight is None else weight.data_ptr(),
            None if bias is None else bias.data_ptr(),
            y.data_ptr(),
            length,
            self.eps,
            rows,
            threads_for(count),
        )
        return y

    @classmethod
    def rows_and_columns(cls, call: LayerNormCall) -> tuple[int, int]:
        """The trailing axes are one row."""
        return _rows_and_columns(call.shape, call.normalized_shape)

    @classmethod
    def defers(cls, call: LayerNormCall) -> str | None:
        """Small calls, short rows, and what torch does in fewer passes."""
        return _layer_norm_defers(call.dtype, *cls.rows_and_columns(call))

    @classmethod
    def entry_for(cls, call: LayerNormCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per dtype, length of a row, eps, and presence of weight and bias."""
        length = prod(call.normalized_shape)
        facts = (call.dtype, length, call.eps, call.has_weight, call.has_bias)
        return facts, partial(cls, *facts)


class FusedAddLayerNormTileLang(CPUKernel, FusedAddLayerNormFwdInterface):
    """A sum and its LayerNorm without a pass over memory between them."""

    def __init__(self, dtype: torch.dtype, length: int, eps: float) -> None:
        super().__init__(dtype)
        self.length, self.eps = length, eps
        self.run = function("norm:fused_add_layer_norm", dtype=SHORT_NAMES[dtype])

    def forward(
        self, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add and normalize."""
        length, count = self.length, x.numel()
        rows = count // length if length else 0
        if not (
            agree(x, self.dtype, rows * length)
            and agree(residual, self.dtype, count)
            and agree(weight, self.dtype, length)
            and agree(bias, self.dtype, length)
        ):
            raise disagreement(
                "FusedAddLayerNorm", x=x, residual=residual, weight=weight, bias=bias
            )
        y, r = torch.empty_like(x), torch.empty_like(x)
        if count >= self.large:
            in_large_pages(y)
            in_large_pages(r)
        self.run(
            x.data_ptr(),
            residual.data_ptr(),
            weight.data_ptr(),
            bias.data_ptr(),
            y.data_ptr(),
            r.data_ptr(),
            length,
            self.eps,
            rows,
            threads_for(count),
        )
        return y, r

    @classmethod
    def defers(cls, call: FusedAddLayerNormCall) -> str | None:
        """Small calls, short rows, and what torch does in fewer passes."""
        return _layer_norm_defers(call.dtype, *cls.rows_and_columns(call))

    @classmethod
    def entry_for(cls, call: FusedAddLayerNormCall) -> tuple[Hashable, Callable[[], object]]:
        """One entry per dtype, length of a row and eps."""
        facts = (call.dtype, call.shape[-1], call.eps)
        return facts, partial(cls, *facts)


def _rows_and_columns(shape: tuple[int, ...], normalized_shape: tuple[int, ...]) -> tuple[int, int]:
    return prod(shape[: len(shape) - len(normalized_shape)]), prod(normalized_shape)


def _many_short_rows(rows: int, columns: int) -> str | None:
    # Measured on a Zen 4: 1,024 rows of 64 columns at 0.7 to 1.1 of the reference, 256 rows at
    # 1.2 to 2; from 128 columns on at 1.3 and more, whatever the number of rows.
    if rows > 256 and columns < 128:
        return slower("more than 256 rows of less than 128 columns")
    return None


def _layer_norm_defers(dtype: torch.dtype, rows: int, columns: int) -> str | None:
    # Measured on a Zen 4, against torch's own layer norm. Where the result is fresh memory: 1.8
    # and more. float16: torch converts it in one pass of three, 0.6 to 1.0. float32: 1.1 to 1.4
    # from 256 columns and 65,536 elements on, but 0.6 to 1.0 between 2 M elements and 32 MiB, where
    # the tensors leave the caches. bfloat16: 1.0 to 1.5 from 256 columns and 32,768 elements on.
    elements = rows * columns
    if in_fresh_pages(dtype, elements):
        return None
    if dtype is torch.float16:
        return slower("float16 below 32 MiB")
    if columns < 256:
        return slower("rows of less than 256 columns")
    least = 1 << (15 if dtype is torch.bfloat16 else 16)
    if elements < least:
        return slower(f"less than {least:,} elements")
    if dtype is torch.float32 and elements >= 1 << 21:
        return slower("float32 between 8 and 32 MiB")
    return None
