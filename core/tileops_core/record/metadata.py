"""Values of the inputs that describe others, read from a record when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch

from tileops_core.errors import TileOpsError
from tileops_core.record.absent import NoValuesError
from tileops_core.signature.generators import Nested
from tileops_core.suggest import did_you_mean, listed

Metadata: TypeAlias = "Mapping[str, torch.Tensor | Nested | None]"
"""A call's metadata by the input's name: the tensor passed, None for an absent one, or the values
that a workload row makes."""


def metadata_values(op: str, known: tuple[str, ...], given: Metadata | None, name: str) -> Any:
    """What a metadata tensor holds, as nested lists of ints.

    Args:
        op: Whose call it was.
        known: The op's inputs that describe others.
        given: What the record keeps of them; None if it keeps nothing.
        name: Whose values are asked for.

    Raises:
        TileOpsError: ``name`` describes nothing, or was not passed.
        NoValuesError: it has no values here.
    """
    if name not in known:
        raise TileOpsError(
            f"{op}: {name!r} is no input that describes others{did_you_mean(name, known)}; with "
            f"values in the entry are {listed(known)}"
        )
    if given is None:
        raise NoValuesError(f"{op}: the values of {name} are not here, the record was made without")
    value = given.get(name)
    if value is None:
        raise TileOpsError(
            f"{op}: {name} was not part of the call, so it has no values; ask present({name!r}) "
            "before"
        )
    if not isinstance(value, torch.Tensor):
        return _lists(value)
    if value.device.type == "meta" or hasattr(value, "fake_mode"):
        raise NoValuesError(
            f"{op}: {name} has no values, because the call was made with a tensor that has no data "
            "(meta or fake)"
        )
    if value.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise NoValuesError(
            f"{op}: the values of {name} cannot be read while a CUDA graph is captured; read them "
            "before or after"
        )
    return value.tolist()


def _lists(values: Any) -> Any:
    """Nested sequences as nested lists of their own."""
    if isinstance(values, int):
        return values
    if not len(values) or isinstance(values[0], int):  # a million of them in one go
        return list(values)
    if len(values[0]) and isinstance(values[0][0], int):
        return list(map(list, values))
    return [_lists(value) for value in values]
