"""Lengths that are symbols."""

from __future__ import annotations

import pytest
import torch

from tileops_core.validate.symbols import Symbols


@pytest.fixture
def symbols():
    return Symbols()


def test_a_symbol_computes_and_stays_a_symbol(symbols):
    with symbols.of_call() as symbol:
        made = 2 * symbol(4) + symbol(6) // 3
        assert isinstance(made, torch.SymInt)
        assert made.node.hint == 10
        assert made.node.maybe_as_int() is None


def test_symbols_of_the_same_number_differ_when_they_were_compared_too(symbols):
    with symbols.of_call() as symbol:
        one, other = symbol(4), symbol(4)
        assert one == other
        assert str(one) != str(other)
        assert one.node.maybe_as_int() is None


def test_a_number_that_was_had_from_a_symbol_does_not_settle_it(symbols):
    with symbols.of_call() as symbol:
        made = symbol(5)
        assert type(made) is not int
        assert int(made) == 5
        assert made.node.maybe_as_int() is None


def test_a_symbol_stands_for_the_lengths_of_each_call(symbols):
    for one, other in [(4, 6), (5, 7), (9, 8)]:
        with symbols.of_call() as symbol:
            first, second = symbol(one), symbol(other)
            assert int(first * second) == one * other
            assert bool(first < second) == (one < other)
            assert int(max(first, second) % 4) == max(one, other) % 4


def test_calls_share_their_symbols(symbols):
    with symbols.of_call() as symbol:
        first = str(symbol(4))
    with symbols.of_call() as symbol:
        assert str(symbol(6)) == first
