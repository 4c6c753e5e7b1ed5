"""Whether what a composite op is made of are ops: a question about all entries together."""

from __future__ import annotations

from collections.abc import Iterator, Set

from tileops_core.signature.problems import Problem
from tileops_core.spec.entries import Spec
from tileops_core.suggest import did_you_mean


def unknown_stages(spec: Spec, known: Set[str]) -> Iterator[Problem]:
    """A problem for each stage that names no op.

    Args:
        spec: The composite op's entry.
        known: The names of all ops: of the files checked with it, and of what is installed.
    """
    for stage in spec.composition.stages if spec.composition is not None else ():
        op = stage.op.value
        # What does not even look like an op's name is told where the entry itself is checked.
        if op not in known and op.endswith(("FwdOp", "BwdOp")):
            yield Problem(
                "composition",
                f"the stage {stage.name.value} is {op!r}, an op without an entry"
                f"{did_you_mean(op, known)}",
                stage.op.span,
                "name an op that is installed, or check the file that has its entry too",
            )
