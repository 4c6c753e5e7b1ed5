"""The record of one completed call, expanded when it is read.

A call leaves a template: the plan, the parameters, the inputs' facts, who served. Everything
else follows by running the checks once more on those facts, on the first read of it. Calls that
took the same route share one record, so a record says what happened, never when. Where inputs
describe others (metadata), each call has a record of its own, which refers to those tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
import torch

from tileops_core.by_fields import EqualByFields
from tileops_core.cached import cached_property
from tileops_core.errors import TileOpsError
from tileops_core.plan.model import Facts, OutputFacts, Plan, Statics
from tileops_core.record.cost import cost_by, cost_of
from tileops_core.record.metadata import Metadata, metadata_values
from tileops_core.spec.expressions import Expr
from tileops_core.tensor_spec import TensorSpec

Stages: TypeAlias = "Mapping[str, tuple[SignatureCall, ...]]"
"""Of a composite's call: stage -> records, in the order in which the calls completed."""

_NO_STAGES: Stages = MappingProxyType({})
_NO_KERNELS: Mapping[str, str] = {}
# One for all, and never written to. No proxy, which could not be pickled.


@attrs.frozen(slots=True, eq=False, repr=False)
class Served(EqualByFields):
    """Who computed: the target's name (or ``BUILTIN``; None if nobody had to run), and in-tree
    the key of the kernel type that each interface called chose, and its backend.
    """

    target: object
    kernels: Mapping[str, str] = _NO_KERNELS
    backends: Mapping[str, str | None] = _NO_KERNELS

    def __str__(self) -> str:
        if self.target is None:
            return "nobody (there was no data)"
        if not self.kernels:
            return str(self.target)
        keys = ", ".join(
            f"{self.backends.get(i) or 'own'}:{key}" for i, key in self.kernels.items()
        )
        return f"{self.target} ({keys})"


@attrs.frozen(slots=True, eq=False, repr=False)
class Traffic(EqualByFields):
    """How often a tensor's bytes are read and written by the algorithm."""

    reads: int
    writes: int


class SignatureCall:
    """What a completed call was: solved indices, tensors, effects, who served. Treat as immutable.

    Attributes:
        served_by: a :class:`Served`.
        has_out: whether the caller passed ``out``.
    """

    # Facts in slots; the dictionary appears when something is expanded.
    __slots__ = ("__dict__", "_given", "_inputs", "_plan", "_statics", "has_out", "served_by")

    def __init__(
        self,
        plan: Plan,
        statics: Statics,
        inputs: tuple[TensorSpec | None, ...],
        has_out: bool,
        served_by: Served,
        *,
        metadata: Metadata | None = None,
        stages: Stages = _NO_STAGES,
    ) -> None:
        self._plan = plan
        self._statics = statics
        self._inputs = inputs
        self.has_out = has_out
        self.served_by = served_by
        self._given = metadata
        if stages:
            self.__dict__["stages"] = stages

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self._plan, self._statics, self._inputs, self.has_out, self.served_by)
        return _with_more, (*arguments, self._given, dict(self.stages))

    def of_call(self, metadata: Metadata | None, stages: Stages = _NO_STAGES) -> SignatureCall:
        """The record of a call of this kind, with what is its own.

        Args:
            metadata: its tensors that describe others.
            stages: what its sub-ops' calls left.
        """
        return SignatureCall(
            self._plan,
            self._statics,
            self._inputs,
            self.has_out,
            self.served_by,
            metadata=metadata,
            stages=MappingProxyType(dict(stages)) if stages else _NO_STAGES,
        )

    def __repr__(self) -> str:
        tensors = ", ".join(
            f"{name}: {str(dtype).removeprefix('torch.')}{list(shape)}"
            for name, (shape, dtype) in self.tensors.items()
        )
        return f"<{self._plan.op} call on {self.device}: {tensors}; served by {self.served_by}>"

    @property
    def op(self) -> str:
        """The op's name."""
        return self._plan.op

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every parameter of the entry by name, as the op keeps it."""
        names = (param.name for param in self._plan.signature.params)
        return MappingProxyType(dict(zip(names, self._statics, strict=False)))

    @cached_property
    def stages(self) -> Stages:
        """Of a composite op, the records of its sub-ops' calls by stage.

        Those of one stage stand in the order in which they completed. Empty where no sub-op ran.
        """
        return _NO_STAGES

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The call's own tensors that describe others, by name; those that were passed.

        References, not copies: they show what is written into them after the call, and live as
        long as the record does.
        """
        given = self._given or {}
        return MappingProxyType({n: x for n, x in given.items() if x is not None})

    def metadata_values(self, name: str) -> Any:
        """What a metadata tensor holds now, as nested lists of ints.

        Reading waits for the tensor's device; nothing is read before it is asked for.

        Raises:
            TileOpsError: ``name`` is no metadata input, was not passed, or has no values because
                the call had no data (meta or fake tensors).
        """
        return metadata_values(self.op, self._plan.metadata, self._given, name)

    @cached_property
    def _facts(self) -> Facts:
        return self._plan.check(self._statics, *self._inputs)

    @cached_property
    def _outputs(self) -> tuple[OutputFacts, ...]:
        return self._plan.outputs(self._statics, self._facts)

    @cached_property
    def indices(self) -> Mapping[str, Any]:
        """Solved ``forall`` indices, the parameters that stand in types, and every ``let``."""
        found = dict(zip(self._plan.static_names, self._statics, strict=True))
        for param in self._plan.signature.params:
            if param.name not in self._plan.indexing or param.tensor is not None:
                del found[param.name]
        for name, value in zip(self._plan.fact_names, self._facts, strict=True):
            if not name.startswith("_"):
                found[name] = tuple(value) if isinstance(value, tuple) else value
        return MappingProxyType(found)

    @property
    def device(self) -> torch.device:
        """The call's device."""
        device = self._facts[0]
        assert isinstance(device, torch.device)
        return device

    @cached_property
    def written(self) -> tuple[str, ...]:
        """The inputs that the call wrote."""
        return self._plan.written(self._statics, self._facts)

    @cached_property
    def branch_key(self) -> str:
        """The effect branch: ``""`` for a pure call, else what it writes and leaves out."""
        parts = [f"writes_{name}" for name in self.written]
        if self.has_out:
            parts.append("out")
        for output, facts in zip(self._plan.signature.outputs, self._outputs, strict=True):
            if facts is None:
                parts.append(f"without_{output.name}")
        return "_".join(parts)

    @cached_property
    def tensors(self) -> Mapping[str, tuple[tuple[int, ...], torch.dtype]]:
        """Shape and dtype of every tensor there was, by name: inputs, parameters, outputs."""
        signature = self._plan.signature
        statics = dict(zip(self._plan.static_names, self._statics, strict=True))
        given = [*zip(signature.inputs, self._inputs, strict=True)]
        given += [(held, statics[held.name]) for held in signature.construction_tensors]
        found = {t.name: (tuple(x.shape), x.dtype) for t, x in given if x is not None}
        for output, facts in zip(signature.outputs, self._outputs, strict=True):
            if facts is not None:
                found[output.name] = (tuple(facts[0]), facts[1])
        return MappingProxyType(found)

    @cached_property
    def traffic(self) -> Mapping[str, Traffic]:
        """Reads and writes per tensor; an output that is a written input is not counted twice."""
        signature = self._plan.signature
        found = {}
        for tensor in (*signature.inputs, *signature.construction_tensors):
            if tensor.name in self.tensors:
                writes = int(tensor.name in self.written)
                found[tensor.name] = Traffic(int(not (tensor.write_only and writes)), writes)
        for output in signature.outputs:
            if output.name in self.tensors and output.alias not in self.written:
                found[output.name] = Traffic(0, 1)
        return MappingProxyType(found)

    def present(self, name: str) -> bool:
        """Whether the tensor called ``name`` was part of the call."""
        return name in self.tensors

    def bytes(self, name: str) -> int:
        """Size of a tensor in bytes; 0 if it was not part of the call."""
        if name not in self.tensors:
            return 0
        shape, dtype = self.tensors[name]
        count = 1
        for length in shape:
            count *= length
        return count * dtype.itemsize

    def written_bytes(self) -> int:
        """The bytes that the call writes, by its signature."""
        return sum(t.writes * self.bytes(name) for name, t in self.traffic.items())

    def roofline(self) -> tuple[int, int]:
        """``(flops, bytes)`` that the algorithm needs at least, from the entry.

        Raises:
            NotImplementedError: the entry has no roofline.
            ManifestError: it gives no cost for this call: it divides by zero, is negative, or its
                cost function fails or cannot be imported.
            TileOpsError: the call was traced, and its lengths are no numbers.
        """
        signature = self._plan.signature
        declared = signature.roofline
        if declared is None:
            raise NotImplementedError(f"{self.op}: its manifest entry states no roofline")
        if any(isinstance(n, torch.SymInt) for x in self._inputs if x for n in x.shape):
            raise TileOpsError(
                f"{self.op}: the call was traced with symbolic lengths, its cost is no number; ask "
                "after a call of real or meta tensors"
            )
        if declared.func is not None:
            return cost_by(signature, declared, self)
        every = (*signature.inputs, *signature.construction_tensors, *signature.outputs)
        sizes = {t.name: self.bytes(t.name) for t in every}
        values = dict(zip(self._plan.static_names, self._statics, strict=True))
        values |= zip(self._plan.fact_names, self._facts, strict=True)

        def cost(what: str, formula: Expr, compute: Callable[..., int]) -> int:
            def run() -> int:
                return compute(self._statics, self._facts, sizes)

            return cost_of(signature, what, formula, run, values)

        assert declared.flops is not None
        assert self._plan.flops is not None
        flops = cost("flops", declared.flops, self._plan.flops)
        if declared.bytes is not None and self._plan.moved is not None:
            return flops, cost("bytes", declared.bytes, self._plan.moved)
        return flops, sum((t.reads + t.writes) * self.bytes(n) for n, t in self.traffic.items())


def _with_more(*arguments: Any) -> SignatureCall:
    """A record that was pickled."""
    *facts, metadata, stages = arguments
    return SignatureCall(*facts, metadata=metadata, stages=MappingProxyType(stages))
