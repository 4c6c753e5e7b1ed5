"""Signature in, plan out."""

from __future__ import annotations

from tileops_core.plan.emit_check import CheckEmitter
from tileops_core.plan.emit_results import ResultEmitter
from tileops_core.plan.model import Plan
from tileops_core.plan.source import SourceWriter, compile_source
from tileops_core.signature.model import Signature
from tileops_core.signature.problems import manifest_error
from tileops_core.signature.solving import solve


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
    checks = CheckEmitter(signature, solution, writer)
    checks.emit()
    writer.line("")
    ResultEmitter(checks).emit()
    filename = f"<tileops plan {signature.op}>"
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
