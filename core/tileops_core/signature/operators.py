"""The custom operators that stand for an op in a traced graph, one per effect branch.

A branch is what a call writes and leaves out. The names and schemas go into exported programs,
so they follow from the entry by rules that do not change.
"""

from __future__ import annotations

import re

import attrs

from tileops_core.by_fields import EqualByFields
from tileops_core.signature.branches import Branches, Given, Key
from tileops_core.signature.model import Input, Output, Signature
from tileops_core.spec.expressions import Expr

NAMESPACE = "tileops_core"

_WORDS = (
    "BMM", "C2C", "FFT", "FP8", "GEMM", "INT4", "INT8", "MLA", "MoE", "PReLU", "QK", "ReLU", "RoPE",
    "SiLU", "W4A16", "W4A8", "W8A8",
)  # fmt: skip
"""Words whose end capital letters do not tell."""

_WORD = re.compile(
    "|".join([*_WORDS, "[A-Z]+(?=[A-Z][a-z])", "[A-Z]?[a-z]+[0-9]*[a-z]*", "[A-Z0-9]+"])
)


@attrs.frozen(eq=False, repr=False)
class Operator(EqualByFields):
    """One operator: what its branch writes and leaves out, and its schema.

    ``written`` are the inputs that the branch writes, ``out`` whether the caller's buffer is
    filled, ``without`` the outputs that are None.
    """

    name: str
    schema: str
    written: tuple[str, ...]
    out: bool
    without: tuple[str, ...]


def operators(signature: Signature, branches: Branches | None = None) -> tuple[Operator, ...]:
    """The operators of an op; none when it has no call-time tensor input or is a composite.

    Raises:
        TooManyBranches: When conditions on effects read too many discriminants together.
    """
    if not has_boundary(signature):
        return ()
    base = operator_name(signature)
    made = []
    for written, out, without in sorted(
        _effects(signature, branches or Branches(signature)),
        key=lambda effect: (len(effect[0]) + effect[1] + len(effect[2]), effect),
    ):
        suffixes = [f"writes_{name}" for name in written]
        suffixes += ["out"] if out else []
        suffixes += [f"without_{name}" for name in without]
        name = "_".join([base, *suffixes])
        arguments = _arguments(signature, written, out)
        returns = _returns(signature, written, out, without)
        schema = f"{name}({arguments}) -> {returns}"
        made.append(Operator(name, schema, written, out, without))
    return tuple(made)


def has_boundary(signature: Signature) -> bool:
    """Whether the op is one node of a traced graph."""
    return bool(signature.inputs) and signature.composition is None


def is_random(signature: Signature) -> bool:
    """Whether two equal calls may give different results; such an op takes a ``seed``."""
    return any(param.name == "seed" for param in signature.params)


def operator_name(signature: Signature) -> str:
    """``norm_layer_norm_fwd`` without the part that the family and the class share."""
    words = "_".join(_WORD.findall(signature.op.removesuffix("Op"))).lower()
    family = signature.family
    return words if f"_{family}_" in f"_{words}_" else f"{family}_{words}"


def _effects(
    signature: Signature, branches: Branches
) -> set[tuple[tuple[str, ...], bool, tuple[str, ...]]]:
    keys: set[Key] = set()
    for item in signature.inputs:
        if item.mutated is not False:
            keys |= branches.keys_of_input(item)
        if isinstance(item.mutated, Expr):
            keys |= branches.keys(item.mutated)
    for output in signature.outputs:
        if output.nullable is not None:
            keys |= branches.keys(output.nullable)
    found = set()
    for given in branches.accepted(keys):
        written = tuple(i.name for i in signature.inputs if _writes(i, branches, given))
        without = tuple(
            o.name
            for o in signature.outputs
            if o.nullable is not None and branches.value(o.nullable, given) is True
        )
        buffer = signature.out_buffer
        outs = (False, True) if buffer and buffer.name not in without else (False,)
        found |= {(written, out, without) for out in outs}
    return found


def _writes(item: Input, branches: Branches, given: Given) -> bool:
    if item.mutated is False or branches.is_there(item, given) is not True:
        return False
    return item.mutated is True or branches.value(item.mutated, given) is True


def _arguments(signature: Signature, written: tuple[str, ...], out: bool) -> str:
    aliases = iter("abcdefghijklmnopqrstuvwxyz")
    # The instance's key; no input may have the same name.
    parts = ["str op_key" if any(i.name == "key" for i in signature.inputs) else "str key"]
    for item in signature.inputs:
        alias = f"({next(aliases)}!)" if item.name in written else ""
        optional = "?" if item.optional is not False and not alias else ""
        parts.append(f"Tensor{alias}{optional} {item.name}")
    if out:
        parts.append(f"Tensor({next(aliases)}!) out")
    return ", ".join(parts)


def _returns(
    signature: Signature, written: tuple[str, ...], out: bool, without: tuple[str, ...]
) -> str:
    """The fresh outputs: what the caller passed is not returned by an operator."""
    fresh = [o for o in signature.outputs if _is_fresh(o, written, out, without)]
    return "Tensor" if len(fresh) == 1 else f"({', '.join(['Tensor'] * len(fresh))})"


def _is_fresh(
    output: Output, written: tuple[str, ...], out: bool, without: tuple[str, ...]
) -> bool:
    if output.name in without or output.alias in written:
        return False
    return not (out and output.buffer)
