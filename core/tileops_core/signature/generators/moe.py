"""Generators for mixtures of experts: who is routed where, and where the experts' rows lie.

A layout is an ``MGroupedLayout``: read here are its ``kind``, and then ``max_m`` of a masked one,
``alignment`` and ``metadata_kind`` of a contiguous one.
"""

from __future__ import annotations

from typing import Any

from tileops_core.signature.generators.draws import Draws
from tileops_core.signature.generators.model import Generator, Nested, at_least, number
from tileops_core.signature.primitives import PrimitiveError
from tileops_core.signature.primitives.families import LAYOUT
from tileops_core.signature.values import balanced


def _topk_ids(draws: Draws, tokens: int, k: int, experts: int) -> Nested:
    """The experts that each token is routed to, ``[tokens, k]``; those of a token differ.

    >>> topk_ids(3, 2, 8)
    [[3, 0], [5, 6], [7, 3]]
    """
    return [draws.sample(experts, k) for _ in range(tokens)]


def _topk_ids_shape(tokens: int, k: int, experts: int) -> tuple[int, ...]:
    if tokens and k > experts:
        raise PrimitiveError(f"there are no {k} different ones of {experts} experts")
    return tokens, k


def _layout_metadata(layout: Any, rows: int, experts: int) -> Nested:
    """What tells where each expert's rows lie in a buffer of ``rows`` rows.

    ``masked``: how many of its ``max_m`` rows each expert fills, ``[experts]``; from none to all.

    ``contiguous``: the whole buffer is shared out in equal parts, in multiples of ``alignment``;
    the last rows of an aligned part are padding, up to ``alignment - 1``. With the metadata kind
    ``physical_psum`` where each expert's last row ends, ``[experts]``; with ``per_row`` each row's
    expert, -1 for padding, ``[rows]``.

    >>> moe.layout_metadata(masked, 0, 4)
    [0, 2, 5, 8]
    >>> moe.layout_metadata(aligned, 16, 3)
    [8, 11, 14]
    """
    if layout.kind == "masked":
        return [layout.max_m * e // max(1, experts - 1) for e in range(experts)]
    alignment = layout.alignment
    ends, owners, start = [], [], 0
    for expert, blocks in enumerate(balanced(rows // alignment, experts)):
        part = blocks * alignment
        padding = expert % alignment if part else 0
        ends.append(start + part - padding)
        owners += [*[expert] * (part - padding), *[-1] * padding]
        start += part
    return ends if layout.metadata_kind == "physical_psum" else owners


def _layout_metadata_shape(layout: Any, rows: int, experts: int) -> tuple[int, ...]:
    at_least(0, rows=rows)
    if layout.kind == "masked":
        return (experts,)
    if rows % layout.alignment:
        raise PrimitiveError(f"{rows} rows are no multiple of the alignment {layout.alignment}")
    if rows and experts < 1:
        raise PrimitiveError(f"{rows} rows belong to none of {experts} experts")
    return (experts,) if layout.metadata_kind == "physical_psum" else (rows,)


def _masked_routed_metadata(layout: Any, experts: int, routes: int) -> Nested:
    """How many rows each expert of a masked layout gets of ``routes`` routed rows, ``[experts]``.

    The rows are shared out evenly; an expert drops what exceeds its ``max_m``.

    >>> moe.masked_routed_metadata(masked, 4, 20)
    [5, 5, 5, 5]
    """
    return [min(layout.max_m, rows) for rows in balanced(routes, experts)]


def _masked_routed_metadata_shape(layout: Any, experts: int, routes: int) -> tuple[int, ...]:
    at_least(0, routes=routes)
    if layout.kind != "masked":
        raise PrimitiveError(f"the layout is {layout.kind}, a masked one is due")
    if routes and experts < 1:
        raise PrimitiveError(f"{routes} rows are routed to none of {experts} experts")
    return (experts,)


MOE = (
    Generator(
        "topk_ids",
        (number("tokens"), number("k"), number("experts")),
        _topk_ids_shape,
        _topk_ids,
        random=True,
    ),
    Generator(
        "moe.layout_metadata",
        (LAYOUT, number("rows"), number("experts")),
        _layout_metadata_shape,
        _layout_metadata,
    ),
    Generator(
        "moe.masked_routed_metadata",
        (LAYOUT, number("experts"), number("routes")),
        _masked_routed_metadata_shape,
        _masked_routed_metadata,
    ),
)
