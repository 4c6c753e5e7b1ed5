"""What a call has to give: the oracle's results in float64, and how far off one may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch
from torch import Tensor

from tileops_core.conformance.inputs import Arguments
from tileops_core.conformance.kinds import Kind
from tileops_core.conformance.tolerances import TABLE, bound
from tileops_core.signature.instance import Instance
from tileops_core.signature.kinds import DTypeKind, MaybeKind

Oracle = Callable[..., Any]

_STEP = 2.0**-16
"""Relative size of the changes by which sensitivity is measured: the root of float64's rounding,
so that neither curvature nor rounding spoils it much."""

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
    names = [item.name for item in call.signature.inputs]
    base = _inputs(call, kind, arguments)
    exact = _run(call, kind, oracle, arguments, base, written)
    facts = [call.outputs[output.name] for output in call.signature.outputs]
    if len(facts) != len(exact.outputs):
        raise ValueError(f"the oracle gives {len(exact.outputs)} results, due are {len(facts)}")
    dtypes = [None if fact is None else getattr(torch, fact[0]) for fact in facts]
    dtypes += [_dtype(arguments.inputs[names.index(name)]) for name in written]
    values = [*exact.outputs, *(exact.written[name] for name in written)]
    sizes = _sensitivities(call, kind, oracle, arguments, base, written, values)
    terms = _terms(call)
    inner = _inner(base, arguments) if kind.rounds else None
    beside = sum(
        (float(x.double().abs().nan_to_num(0, 0, 0).amax())
         for name, x in zip(names, arguments.inputs, strict=True)
         if name in kind.cancels and x is not None and x.numel()),
        0.0,
    )  # fmt: skip
    due = [
        None if value is None else _due(value, dtype, size, terms, inner, beside)
        for value, dtype, size in zip(values, dtypes, sizes, strict=True)
    ]
    count = len(exact.outputs)
    rest = {name: one for name, one in zip(written, due[count:], strict=True) if one is not None}
    return Exact(tuple(due[:count]), rest)


@attrs.frozen
class _Results:
    outputs: tuple[Tensor | None, ...]
    written: Mapping[str, Tensor]


def _inputs(call: Instance, kind: Kind, arguments: Arguments) -> list[Tensor | None]:
    """The inputs as the oracle takes them: on the CPU, dense, cast and widened."""
    found: list[Tensor | None] = []
    for item, tensor in zip(call.signature.inputs, arguments.inputs, strict=True):
        if tensor is not None:
            tensor = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            tensor = tensor.resolve_neg()
            cast = call.params.get(kind.casts.get(item.name, ""))
            if cast is not None and tensor.is_floating_point():
                tensor = tensor.to(getattr(torch, cast))
            tensor = _wide(tensor) if kind.widened else tensor
        found.append(tensor)
    return found


def _wide(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def _params(call: Instance, kind: Kind, arguments: Arguments) -> dict[str, Any]:
    """The parameters as the oracle takes them; those that name a dtype ask for float64."""
    params = dict(arguments.params)
    for param in call.signature.params:
        of = param.kind.of if isinstance(param.kind, MaybeKind) else param.kind
        value = params[param.name]
        if isinstance(of, DTypeKind) and value is not None:
            dtype = getattr(torch, value)
            wide = kind.widened and dtype.is_floating_point
            params[param.name] = torch.float64 if wide else dtype
        elif isinstance(value, Tensor):
            params[param.name] = _wide(value.detach().cpu()) if kind.widened else value.cpu()
    return params


def _run(
    call: Instance,
    kind: Kind,
    oracle: Oracle,
    arguments: Arguments,
    inputs: list[Tensor | None],
    written: tuple[str, ...],
) -> _Results:
    """Call the oracle on copies of the inputs."""
    own = [None if x is None else x.clone() for x in inputs]
    with torch.inference_mode():
        result = oracle(*own, **_params(call, kind, arguments))
    results = result if isinstance(result, tuple) else (result,)
    if not call.signature.outputs:
        results = ()
    names = [item.name for item in call.signature.inputs]
    kept = {name: own[names.index(name)] for name in written}
    return _Results(results, {name: x for name, x in kept.items() if x is not None})


def _sensitivities(
    call: Instance,
    kind: Kind,
    oracle: Oracle,
    arguments: Arguments,
    base: list[Tensor | None],
    written: tuple[str, ...],
    values: list[Tensor | None],
) -> list[Tensor | None]:
    """How large the terms behind each element are: what relative changes of the inputs do to it.

    Each input is changed by itself, every element up or down by the same share. The root of the
    mean square over the draws is the root of the sum of the terms' squares.
    """
    if not any(value is not None and _is_approximate(value) for value in values):
        return [None] * len(values)
    sizes = [None if value is None else _wide(value).abs() for value in values]
    generator = torch.Generator("cpu").manual_seed(0)
    for at, tensor in enumerate(base):
        if not kind.widened or tensor is None or not _is_approximate(tensor) or not tensor.numel():
            continue
        squares = [None if value is None else torch.zeros_like(size)  # type: ignore[arg-type]
                   for value, size in zip(values, sizes, strict=True)]  # fmt: skip
        for _ in range(_DRAWS):
            sign = torch.randint(0, 2, tensor.shape, generator=generator, device="cpu") * 2 - 1
            moved = [*base[:at], tensor * (1 + _STEP * sign), *base[at + 1 :]]
            other = _run(call, kind, oracle, arguments, moved, written)
            changed = [*other.outputs, *(other.written[name] for name in written)]
            for total, one, value in zip(squares, changed, values, strict=True):
                if total is not None and one is not None and value is not None:
                    if _is_approximate(value):
                        total += ((one - value) / _STEP).abs().square() / _DRAWS
        for size, total in zip(sizes, squares, strict=True):
            if size is not None and total is not None:
                size += total.sqrt()
    return [None if size is None else _spread(size) for size in sizes]


def _is_approximate(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


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
    value: Tensor,
    dtype: torch.dtype | None,
    size: Tensor | None,
    terms: int,
    inner: torch.dtype | None,
    beside: float,
) -> Due:
    plain = value.detach()
    if dtype is None or size is None or not (dtype.is_floating_point or dtype.is_complex):
        return Due(plain, None)
    plain = _wide(plain)
    of = {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)
    return Due(plain, bound(plain.abs() if dtype.is_complex else plain, of, terms=terms,
                            magnitude=size + beside, inner=inner))  # fmt: skip


def _dtype(tensor: Tensor | None) -> torch.dtype | None:
    return None if tensor is None else tensor.dtype


def _inner(base: list[Tensor | None], arguments: Arguments) -> torch.dtype | None:
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
    most = max((_count(shape) for shape in shapes), default=1)
    least = min((max(1, _count(shape)) for shape in outputs), default=1)
    return max(1, longest, -(-most // least))


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count
