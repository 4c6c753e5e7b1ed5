"""What a call costs: the entry's formulas, or the function that it names, and what they get wrong.

The entry is at fault where there is no cost: it must give one for every call that it accepts.
"""

from __future__ import annotations

import importlib
import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any

from tileops_core.errors import ManifestError
from tileops_core.plan.emit_tensor import label_of
from tileops_core.plan.reads import values_read
from tileops_core.plan.sites import value_text, values_text
from tileops_core.record.absent import NoValuesError
from tileops_core.signature.model import Roofline, Signature
from tileops_core.signature.problems import Problem, manifest_error
from tileops_core.spans import Span
from tileops_core.spec.expressions import Expr


def cost_of(
    signature: Signature,
    what: str,
    formula: Expr,
    compute: Callable[[], Any],
    values: Mapping[str, Any],
) -> int:
    """What one of the entry's formulas gives for a call.

    Args:
        signature: The entry.
        what: ``flops`` or ``bytes``.
        formula: The formula, for errors.
        compute: Computes it.
        values: What the call settled, by name.

    Raises:
        ManifestError: It has no value for this call, or a negative one.
    """
    cause: Exception | None = None
    try:
        cost = compute()
    except Exception as error:  # whatever it is, the call has no cost
        cause, problem = error, f"cannot be computed: {_told(error)}"
    else:
        if isinstance(cost, int) and cost >= 0:
            return cost
        problem = f"is {value_text(cost)}, a cost is a whole number from 0"
    read = values_text(values_read(signature, formula, values))
    problem += f", with {read}" if read else ""
    raise _refused(
        signature.op,
        f"the {what} of its roofline, {label_of(formula)}, {problem}",
        formula.span,
        "a roofline gives a cost for every call that the entry accepts",
    ) from cause


def _told(error: Exception) -> str:
    if isinstance(error, ZeroDivisionError):
        return "it divides by zero"
    if isinstance(error, IndexError):
        return "it reads an axis that is not there"
    return f"{type(error).__name__}: {error}"


def cost_by(signature: Signature, roofline: Roofline, record: Any) -> tuple[int, int]:
    """``(flops, bytes)`` that the entry's cost function gives for a record.

    Raises:
        ManifestError: There is no such function, it fails, or it gives something else than two
            whole numbers from 0.
    """
    assert roofline.func is not None
    op, name = signature.op, roofline.func
    function = cost_function(op, name, roofline.span)
    cause: Exception | None = None
    try:
        cost = function(record)
    except NoValuesError:
        raise
    except Exception as error:  # anybody's code
        cause, problem = error, f"fails with {type(error).__name__}: {error}"
    else:
        if isinstance(cost, (tuple, list)) and len(cost) == 2:
            counts = [_whole(value) for value in cost]
            if counts[0] is not None and counts[1] is not None:
                return counts[0], counts[1]
        problem = f"gives {value_text(cost)}, due is (flops, bytes), two whole numbers from 0"
    call = values_text(record.indices)
    problem += f"; the call is {call}" if call else ""
    raise _refused(op, f"its cost function {name} {problem}", roofline.span) from cause


def cost_function(op: str, name: str, span: Span) -> Callable[[Any], Any]:
    """The function that an entry's roofline names.

    Args:
        op: Whose entry it is.
        name: The function's dotted name.
        span: Where the entry names it.

    Raises:
        ManifestError: There is no such module, no such function in it, or it takes other arguments
            than one record.
    """
    module, _, attribute = name.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module that fails while it is imported fails with anything
        raise _refused(
            op,
            f"its roofline names {name}, which cannot be imported: {error}",
            span,
            "install what brings it, or correct the entry",
        ) from error
    what = "a class" if isinstance(function, type) else type(function).__name__
    if isinstance(function, type) or not callable(function):
        message = f"its roofline names {name}, which is no function but {what}"
        raise _refused(op, message, span, "name a function that takes the call's record")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        message = f"its cost function {name} does not take the one record that it is given: {error}"
        raise _refused(op, message, span, f"write def {attribute}(record)") from None
    except ValueError:
        pass  # a builtin that does not tell its arguments
    return function  # type: ignore[no-any-return]


def _whole(value: object) -> int | None:
    """A count as an int; None for what is none, as a fraction is."""
    if isinstance(value, float) and value.is_integer():  # NaN and the infinities are not
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return None
    return int(value) if int(value) >= 0 else None


def _refused(op: str, message: str, span: Span, hint: str = "") -> ManifestError:
    return manifest_error(op, [Problem("roofline", message, span, hint)])
