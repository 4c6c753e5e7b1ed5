"""Signature in, plan out."""

from __future__ import annotations

from functools import partial

from tileops_core.plan.emit_check import CheckEmitter
from tileops_core.plan.emit_results import ResultEmitter
from tileops_core.plan.model import Plan
from tileops_core.plan.source import LateSource, SourceWriter, compile_source
from tileops_core.signature.model import Signature
from tileops_core.signature.problems import manifest_error
from tileops_core.signature.solving import solve
from tileops_core.signature.steps import Solution


def build_plan(signature: Signature, home: tuple[str, str] | None = None) -> Plan:
    """Generate and compile the functions of one signature.

    Args:
        signature: the entry.
        home: module and name of the class that the plan is for.

    Raises:
        ManifestError: an index or a let that no order of solving settles; all are listed.
    """
    solution = solve(signature)
    if solution.unsolved:
        raise manifest_error(signature.op, solution.unsolved)
    writer = SourceWriter()
    filename = f"<tileops plan {signature.op}>"
    later = partial(_write_left_to_run, signature, solution)
    writer.use("_left_to_run", LateSource(later, f"<tileops plan {signature.op} left to run>"))
    checks = CheckEmitter(signature, solution, writer)
    checks.emit()
    writer.line("")
    ResultEmitter(checks).emit()
    functions = compile_source(writer, filename)
    return Plan(
        signature=signature,
        source=writer.text(),
        filename=filename,
        static_names=checks.statics,
        fact_names=checks.facts,
        construct=functions["construct"],
        check=functions["check"],
        outputs=functions["outputs"],
        written=functions["written"],
        flops=functions.get("flops"),
        moved=functions.get("moved"),
        home=home,
    )


def _write_left_to_run(signature: Signature, solution: Solution) -> SourceWriter:
    """``check`` and ``outputs`` for lengths that only data tell; few processes trace any."""
    writer = SourceWriter()
    checks = CheckEmitter(signature, solution, writer, left_to_run=True)
    checks.emit_check()
    writer.line("")
    ResultEmitter(checks).emit_outputs()
    return writer
