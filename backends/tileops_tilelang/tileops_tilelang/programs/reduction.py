"""Functions of whole rows: softmax and argmax."""

from typing import Any

import tilelang.language as T

from tileops_tilelang.programs.constants import constant
from tileops_tilelang.programs.program import Program
from tileops_tilelang.programs.schedule import Schedule
from tileops_tilelang.programs.strips import Columns, Strip


def softmax(schedule: Schedule, dtype: str, *, out_dtype: str) -> Program:
    """``y = exp(x - max) / sum``; ``out_dtype`` is ``dtype``, or float32."""
    element, out = schedule.element(dtype), schedule.element(out_dtype)
    M, N = T.dynamic("M"), T.dynamic("N")
    columns = Columns(N)
    finish = _scale_stored if schedule.rereads and out_dtype == "float32" else _compute_twice

    @T.prim_func
    def main(
        x: T.Tensor((M, N), element.storage),
        y: T.Tensor((M, N), out.storage),
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            row, result = Strip(x, element, (begin + i,)), Strip(y, out, (begin + i,))
            most, scale = schedule.cell(), schedule.cell()
            schedule.greatest(most, columns, [row])
            finish(schedule, columns, row, result, most, scale)

    return Program(main, ("x", "y"), (("N", "int32"),))


def _scale_stored(
    schedule: Any, columns: Columns, row: Strip, result: Strip, most: Any, scale: Any
) -> None:
    """Exponentials once, kept in the result, which is as precise as they are."""
    schedule.each(columns, [row], [result], lambda v: (T.exp(v - most[0]),))
    schedule.total(scale, columns, [result], lambda v: v)
    T.buffer_store(scale, constant(1.0) / scale[0], [0])
    schedule.each(columns, [result], [result], lambda v: (v * scale[0],))


def _compute_twice(
    schedule: Any, columns: Columns, row: Strip, result: Strip, most: Any, scale: Any
) -> None:
    schedule.total(scale, columns, [row], lambda v: T.exp(v - most[0]))
    T.buffer_store(scale, constant(1.0) / scale[0], [0])
    schedule.each(columns, [row], [result], lambda v: (T.exp(v - most[0]) * scale[0],))


def argmax(schedule: Schedule, dtype: str) -> Program:
    """The first column of the maximum; a NaN is greater than anything. Rows are not empty."""
    element = schedule.element(dtype)
    M, N = T.dynamic("M"), T.dynamic("N")
    columns = Columns(N)

    @T.prim_func
    def main(
        x: T.Tensor((M, N), element.storage),
        y: T.Tensor((M,), "int64"),
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            row = Strip(x, element, (begin + i,))
            most, place = schedule.cell(), schedule.place()
            schedule.greatest(most, columns, [row])
            # Where the maximum is a number, no element is NaN.
            schedule.first(place, columns, [row], lambda v: (v == most[0]) | T.isnan(v))
            y[begin + i] = T.cast(place[0], "int64")

    return Program(main, ("x", "y"), (("N", "int32"),))
