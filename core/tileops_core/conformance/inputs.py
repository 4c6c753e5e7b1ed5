"""The tensors of a call, made from the entry and a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import torch
from torch import Tensor

from tileops_core.conformance import fills
from tileops_core.conformance.layouts import laid_out, poison
from tileops_core.signature.instance import Fact, Instance
from tileops_core.signature.kinds import DeviceKind
from tileops_core.signature.workload import WorkloadCase, seed_of

VALUES: Mapping[str, str] = {
    "ordinary": "what the fill table says, else normal numbers",
    "positive": "numbers from 0.5 to 1.5 in the place of normal ones, so that sums grow",
    "zeros": "zeros in the place of normal numbers",
    "large": "ordinary ones times 10,000, as far as the dtype goes",
    "nan:NAME": "ordinary ones, and one NaN in the middle of the input NAME",
}
"""What tensors may hold."""


@attrs.frozen
class Arguments:
    """What an op is constructed with and called with.

    Attributes:
        params: the parameters by name, those that are tensors too.
        inputs: the inputs in the signature's order, None for absent ones.
        out: the caller's buffer, None if there is none.
    """

    params: Mapping[str, Any]
    inputs: tuple[Tensor | None, ...]
    out: Tensor | None = None

    def copies(self) -> Arguments:
        """The same values in memory of their own, dense."""
        dense = [None if x is None else _copy(x) for x in self.inputs]
        return Arguments(self.params, tuple(dense), None if self.out is None else _copy(self.out))


def _copy(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format).resolve_neg()


def made(case: WorkloadCase) -> list[Tensor | None]:
    """A row's inputs in order, on torch's default device, None for those that it leaves out."""
    return list(make(case.instance, device=torch.get_default_device()).inputs)


def make(
    call: Instance,
    *,
    seed: int = 0,
    values: str = "ordinary",
    layout: str = "dense",
    out: bool = False,
    device: torch.device | str = "cpu",
) -> Arguments:
    """The arguments of a call; the same for a seed wherever and whenever they are made.

    Args:
        call: a checked call.
        seed: together with the call's id it decides all chance.
        values: what the tensors hold, one of ``VALUES``.
        layout: how they lie in memory. Inputs that must be contiguous lie so all the same, and
            those that are written never share memory among their elements.
        out: whether the caller brings the buffer of the output that has one.
        device: where; inputs of the CPU stay there, and a parameter that states a device and is
            None has it too.
    """
    signature = call.signature
    own_seed = (seed_of(signature.op, call.case_id) + seed) % 2**63
    generator = torch.Generator("cpu").manual_seed(own_seed)
    metadata = call.metadata(own_seed)
    params = dict(call.params)
    for param in signature.params:
        if isinstance(param.kind, DeviceKind) and params[param.name] is None:
            params[param.name] = torch.device(device)
        if param.tensor is not None:
            fact = call.tensors[param.name]
            plain = _plain(signature.op, param.name, fact, generator, "ordinary")
            params[param.name] = plain if plain is None else plain.to(device)
    inputs: list[Tensor | None] = []
    for item in signature.inputs:
        fact = call.inputs[item.name]
        if fact is not None and item.name in metadata:
            dtype = getattr(torch, fact[0])
            tensor = torch.tensor(metadata[item.name], dtype=dtype, device="cpu").reshape(fact[1])
        else:
            plain = _plain(signature.op, item.name, fact, generator, values)
            if plain is None:
                inputs.append(None)
                continue
            tensor = plain
        tensor = tensor if item.on_cpu else tensor.to(device)
        if item.write_only:
            tensor = poison(tensor)
        if not item.contiguous and not (item.mutated is not False and layout == "expanded"):
            tensor = laid_out(tensor, layout)
        inputs.append(tensor)
    return Arguments(params, tuple(inputs), _buffer(call, layout, device) if out else None)


def _plain(
    op: str, name: str, fact: Fact | None, generator: torch.Generator, values: str
) -> Tensor | None:
    if fact is None:
        return None
    dtype, shape = getattr(torch, fact[0]), fact[1]
    special = fills.fill_of(op, name) is not None
    if special or not dtype.is_floating_point:
        tensor = fills.draw(op, name, dtype, shape, generator)
    elif values == "positive":
        tensor = fills.positive(shape, generator).to(dtype)
    elif values == "zeros":
        tensor = torch.zeros(shape, dtype=dtype, device="cpu")
    else:
        tensor = fills.draw(op, name, dtype, shape, generator)
        tensor = fills.large(tensor) if values == "large" else tensor
    if values == f"nan:{name}" and dtype.is_floating_point and tensor.numel():
        tensor.view(-1)[tensor.numel() // 2] = float("nan")
    return tensor


def _buffer(call: Instance, layout: str, device: torch.device | str) -> Tensor | None:
    output = call.signature.out_buffer
    fact = call.outputs[output.name] if output is not None else None
    if output is None or fact is None:
        return None
    dense = torch.zeros(fact[1], dtype=getattr(torch, fact[0]), device=device)
    return poison(dense if output.contiguous else laid_out(dense, layout))


def buffer_is_possible(call: Instance) -> bool:
    """Whether the call has an output whose buffer the caller may bring."""
    output = call.signature.out_buffer
    return output is not None and call.outputs[output.name] is not None
