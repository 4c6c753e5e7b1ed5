"""Lengths that only data tell, in a graph that is traced: what is not known is left to its run.

A node runs with numbers and makes all checks then. So while its graph is traced, a call is refused
by what is known to be wrong, and not for what nobody knows yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import torch

from tileops_core.signature.primitives import PrimitiveError
from tileops_core.signature.primitives.model import tuple_text


def known(test: Callable[[], Any]) -> bool | None:
    """What a test of lengths says; None where only data tell."""
    try:
        return bool(test())
    except RuntimeError:  # torch's, for a number that it does not have
        return None


def is_refused(test: Callable[[], Any]) -> bool:
    """Whether a test is known to refuse a call."""
    return known(test) is True


def differ(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two runs of lengths are known to be different."""
    return len(one) != len(other) or any(
        is_refused(partial(_unequal, *pair)) for pair in zip(one, other, strict=True)
    )


def _unequal(one: Any, other: Any) -> Any:
    return one != other


def broadcast(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape that tensors have together."""
    rank = max(map(len, shapes))
    result: list[Any] = [1] * rank
    for shape in shapes:
        for axis, length in enumerate(shape, rank - len(shape)):
            result[axis] = _met(result[axis], length, shapes)
    return tuple(result)


def _met(one: Any, other: Any, shapes: Sequence[Sequence[Any]]) -> Any:
    """The length that two come to; equality is asked first, as it may be known alone."""
    equal = known(lambda: one == other)
    if equal:
        return one
    first, second = known(lambda: one == 1), known(lambda: other == 1)
    if first:
        return other
    if second:
        return one
    if first is None and second is None:
        # Either may be stretched, which torch takes for what does not happen, and has checked.
        text = _refusal(one, other, shapes)
        torch._check(one == other, lambda: text)  # type: ignore[no-untyped-call]
        return one
    if equal is False and first is False and second is False:
        raise PrimitiveError(_refusal(one, other, shapes))
    # The one of them that is not 1 is the result: the other is 1, or the same.
    return one if first is False else other


def _refusal(one: Any, other: Any, shapes: Sequence[Sequence[Any]]) -> str:
    return (
        " and ".join(map(tuple_text, shapes)) + f" do not broadcast: lengths {one} and {other} meet"
    )


def _extreme(name: str, choose: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def extreme(*values: Any) -> Any:
        items = tuple(values[0]) if len(values) == 1 else values
        if not items:
            raise PrimitiveError(f"{name} of nothing")
        return reduce(choose, items)

    return extreme


PRIMITIVES: dict[str, Callable[..., Any]] = {
    "broadcast": broadcast,
    "max": _extreme("max", torch.sym_max),
    "min": _extreme("min", torch.sym_min),
}
"""Functions of the language that decide by lengths, as they are where those are not known."""
