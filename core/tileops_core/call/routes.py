"""What an instance keeps for one kind of call, and how much of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import attrs
import torch

from tileops_core.by_fields import EqualByFields, ShownByFields
from tileops_core.record.signature_call import Served, SignatureCall

_Kept = TypeVar("_Kept")

CPU = torch.device("cpu")
GENERATION = 1024
"""Routes per generation. Two generations are kept, so between 1,024 and 2,048 routes live, those
used last. A hit in the younger one costs nothing extra; the older one is asked on a miss."""


class Origin(Protocol):
    """Who brought a kernel: a registration of the registry."""

    @property
    def backend(self) -> str | None:
        """The backend's name."""

    @property
    def version(self) -> str | None:
        """The version of its distribution."""


@attrs.frozen(slots=True, eq=False, repr=False)
class Blamed(EqualByFields):
    """Who answers for a kernel: the target asked, and who brought the code (None: the op)."""

    target: str
    origin: Origin | None = None

    @property
    def backend(self) -> str | None:
        """The backend's name."""
        return self.origin.backend if self.origin is not None else None

    @property
    def version(self) -> str | None:
        """The backend's version; read when an error is told, not before."""
        return self.origin.version if self.origin is not None else None


@attrs.frozen(slots=True, eq=False, repr=False)
class Credit(ShownByFields):
    """Who serves some kind of call: for errors, and for records."""

    blamed: Blamed
    served: Served


Expected: TypeAlias = "tuple[tuple[int, ...], torch.dtype] | None"
"""Shape and dtype of an output, None where the branch has none."""


@attrs.define(slots=True, eq=False, repr=False)
class Route(ShownByFields):
    """One kind of call, resolved.

    Attributes:
        call: runs it: the kernel itself where nothing has to be arranged around it.
        fresh: every output is a new tensor, to be checked after the call. Otherwise ``call``
            writes for the caller, and checks and returns on its own.
        shape: of the one output; None where there are several, or none.
        dtype: of the one output.
        several: shape and dtype of each output, where there is not exactly one.
        place: where new outputs must lie: the device, or True for the CPU, as the key says it.
        record: what the call leaves.
        blamed: who answers for the kernel.
        holds: keeps a target's kernel alive as long as a route uses it.
    """

    call: Callable[..., Any]
    fresh: bool
    shape: tuple[int, ...] | None
    dtype: torch.dtype | None
    several: tuple[Expected, ...]
    place: torch.device | bool
    record: SignatureCall
    blamed: Blamed
    holds: object

    @classmethod
    def of(
        cls,
        call: Callable[..., Any],
        fresh: bool,
        expected: tuple[Expected, ...],
        device: torch.device,
        record: SignatureCall,
        credit: Credit,
        holds: object,
    ) -> Route:
        """A route for results of these shapes and dtypes, on this device."""
        # Most ops have one output; its facts lie one attribute away.
        one = expected[0] if len(expected) == 1 else None
        shape, dtype = one or (None, None)
        place = True if device.type == "cpu" else device
        several = expected if one is None else ()
        return cls(call, fresh, shape, dtype, several, place, record, credit.blamed, holds)

    @property
    def expected(self) -> tuple[Expected, ...]:
        """``(shape, dtype)`` per output, None where this branch has none."""
        if self.shape is None or self.dtype is None:
            return self.several
        return ((self.shape, self.dtype),)

    @property
    def device(self) -> torch.device:
        """Where new outputs must lie."""
        return CPU if isinstance(self.place, bool) else self.place


class Generations(Generic[_Kept]):
    """A table bounded by use: a generation fills, then becomes the old one."""

    __slots__ = ("old", "young")

    def __init__(self) -> None:
        self.young: dict[Any, _Kept] = {}
        self.old: dict[Any, _Kept] = {}

    def promote(self, key: Any) -> _Kept | None:
        """What the old generation has, moved to the young one; None if it has nothing."""
        found = self.old.get(key)
        if found is not None:
            self.keep(key, found)
        return found

    def keep(self, key: Any, value: _Kept) -> None:
        """Store a value. Racing threads may lose one to the generation change, never corrupt."""
        if len(self.young) >= GENERATION:
            self.old, self.young = self.young, {}
        self.young[key] = value

    def __len__(self) -> int:
        return len(self.young) + len(self.old)
