"""What is generated from one signature."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pickle import PicklingError
from typing import Any, TypeAlias

import attrs
import torch

from tileops_core.by_fields import ShownByFields
from tileops_core.cached import cached_property
from tileops_core.errors import TileOpsError
from tileops_core.plan.params import normalize
from tileops_core.signature.model import Signature
from tileops_core.spec.expressions import free_names

Statics: TypeAlias = tuple[Any, ...]
"""Parameters in manifest order, then the lets they decide."""

Facts: TypeAlias = tuple[Any, ...]
"""What one call's tensors settle; the first is the device."""

OutputFacts: TypeAlias = tuple[tuple[int, ...], torch.dtype] | None
"""Shape and dtype of one output, or None where this branch has none."""


def plan_at(module: str, name: str, entry_hash: str) -> Plan:
    """The plan of an op class, by where the class is found.

    Raises:
        TileOpsError: the class's entry is not the one that was pickled.
    """
    found: Any = getattr(import_module(module), name)
    plan: Plan = found._plan
    if plan.signature.entry_hash != entry_hash:
        raise TileOpsError(
            f"{plan.op}: this was pickled for an entry of the op that has changed since (its hash "
            f"was {entry_hash}, it is {plan.signature.entry_hash})"
        )
    return plan


@attrs.frozen(slots=False, eq=False, repr=False)
class Plan(ShownByFields):
    """The generated functions of one op class, and their source.

    ``check`` raises :class:`~tileops_core.errors.SignatureError`; the rest trust its facts.
    ``home`` is where the class is found, module and name; a plan is pickled as that of its class.
    """

    signature: Signature
    source: str
    filename: str
    static_names: tuple[str, ...]
    fact_names: tuple[str, ...]
    construct: Callable[..., Statics]
    check: Callable[..., Facts]
    outputs: Callable[[Statics, Facts], tuple[OutputFacts, ...]]
    written: Callable[[Statics, Facts], tuple[str, ...]]
    flops: Callable[[Statics, Facts, Mapping[str, int]], int] | None
    moved: Callable[[Statics, Facts, Mapping[str, int]], int] | None
    home: tuple[str, str] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        module, name = self.home or ("", "")
        if getattr(getattr(sys.modules.get(module), name, None), "_plan", None) is not self:
            raise PicklingError(
                f"{self.op}: no module has its class, so no record of it is pickled"
            )
        return plan_at, (module, name, self.signature.entry_hash)

    @property
    def op(self) -> str:
        """The op's name."""
        return self.signature.op

    @property
    def may_write(self) -> bool:
        """Whether some branch writes into a tensor of the caller's."""
        s = self.signature
        return s.out_buffer is not None or any(t.mutated is not False for t in s.inputs)

    @property
    def composite(self) -> bool:
        """Whether the op is made of other ops."""
        return self.signature.composition is not None

    @cached_property
    def metadata(self) -> tuple[str, ...]:
        """The inputs that describe others: those that the entry says how to fill."""
        return tuple(t.name for t in self.signature.inputs if t.values is not None)

    @cached_property
    def indexing(self) -> frozenset[str]:
        """The names that shapes and dtypes read, and the conditions that choose between them."""
        read: set[str] = set()
        s = self.signature
        for tensor in (*s.inputs, *s.construction_tensors, *s.outputs):
            exprs = [tensor.dtype]
            for case in tensor.shape:
                exprs += case.axes if case.when is None else (case.when, *case.axes)
            for expr in exprs:
                read.update(free_names(expr))
        return frozenset(read)

    def statics(self, values: tuple[Any, ...]) -> Statics:
        """Check and normalize constructor values (in manifest order), and what they decide.

        Raises:
            SignatureError: a value is not of its kind, or a refinement over parameters fails.
        """
        s = self.signature
        return self.construct(
            *(normalize(s.op, p, v) for p, v in zip(s.params, values, strict=True))
        )
