"""What an op class may not do, found in its source and in what a call leaves on an instance.

Three rules: a body checks nothing that the signature states, and asks for no device type; it keeps
nothing; sub-ops come from ``delegate_for`` only.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from tileops_core import Op
from tileops_core.kernels import Kernel

_CACHES = {"cache", "lru_cache", "cached_property"}
_DEVICE = {"is_cuda", "is_cpu", "is_meta", "is_mps", "is_xpu", "is_available"}


def faults_of(cls: type[Op]) -> list[str]:
    """What of a class's own source breaks a rule, a line each."""
    methods = []
    for owner in cls.__mro__[: cls.__mro__.index(Op)]:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        (defined,) = tree.body
        assert isinstance(defined, ast.ClassDef)
        methods += [(owner, item) for item in defined.body if isinstance(item, ast.FunctionDef)]
    asked = {name for _, method in methods if method.name != "__init__" for name in _asks(method)}
    construct = {name for _, method in methods for name in _asks(method)} - asked | {"__init__"}
    return [
        f"{owner.__name__}.{method.name} {fault}"
        for owner, method in methods
        for fault in _in_method(method, method.name in construct)
    ]


def _asks(method: ast.FunctionDef) -> Iterator[str]:
    """The methods of its own class that a method calls."""
    for node in ast.walk(method):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and _name(called.value) == "self":
            yield called.attr


def _in_method(method: ast.FunctionDef, constructs: bool) -> Iterator[str]:
    """What breaks a rule; ``constructs``: only ``__init__`` calls it."""
    for decorator in method.decorator_list:
        if _name(decorator) in _CACHES:
            yield f"keeps its results with {_name(decorator)}"
    for node in ast.walk(method):
        if isinstance(node, (ast.Raise, ast.Assert)) and not constructs:
            yield "checks something itself"
        if isinstance(node, ast.Attribute) and node.attr in _DEVICE:
            yield f"asks {node.attr}"
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "type"
            and _name(node.value) == "device"
        ):
            yield "asks for the device's type"
        if isinstance(node, ast.Call):
            yield from _in_call(node, constructs)
        if not constructs:
            yield from _kept(node)
        yield from _kept_sub_op(node)


def _in_call(node: ast.Call, constructs: bool) -> Iterator[str]:
    if isinstance(node.func, ast.Call):
        return  # looked at by itself
    name = _name(node.func)
    # A parameter may be told from another form of itself; what the call brings was checked.
    if name == "isinstance" and not constructs and _root(node.args[0]) != "self":
        yield "checks something itself"
    if name in _CACHES:
        yield f"keeps results with {name}"
    if name in ("setattr", "__setattr__") and not constructs:
        yield "keeps something on itself"
    if name.endswith(("FwdOp", "BwdOp")):
        yield f"constructs a {name} instead of asking delegate_for"


def _kept(node: ast.AST) -> Iterator[str]:
    """Assignments to attributes or items of ``self``, and to what lies outside the method."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        targets = [node.target]
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield "writes what lies outside of it"
    for target in targets:
        if not isinstance(target, ast.Name) and _root(target) == "self":
            yield "keeps something on itself"


def _kept_sub_op(node: ast.AST) -> Iterator[str]:
    """A sub-op that is assigned to an attribute, where a copy or an undo would miss it."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return
    asks = _name(node.value.func) in ("delegate_for", "kernel_for")
    if asks and any(isinstance(target, ast.Attribute) for target in node.targets):
        yield "keeps what delegate_for or kernel_for gave"


def _root(node: ast.AST) -> str:
    """The name at the beginning of a chain of attributes and items."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return _name(node)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def left_on(op: Op, before: dict[str, Any]) -> list[str]:
    """What a call left on an instance outside of its groups, or what should never be there.

    Args:
        op: the instance, after a call.
        before: its attributes before.
    """
    after = vars(op)
    found = [f"has a new attribute {name}" for name in after if name not in before]
    found += [f"has another {n}" for n, value in before.items() if after.get(n) is not value]
    found += [f"holds a kernel or an op as {n}" for n, value in after.items() if _holds(value)]
    return found


def _holds(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_holds, value))
    return isinstance(value, (Op, Kernel))
