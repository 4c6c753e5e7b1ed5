"""Our own backends pass the suite for all that they serve on the CPU."""

from __future__ import annotations

import shutil

import pytest
from wrong_backends import right

from tileops_core.conformance.outcomes import FAILED, PASSED, REFUSED
from tileops_core.ops._index import FAMILIES, OPS


def told(results):
    return [(r.id, r.message) for r in results if r.outcome == FAILED]


_LONG = {"moe": [pytest.mark.slow]}  # even its small calls are large


@pytest.mark.parametrize("family", [pytest.param(f, marks=_LONG.get(f, [])) for f in FAMILIES])
def test_the_reference_passes_and_refuses_nothing(family, results):
    found = results("reference", families=(family,))
    assert told(found) == []
    assert [r.id for r in found if r.outcome == REFUSED] == []
    assert {r.op for r in found} == {op for op, of in OPS.items() if of == family}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_op_target_passes(family, target, results):
    with target(**{op: right(op) for op, of in OPS.items() if of == family}) as name:
        assert told(results(name, families=(family,))) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("family", ["norm", "elementwise", "reduction", "rope"])
def test_tilelang_passes(family, results):
    found = results("tilelang", families=(family,))
    assert told(found) == []
    assert any(r.outcome == PASSED and r.column == "workload" for r in found)
