"""What names stand for while a workload row is instantiated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.model import Signature
from tileops_core.spec.expressions import Expr, free_names


class MissingIndexError(Exception):
    """An expression reads an index that has no value."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Bindings:
    """The values of a signature's names; ``let`` is computed when it is read.

    Args:
        signature: Whose names these are.
        values: Parameters and indices; dtypes by their short names.
    """

    def __init__(self, signature: Signature, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        # Sorted so that each reads only earlier ones.
        self._lets = {let.name: let.expr for let in signature.lets}
        self._failed: dict[str, Exception] = {}
        self._indices = {index.name for index in signature.indices}
        self._behind: dict[str, set[str]] = {}
        self._reading: list[set[str]] = []

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, ``default`` for one that the signature does not declare.

        Raises:
            MissingIndexError: An index has no value.
        """
        if name in self._lets:
            return self._let(name)
        if name in self._indices:
            self._note({name})
            if name not in self._values:
                raise MissingIndexError(name)
        return self._values.get(name, default)

    def _let(self, name: str) -> Any:
        if name not in self._behind:
            # In the order of their need, because a long chain of them is no deep recursion then.
            waiting = self._waiting(name)
            for let in self._lets:
                if let in waiting:
                    self._compute(let)
        self._note(self._behind[name])
        if name in self._failed:
            raise self._failed[name]
        return self._values[name]

    def _waiting(self, name: str) -> set[str]:
        """A quantity and those that it may read, as far as they are not computed."""
        found: set[str] = set()
        todo = [name]
        while todo:
            let = todo.pop()
            if let not in found and let not in self._behind:
                found.add(let)
                todo += [n for n in free_names(self._lets[let]) if n in self._lets]
        return found

    def _compute(self, name: str) -> None:
        """Compute a quantity; that it has no value matters to those who read it alone."""
        with self.reading() as names:
            try:
                self._values[name] = evaluate(self._lets[name], self)
            except (MissingIndexError, ValueError, ArithmeticError, LookupError) as error:
                self._failed[name] = error
        self._behind[name] = names

    def _note(self, names: set[str]) -> None:
        for reading in self._reading:
            reading |= names

    @contextmanager
    def reading(self) -> Iterator[set[str]]:
        """Collects the indices that are read inside the ``with``, through ``let`` too."""
        names: set[str] = set()
        self._reading.append(names)
        try:
            yield names
        finally:
            # By identity: sets are equal when they hold the same.
            self._reading = [reading for reading in self._reading if reading is not names]

    def value(self, expr: Expr) -> Any:
        """The value of an expression; see :func:`~tileops_core.signature.evaluate.evaluate`."""
        return evaluate(expr, self)
