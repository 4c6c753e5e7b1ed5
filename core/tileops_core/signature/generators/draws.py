"""Random numbers that are the same for a seed on every machine and Python."""

from __future__ import annotations

import random


class Draws:
    """A stream of draws.

    Python promises only of ``random()`` that a seed gives the same numbers in every version, so
    everything here is made of that.

    Args:
        seed: Decides all that is drawn.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def below(self, limit: int) -> int:
        """An int from 0 up to, not including, ``limit``."""
        return int(self._random() * limit)

    def sample(self, limit: int, count: int) -> list[int]:
        """``count`` different ints below ``limit``, in random order."""
        draw = self._random
        if limit <= 8 * count:
            deck = list(range(limit))
            for place in range(count):
                other = place + int(draw() * (limit - place))
                deck[place], deck[other] = deck[other], deck[place]
            return deck[:count]
        moved: dict[int, int] = {}  # what a deck that is too great to be there would hold
        drawn = []
        for place in range(count):
            other = place + int(draw() * (limit - place))
            drawn.append(moved.get(other, other))
            moved[other] = moved.get(place, place)
        return drawn

    def spread(self, limit: int, count: int) -> range:
        """``count`` different ints below ``limit``, ascending, at a random start and distance.

        Costs two draws, however many they are.
        """
        if count == 0:
            return range(0)
        draw = self._random
        step = 1 + int(draw() * ((limit - 1) // (count - 1))) if 1 < count < limit else 1
        start = int(draw() * (limit - step * (count - 1)))
        return range(start, start + step * count, step)
