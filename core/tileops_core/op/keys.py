"""Keys: what an instance is, in text that can be read back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

import torch

from tileops_core.backend.targets import BUILTIN, Builtin
from tileops_core.kernels.typed_keys import field_names
from tileops_core.plan.model import Plan
from tileops_core.plan.params import python_class
from tileops_core.signature.kinds import AdtKind, Kind, MaybeKind, OpaqueKind


class NotInTextError(ValueError):
    """A key names a value that only its instance has: a tensor, or a stranger's object."""


def key_of(
    plan: Plan,
    values: tuple[Any, ...],
    target: str | Builtin | None,
    injected: tuple[Any, ...] = (),
    changes: str | None = None,
) -> str:
    """The content of an instance as one JSON list: op, parameters, target, hash of the entry.

    Equal content gives an equal key, and a key met again means the same thing: it can be read
    back, unlike an address. Who is installed is no part of it.

    Args:
        plan: the op's plan.
        values: its parameters in manifest order.
        target: what ``target=`` was.
        injected: what a family's constructor took besides; None for what was not given.
        changes: names what a class that derives from the op's changes of it, if anything.
    """
    parts = [
        plan.op,
        [typed(v) for v in values],
        {"builtin": True} if isinstance(target, Builtin) else target,
        plan.signature.entry_hash,
    ]
    if changes is not None or any(value is not None for value in injected):
        parts.append([value if value is None else _own(value) for value in injected])
    if changes is not None:
        parts.append(changes)
    return json.dumps(parts, separators=(",", ":"))


def typed(value: Any) -> Any:
    """A parameter for the instance's key: JSON keeps 1, 1.0, True, 0.0 and -0.0 apart.

    What content cannot name, a tensor or a stranger's object, gets a name of its own, never used
    again.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [typed(v) for v in value]
    if isinstance(value, torch.dtype | torch.device):
        return {type(value).__name__: str(value).removeprefix("torch.")}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, Mapping):
        return {"mapping": [[k, typed(v)] for k, v in value.items()]}
    names = field_names(type(value))
    if names is not None:
        fields = [[name, typed(getattr(value, name))] for name in names]
        return {f"{type(value).__module__}.{type(value).__qualname__}": fields}
    return _own(value)


def name_of_class(cls: type) -> str:
    """A name that no other class has, not even one that the same text defines again."""
    return f"{cls.__module__}.{cls.__qualname__} {uuid.uuid4().hex}"


def _own(value: Any) -> dict[str, str]:
    return {f"a {type(value).__name__} of its own": uuid.uuid4().hex}


def arguments_of(plan: Plan, key: list[Any]) -> dict[str, Any]:
    """The constructor's arguments that a parsed key names.

    Raises:
        NotInTextError: one of them has no text.
    """
    if len(key) > 5:
        raise NotInTextError(f"what {key[5].partition(' ')[0]} changes of the op")
    if len(key) > 4:
        raise NotInTextError("an object given at construction")
    params = plan.signature.params
    given = {p.name: _read(p.kind, v) for p, v in zip(params, key[1], strict=True)}
    return {**given, "target": BUILTIN if isinstance(key[2], dict) else key[2]}


def _read(kind: Kind, text: Any) -> Any:
    if isinstance(text, list):
        return tuple(_read(kind, item) for item in text)
    if not isinstance(text, dict):
        return text
    ((name, value),) = text.items()
    match name:
        case "dtype":
            return getattr(torch, value)
        case "device":
            return torch.device(value)
        case "complex":
            return complex(*value)
        case "mapping":
            return {k: _read(kind, v) for k, v in value}
    kind = kind.of if isinstance(kind, MaybeKind) else kind
    paths: tuple[str, ...] = ()
    if isinstance(kind, AdtKind):
        paths = tuple(form.python for form in kind.constructors)
    elif isinstance(kind, OpaqueKind):
        paths = (kind.python,)
    # The key of an exported program comes from a file: no class but the entry's own is made.
    if name in paths:
        return python_class(name)(**{k: _read(kind, v) for k, v in value})
    raise NotInTextError(name)
