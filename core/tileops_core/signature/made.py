"""The values of metadata tensors, made by a row's generators and asked what the entry requires."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import attrs

from tileops_core.by_fields import ShownByFields
from tileops_core.signature.dtypes import DTYPES
from tileops_core.signature.generators import GENERATORS, Nested
from tileops_core.signature.model import Input, Requirement
from tileops_core.signature.predicates import PREDICATES, Violation, extent


@attrs.define(eq=False, repr=False)
class Made(ShownByFields):
    """What was made for calls that differ in little, as in their dtypes: each thing once.

    A call whose generator gets the arguments of another's takes the other's values, whatever its
    own seed would draw. All else that decides an answer is compared, so it is true of each call.

    Attributes:
        count: how many values are kept.
    """

    count: int = 0
    _kept: dict[Hashable, list[tuple[Any, Any]]] = attrs.field(factory=dict)

    def values(self, item: Input, args: tuple[Any, ...], seed: str) -> Nested:
        """The values of an input.

        Raises:
            PrimitiveError: The generator refuses its arguments.
        """
        assert item.values is not None
        generator = GENERATORS[item.values.function]

        def make() -> Nested:
            self.count += math.prod(generator.shape_of(args))
            return generator.values(args, seed)

        found: Nested = self._once(item.name, args, make)
        return found

    def unheld(self, item: Input, values: Nested, dtype: str) -> Violation | None:
        """The first value that a dtype does not hold."""
        low, high = int(DTYPES[dtype].low), int(DTYPES[dtype].high)
        return self._asked((item.name, ""), "in_range", values, (low, high + 1))

    def violation(
        self, item: Input, requirement: Requirement, values: Nested, args: tuple[Any, ...]
    ) -> Violation | None:
        """The first value that a predicate does not accept."""
        key = item.name, requirement.text
        return self._asked(key, requirement.call.function, values, args)

    def _asked(
        self, key: tuple[str, str], predicate: str, values: Nested, args: tuple[Any, ...]
    ) -> Violation | None:
        if predicate == "in_range" and self._lies(key[0], values, *args):
            return None
        check = PREDICATES[predicate].check
        found: Violation | None = self._once(
            (*key, predicate), (values, *args), lambda: check(values, *args)
        )
        return found

    def _lies(self, name: str, values: Nested, low: int, high: int) -> bool:
        """Whether all values of a tensor lie in a range; asked often, and of great tensors."""
        span: tuple[int, int] | None = self._once(
            (name, "extent", ""), (values,), lambda: extent(values)
        )
        return span is None or (low <= span[0] and span[1] < high)

    def _once(self, key: Hashable, args: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What was made of equal arguments; tensors among these are mostly the same object."""
        known = self._kept.setdefault(key, [])
        for others, made in known:
            if others == args:
                return made
        made = make()
        known.append((args, made))
        return made
