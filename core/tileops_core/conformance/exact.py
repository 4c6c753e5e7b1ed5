"""What a call has to give: the oracle's results in float64, and how far off one may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch
from torch import Tensor

from tileops_core.conformance.inputs import Arguments
from tileops_core.conformance.kinds import Kind
from tileops_core.conformance.tolerances import TABLE, UNLUCKY, bound
from tileops_core.signature.instance import Instance
from tileops_core.signature.kinds import DeviceKind, DTypeKind, MaybeKind

Oracle = Callable[..., Any]

_STEP = 2.0**-16
"""Relative size of the changes by which sensitivity is measured: large against float64's rounding,
small against any curvature."""

_DRAWS = 2
_NEIGHBORS, _ALL = 2.0**-3, 2.0**-6
"""A measured sensitivity may be small by chance: it is at least this part of its row's greatest,
and that of all."""


@attrs.frozen
class Due:
    """What one output, or one written input, has to be.

    Attributes:
        value: the exact one: float64 for floating results, else the oracle's own.
        allowed: the difference allowed, element by element; None for results that are exact.
    """

    value: Tensor
    allowed: Tensor | None


@attrs.frozen
class Exact:
    """What a call has to give.

    Attributes:
        outputs: per output, None where the call has none.
        written: per written input, by name.
    """

    outputs: tuple[Due | None, ...]
    written: Mapping[str, Due]


def expected(
    call: Instance, kind: Kind, oracle: Oracle, arguments: Arguments, written: tuple[str, ...]
) -> Exact:
    """The exact results of a call, and the differences allowed.

    Args:
        call: the call.
        kind: how its op's results are compared.
        oracle: computes the op.
        arguments: the call's own, which stay as they are.
        written: the inputs that the call writes.

    Raises:
        ValueError: the oracle does not give what the entry says.
    """
    asked = _Asked(call, kind, oracle, arguments, written)
    base = asked.inputs()
    values = asked.run(base)
    if kind.rounds and not kind.widened:
        # The value has the roundings of the contract; how large its terms are shows without them.
        wide = attrs.evolve(asked, kind=attrs.evolve(kind, widened=True))
        moved = wide.inputs()
        sizes = _sensitivities(wide, moved, wide.run(moved))
    else:
        sizes = _sensitivities(asked, base, values)
    terms = _terms(call)
    inner = _inner(arguments) if kind.rounds else None
    beside = _size_beside(call, kind, arguments)
    due = [
        _due(value, dtype, size if size is None else size + beside, terms, inner)
        for value, dtype, size in zip(values, asked.dtypes(), sizes, strict=True)
    ]
    count = len(call.signature.outputs)
    rest = {name: one for name, one in zip(written, due[count:], strict=True) if one is not None}
    return Exact(tuple(due[:count]), rest)


@attrs.frozen
class _Asked:
    """An oracle with the call it is asked about."""

    call: Instance
    kind: Kind
    oracle: Oracle
    arguments: Arguments
    written: tuple[str, ...]

    def inputs(self) -> list[Tensor | None]:
        """The inputs as the oracle takes them: on the CPU, dense, cast and widened."""
        found: list[Tensor | None] = []
        for item, tensor in zip(self.call.signature.inputs, self.arguments.inputs, strict=True):
            if tensor is not None:
                tensor = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
                tensor = tensor.resolve_neg()
                cast = self.call.params.get(self.kind.casts.get(item.name, ""))
                if cast is not None and tensor.is_floating_point():
                    tensor = tensor.to(getattr(torch, cast))
                tensor = _wide(tensor) if self.kind.widened else tensor
            found.append(tensor)
        return found

    def params(self) -> dict[str, Any]:
        """The parameters as the oracle takes them; dtypes ask for float64, devices for the CPU."""
        params = dict(self.arguments.params)
        for param in self.call.signature.params:
            of = param.kind.of if isinstance(param.kind, MaybeKind) else param.kind
            value = params[param.name]
            if isinstance(of, DTypeKind) and value is not None:
                dtype = getattr(torch, value)
                wide = self.kind.widened and dtype.is_floating_point
                params[param.name] = torch.float64 if wide else dtype
            elif isinstance(value, Tensor):
                value = value.detach().cpu()
                params[param.name] = _wide(value) if self.kind.widened else value
            elif isinstance(of, DeviceKind):
                params[param.name] = torch.device("cpu")
        return params

    def run(self, inputs: list[Tensor | None]) -> list[Tensor | None]:
        """The results on copies of the inputs: outputs in order, then the written inputs.

        Raises:
            ValueError: there are more or fewer outputs than the entry has.
        """
        own = [None if x is None else x.clone() for x in inputs]
        with torch.inference_mode():
            result = self.oracle(*own, **self.params())
        outputs = self.call.signature.outputs
        results = result if isinstance(result, tuple) else (result,)
        results = results if outputs else ()
        if len(results) != len(outputs):
            raise ValueError(f"the oracle gives {len(results)} results, due are {len(outputs)}")
        return [*results, *(own[self._place(name)] for name in self.written)]

    def dtypes(self) -> list[torch.dtype | None]:
        """The dtypes that the results have in the call, in the same order."""
        facts = [self.call.outputs[output.name] for output in self.call.signature.outputs]
        found = [None if fact is None else getattr(torch, fact[0]) for fact in facts]
        written = [self.arguments.inputs[self._place(name)] for name in self.written]
        return [*found, *(None if x is None else x.dtype for x in written)]

    def _place(self, name: str) -> int:
        return [item.name for item in self.call.signature.inputs].index(name)


def _sensitivities(
    asked: _Asked, base: list[Tensor | None], values: list[Tensor | None]
) -> list[Tensor | None]:
    """How large the terms behind each element are: what relative changes of the inputs do to it.

    Each input is changed by itself, every element up or down by the same share. The root of the
    mean square over the draws is the root of the sum of the terms' squares.
    """
    sizes = [None if v is None or not _is_approximate(v) else _wide(v).abs() for v in values]
    if all(size is None for size in sizes) or not asked.kind.widened:
        return [None if size is None else _spread(size) for size in sizes]
    generator = torch.Generator("cpu").manual_seed(0)
    for at, tensor in enumerate(base):
        if tensor is None or not _is_approximate(tensor) or not tensor.numel():
            continue
        squares = [None if size is None else torch.zeros_like(size) for size in sizes]
        for _ in range(_DRAWS):
            sign = torch.randint(0, 2, tensor.shape, generator=generator, device="cpu") * 2 - 1
            moved = [*base[:at], tensor * (1 + _STEP * sign), *base[at + 1 :]]
            for total, one, value in zip(squares, asked.run(moved), values, strict=True):
                if total is not None and one is not None and value is not None:
                    total += ((one - value) / _STEP).abs().square() / _DRAWS
        for size, total in zip(sizes, squares, strict=True):
            if size is not None and total is not None:
                size += total.sqrt()
    return [None if size is None else _spread(size) for size in sizes]


def _spread(size: Tensor) -> Tensor:
    """The sizes without those that are small by chance."""
    size = size.nan_to_num(0.0, 0.0, 0.0)
    if not size.numel():
        return size
    least = size.amax() * _ALL
    if size.dim():
        least = torch.maximum(least, size.amax(-1, keepdim=True) * _NEIGHBORS)
    return torch.maximum(size, least)


def _due(
    value: Tensor | None,
    dtype: torch.dtype | None,
    size: Tensor | None,
    terms: int,
    inner: torch.dtype | None,
) -> Due | None:
    if value is None or dtype is None:
        return None
    if size is None or not (dtype.is_floating_point or dtype.is_complex):
        return Due(value, None)
    value = _wide(value)
    exact = value.abs() if dtype.is_complex else value
    allowed = bound(exact, dtype.to_real(), terms=terms, magnitude=size)
    if inner is not None:
        allowed = allowed + UNLUCKY * TABLE[inner].rounding * size
    return Due(value, allowed)


def _size_beside(call: Instance, kind: Kind, arguments: Arguments) -> float:
    """The greatest element of each input whose size bounds the errors, summed."""
    total = 0.0
    for item, tensor in zip(call.signature.inputs, arguments.inputs, strict=True):
        if item.name in kind.cancels and tensor is not None and tensor.numel():
            total += float(tensor.double().abs().nan_to_num(0.0, 0.0, 0.0).amax())
    return total


def _is_approximate(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _wide(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def _inner(arguments: Arguments) -> torch.dtype | None:
    """The least exact dtype that factors may be rounded to: that of a floating input."""
    dtypes = [x.dtype for x in arguments.inputs if x is not None and x.dtype in TABLE]
    # Weights are never rounded to fewer than 16 bits.
    dtypes = [torch.bfloat16 if d.itemsize == 1 else d for d in dtypes]
    return max(dtypes, key=lambda d: TABLE[d].rounding, default=None)


def _terms(call: Instance) -> int:
    """An upper bound of how many terms one element of a result adds up.

    A sum runs over axes of one input, so it is no longer than the longest axis, or than there are
    elements of the input for one of the result where it runs over several.
    """
    shapes = [fact[1] for fact in (*call.inputs.values(), *call.tensors.values()) if fact]
    outputs = [fact[1] for fact in call.outputs.values() if fact]
    longest = max((max(shape, default=1) for shape in shapes), default=1)
    most = max(map(math.prod, shapes), default=1)
    least = min((max(1, math.prod(shape)) for shape in outputs), default=1)
    return max(1, longest, -(-most // least))
