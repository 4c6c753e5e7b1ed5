"""The sub-ops that a composite op holds: each under its stage, built once, never let go."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from tileops_core.forks import renewed_lock
from tileops_core.kernels.builds import BuildOnce
from tileops_core.kernels.typed_keys import marked, settled, unhashable

_LOCK = renewed_lock(globals(), "_LOCK")


class _Link:
    """A place and who is held there, for dynamo; others are linked behind it only."""

    __slots__ = ("behind", "place", "sub_op")

    def __init__(self, place: Hashable, sub_op: Any) -> None:
        self.place = place
        self.sub_op = sub_op
        self.behind: _Link | None = None


class Delegates:
    """Sub-ops by ``(stage, identity)``.

    Of a table dynamo guards how many keys there are, so that whatever is held later would cost the
    graphs that there are. Dynamo reads a chain, and guards it as far as it has read.
    """

    __slots__ = ("_held", "_linked", "_places")

    def __init__(self) -> None:
        self._held: BuildOnce[Any] = BuildOnce()
        self._linked: _Link | None = None
        self._places: dict[int, tuple[Hashable, ...]] = {}

    def get(
        self, stage: str, identity: Hashable, make: Callable[[], Any], *, read: bool = False
    ) -> Any:
        """The sub-op held there; made once, however many threads ask together.

        Args:
            stage: where.
            identity: tells the sub-ops of a stage apart.
            make: makes it.
            read: whether dynamo reads this, instead of Python running it.

        Raises:
            TypeError: an identity that no table can hold.
            ValueError: what ``make`` gives is held at another place already.
        """
        place = (stage, *marked(identity))
        if read:
            link = self._linked
            while link is not None:
                if link.place == place:
                    return link.sub_op
                link = link.behind
        else:  # dynamo has its own answer
            try:
                hash(place)
            except TypeError:
                place = (stage, *marked(_hashable(stage, identity)))
        return self._held.get(place, lambda: self._placed(place, make()))

    def _placed(self, place: tuple[Hashable, ...], sub_op: Any) -> Any:
        # One step: of several threads that hold one instance at several places, one succeeds.
        other = self._places.setdefault(id(sub_op), place)
        if other != place:
            raise ValueError(
                f"{sub_op!r} is held for stage {other[0]!r}, identity {other[1]!r} already; "
                f"stage {place[0]!r}, identity {place[1]!r} needs an instance of its own"
            )
        return sub_op

    def link(self) -> bool:
        """Show dynamo what is held by now, and tell whether any of it is new to it."""
        with _LOCK:
            last, known = self._linked, set()
            while last is not None:
                known.add(last.place)
                if last.behind is None:
                    break
                last = last.behind
            new = [_Link(*item) for item in self._held.items() if item[0] not in known]
            for link in new:
                if last is None:
                    self._linked = link
                else:
                    last.behind = link
                last = link
        return bool(new)

    def stage_of(self, sub_op: object) -> str | None:
        """The stage that a sub-op is held for, None for an op that is not held."""
        place = self._places.get(id(sub_op))
        return None if place is None else str(place[0])

    def items(self) -> Iterator[tuple[str, Hashable, Any]]:
        """Stage, identity and sub-op of each, in the order in which they were held."""
        for (stage, identity, _), sub_op in self._held.items():
            yield stage, identity, sub_op


def _hashable(stage: str, identity: Any) -> Any:
    known = settled(identity)
    why = unhashable(known)
    if why is not None:
        raise TypeError(f"stage {stage!r} has no place for identity {identity!r}: {why}")
    return known


NONE_HELD = Delegates()
"""What an op that is no composite has. Never written to."""
