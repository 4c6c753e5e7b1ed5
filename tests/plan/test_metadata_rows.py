"""The generated checks find in a row's tensors what the row says, with metadata among them."""

from __future__ import annotations

import attrs
import inference
import metadata_ops
import pytest

from tileops_core.signature.workload import cases


@pytest.mark.parametrize("op", metadata_ops.SPECS)
def test_a_call_made_from_a_row_has_the_rows_indices(op):
    assert list(inference.differences(metadata_ops.signature_of(op))) == []


@pytest.mark.parametrize("op", metadata_ops.SPECS)
def test_a_scaled_call_has_its_own_indices(op):
    signature = metadata_ops.signature_of(op)
    names = {param.name for param in signature.params} | {"T"}
    rows = []
    for row, case in zip(signature.workloads, _one_each(signature), strict=True):
        small = case.scaled(5_000)
        indices = {n: v for n, v in small.indices.items() if n not in names}
        rows.append(attrs.evolve(row, indices=indices))
    assert list(inference.differences(attrs.evolve(signature, workloads=tuple(rows)))) == []


def _one_each(signature):
    """A case of each row."""
    return {case.label: case for case in cases(signature, requires=False)}.values()
