"""Rotary position embedding: pairs of features turned by an angle per position."""

from typing import Any

import tilelang.language as T

from tileops_tilelang.programs.elements import Element
from tileops_tilelang.programs.program import Program
from tileops_tilelang.programs.schedule import Schedule
from tileops_tilelang.programs.strips import Columns, Strip


def rope(schedule: Schedule, dtype: str, *, interleaved: bool) -> Program:
    """Rows are (sequence, position, head); row m stands at position ``m // heads % positions``.

    ``cosine`` and ``sine`` are float32 ``[positions, half]``, one column per pair of features.
    """
    element, table = schedule.element(dtype), schedule.element("float32")
    M, D = T.dynamic("M"), T.dynamic("D")
    positions, half = T.dynamic("positions"), T.dynamic("half")
    columns = Columns(half)

    @T.prim_func
    def main(
        x: T.Tensor((M, D), element.storage),
        cosine: T.Tensor((positions, half), "float32"),
        sine: T.Tensor((positions, half), "float32"),
        y: T.Tensor((M, D), element.storage),
        heads: T.int32,
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            # Kept in a variable, or the division would be done for every column.
            at = schedule.place()
            at[0] = (begin + i) // heads % positions
            schedule.each(
                columns,
                [
                    *_pair(x, element, begin + i, columns, interleaved),
                    Strip(cosine, table, (at[0],)),
                    Strip(sine, table, (at[0],)),
                ],
                _pair(y, element, begin + i, columns, interleaved),
                _turned,
            )

    return Program(
        main,
        ("x", "cosine", "sine", "y"),
        (("D", "int32"), ("positions", "int32"), ("half", "int32"), ("heads", "int32")),
    )


def rope_position_ids(schedule: Schedule, dtype: str, *, index_dtype: str) -> Program:
    """Rows are (token, head); token t stands at position ``ids[t]``.

    The features from ``2 * half`` on are copied. Rows of an id outside ``[0, positions)`` stay
    unwritten, and ``missed`` becomes 1.
    """
    element, table = schedule.element(dtype), schedule.element("float32")
    M, D, tokens = T.dynamic("M"), T.dynamic("D"), T.dynamic("tokens")
    positions, half = T.dynamic("positions"), T.dynamic("half")
    columns, rest = Columns(half), Columns(D - 2 * half)

    @T.prim_func
    def main(
        x: T.Tensor((M, D), element.storage),
        ids: T.Tensor((tokens,), index_dtype),
        cosine: T.Tensor((positions, half), "float32"),
        sine: T.Tensor((positions, half), "float32"),
        y: T.Tensor((M, D), element.storage),
        missed: T.Tensor((1,), "int32"),
        heads: T.int32,
        begin: T.int32,
        count: T.int32,
    ):
        with schedule.rows(count) as i:
            at = schedule.place()
            at[0] = _checked(ids[(begin + i) // heads], positions)
            if at[0] >= 0:
                schedule.each(
                    columns,
                    [
                        *_pair(x, element, begin + i, columns, False),
                        Strip(cosine, table, (at[0],)),
                        Strip(sine, table, (at[0],)),
                    ],
                    _pair(y, element, begin + i, columns, False),
                    _turned,
                )
                schedule.each(
                    rest,
                    [Strip(x, element, (begin + i,), 2 * columns.count)],
                    [Strip(y, element, (begin + i,), 2 * columns.count)],
                    lambda v: (v,),
                )
            else:
                missed[0] = 1

    return Program(
        main,
        ("x", "ids", "cosine", "sine", "y", "missed"),
        (("D", "int32"), ("positions", "int32"), ("half", "int32"), ("heads", "int32")),
    )


def _pair(buffer: Any, element: Element, row: Any, half: Columns, interleaved: bool) -> list[Strip]:
    """The two features that turn together: neighbors, or half a head apart."""
    if interleaved:
        return [Strip(buffer, element, (row,), 0, 2), Strip(buffer, element, (row,), 1, 2)]
    return [Strip(buffer, element, (row,)), Strip(buffer, element, (row,), half.count)]


def _checked(position: Any, positions: Any) -> Any:
    """A position that the tables have, as an int32; -1 for others."""
    inside = (position >= 0) & (position < positions)
    return T.Select(inside, T.cast(position, "int32"), T.int32(-1))


def _turned(a: Any, b: Any, cosine: Any, sine: Any) -> tuple[Any, Any]:
    return a * cosine - b * sine, b * cosine + a * sine
