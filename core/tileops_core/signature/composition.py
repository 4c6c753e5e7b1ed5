"""``composition``: the stages of an op that is made of other ops."""

from __future__ import annotations

import keyword
import re

from tileops_core.signature.model import Composition, Stage
from tileops_core.signature.problems import Problems
from tileops_core.spec.entries import Spec

_STAGE = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


def build_composition(spec: Spec, problems: Problems) -> Composition | None:
    """The composition of an entry, or None when it has none.

    Whether the stages' ops exist is found out where all entries are known.
    """
    entry = spec.composition
    if entry is None:
        return None
    if not entry.stages:
        problems.add("composition", "a composition has at least one stage", entry.span)
    seen: dict[str, str] = {}
    for stage in entry.stages:
        name, op = stage.name.value, stage.op.value
        if not _STAGE.fullmatch(name) or keyword.iskeyword(name):
            problems.add(
                "composition",
                f"{name!r} is no name of a stage",
                stage.name.span,
                "lower-case letters, digits and underscores",
            )
        if name in seen:
            problems.add(
                "composition", f"the stage {name} stands {seen[name]} too", stage.name.span
            )
        seen.setdefault(name, stage.name.span.where)
        if op == spec.op:
            problems.add("composition", f"{op} is a stage of itself", stage.op.span)
        elif not op.endswith(("FwdOp", "BwdOp")):
            problems.add(
                "composition",
                f"{op!r} is no op",
                stage.op.span,
                "the names of ops end in FwdOp or BwdOp",
            )
    stages = tuple(Stage(s.name.value, s.op.value, s.optional, s.span) for s in entry.stages)
    return Composition(stages, entry.span)
