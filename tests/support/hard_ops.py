"""Op classes made of the entries in ``hard_entries.yaml``, served by a target that only answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import hard_entries
import torch
from call_support import never

from tileops_core import Op
from tileops_core.backend import BuilderRegistration, TargetRegistration, registered


@cache
def op_class(op: str) -> type[Op]:
    """The class of one entry; there is one, since a name means one thing."""
    # In the module's namespace, where pickle looks for it.
    made = globals()[op] = type(op, (Op,), {"__module__": __name__, "spec": hard_entries.PATH})
    return made


class Answer:
    """Builds kernels that return zeros of the types that the signature says.

    Attributes:
        specs: what the last builder got for the inputs.
        params: what it got for the parameters.
        named: what the last kernel got by name.
    """

    def __init__(self, op: str) -> None:
        self.plan = op_class(op)._plan
        self.specs: tuple[Any, ...] = ()
        self.params: dict[str, Any] = {}
        self.named: dict[str, Any] = {}

    def build(self, *specs: Any, **params: Any) -> Any:
        """The builder."""
        self.specs, self.params = specs, params

        def kernel(*inputs: Any, **named: Any) -> Any:
            self.named = named
            out = named.get("out") if self.plan.signature.out_buffer is not None else None
            statics = self.plan.statics(tuple(self._values(params)))
            facts = self.plan.check(statics, *specs)
            due = self.plan.outputs(statics, facts)
            made = [
                None if o is None else torch.zeros(o[0], dtype=o[1], device=facts[0]) for o in due
            ]
            written = self.plan.written(statics, facts)
            for i, output in enumerate(self.plan.signature.outputs):
                if output.alias in written:
                    made[i] = None
                elif output.buffer and out is not None:
                    made[i] = out
            if not made:
                return None
            return made[0] if len(made) == 1 else tuple(made)

        return kernel

    def _values(self, params: dict[str, Any]) -> Iterator[Any]:
        """The parameters for the plan; a tensor of the type that the builder was told."""
        for param in self.plan.signature.params:
            value = params[param.name]
            if param.tensor is not None and value is not None:
                value = torch.zeros(value.shape, dtype=value.dtype)
            yield value


@contextmanager
def answering(op: str, **params: Any) -> Iterator[tuple[Op, Answer]]:
    """An instance served by such a target, and what the target saw."""
    answer = Answer(op)
    with registered(
        TargetRegistration("acme", never),
        BuilderRegistration(op, "acme", answer.build),
        backend="vendor",
    ):
        yield op_class(op)(**params, target="acme"), answer
