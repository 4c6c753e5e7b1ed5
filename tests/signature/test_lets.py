"""Named quantities of every kind."""

from __future__ import annotations

import pytest

from tileops_core.signature.kinds import (
    BOOL,
    DIM,
    FLOAT,
    INT,
    SHAPE,
    DTypeKind,
    EnumKind,
    IntTupleKind,
    ScalarKind,
)


@pytest.mark.parametrize(
    ("text", "kind", "phase"),
    [
        ("2", DIM, "construction"),
        ("M + N", DIM, "call"),
        ("M - N", INT, "call"),
        ("size.value if present(size) else 8", INT, "construction"),
        ("size.value if present(size) else M", INT, "call"),
        ("flag and mode == 'a'", BOOL, "construction"),
        ("present(w)", BOOL, "call"),
        ("0.5 * len(S)", FLOAT, "call"),
        ("cap.value if present(cap) else 0.0", ScalarKind(("float",)), "construction"),
        ("'wide' if flag else 'narrow'", EnumKind(("wide", "narrow")), "construction"),
        ("(M, N)", None, "call"),
        ("broadcast(S, S)", SHAPE, "call"),
        ("S[1:]", SHAPE, "call"),
        ("reduced(S, dim, flag, 'full')", SHAPE, "call"),
        ("reduced(S, size, flag, 'full')", SHAPE, "call"),
        ("coalesce_dtype(dtype, T)", DTypeKind(("float16", "float32")), "call"),
        ("float32 if flag else float16", DTypeKind(("float32", "float16")), "construction"),
        ("per_axis(pair, 0, 2)", INT, "construction"),
        ("pair", IntTupleKind(2), "construction"),
        ("sum(i for i in S)", DIM, "call"),
    ],
)
def test_a_quantity_has_the_kind_of_its_expression_and_is_known_as_soon_as_that(
    build, text, kind, phase
):
    pair = {"type": "int | tuple[int, int]", "default": 1}
    (let,) = build(let={"L": text}, params__pair=pair).lets
    assert let.phase == phase
    if kind is not None:
        assert let.kind == kind


def test_each_reads_only_earlier_ones_whatever_the_order_of_the_text(build):
    lets = build(let={"A": "B + C", "B": "C + 1", "C": "M"}).lets
    assert [let.name for let in lets] == ["C", "B", "A"]


def test_a_quantity_of_a_shape_may_be_spliced(build):
    signature = build(let={"L": "broadcast(S, S)"}, outputs__y={"dtype": "T", "shape": "[*L, M]"})
    assert signature.outputs[0].shape_text == "[*L, M]"


def test_a_quantity_that_may_be_none_is_no_quantity(problems):
    assert {p.code for p in problems(let={"L": "size"})} == {"maybe-none"}
