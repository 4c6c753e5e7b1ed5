"""Guess what somebody meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"`` for the closest known word, else ``""``.

    Compares without case, so that ``RmsNorm`` finds ``RMSNorm``.
    """
    by_folded = {name.casefold(): name for name in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return f" (did you mean {by_folded[close[0]]!r}?)" if close else ""


def listed(names: Iterable[str], none: str = "none") -> str:
    """Names, sorted and joined for a sentence; ``none`` when there is no name."""
    return ", ".join(sorted(names)) or none
