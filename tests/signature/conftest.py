"""Entries in a few words, for tests of the signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileops_core.errors import ManifestError
from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature
from tileops_core.spec.catalogue import load_spec_from
from tileops_core.spec.problems import Problem


def entry_of(changes: dict[str, Any]) -> dict[str, Any]:
    """An entry that is well formed, with parts of its signature replaced."""
    signature: dict[str, Any] = {
        "forall": {"M": "Dim", "N": "Dim", "S": "Shape", "T": "DType[float16 | float32]"},
        "params": {
            "flag": {"type": "bool", "default": False},
            "mode": {"type": "'a' | 'b'", "default": "a"},
            "cap": {"type": "float | None", "default": None},
            "size": {"type": "int | None", "default": None},
            "dim": {"type": "int | list[int] | tuple[int, ...] | None", "default": None},
            "dtype": {"type": "float16 | float32 | None", "default": None},
        },
        "inputs": {
            "x": {"dtype": "T", "shape": "[M, N, *S]"},
            "w": {"dtype": "T", "shape": "[N]", "optional": True},
        },
        "outputs": {"y": {"dtype": "T", "shape": "[M, N, *S]"}},
    }
    rows = changes.pop(
        "workloads",
        [{"label": "row", "M": 2, "N": 3, "S": [], "dtype_cases": [{"T": "float16"}]}],
    )
    roofline = changes.pop("roofline", {"flops": "M * N"})
    composition = changes.pop("composition", None)
    for key, value in changes.items():
        parts = key.split("__")
        place = signature
        for part in parts[:-1]:
            place = place[part]
        if value is None:
            del place[parts[-1]]
        else:
            place[parts[-1]] = value
    return {
        "family": "test",
        "status": "implemented",
        "signature": signature,
        "workloads": rows,
        "roofline": roofline,
        **({} if composition is None else {"composition": composition}),
    }


@pytest.fixture
def build() -> Callable[..., Signature]:
    """Builds a well-formed entry's signature; ``inputs__x={...}`` replaces a part of it."""

    def make(**changes: Any) -> Signature:
        return build_signature(load_spec_from(entry_of(changes), "TestFwdOp"))

    return make


@pytest.fixture
def problems(build: Callable[..., Signature]) -> Callable[..., tuple[Problem, ...]]:
    """The problems of an entry with parts replaced; none when it is well formed."""

    def find(**changes: Any) -> tuple[Problem, ...]:
        try:
            build(**changes)
        except ManifestError as error:
            return error.problems
        return ()

    return find
