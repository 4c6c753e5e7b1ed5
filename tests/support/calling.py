"""Inputs in the signature's order, as a call passes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileops_core.signature.model import Signature


def arguments(signature: Signature, inputs: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Those by position, and those that are taken by name alone."""
    pairs = list(zip(signature.inputs, inputs, strict=True))
    named = {tensor.name: x for tensor, x in pairs if tensor.kw_only}
    return [x for tensor, x in pairs if not tensor.kw_only], named


def called(signature: Signature, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """What an op, or a function that takes what it takes, gives for these inputs."""
    positional, named = arguments(signature, inputs)
    return function(*positional, **named)
