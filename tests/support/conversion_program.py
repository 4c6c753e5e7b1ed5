"""A program that only converts: what is read and written, nothing else."""

# ruff: noqa: I002 -- TileLang evaluates the annotations of a program's function

from typing import Any

import tilelang.language as T

from tileops_tilelang.programs.program import Program
from tileops_tilelang.programs.schedule import Schedule
from tileops_tilelang.programs.strips import Columns, Strip


def converted(schedule: Schedule, dtype: str, out_dtype: str, *, step: int) -> Program:
    """``y = x`` in another dtype, read and written at every ``step``-th element of a row."""
    element, out = schedule.element(dtype), schedule.element(out_dtype)
    M, N = T.dynamic("M"), T.dynamic("N")
    columns = Columns(N)

    def strips(buffer: Any, of: Any, row: Any) -> list[Strip]:
        return [Strip(buffer, of, (row,), start, step) for start in range(step)]

    @T.prim_func
    def main(
        x: T.Tensor((M, step * N), element.storage),
        y: T.Tensor((M, step * N), out.storage),
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            schedule.each(
                columns,
                strips(x, element, begin + i),
                strips(y, out, begin + i),
                lambda *values: values,
            )

    return Program(main, ("x", "y"), (("N", "int32"),))
