"""Lengths that are symbols."""

from __future__ import annotations

import pytest
import torch

from tileops_core.validate.symbols import Symbols


def test_a_symbol_computes_and_stays_a_symbol():
    symbols = Symbols()
    one, other = symbols.of(4), symbols.of(6)
    made = 2 * one + other // 3
    assert isinstance(made, torch.SymInt)
    assert made.node.hint == 10
    assert made.node.maybe_as_int() is None


def test_symbols_of_the_same_number_differ_until_they_are_compared():
    symbols = Symbols()
    one, other = symbols.of(4), symbols.of(4)
    assert str(one) != str(other)
    assert one == other
    assert one.node.maybe_as_int() is None


def test_a_number_cannot_be_had_from_a_symbol_without_fixing_it():
    symbol = Symbols().of(5)
    with pytest.raises(AssertionError):
        assert type(symbol) is int
    assert int(symbol) == 5
    assert symbol.node.maybe_as_int() == 5
