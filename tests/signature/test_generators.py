"""What each generator makes: by example, in its domain, and for the predicates of real ops."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileops_core.signature.generators import GENERATORS
from tileops_core.signature.generators.draws import Draws
from tileops_core.signature.generators.model import MAX_ELEMENTS
from tileops_core.signature.predicates import PREDICATES
from tileops_core.signature.primitives import PrimitiveError

PROFILE = settings(max_examples=100, derandomize=True, database=None, deadline=None)


def contiguous(metadata_kind, alignment=1):
    return SimpleNamespace(kind="contiguous", metadata_kind=metadata_kind, alignment=alignment)


def masked(max_m):
    return SimpleNamespace(kind="masked", max_m=max_m)


def make(name, *args, seed="7/x"):
    return GENERATORS[name].values(args, seed)


def nested(values):
    """Values as nested lists, whatever sequences they came in."""
    return values if isinstance(values, int) else [nested(part) for part in values]


def shape_of(values):
    """The shape of nested values, which must be as long in every row."""
    if isinstance(values, int):
        return ()
    inner = {shape_of(part) for part in values}
    assert len(inner) <= 1
    return (len(values), *(inner.pop() if inner else ()))


EXAMPLES = [
    ("as_tensor", ((5, 0, 2),), [5, 0, 2]),
    ("prefix_sum", ((5, 0, 2),), [0, 5, 5, 7]),
    ("prefix_sum", ((),), [0]),
    ("exclusive_prefix_sum", ((5, 0, 2),), [0, 5, 5]),
    ("exclusive_prefix_sum", ((),), []),
    ("packed_positions", ((2, 0, 3),), [0, 1, 0, 1, 2]),
    ("token_indices", ((2, 0, 1),), [[0, 0], [0, 1], [2, 0]]),
    ("chunk_indices", ((5, 0, 4), 4), [[0, 0], [0, 1], [2, 0]]),
    ("chunk_offsets", ((5, 0, 4), 4), [0, 2, 2, 3]),
    ("full", ((2, 3), 9), [[9, 9, 9], [9, 9, 9]]),
    ("full", ((2, 0), 9), [[], []]),
    # the third and fourth queries of a chunk belong to the second sequence
    ("key_windows", ((4, 3), 2, 4, "start"), [0, 0, 4, 4]),
    ("key_windows", ((4, 3), 2, 4, "end"), [3, 4, 5, 6]),
    ("key_windows", ((4, 0, 3), 0, 0, "start"), []),
    ("moe.layout_metadata", (contiguous("physical_psum"), 7, 3), [3, 5, 7]),
    ("moe.layout_metadata", (contiguous("per_row"), 7, 3), [0, 0, 0, 1, 1, 2, 2]),
    ("moe.layout_metadata", (contiguous("physical_psum", 4), 16, 3), [8, 11, 14]),
    (
        "moe.layout_metadata",
        (contiguous("per_row", 4), 16, 3),
        [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, -1, 2, 2, -1, -1],
    ),
    ("moe.layout_metadata", (masked(8), 24, 3), [0, 4, 8]),
    ("moe.masked_routed_metadata", (masked(3), 4, 10), [3, 3, 2, 2]),
]


@pytest.mark.parametrize(("name", "args", "values"), EXAMPLES)
def test_a_generator_gives_what_its_docstring_says(name, args, values):
    assert nested(make(name, *args)) == values


DRAWN = [
    ("random_ids", (2, 3, 10)),
    ("sample_indices", (5, 9)),
    ("paged_block_table", (2, 3, 4)),
    ("topk_ids", (2, 3, 5)),
    ("causal_topk_indices", (1, 3, 1, 3, 9, 1, 1)),
    ("attn.sparse_topk_positions", ((3, 9), 2, 3)),
    ("nsa_block_indices", ((7, 2), 1, 3, 1)),
    ("nsa_block_counts", (2, 2, 4)),
]
GOLDEN = {
    "random_ids": [[6, 6, 4], [9, 4, 2]],
    "sample_indices": [5, 6, 0, 8, 1],
    "paged_block_table": [[2, 3, 0], [1, 2, 3]],
    "topk_ids": [[3, 0, 1], [4, 2, 1]],
    "causal_topk_indices": [[[[0, 1, 9]], [[0, 1, 2]], [[1, 2, 3]]]],
    "attn.sparse_topk_positions": [[[0, 1, -1], [0, 1, 2]], [[3, 5, 7], [1, 3, 5]]],
    "nsa_block_indices": [
        [[0, 9, 9]],
        [[0, 1, 9]],
        [[0, 1, 2]],
        [[0, 2, 3]],
        [[0, 2, 4]],
        [[0, 4, 5]],
        [[0, 3, 6]],
        [[0, 9, 9]],
        [[0, 1, 9]],
    ],
    "nsa_block_counts": [[3, 3], [2, 4]],
}


@pytest.mark.parametrize(("name", "args"), DRAWN)
def test_a_seed_gives_the_same_values_on_every_machine(name, args):
    assert nested(make(name, *args)) == GOLDEN[name]


@pytest.mark.parametrize(("name", "args"), DRAWN)
def test_another_seed_gives_other_values(name, args):
    drawn = {str(nested(make(name, *args, seed=str(seed)))) for seed in range(20)}
    assert len(drawn) > 1


def test_only_those_that_draw_are_random():
    assert {name for name, _ in DRAWN} == {g.name for g in GENERATORS.values() if g.random}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_says_what_it_makes_and_in_which_shape(name):
    said = GENERATORS[name].run.__doc__
    assert "[" in said or "``shape``" in said


def test_every_generator_is_tried_here():
    assert {name for name, *_ in (*EXAMPLES, *DRAWN)} == set(GENERATORS)


REFUSED = [
    ("prefix_sum", ((3, -1),), "length -1"),
    ("token_indices", ((-2,),), "length -2"),
    ("packed_positions", ((-2,),), "length -2"),
    ("exclusive_prefix_sum", ((-2,),), "length -2"),
    ("chunk_indices", ((4,), 0), "chunk_size is 0"),
    ("chunk_offsets", ((4,), -1), "chunk_size is -1"),
    ("full", ((-1,), 0), "length -1"),
    ("random_ids", (2, 2, 0), "limit is 0"),
    ("sample_indices", (3, 2), "no 3 different"),
    ("paged_block_table", (2, 2, 0), "pages is 0"),
    ("topk_ids", (1, 3, 2), "no 3 different"),
    ("key_windows", ((4, 3), 5, 4, "start"), "queries 5 to 9 of 7"),
    ("key_windows", ((4, 3), -1, 4, "start"), "first is -1"),
    ("causal_topk_indices", (1, 1, 1, 1, 1, 0, 0), "stride is 0"),
    ("attn.sparse_topk_positions", ((1,), 2, 1), "do not hold 2"),
    ("nsa_block_indices", ((4,), 0, 1, 1), "block_size is 0"),
    ("nsa_block_counts", (1, 1, -1), "selected is -1"),
    ("moe.layout_metadata", (contiguous("per_row", 4), 6, 3), "no multiple"),
    ("moe.layout_metadata", (contiguous("per_row"), 6, 0), "none of 0 experts"),
    ("moe.masked_routed_metadata", (contiguous("per_row"), 3, 6), "a masked one is due"),
    ("moe.masked_routed_metadata", (masked(2), 0, 6), "none of 0 experts"),
    ("full", ((2**13, 2**13), 0), f"at most {MAX_ELEMENTS}"),
    ("prefix_sum", ((-1,) * 3,), "prefix_sum:"),
]


@pytest.mark.parametrize(("name", "args", "message"), REFUSED)
def test_arguments_outside_the_domain_are_refused(name, args, message):
    with pytest.raises(PrimitiveError, match=message):
        GENERATORS[name].shape_of(args)
    with pytest.raises(PrimitiveError, match=rf"^{name}: "):
        make(name, *args)


# -- what real ops require ---------------------------------------------------------------------

lengths = st.lists(st.integers(0, 40), max_size=6).map(tuple)
seeds = st.integers(0, 2**63).map(lambda n: f"{n}/x")
small = st.integers(0, 6)


def holds(predicate, values, *args):
    assert PREDICATES[predicate].check(values, *args) is None


@PROFILE
@given(lengths, st.integers(1, 8))
def test_what_describes_packed_sequences_agrees(lens, chunk):
    offsets = make("prefix_sum", lens)
    holds("prefix_offsets", offsets, sum(lens))
    holds("max_segment", offsets, max(lens, default=0))
    holds("indices_within", make("token_indices", lens), offsets)
    holds("in_range", make("packed_positions", lens), 0, max(lens, default=0))
    holds("exclusive_prefix_of", make("exclusive_prefix_sum", lens), make("as_tensor", lens))
    holds("sums_to", make("as_tensor", lens), sum(lens))
    chunks = make("chunk_offsets", lens, chunk)
    holds("chunk_offsets_of", chunks, offsets, chunk)
    holds("prefix_offsets", chunks, len(make("chunk_indices", lens, chunk)))
    for segment, number in make("chunk_indices", lens, chunk):
        assert number * chunk < lens[segment]


@PROFILE
@given(lengths, st.data())
def test_a_query_sees_itself_and_its_own_sequence(lens, data):
    first = data.draw(st.integers(0, sum(lens)))
    count = data.draw(st.integers(0, sum(lens) - first))
    offsets = make("prefix_sum", lens)
    starts = make("key_windows", lens, first, count, "start")
    ends = make("key_windows", lens, first, count, "end")
    for query, (start, end) in enumerate(zip(starts, ends, strict=True), first):
        assert start in offsets
        assert start <= query == end - 1
        assert not any(start < offset <= query for offset in offsets)


@PROFILE
@given(small, small, st.integers(1, 9), seeds)
def test_pages_are_shared_only_where_there_are_too_few(requests, width, pages, seed):
    table = make("paged_block_table", requests, width, pages, seed=seed)
    holds("in_range", table, 0, pages)
    flat = [page for row in table for page in row]
    assert len(set(flat)) == min(pages, len(flat))


@PROFILE
@given(small, small, st.integers(0, 9), seeds)
def test_a_token_is_routed_to_different_experts(tokens, k, more, seed):
    ids = make("topk_ids", tokens, k, k + more, seed=seed)
    holds("in_range", ids, 0, k + more)
    assert all(len(set(row)) == k for row in ids)


@PROFILE
@given(small, small, st.integers(1, 9), seeds)
def test_ids_lie_below_their_limit(rows, columns, limit, seed):
    holds("in_range", make("random_ids", rows, columns, limit, seed=seed), 0, limit)


@PROFILE
@given(small, st.integers(0, 20), seeds)
def test_sampled_indices_are_different_ones(count, more, seed):
    indices = make("sample_indices", count, count + more, seed=seed)
    holds("in_range", indices, 0, count + more)
    assert len(set(indices)) == count


@PROFILE
@given(small, small, st.integers(0, 30), st.integers(0, 30), st.integers(1, 5), seeds)
def test_a_query_looks_at_different_keys_that_are_closed(queries, k, keys, first, stride, seed):
    (batch,) = make("causal_topk_indices", 1, queries, 2, k, keys, first, stride, seed=seed)
    holds("in_range", batch, 0, keys + 1)
    for s, heads in enumerate(batch):
        for row in heads:
            seen = [key for key in row if key != keys]
            assert len(set(seen)) == len(seen)
            assert all((key + 1) * stride - 1 <= first + s for key in seen)
            assert len(seen) == min(k, keys, (first + s + 1) // stride)


@PROFILE
@given(st.lists(st.integers(3, 40), max_size=4).map(tuple), st.integers(0, 3), small, seeds)
def test_sparse_positions_are_causal(lens, queries, k, seed):
    positions = make("attn.sparse_topk_positions", lens, queries, k, seed=seed)
    holds("in_range", positions, -1, max(lens, default=1))
    for length, rows in zip(lens, positions, strict=True):
        for s, row in enumerate(rows):
            seen = [position for position in row if position >= 0]
            assert len(set(seen)) == len(seen) == min(k, length - queries + s + 1)
            assert all(position <= length - queries + s for position in seen)


@PROFILE
@given(lengths, st.integers(1, 8), st.integers(0, 6), seeds)
def test_selected_blocks_are_the_tokens_own_and_what_lies_before(lens, block, selected, seed):
    none = sum(lens)
    rows = make("nsa_block_indices", lens, block, selected, 1, seed=seed)
    holds("in_range", rows, 0, none + 1)
    places = make("packed_positions", lens)
    for position, (row,) in zip(places, rows, strict=True):
        blocks = [b for b in row if b != none]
        assert blocks == sorted(set(blocks))
        assert len(row) == selected
        assert len(blocks) == min(selected, position // block + 1)
        if selected:
            assert blocks[-1] == position // block
        if len(blocks) > 1:
            assert blocks[0] == 0


@PROFILE
@given(small, small, small, seeds)
def test_a_token_uses_at_least_one_block(tokens, heads, selected, seed):
    counts = make("nsa_block_counts", tokens, heads, selected, seed=seed)
    holds("in_range", counts, min(1, selected), selected + 1)


@PROFILE
@given(
    st.sampled_from(["physical_psum", "per_row"]),
    st.integers(1, 5),
    st.integers(0, 12),
    st.integers(1, 5),
)
def test_a_contiguous_layout_is_described_validly(metadata_kind, alignment, blocks, experts):
    layout, rows = contiguous(metadata_kind, alignment), blocks * alignment
    holds(
        "moe.layout_valid",
        make("moe.layout_metadata", layout, rows, experts),
        layout, rows, experts,
    )  # fmt: skip


@PROFILE
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 60))
def test_a_masked_layout_is_described_validly(max_m, experts, routes):
    layout, rows = masked(max_m), experts * max_m
    for values in (
        make("moe.layout_metadata", layout, rows, experts),
        make("moe.masked_routed_metadata", layout, experts, routes),
    ):
        holds("moe.layout_valid", values, layout, rows, experts)


@PROFILE
@given(st.sampled_from([*EXAMPLES, *((name, args, None) for name, args in DRAWN)]))
def test_the_shape_is_known_before_the_values(example):
    name, args, _ = example
    values = make(name, *args)
    assert shape_of(values) == GENERATORS[name].shape_of(args)[: len(shape_of(values))]


# -- draws -------------------------------------------------------------------------------------


@PROFILE
@given(st.integers(0, 50), st.data(), seeds)
def test_a_sample_has_no_double_and_a_spread_ascends(limit, data, seed):
    count = data.draw(st.integers(0, limit))
    sample, spread = Draws(seed).sample(limit, count), Draws(seed).spread(limit, count)
    for drawn in (sample, list(spread)):
        assert len(set(drawn)) == len(drawn) == count
        assert all(0 <= value < limit for value in drawn)
    assert list(spread) == sorted(spread)


def test_everything_of_a_sample_can_come_at_every_place():
    draws = Draws("7")
    places = {(place, value) for _ in range(300) for place, value in enumerate(draws.sample(4, 3))}
    assert len(places) == 12


def test_generators_need_no_torch():
    code = (
        "import sys, tileops_core.signature.generators, tileops_core.signature.predicates; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
