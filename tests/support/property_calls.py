"""Calls as data: what is passed, how it lies in memory, what is going on around; and outcomes.

A call is made anew from its recipe each time, so that two instances get equal tensors and neither
sees what the other wrote.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import attrs
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tileops_core import checks
from tileops_core.conformance.layouts import laid_out
from tileops_core.record.absent import NoValuesError

_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)

LAYOUTS = ("dense", "transposed", "strided", "padded", "offset", "expanded", "negative")
"""Ways in which the values of an ordinary tensor may lie in memory."""

FORMS = ("parameter", "buffer", "subclass", "inference", "grad", "grad_child", "wrapper")
"""What a tensor may be besides an ordinary one; a wrapper takes part in dispatch."""

ODD = ("sparse", "csr", "nested", "quantized", "mkldnn", "list", "number", "array", "nothing")
"""What a tensor must not be."""

SURROUNDINGS = ("plain", "no_grad", "inference", "autocast", "dispatch_mode", "checks")


class Subclass(torch.Tensor):
    """A tensor of another class that does nothing of its own."""


class Wrapper(torch.Tensor):
    """A tensor whose class takes part in dispatch: it holds the tensor that it stands for."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), dtype=inner.dtype, device=inner.device
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(_bare, (args, kwargs or {}))
        return func(*args, **kwargs)


def _bare(value: Any) -> Any:
    return value.inner if isinstance(value, Wrapper) else value


class Watch(TorchDispatchMode):
    """A mode that lets everything pass."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@attrs.frozen
class Given:
    """A tensor to be made: facts, the seed of its values, its layout and what it is."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    seed: int = 0
    layout: str = "dense"
    form: str = "tensor"
    device: str = "cpu"

    def make(self) -> Any:
        """The tensor, new."""
        tensor = laid_out(_values(self.dtype, self.shape, self.seed), self.layout)
        return _in_form(tensor if self.device == "cpu" else tensor.to(self.device), self.form)


def _values(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(0, 7, shape, generator=generator).to(dtype)
    values = torch.randn(shape, generator=generator)
    if values.numel() > 1 and seed % 5 == 0:
        values.view(-1)[0] = float("nan")
    return values.to(dtype)


def _in_form(tensor: torch.Tensor, form: str) -> Any:
    differentiable = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    if form in ("sparse", "csr") and tensor.dtype in _FLOAT8:
        tensor = tensor.float()  # of eight bits there are no sparse ones
    match form:
        case "parameter":
            return torch.nn.Parameter(tensor, requires_grad=False)
        case "buffer":
            return torch.nn.Buffer(tensor)
        case "subclass":
            return tensor.as_subclass(Subclass)
        case "wrapper":
            return Wrapper(tensor)
        case "inference":
            with torch.inference_mode():
                return tensor.clone()
        case "grad":
            return tensor.requires_grad_() if differentiable else tensor
        case "grad_child":
            return tensor.requires_grad_().clone() if differentiable else tensor
        case "sparse":
            return tensor.to_sparse()
        case "csr":
            return tensor.to_sparse_csr() if tensor.dim() == 2 else tensor.to_sparse()
        case "nested":
            return torch.nested.nested_tensor([tensor])
        case "quantized":
            return torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.qint8)
        case "mkldnn":
            if not 0 < tensor.dim() < 6:  # mkldnn knows no others
                return tensor.to_sparse()
            return tensor.float().resolve_neg().contiguous().to_mkldnn()
        case "list":
            return [1.0, 2.0]
        case "number":
            return 1.0
        case "array":
            return tensor.float().resolve_neg().numpy()
        case "nothing":
            return None
    return tensor


@contextmanager
def surroundings(name: str) -> Iterator[None]:
    """What goes on around a call."""
    around: Mapping[str, Any] = {
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        "dispatch_mode": Watch,
        "checks": lambda: checks(metadata=True, purity=True),
    }
    with around.get(name, nullcontext)():
        yield


@attrs.frozen
class Outcome:
    """What came of a call: results or an error, and the arguments after it."""

    told: Any
    arguments: Any
    record: Any


def outcome(op: Any, make: Any, around: str = "plain") -> Outcome:
    """Call an op with new arguments and tell what came of it.

    Args:
        op: The instance.
        make: Returns ``(positional, named)`` arguments.
        around: What goes on around the call.
    """
    positional, named = make()
    given = [*positional, *named.values()]
    record = None
    try:
        with surroundings(around):
            result = op(*positional, **named)
    except Exception as error:
        notes = tuple(getattr(error, "__notes__", ()))
        told: Any = (type(error), str(error), notes)
    else:
        results = result if isinstance(result, tuple) else (result,)
        same = tuple(next((i for i, a in enumerate(given) if a is r), None) for r in results)
        told = (type(result) is tuple, same, tuple(map(seen, results)))
        record = facts_of(op.last_call)
    return Outcome(told, tuple(map(seen, given)), record)


def seen(value: Any) -> Any:
    """A value as what can be compared: a tensor by its facts and its bits."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    plain = value.layout is torch.strided and not value.is_quantized and not value.is_nested
    return (
        type(value).__name__,
        value.dtype,
        tuple(value.shape) if plain else None,
        value.stride() if plain else None,
        str(value.device),
        value.requires_grad,
        value.is_inference(),
        bits(value) if plain and value.device.type == "cpu" else None,
    )


def bits(tensor: torch.Tensor) -> bytes:
    """The values as they are in memory, NaNs and signs of zeros included."""
    with torch.inference_mode():
        plain = tensor.detach().as_subclass(torch.Tensor)
        # A copy has no negative bit, and the strides that its shape says.
        copy = plain.clone(memory_format=torch.contiguous_format)
        return copy.reshape(-1).view(torch.uint8).numpy().tobytes()


def same_values(written: bool) -> frozenset[str]:
    """The forms of a tensor that an op takes as it takes an ordinary one."""
    harmless = frozenset({"tensor", "parameter", "buffer", "subclass", "grad_child"})
    return harmless if written else harmless | {"grad", "inference"}


def values_of(outcome: Outcome) -> Any:
    """The results' dtypes, shapes and bits; None for a call that was refused."""
    if isinstance(outcome.told[0], type):
        return None
    return [(r[1], r[2], r[-1]) if isinstance(r, tuple) else r for r in outcome.told[2]]


def reads_memory(kernel: Any) -> Any:
    """A kernel that works on memory as it lies, as native ones do, and says so."""

    def checked(*tensors: Any, **named: Any) -> Any:
        for tensor in (*tensors, *named.values()):
            if tensor is not None and (
                not tensor.is_contiguous()
                or tensor.is_neg()
                or type(tensor) not in (torch.Tensor, torch.nn.Parameter)
                or torch.is_autocast_enabled("cpu")
            ):
                raise AssertionError("a kernel was given what it cannot read")
        return kernel(*tensors, **named)

    return checked


def facts_of(record: Any) -> Any:
    """All that a record tells."""
    return (
        record.op,
        dict(record.indices),
        record.device,
        dict(record.tensors),
        dict(record.traffic),
        record.written,
        record.has_out,
        record.branch_key,
        str(record.served_by),
        _cost(record),
    )


def _cost(record: Any) -> Any:
    """What a call costs, if that can be told without the values of a tensor."""
    try:
        return record.roofline()
    except NoValuesError as error:
        return str(error)


def arguments(op: type, inputs: Mapping[str, Given | None], out: Given | None = None) -> Any:
    """A function that makes a call's arguments; absent trailing ones are left out."""
    parameters = inspect.signature(op.__call__).parameters

    def make() -> tuple[list[Any], dict[str, Any]]:
        positional, named = [], {}
        for name, given in inputs.items():
            value = None if given is None else given.make()
            if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
                named[name] = value
            else:
                positional.append(value)
        if out is not None:
            named["out"] = out.make()
        return positional, named

    return make
