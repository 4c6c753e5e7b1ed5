"""What a generator is: how a workload row fills a metadata tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.generators.draws import Draws
from tileops_core.signature.kinds import Kind, SeqKind, is_int
from tileops_core.signature.primitives import Argument, PrimitiveError, usage

Nested: TypeAlias = "Sequence[int] | Sequence[Nested]"
"""A tensor's values: Python ints in nested sequences, as ``torch.tensor`` takes them."""

MAX_ELEMENTS = 2**24
"""No metadata tensor has more elements; the greatest of real models have some million."""


@attrs.frozen(slots=True, eq=False, repr=False)
class Generator(EqualByFields):
    """One way to make a metadata tensor's values.

    ``shape`` gives the tensor's shape from the arguments, and refuses arguments outside the
    domain. ``run`` makes the values; it may rely on what ``shape`` accepted. A ``random`` one
    takes :class:`Draws` before the arguments.
    """

    name: str
    args: tuple[Argument, ...]
    shape: Callable[..., tuple[int, ...]]
    run: Callable[..., Nested]
    random: bool = False

    @property
    def usage(self) -> str:
        """How it is called: its arguments in their order, and what each may be."""
        return usage(self.name, self.args)

    def shape_of(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The shape of what these arguments give.

        Raises:
            PrimitiveError: The arguments are outside the domain, or the tensor would be too big.
        """
        try:
            shape = self.shape(*args)
        except PrimitiveError as error:
            raise PrimitiveError(f"{self.name}: {error}") from None
        count = 1
        for length in shape:
            if length < 0:
                raise PrimitiveError(f"{self.name}: an axis would have the length {length}")
            count *= length
        if count > MAX_ELEMENTS:
            raise PrimitiveError(
                f"{self.name}: {shape} are {count} values, at most {MAX_ELEMENTS} are made"
            )
        return shape

    def values(self, args: Sequence[Any], seed: str) -> Nested:
        """The values, nested as deep as the shape has axes.

        Args:
            args: The arguments, of their kinds.
            seed: Decides what a random generator draws.

        Raises:
            PrimitiveError: The arguments are outside the domain, or the tensor would be too big.
        """
        self.shape_of(args)
        return self.run(Draws(seed), *args) if self.random else self.run(*args)


def is_seq(kind: Kind) -> bool:
    """Whether a value is a list of ints that a workload row gives or computes."""
    return isinstance(kind, SeqKind)


def number(name: str) -> Argument:
    """An argument that is an int."""
    return Argument(name, is_int, "an int")


def seq(name: str) -> Argument:
    """An argument that is a list of ints."""
    return Argument(name, is_seq, "a list of ints (Seq[Int])")


def lengths_of(sequences: Sequence[int]) -> Sequence[int]:
    """Lengths of sequences, none of them negative."""
    if sequences and min(sequences) < 0:
        raise PrimitiveError(f"a sequence has the length {min(sequences)}")
    return sequences


def at_least(least: int, **numbers: int) -> None:
    """Refuse numbers that are too small."""
    for name, value in numbers.items():
        if value < least:
            raise PrimitiveError(f"{name} is {value}, at least {least} is due")


def rows_of(flat: Sequence[int], rows: int, width: int) -> list[Sequence[int]]:
    """The first values in rows of a width."""
    return [flat[row * width : (row + 1) * width] for row in range(rows)]
