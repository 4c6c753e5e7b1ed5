"""The sentences of a refused call. One site per declaration; nothing here runs on a good call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch

from tileops_core.by_fields import EqualByFields
from tileops_core.errors import SignatureError
from tileops_core.signature.primitives import PrimitiveError
from tileops_core.spans import Span


class AxisError(SignatureError, IndexError):
    """An axis that is not there, or has nothing to choose from; an IndexError too, as in torch."""


def dtype_text(dtype: object) -> str:
    """A dtype as the manifest spells it."""
    return str(dtype).removeprefix("torch.")


def value_text(value: object) -> str:
    """A value of the caller's in at most a line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a stranger's object may fail at being printed
        text = object.__repr__(value)
    return text if len(text) <= 60 else text[:57] + "..."


def shape_text(shape: Sequence[object]) -> str:
    """A shape as a tuple; unknown axes are names."""
    inner = ", ".join(str(n) for n in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def explained(explain: Callable[[], Exception | None]) -> Exception | None:
    """What a predicate says of its values; None where the rule failed before it was asked.

    In ``present(dim) and valid_axes(S, dim.value)`` without a ``dim`` there is nothing to explain,
    nor is there in what reads a field that the value's form lacks.
    """
    try:
        return explain()
    except (TypeError, ValueError, IndexError, AttributeError):
        return None


@attrs.frozen(slots=True, eq=False, repr=False)
class Site(EqualByFields):
    """A declaration that can refuse: which op, which tensor or rule, where it is written."""

    op: str
    name: str
    declared: str
    span: Span

    def _error(
        self,
        message: str,
        *,
        axis: int | None = None,
        expected: object = None,
        actual: object = None,
        kind: type[SignatureError] = SignatureError,
    ) -> SignatureError:
        return kind(
            f"{self.op}: {message}  [{self.span.short}]",
            op=self.op,
            tensor=self.name or None,
            axis=axis,
            expected=expected,
            actual=actual,
            span=self.span,
        )

    def shape(
        self, actual: Sequence[int], expected: Sequence[object], axis: int | None = None
    ) -> SignatureError:
        """The shape differs; ``expected`` holds a name where an axis was not known yet."""
        where = "" if axis is None or len(actual) < 2 else f" (axis {axis} differs)"
        wanted = "" if _is_literal(self.declared) else f" = {shape_text(expected)}"
        return self._error(
            f"{self.name} has shape {shape_text(actual)}, the signature says "
            f"{self.declared}{wanted}{where}",
            axis=axis,
            expected=tuple(expected),
            actual=tuple(actual),
        )

    def rank(self, actual: Sequence[int], least: int, more: bool) -> SignatureError:
        """The number of axes differs."""
        wanted = f"at least {_axes(least)}" if more else _axes(least)
        return self._error(
            f"{self.name} has {_axes(len(actual))} {shape_text(actual)}, the signature says "
            f"{self.declared}, which has {wanted}",
            expected=least,
            actual=tuple(actual),
        )

    def dtype(self, actual: torch.dtype, expected: object) -> SignatureError:
        """The dtype differs; ``expected`` is one dtype or a tuple of those allowed."""
        if isinstance(expected, tuple):
            wanted = " | ".join(dtype_text(d) for d in expected)
            says = f"{self.declared} in {wanted}"
        elif self.declared == dtype_text(expected):
            says = self.declared
        else:
            says = f"{self.declared} = {dtype_text(expected)}"
        return self._error(
            f"{self.name} has dtype {dtype_text(actual)}, the signature says {says}",
            expected=expected,
            actual=actual,
        )

    def device(self, actual: object, expected: object, first: str) -> SignatureError:
        """The tensor lies elsewhere than the call."""
        if first:
            return self._error(
                f"{self.name} is on {actual}, {first} is on {expected}; every tensor of a call "
                "must be on one device",
                expected=expected,
                actual=actual,
            )
        return self._error(
            f"{self.name} is on {actual}, the signature says it stays on the CPU",
            expected=expected,
            actual=actual,
        )

    def contiguous(self) -> SignatureError:
        """The entry takes this tensor only densely laid out."""
        return self._error(
            f"{self.name} is not contiguous, the signature takes it only contiguous; pass "
            f"{self.name}.contiguous()"
        )

    def presence(self, given: bool, values: Mapping[str, object]) -> SignatureError:
        """An input came that must not, or did not come that must, under this condition."""
        verb = "must not be given" if given else "must be given"
        when = values_text(values)
        return self._error(
            f"{self.name} {verb}{f' with {when}' if when else ''}: the signature takes it "
            f"exactly when {self.declared}",
            expected=not given,
            actual=given,
        )

    def rule(self, values: Mapping[str, object]) -> SignatureError:
        """A refinement does not hold."""
        found = values_text(values)
        return self._error(
            f"the signature requires {self.declared}{f', got {found}' if found else ''}",
            expected=self.declared,
            actual=dict(values),
        )

    def branch(self, values: Mapping[str, object]) -> SignatureError:
        """No case of a type family fits: the entry leaves a gap."""
        return self._error(
            f"{self.name} has no case for {values_text(values)} in {self.declared}",
            actual=dict(values),
        )

    def solve(self, length: object, axis: int, form: str) -> SignatureError:
        """``a * M + e == length`` has no non-negative whole solution."""
        return self._error(
            f"{self.name} has {length} on axis {axis}, the signature says {form}, which no "
            "whole, non-negative number solves",
            axis=axis,
            expected=form,
            actual=length,
        )

    def length(
        self, length: object, axis: int, form: str, values: Mapping[str, object]
    ) -> SignatureError:
        """An axis of an output would have a negative length."""
        found = values_text(values)
        return self._error(
            f"{self.name} would have the length {length} on axis {axis}, the signature says "
            f"{form} in {self.declared}, and no axis has such a length"
            f"{f'; got {found}' if found else ''}",
            axis=axis,
            expected="a length",
            actual=length,
        )

    def failed(
        self, error: Exception, values: Mapping[str, object] | None = None
    ) -> SignatureError:
        """A primitive or an arithmetic step refused its values; ``values`` are what was read."""
        kind = AxisError if getattr(error, "index_error", False) else SignatureError
        if isinstance(error, PrimitiveError):
            said = str(error)
        elif isinstance(error, ZeroDivisionError):
            said = f"{self.declared} divides by zero"
        elif isinstance(error, IndexError):
            said = f"{self.declared} reads an axis that is not there"
        else:
            said = f"{self.declared}: {error}"
        what = f"{self.name}: " if self.name else ""
        found = f", got {values_text(values)}" if values else ""
        return self._error(f"{what}{said}{found}", expected=self.declared, actual=said, kind=kind)


def _is_literal(declared: str) -> bool:
    return not any(c.isalpha() for c in declared)


def values_text(values: Mapping[str, Any]) -> str:
    """Values by name, ``M=3, T=float32``."""
    return ", ".join(
        f"{name}={dtype_text(value) if isinstance(value, torch.dtype) else value_text(value)}"
        for name, value in values.items()
    )


def _axes(rank: int) -> str:
    return "1 axis" if rank == 1 else f"{rank} axes"
