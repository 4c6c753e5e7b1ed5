"""Which names there may be: one pattern for each sort, for the reader, the index and the schema."""

from __future__ import annotations

import keyword
import re

from tileops_core.spans import Span
from tileops_core.spec.problems import Problem


def _no_keyword(pattern: str) -> str:
    """A pattern that fits no keyword of Python, in the syntax that JSON Schema has too."""
    return rf"^(?!(?:{'|'.join(keyword.kwlist)})$){pattern}$"


OP = r"^[A-Z][A-Za-z0-9_]*(?:FwdOp|BwdOp)$"
"""An op's name is that of its class, and says last which direction the op computes."""

FAMILY = _no_keyword("[a-z][a-z0-9_]*")
"""A family's name is that of the module that exports its ops."""

DECLARED = _no_keyword("[A-Za-z][A-Za-z0-9_]*")
"""What an entry declares is a name of expressions, and of arguments and attributes in Python."""

_OP, _FAMILY, _DECLARED = (re.compile(text, re.ASCII) for text in (OP, FAMILY, DECLARED))
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+", re.ASCII)


def is_op(name: str) -> bool:
    """Whether an op may have this name."""
    return _OP.fullmatch(name) is not None


def is_family(name: str) -> bool:
    """Whether a family may have this name."""
    return _FAMILY.fullmatch(name) is not None


def is_declared(name: str) -> bool:
    """Whether an index, a parameter, a tensor, a quantity or a type family may have this name."""
    return _DECLARED.fullmatch(name) is not None


def is_dotted(name: str) -> bool:
    """Whether this is a module's name and that of something in it, as Python could import it."""
    return _DOTTED.fullmatch(name) is not None and not any(map(keyword.iskeyword, name.split(".")))


def op_problem(name: str, span: Span) -> Problem | None:
    """What is wrong with an op's name; None when nothing is."""
    if is_op(name):
        return None
    if not name.endswith(("FwdOp", "BwdOp")):
        message = f"{name} ends in neither FwdOp nor BwdOp"
        return Problem("op-name", message, span, "say in the name which direction the op computes")
    return Problem(
        "op-name",
        f"no class can be called {name!r}",
        span,
        "begin with a capital letter from A to Z, go on with such letters, digits and underscores, "
        "and end in FwdOp or BwdOp",
    )


def family_problem(name: str, span: Span) -> Problem | None:
    """What is wrong with a family's name; None when nothing is."""
    if is_family(name):
        return None
    return Problem(
        "wrong-value",
        f"no family can be called {name!r}, which would be a module's name",
        span,
        "begin with a letter from a to z, go on with such letters, digits and underscores, and "
        "write no keyword of Python",
    )
