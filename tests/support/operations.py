"""What plain PyTorch code computes, counted while it runs on tensors without data."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

_EACH = """
    abs add bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp_max clamp_min cos div eq erf
    exp exp2 expm1 floor fmod ge gt le log log1p log2 logical_and logical_not logical_or lt maximum
    minimum mul ne neg pow reciprocal round rsqrt rsub sin sqrt sub tanh trunc where
"""
_ALL = "all amax amin any argmax argmin cumprod cumsum kthvalue prod sum"
_PRODUCT = "addbmm addmm baddbmm bmm convolution mm"
_NONE = """
    _to_copy _unsafe_view alias arange cat clone constant_pad_nd copy_ detach empty expand flip
    full gather index new_full new_zeros ones permute repeat scalar_tensor select slice split
    split_with_sizes squeeze stack t transpose tril triu unbind unfold unsqueeze view zeros
"""
EACH, ALL, PRODUCT, NONE = (frozenset(names.split()) for names in (_EACH, _ALL, _PRODUCT, _NONE))


class Operations(TorchDispatchMode):
    """Counts an operation for each element of a result, or that a sum or a maximum reads.

    A comparison and the choice that it decides are one. Matrix products are as PyTorch counts them.
    What only moves elements is free, and nothing else may be called.
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
            count = flop_registry[func.overloadpacket]
            self.count += count(*args, **(kwargs or {}), out_val=result)
        else:
            assert name in NONE, name
        return result


class Number:
    """An integer whose sums, differences, products and quotients are counted."""

    count = 0

    def __init__(self, value):
        self.value = value

    def _with(self, operation, other):
        Number.count += 1
        return Number(operation(self.value, getattr(other, "value", other)))

    def __add__(self, other):
        return self._with(lambda a, b: a + b, other)

    def __sub__(self, other):
        return self._with(lambda a, b: a - b, other)

    def __mul__(self, other):
        return self._with(lambda a, b: a * b, other)

    def __floordiv__(self, other):
        return self._with(lambda a, b: a // b, other)


def steps(algorithm, *args):
    """How many operations on numbers an algorithm takes, and what it gives."""
    Number.count = 0
    result = algorithm(*args)
    return Number.count, result


def operations(formula, *args, on="meta", **kwargs):
    """How many operations a function of tensors takes.

    Those that it makes are on the device ``on``; many calls on few numbers are faster on the CPU.
    """
    with torch.device(on), Operations() as counter:
        formula(*args, **kwargs)
    return counter.count


def blank(record, *names):
    """Tensors without data like those of a record, None for one that was not passed."""
    return [
        torch.empty(record.tensors[n][0], dtype=record.tensors[n][1], device="meta")
        if record.present(n)
        else None
        for n in names
    ]
