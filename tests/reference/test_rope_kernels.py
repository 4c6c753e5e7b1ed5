"""Rotary embedding's kernel types, and the tables that they keep."""

from __future__ import annotations

import threading

import pytest
import torch

from tileops_core.interfaces.rope import (
    LongRoPECall,
    PositionError,
    RoPECall,
    RoPENeoxPositionIdsCall,
)
from tileops_reference.functions import rope
from tileops_reference.kernels.rope import (
    LongRoPEReference,
    RoPENeoxPositionIdsReference,
    RoPEReference,
    RotaryTables,
)

CPU, F32 = torch.device("cpu"), torch.float32


def by_index(*shape, layout="neox"):
    _, factory = RoPEReference.entry_for(RoPECall(CPU, F32, shape, layout, shape[-1], 10000.0))
    return factory()


@pytest.mark.parametrize("layout", ["neox", "interleaved"])
@pytest.mark.parametrize("shape", [(300, 8), (2, 300, 3, 8)])
def test_by_index(layout, shape):
    entry = by_index(*shape, layout=layout)
    input_layout, axis = ("1d", 0) if len(shape) == 2 else ("2d", 1)
    for length in (300, 1, 257, 700):
        x = torch.randn(*shape[:axis], length, *shape[axis + 1 :])
        expected = rope.rope(x, rope_layout=layout, input_layout=input_layout)
        assert torch.equal(entry.forward(x), expected)


def test_by_position():
    call = RoPENeoxPositionIdsCall(CPU, F32, (5, 3, 8), torch.int64, 4, 9000, 10000.0)
    entry = RoPENeoxPositionIdsReference.entry_for(call)[1]()
    for highest in (3, 400, 8999):
        x, positions = torch.randn(5, 3, 8), torch.tensor([0, highest, 1, 2, highest])
        expected = rope.rope_neox_position_ids(x, positions, max_position=9000, rotary_dim=4)
        assert torch.equal(entry.forward(x, positions), expected)
    with pytest.raises(PositionError):
        entry.forward(x, positions + 1)


@pytest.mark.parametrize("factors", [None, torch.tensor([1.0, 2.5, -4.0, 64.0]).bfloat16()])
def test_by_rescaled_index(factors):
    dtype = None if factors is None else factors.dtype
    call = LongRoPECall(CPU, F32, (300, 8), 8, 500.0, 1.5**0.5, dtype)
    entry = LongRoPEReference.entry_for(call)[1]()
    for length in (300, 1, 257, 700):
        x = torch.randn(length, 8)
        expected = rope.long_rope(
            x, base=500.0, rescale_factors=factors, max_position=512, original_max_position=64
        )
        assert torch.equal(entry.forward(x, rescale_factors=factors), expected)


def kept_rows(tables):
    return [kept[0].shape[0] for kept in tables._kept.values()]


def test_rotary_tables_are_made_once_and_grow_by_doubling():
    tables = RotaryTables(8, 10000.0)
    first = tables.first(3, CPU)
    assert tables.first(256, CPU) is first
    assert kept_rows(tables) == [256]
    tables.first(257, CPU)
    tables.first(512, CPU)
    assert kept_rows(tables) == [512]
    tables.first(1_000, CPU)
    assert kept_rows(tables) == [1024]


def test_rotary_tables_keep_no_more_than_their_bound(monkeypatch):
    monkeypatch.setattr("tileops_reference.kernels.rope._MOST_BYTES", 4 * 8 * 300)
    tables = RotaryTables(8, 10000.0)
    tables.first(299, CPU)
    assert kept_rows(tables) == [300]
    whole = tables.first(1000, CPU)
    assert whole[0].shape == (1000, 4)
    far = tables.rows_of(torch.tensor([999, 2**31 - 1]), 2**31)
    assert torch.equal(far[0][0], whole[0][999])
    assert kept_rows(tables) == [300]


def test_rotary_tables_of_another_device_are_others_and_outlive_their_growth():
    tables, meta = RotaryTables(8, 10000.0), torch.device("meta")
    on_cpu, elsewhere = tables.first(5, CPU), tables.first(5, meta)
    assert elsewhere[0].device.type == "meta"
    assert tables.first(300, meta) is not elsewhere
    assert tables.first(5, CPU) is on_cpu
    # A captured graph may still read the first.
    assert tables._outgrown == [elsewhere]


def test_rotary_tables_that_an_inference_made_serve_ordinary_code():
    tables = RotaryTables(8, 10000.0)
    with torch.inference_mode():
        tables.first(5, CPU)
    cos, sin = tables.first(5, CPU)
    assert not cos.is_inference()
    assert not sin.is_inference()


@pytest.mark.parametrize("default", ["meta", "cpu"])
def test_rotary_tables_do_not_care_for_defaults(default):
    tables = RotaryTables(8, 10000.0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device(default):
            made = tables.first(5, CPU)
    finally:
        torch.set_default_dtype(before)
    expected = RotaryTables(8, 10000.0).first(5, CPU)
    for table, right in zip(made, expected, strict=True):
        assert table.dtype is F32
        assert torch.equal(table, right)


def test_threads_that_grow_tables_together_all_read_right_ones():
    entry = by_index(4, 8)
    inputs = [torch.randn(100 * (i + 1), 8) for i in range(8)]
    results, gate = [None] * 8, threading.Barrier(8)

    def work(i):
        gate.wait(30)
        results[i] = [entry.forward(inputs[i]), entry.forward(inputs[7 - i])]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for i, pair in enumerate(results):
        assert torch.equal(pair[0], rope.rope(inputs[i]))
        assert torch.equal(pair[1], rope.rope(inputs[7 - i]))
