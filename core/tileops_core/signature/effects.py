"""What an entry says is written, and whether its outputs agree with that."""

from __future__ import annotations

from tileops_core.signature.model import Input, Output
from tileops_core.signature.problems import Problems
from tileops_core.spec.entries import OutputEntry
from tileops_core.suggest import did_you_mean, listed


def check_effects(
    inputs: tuple[Input, ...],
    outputs: tuple[Output, ...],
    entries: tuple[OutputEntry, ...],
    problems: Problems,
) -> None:
    """Check written inputs, aliases and the ``out`` buffer against each other."""
    for item in inputs:
        if item.write_only and item.mutated is not True:
            problems.add(
                "effects",
                f"{item.name} is write_only without mutated: true",
                item.span,
                "what is only written is written on every branch",
            )
    written = {item.name: item for item in inputs if item.mutated is not False}
    for output, entry in zip(outputs, entries, strict=True):
        if entry.alias is None:
            continue
        target = written.get(entry.alias.value)
        if target is None:
            problems.add(
                "effects",
                f"{output.name} is an alias of {entry.alias.value!r}, which is no written input"
                f"{did_you_mean(entry.alias.value, written)}",
                entry.alias.span,
                f"inputs with mutated are {listed(written)}",
            )
        elif target.dtype != output.dtype or target.shape != output.shape:
            problems.add(
                "effects",
                f"{output.name} is an alias of {target.name} and has another type",
                entry.alias.span,
                "the same tensor has one dtype and shape",
            )
        if output.buffer:
            problems.add(
                "effects",
                f"{output.name} has a buffer and is an alias",
                entry.span,
                "an alias is returned in the input's own memory",
            )
    buffers = [output for output in outputs if output.buffer]
    for output in buffers[1:]:
        problems.add(
            "effects",
            f"{output.name} is a second output with a buffer",
            output.span,
            "a call has one out",
        )


def check_order(inputs: tuple[Input, ...], problems: Problems) -> None:
    """Note required inputs that stand after optional ones."""
    optional: Input | None = None
    for item in inputs:
        if item.kw_only:
            continue
        if item.optional is False and optional is not None:
            problems.add(
                "input-order",
                f"{item.name} is required and stands after {optional.name}, which is optional",
                item.span,
                "declare required inputs first",
            )
        if item.optional is not False:
            optional = item
