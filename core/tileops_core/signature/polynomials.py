"""Whole numbers as sums of products, so that two ways of writing one number are seen as one."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from tileops_core.spec.expressions import Binary, Const, Expr, Unary

Polynomial: TypeAlias = "dict[frozenset[tuple[Expr, int]], int]"
"""The factor of each product, which is its expressions with their powers."""

_MOST = 64
"""A sum of more products is left alone."""

_ONE: frozenset[tuple[Expr, int]] = frozenset()


def difference(left: Expr, right: Expr) -> int | None:
    """How much greater one whole number is than another, where that is the same for every call.

    Anything but sums, differences and products counts as a number of its own.
    """
    one, other = _of(left), _of(right)
    if one is None or other is None:
        return None
    rest = _sum(one, other, -1)
    return rest.get(_ONE, 0) if rest.keys() <= {_ONE} else None


def _of(expr: Expr) -> Polynomial | None:
    match expr:
        case Const(value=value) if type(value) is int:
            return {_ONE: value} if value else {}
        case Unary(op="-", operand=operand):
            found = _of(operand)
            return None if found is None else _sum({}, found, -1)
        case Binary(op="+" | "-" | "*" as op, left=left, right=right):
            one, other = _of(left), _of(right)
            if one is None or other is None:
                return None
            made = _product(one, other) if op == "*" else _sum(one, other, -1 if op == "-" else 1)
            return made if len(made) <= _MOST else None
    return {frozenset({(expr, 1)}): 1}


def _sum(one: Polynomial, other: Polynomial, factor: int) -> Polynomial:
    found = Counter(one)
    for product, count in other.items():
        found[product] += factor * count
    return {product: count for product, count in found.items() if count}


def _product(one: Polynomial, other: Polynomial) -> Polynomial:
    found: Counter[frozenset[tuple[Expr, int]]] = Counter()
    for left, count in one.items():
        for right, times in other.items():
            powers = Counter(dict(left))
            powers.update(dict(right))
            found[frozenset(powers.items())] += count * times
    return {product: count for product, count in found.items() if count}
