from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from tileops_core.conformance import kinds
from tileops_core.conformance.kinds import KINDS, kind_of
from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import known_ops, load_spec

SIGNATURES = {op: build_signature(load_spec(op)) for op in known_ops()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.ops)
def test_the_table_speaks_of_what_there_is(kind):
    ops = [op for op in SIGNATURES if fnmatchcase(op, kind.ops) and kind_of(op) is kind]
    assert ops
    assert kind.why
    for op in ops:
        signature = SIGNATURES[op]
        outputs = {o.name for o in signature.outputs} | {t.name for t in signature.inputs}
        params = {p.name for p in signature.params}
        assert kind.outputs.keys() <= outputs
        assert set(kind.casts.values()) <= params
        for names in (kind.casts.keys(), kind.cancels):
            assert not names or {t.name for t in signature.inputs} & set(names)


def test_comparators_are_known():
    known = {kinds.CLOSE, kinds.EXACT, kinds.ONE_CODE, kinds.SETS, kinds.TIES, kinds.DISTRIBUTION}
    assert {name for kind in KINDS for name in kind.outputs.values()} <= known


def test_an_op_that_is_not_listed_is_plain():
    assert kind_of("RMSNormFwdOp") is kinds.PLAIN
    assert kind_of("SomebodysFwdOp") is kinds.PLAIN


def test_a_choice_names_what_it_is_made_among():
    for kind in KINDS:
        assert (kinds.TIES in kind.outputs.values()) == (kind.scores is not None)
