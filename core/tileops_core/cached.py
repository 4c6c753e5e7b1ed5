"""A property that is computed once and kept."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import Self

_Value = TypeVar("_Value")


class cached_property(functools.cached_property[_Value]):
    """``functools.cached_property``, as it is since Python 3.12: without a lock.

    Before, one lock per property was held while it was computed, for whatever instance. A process
    that was forked meanwhile had it locked for good, and threads waited for instances that were
    none of theirs. Here threads may compute a value at the same time; what the first of them got
    is kept, and all get it.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _Value: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        assert self.attrname is not None
        # Python asks this only as long as the instance's dict has nothing of this name.
        return instance.__dict__.setdefault(self.attrname, self.func(instance))
