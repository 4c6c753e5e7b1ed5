"""Every workload row of an op, in full and scaled down, with what its entry says it costs."""

from __future__ import annotations

from functools import cache
from math import prod

import attrs

from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.record import Served, SignatureCall
from tileops_core.signature.build import build_signature
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import family_of, known_ops, load_spec


def ops_of(*families):
    """The names of all ops of these families."""
    return sorted(op for op in known_ops() if family_of(op) in families)


@attrs.frozen(eq=False)
class Row:
    """One case of one row.

    Attributes:
        id: The case's, and whether it is scaled down.
        record: The record of the call that it describes.
        flops: What the entry counts.
        bytes: Likewise.
    """

    id: str
    record: SignatureCall
    flops: int
    bytes: int

    def __getitem__(self, name):
        """An index, a let or a parameter."""
        indices = self.record.indices
        return indices[name] if name in indices else self.record.parameters[name]

    def shape(self, name):
        """A tensor's shape."""
        return self.record.tensors[name][0]

    def numel(self, *names):
        """How many elements the tensors have together; those that were not passed have none."""
        return sum(prod(self.shape(name)) for name in names if self.record.present(name))

    def size(self, *names):
        """How many bytes the tensors have together; those that were not passed have none."""
        tensors = self.record.tensors
        return sum(prod(tensors[n][0]) * tensors[n][1].itemsize for n in names if n in tensors)

    def values(self, name):
        """What a metadata tensor holds."""
        return self.record.metadata_values(name)


@cache
def rows_of(op):
    """All cases of all rows of an op, in full and, where that differs, scaled down."""
    signature = build_signature(load_spec(op))
    plan = build_plan(signature)
    rows = {}
    for small in (False, True):
        for case in cases(signature, small=small, requires=False):
            statics, inputs = call_of(plan, case)
            record = SignatureCall(
                plan, statics, inputs, False, Served(None), metadata=case.metadata()
            )
            if small and record.tensors == rows[f"{op}-{case.case_id}"].record.tensors:
                continue
            name = f"{op}-{case.case_id}" + ("-small" if small else "")
            rows[name] = Row(name, record, *record.roofline())
    return tuple(rows.values())


def differing(ops, count, kind):
    """The rows of ``ops`` where ``count(row)`` and the entry's flops or bytes differ."""
    found = {}
    for op in ops if isinstance(ops, (list, tuple)) else [ops]:
        for row in rows_of(op):
            ours, theirs = count(row), getattr(row, kind)
            if ours != theirs:
                found[row.id] = (ours, theirs)
    return found
