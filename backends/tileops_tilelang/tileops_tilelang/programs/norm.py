"""Normalizations of rows: statistics in float32, one rounding at the end."""

from typing import Any

import tilelang.language as T

from tileops_tilelang.programs.program import Program
from tileops_tilelang.programs.schedule import Schedule
from tileops_tilelang.programs.strips import Columns, Strip


def rms_norm(schedule: Schedule, dtype: str, *, weighted: bool) -> Program:
    """``y = x / sqrt(mean(x**2) + eps) [* w]``."""
    element = schedule.element(dtype)
    M, N = T.dynamic("M"), T.dynamic("N")
    columns = Columns(N)

    @T.prim_func
    def main(
        x: T.Tensor((M, N), element.storage),
        w: T.Tensor((N,), element.storage),
        y: T.Tensor((M, N), element.storage),
        eps: T.float32,
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            row = Strip(x, element, (begin + i,))
            scale = schedule.cell()
            schedule.total(scale, columns, [row], lambda v: v * v)
            scale[0] = T.rsqrt(scale[0] / T.cast(N, "float32") + eps)
            schedule.each(
                columns,
                [row, *_given(w, element, weighted)],
                [Strip(y, element, (begin + i,))],
                lambda v, *w: (_scaled(v * scale[0], w),),
            )

    return Program(main, ("x", "w", "y"), (("N", "int32"), ("eps", "float32")))


def fused_add_rms_norm(schedule: Schedule, dtype: str) -> Program:
    """``r = x + residual`` and ``y``, the RMS norm of the sum before it is rounded."""
    element = schedule.element(dtype)
    M, N = T.dynamic("M"), T.dynamic("N")
    columns = Columns(N)

    @T.prim_func
    def main(
        x: T.Tensor((M, N), element.storage),
        residual: T.Tensor((M, N), element.storage),
        w: T.Tensor((N,), element.storage),
        y: T.Tensor((M, N), element.storage),
        r: T.Tensor((M, N), element.storage),
        eps: T.float32,
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            pair = [Strip(x, element, (begin + i,)), Strip(residual, element, (begin + i,))]
            scale = schedule.cell()
            schedule.total(scale, columns, pair, lambda a, b: (a + b) * (a + b))
            scale[0] = T.rsqrt(scale[0] / T.cast(N, "float32") + eps)
            schedule.each(
                columns,
                [*pair, Strip(w, element)],
                [Strip(y, element, (begin + i,)), Strip(r, element, (begin + i,))],
                lambda a, b, w: ((a + b) * scale[0] * w, a + b),
            )

    return Program(main, ("x", "residual", "w", "y", "r"), (("N", "int32"), ("eps", "float32")))


def layer_norm(schedule: Schedule, dtype: str, *, weighted: bool, shifted: bool) -> Program:
    """``y = (x - mean) / sqrt(var + eps) [* w] [+ b]`` with the biased variance."""
    element = schedule.element(dtype)
    M, N = T.dynamic("M"), T.dynamic("N")
    columns = Columns(N)

    @T.prim_func
    def main(
        x: T.Tensor((M, N), element.storage),
        w: T.Tensor((N,), element.storage),
        b: T.Tensor((N,), element.storage),
        y: T.Tensor((M, N), element.storage),
        eps: T.float32,
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            row = Strip(x, element, (begin + i,))
            mean, scale = schedule.cell(), schedule.cell()
            schedule.total(mean, columns, [row], lambda v: v)
            mean[0] = mean[0] / T.cast(N, "float32")
            # A second pass over the row, because a difference of two large sums would cancel.
            schedule.total(scale, columns, [row], lambda v: (v - mean[0]) * (v - mean[0]))
            scale[0] = T.rsqrt(scale[0] / T.cast(N, "float32") + eps)
            schedule.each(
                columns,
                [row, *_given(w, element, weighted), *_given(b, element, shifted)],
                [Strip(y, element, (begin + i,))],
                lambda v, *wb: (
                    _affine((v - mean[0]) * scale[0], wb, weighted=weighted, shifted=shifted),
                ),
            )

    return Program(main, ("x", "w", "b", "y"), (("N", "int32"), ("eps", "float32")))


def fused_add_layer_norm(schedule: Schedule, dtype: str) -> Program:
    """``r = x + residual`` and ``y``, the layer norm of the sum before it is rounded."""
    element = schedule.element(dtype)
    M, N = T.dynamic("M"), T.dynamic("N")
    columns = Columns(N)

    @T.prim_func
    def main(
        x: T.Tensor((M, N), element.storage),
        residual: T.Tensor((M, N), element.storage),
        w: T.Tensor((N,), element.storage),
        b: T.Tensor((N,), element.storage),
        y: T.Tensor((M, N), element.storage),
        r: T.Tensor((M, N), element.storage),
        eps: T.float32,
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            pair = [Strip(x, element, (begin + i,)), Strip(residual, element, (begin + i,))]
            mean, scale = schedule.cell(), schedule.cell()
            schedule.total(mean, columns, pair, lambda a, c: a + c)
            mean[0] = mean[0] / T.cast(N, "float32")
            schedule.total(scale, columns, pair, lambda a, c: (a + c - mean[0]) * (a + c - mean[0]))
            scale[0] = T.rsqrt(scale[0] / T.cast(N, "float32") + eps)
            schedule.each(
                columns,
                [*pair, Strip(w, element), Strip(b, element)],
                [Strip(y, element, (begin + i,)), Strip(r, element, (begin + i,))],
                lambda a, c, w, b: ((a + c - mean[0]) * scale[0] * w + b, a + c),
            )

    return Program(
        main, ("x", "residual", "w", "b", "y", "r"), (("N", "int32"), ("eps", "float32"))
    )


def _given(buffer: Any, element: Any, is_given: bool) -> list[Strip]:
    """A vector's strip, or nothing; a function never touches what was not passed."""
    return [Strip(buffer, element)] if is_given else []


def _scaled(value: Any, weights: tuple[Any, ...]) -> Any:
    return value * weights[0] if weights else value


def _affine(value: Any, vectors: tuple[Any, ...], *, weighted: bool, shifted: bool) -> Any:
    if weighted:
        value = value * vectors[0]
    return value + vectors[-1] if shifted else value
