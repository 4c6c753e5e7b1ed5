"""What plain PyTorch code computes, counted while it runs on tensors without data."""

from __future__ import annotations

from math import prod

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

_EACH = """
    abs add bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp_max clamp_min cos div eq erf
    exp exp2 expm1 floor fmod ge gt le log log1p log2 logical_and logical_not logical_or lt maximum
    minimum mul ne neg pow reciprocal round rsqrt sin sqrt sub tanh trunc where
"""
_ALL = "all amax amin any argmax argmin cumprod cumsum kthvalue prod sum"
_PRODUCT = "bmm mm"
_NONE = """
    _to_copy _unsafe_view alias arange cat clone copy_ detach empty expand flip full gather index
    new_full new_zeros ones permute repeat scalar_tensor select slice split squeeze stack t
    transpose tril triu unbind unfold unsqueeze view zeros
"""
EACH, ALL, PRODUCT, NONE = (frozenset(names.split()) for names in (_EACH, _ALL, _PRODUCT, _NONE))


class Operations(TorchDispatchMode):
    """Counts an operation for each element of a result, or that a sum or a maximum reads.

    A comparison and the choice that it decides are one. Matrix products count 2 M N K. What only
    moves elements is free, and nothing else may be called.
    """

    def __init__(self):
        super().__init__()
        self.count = 0
        self._conditions = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        if name in EACH:
            chosen = name == "where" and any(args[0] is c for c in self._conditions)
            self.count += 0 if chosen else result.numel()
            if result.dtype == torch.bool:
                self._conditions.append(result)
        elif name in ALL:
            self.count += args[0].numel()
        elif name in PRODUCT:
            left, right = args[-2:]
            self.count += 2 * prod(left.shape) * right.shape[-1]
        else:
            assert name in NONE, name
        return result


def operations(formula, *args, **kwargs):
    """How many operations a function of tensors takes."""
    with torch.device("meta"), Operations() as counter:
        formula(*args, **kwargs)
    return counter.count


def products(formula, *args):
    """What PyTorch's own counter finds in a function of tensors: its matrix products."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        formula(*args)
    return counter.get_total_flops()


def blank(record, *names):
    """Tensors without data like those of a record, None for one that was not passed."""
    return [
        torch.empty(record.tensors[n][0], dtype=record.tensors[n][1], device="meta")
        if record.present(n)
        else None
        for n in names
    ]
