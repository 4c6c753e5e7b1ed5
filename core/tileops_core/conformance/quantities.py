"""The lengths of a call that can be changed, one at a time."""

from __future__ import annotations

from typing import Any

import attrs

from tileops_core.signature.instance import Instance
from tileops_core.signature.kinds import AxesKind, DimKind, SeqKind, ShapeKind
from tileops_core.signature.model import Signature
from tileops_core.signature.scaling import changed


@attrs.frozen
class Quantity:
    """A Dim, the ``axis`` of a Shape, or all lengths of a Seq."""

    name: str
    axis: int | None = None

    def __str__(self) -> str:
        return self.name if self.axis is None else f"{self.name}[{self.axis}]"

    def set(self, value: Any, size: int) -> Any:
        """The name's value with this length."""
        if self.axis is not None:
            return (*value[: self.axis], size, *value[self.axis + 1 :])
        return (size,) * len(value) if isinstance(value, tuple) else size


def quantities(call: Instance) -> list[Quantity]:
    """What of a call has a length, parameters first, then indices."""
    found: list[Quantity] = []
    kinds = {param.name: param.kind for param in call.signature.params}
    kinds |= {index.name: index.kind for index in call.signature.indices}
    values = {**call.params, **call.given}
    for name, kind in kinds.items():
        value = values.get(name)
        if isinstance(kind, ShapeKind) and value is not None:
            found += [Quantity(name, axis) for axis in range(len(value))]
        elif name in call.given and isinstance(kind, DimKind | SeqKind):
            found.append(Quantity(name))
    return found


def resized(call: Instance, quantity: Quantity, size: int) -> Instance | None:
    """The call with another length, alone or together with all that are as long.

    Returns:
        None when the entry accepts neither, or when the length is that already.
    """
    if _length(call, quantity) == size:
        return None
    alone = _with(call, [quantity], size)
    if alone is not None:
        return alone
    alike = [q for q in quantities(call) if _length(call, q) == _length(call, quantity)]
    return _with(call, alike, size)


def _length(call: Instance, quantity: Quantity) -> int:
    value = {**call.params, **call.given}[quantity.name]
    if quantity.axis is not None:
        return int(value[quantity.axis])
    return max(value, default=0) if isinstance(value, tuple) else int(value)


def _with(call: Instance, several: list[Quantity], size: int) -> Instance | None:
    values = {**call.params, **call.given}
    for quantity in several:
        values[quantity.name] = quantity.set(values[quantity.name], size)
    return changed(call, {quantity.name: values[quantity.name] for quantity in several})


def axes_params(signature: Signature) -> list[str]:
    """The parameters that name axes of a tensor."""
    return [p.name for p in signature.params if isinstance(p.kind, AxesKind) or p.name == "dim"]
