"""Whether the roofline gives a cost for every row, and not 0 where work is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileops_core.errors import ManifestError
from tileops_core.record.signature_call import SignatureCall
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.model import Roofline, Signature
from tileops_core.signature.problems import Problems
from tileops_core.spec.expressions import Binary, Expr


def check_cost(
    signature: Signature,
    roofline: Roofline,
    record: SignatureCall,
    values: Mapping[str, Any],
    case: str,
    problems: Problems,
) -> bool:
    """Compute the cost of a row's call; whether it is one.

    Args:
        signature: The entry.
        roofline: Its roofline.
        record: The call.
        values: What the call's names stand for, as :func:`evaluate` reads them.
        case: The case's id.
        problems: Receives what is wrong.
    """
    try:
        flops, moved = record.roofline()
    except ManifestError as error:
        for problem in error.problems:
            problems.add(problem.code, f"{case}: {problem.message}", problem.span, problem.hint)
        return False
    if not any(record.bytes(name) for name in record.tensors):
        return True  # without data nothing is done, and nothing moved
    if moved == 0:
        span = roofline.span if roofline.bytes is None else roofline.bytes.span
        problems.add(
            "roofline",
            f"{case}: the call has data, and its cost is {flops} operations and 0 bytes",
            span,
            "every call reads what it is given or writes what it gives; leave bytes out, and they "
            "are counted",
        )
        return False
    if flops == 0 and roofline.flops is not None and _is_rounded(signature, roofline.flops, values):
        problems.add(
            "roofline",
            f"{case}: the call has data, and its flops are rounded down to 0",
            roofline.flops.span,
            "divide last, or with ceil_div; an op that computes nothing says flops: 0",
        )
        return False
    return True


def _is_rounded(signature: Signature, formula: Expr, values: Mapping[str, Any]) -> bool:
    """Whether a formula that gives 0 gives more when ``//`` does not round.

    A 0 that is exact is told by the formula: an op that only moves data computes nothing, and a
    sum of one term adds nothing.
    """
    names = dict(values)
    for let in signature.lets:  # each reads only earlier ones
        try:
            names[let.name] = evaluate(_unrounded(let.expr), names)
        except Exception:  # it needs whole numbers: as an index, or it lies on another branch
            continue
    try:
        return bool(evaluate(_unrounded(formula), names) != 0)
    except Exception:  # likewise
        return False


def _unrounded(expr: Expr) -> Expr:
    """The expression with ``/`` for every ``//``."""
    fields = attrs.fields(type(expr))
    changed = attrs.evolve(expr, **{f.name: _inside(getattr(expr, f.name)) for f in fields})
    if isinstance(changed, Binary) and changed.op == "//":
        return attrs.evolve(changed, op="/")
    return changed


def _inside(value: Any) -> Any:
    if isinstance(value, Expr):
        return _unrounded(value)
    return tuple(map(_inside, value)) if isinstance(value, tuple) else value
