"""Comparators: what is wrong with a result, in a sentence, or None.

There is one for each kind of result. Which one an op's outputs need is a fact about the op
(:mod:`tileops_core.conformance.kinds`), never about a backend.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tileops_core.conformance.tolerances import bound


def close(actual: Tensor, expected: Tensor, allowed: Tensor) -> str | None:
    """Each element within an allowed difference; NaN and infinities in the same places.

    Args:
        actual: the result.
        expected: the exact one, float64 (complex128 for complex results).
        allowed: the bound, of the same shape or one that broadcasts to it.
    """
    wrong = _shape(actual, expected)
    if wrong:
        return wrong
    if actual.dtype.is_complex:
        allowed = torch.as_tensor(allowed).expand(expected.shape)[..., None]
        return close(torch.view_as_real(actual), torch.view_as_real(expected), allowed)
    # What overflows the dtype is infinite in the result, and rightly so.
    rounded = expected.to(actual.dtype).double()
    wide = actual.double()
    special = rounded.isnan() | rounded.isinf() | wide.isnan() | wide.isinf()
    allowed = torch.as_tensor(allowed, dtype=torch.float64).expand(expected.shape)
    # Near the end of the range either side of the last number is right.
    end = torch.finfo(actual.dtype).max
    room = allowed + end * 2.0**-8
    near = ((expected.abs() - end).abs() <= room) & (wide.abs() >= end * (1 - 2.0**-8))
    near &= wide.sign() == expected.sign()
    same = (wide == rounded) | (wide.isnan() & rounded.isnan()) | near
    bad = special & ~same
    if bad.any():
        return _at(actual, rounded, bad, "NaN or infinity stands where it should not, or not where")
    excess = torch.where(special, 0, (wide - expected).abs() / allowed)
    worst = excess.max().item() if excess.numel() else 0.0
    if worst <= 1:
        return None
    return _at(actual, expected, excess > 1, f"differs, by up to {worst:.3g} times what is allowed")


def exact(actual: Tensor, expected: Tensor) -> str | None:
    """The same bits; every NaN is like any other, and signs of zeros count."""
    wrong = _shape(actual, expected)
    if wrong:
        return wrong
    expected = expected.to(actual.dtype)
    if actual.dtype.is_floating_point:
        one, other = actual.double(), expected.double()
        same = (one == other) & (one.signbit() == other.signbit())
        same |= one.isnan() & other.isnan()
    else:
        same = actual == expected
    return None if bool(same.all()) else _at(actual, expected, ~same, "differs in bits")


def one_code(actual: Tensor, expected: Tensor) -> str | None:
    """Ints, or codes of a small floating type, at most one apart.

    Args:
        actual: the result.
        expected: the codes due, of the same dtype.
    """
    wrong = _shape(actual, expected)
    if wrong:
        return wrong
    expected = expected.to(actual.dtype)
    apart = (_ranks(actual) - _ranks(expected)).abs()
    if not bool((apart > 1).any()):
        return None
    return _at(actual, expected, apart > 1, f"is up to {int(apart.max())} codes away")


def _ranks(codes: Tensor) -> Tensor:
    """The place of each code in the order of their values."""
    if not codes.dtype.is_floating_point:
        return codes.to(torch.int64)
    signed = {1: torch.int8, 2: torch.int16, 4: torch.int32}[codes.itemsize]
    bits = codes.contiguous().view(signed).to(torch.int64)
    magnitude = bits & (2 ** (8 * codes.itemsize - 1) - 1)
    return torch.where(bits < 0, -magnitude, magnitude)


def as_sets(actual: Tensor, expected: Tensor) -> str | None:
    """Each row of the last axis holds the same elements, in any order."""
    wrong = _shape(actual, expected)
    if wrong or not actual.numel():
        return wrong
    one, other = (x.to(torch.int64).sort(-1).values for x in (actual, expected))
    bad = (one != other).any(-1)
    if not bool(bad.any()):
        return None
    return _at(one, other, (one != other), "holds other elements than are due, sorted by row")


def ties(actual: Tensor, expected: Tensor, scores: Tensor, allowed: float = 0.0) -> str | None:
    """Indices that choose as good elements as the ones due, each at most once a row.

    Args:
        actual: ``[..., K]``, indices into the last axis of ``scores``; -1 for none.
        expected: the indices due, in any order among equals.
        scores: ``[..., N]``, what is chosen by.
        allowed: how much worse a score may be, where scores are computed with roundings.
    """
    wrong = _shape(actual, expected)
    if wrong or not actual.numel():
        return wrong
    count = scores.shape[-1]
    if bool(((actual < -1) | (actual >= count)).any()):
        bad = (actual < -1) | (actual >= count)
        return _at(actual, expected, bad, f"is no index below {count}")
    if bool(((actual == -1) != (expected == -1)).any()):
        return _at(actual, expected, (actual == -1) != (expected == -1), "chooses more or fewer")
    ordered = actual.to(torch.int64).sort(-1).values
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    if bool(twice.any()):
        return f"chooses an element twice in {int(twice.any(-1).sum())} rows"
    wide = scores.double()
    chosen, due = (wide.gather(-1, x.clamp(min=0).to(torch.int64)) for x in (actual, expected))
    chosen, due = (x.masked_fill(expected == -1, 0).sort(-1).values for x in (chosen, due))
    bad = ~((chosen >= due - allowed) | (chosen.isnan() & due.isnan()))
    return _at(chosen, due, bad, "chooses elements with lower scores") if bool(bad.any()) else None


def masked(actual: Tensor, expected: Tensor, allowed: Tensor, counts: Tensor) -> str | None:
    """As :func:`close` where ``counts`` is true; the entry leaves the other elements open.

    Args:
        actual: the result.
        expected: the exact one, float64.
        allowed: the bound.
        counts: which elements are compared; broadcasts to the result's shape.
    """
    wrong = _shape(actual, expected)
    if wrong:
        return wrong
    counts = counts.expand(expected.shape)
    given = torch.where(counts, actual, expected.to(actual.dtype))
    return close(given, expected, allowed)


def distribution(samples: Tensor, probabilities: Tensor) -> str | None:
    """As often as is due, as far as chance can tell: within six standard deviations, and one draw.

    Args:
        samples: ``[draws]``, the categories drawn.
        probabilities: ``[categories]``, summing to 1.
    """
    categories = probabilities.numel()
    if bool(((samples < 0) | (samples >= categories)).any()):
        return f"draws categories outside of 0 to {categories - 1}"
    draws = samples.numel()
    counts = torch.bincount(samples.flatten().to(torch.int64), minlength=categories).double()
    due = probabilities.double() * draws
    if bool((counts[due == 0] > 0).any()):
        return "draws what has probability 0"
    deviation = (due * (1 - probabilities.double())).clamp(min=0).sqrt()
    bad = (counts - due).abs() > 6 * deviation + 1
    return (
        _at(counts, due, bad, f"is drawn too often or too rarely in {draws}") if bad.any() else None
    )


def check_close(
    actual: Tensor,
    expected: Tensor,
    *,
    terms: int = 1,
    magnitude: Tensor | float | None = None,
    inner: torch.dtype | None = None,
) -> None:
    """Compare with a result in float64 under the table of tolerances, for use in tests.

    Args:
        actual: the result; one of ints or bools must be equal.
        expected: the exact one.
        terms: see :func:`~tileops_core.conformance.tolerances.bound`.
        magnitude: see there.
        inner: see there.

    Raises:
        AssertionError: the difference, in a sentence.
    """
    if not actual.dtype.is_floating_point:
        wrong = exact(actual, expected)
    else:
        assert expected.dtype is torch.float64, f"expected is {expected.dtype}"
        limits = bound(expected, actual.dtype, terms=terms, magnitude=magnitude, inner=inner)
        wrong = close(actual, expected, limits)
    if wrong is not None:
        raise AssertionError(f"{actual.dtype}: {wrong}")


def _shape(actual: Tensor, expected: Tensor) -> str | None:
    if actual.shape == expected.shape:
        return None
    return f"has shape {tuple(actual.shape)}, due is {tuple(expected.shape)}"


def _at(actual: Tensor, expected: Tensor, bad: Tensor, what: str) -> str:
    """What is wrong, how often, and the first place."""
    first = tuple(int(i) for i in bad.nonzero()[0])
    one, other = actual[first].item(), expected[first].item()
    count, share = int(bad.sum()), bad.double().mean().item()
    where = f"at {list(first)}: " if first else ""
    percent = "" if count == bad.numel() else f" ({share:.1%})"
    return (
        f"{what}: {count} of {bad.numel()} elements{percent}; "
        f"{where}{_number(one)}, due is {_number(other)}"
    )


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
