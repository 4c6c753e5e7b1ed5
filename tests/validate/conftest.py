"""Validate entries of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tileops_core.validate import Report, validate
from tileops_core.validate.examples import entry_text


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Report]:
    """``check({"signature.let": "L: M"})`` validates the small entry with parts replaced."""

    def run(changes: dict[str, str] | str | None = None, *, code: bool = False) -> Report:
        text = changes if isinstance(changes, str) else entry_text(changes)
        path = tmp_path / "probe.yaml"
        path.write_text(text, encoding="utf-8")
        return validate(path, code=code)

    return run


@pytest.fixture
def codes(check: Callable[..., Report]) -> Callable[..., list[str]]:
    """The codes of the findings, in their order."""
    return lambda *args, **more: [finding.code for finding in check(*args, **more)]
