"""Which unit of a device an op's roof is: matrix units for products of matrices."""

from __future__ import annotations

import pytest

from tileops_core import ops
from tileops_core.cli.calls import call_of_case
from tileops_core.cli.cost import cost_of
from tileops_core.cli.survey import Survey
from tileops_core.signature.workload import cases

PRODUCTS = [
    *("BMMFwdOp", "FusedMoEExpertsFwdOp", "FusedMoEFwdOp", "FusedMoESharedExpertFwdOp"),
    *("GEMMFwdOp", "GQADenseFwdOp", "IndexedExpertMLPFwdOp", "MoEExpertMLPFwdOp"),
    *("MoEGroupedGEMMFP8FwdOp", "MoEGroupedGEMMFwdOp", "SharedExpertMLPFwdOp"),
]


@pytest.fixture(scope="module")
def seen():
    return Survey()


@pytest.mark.parametrize("name", [name for name in ops.__all__ if name.endswith("Op")])
@pytest.mark.filterwarnings("ignore:.*dim is None")
def test_products_of_16_bits_and_fewer_are_held_against_matrix_units(name, seen):
    case = next(cases(getattr(ops, name)._plan.signature))
    call = call_of_case(seen, name, case, None, "meta")
    unit = cost_of(call.record, call.op, case.case_id, None)["unit"]
    assert unit.startswith("tensor_core.") == (name in PRODUCTS)
