"""A number that no call could have is refused before there is a call."""

from __future__ import annotations

import itertools

import pytest

from tileops_core import ops
from tileops_core.errors import SignatureError
from tileops_core.plan.build import build_plan
from tileops_core.plan.cases import call_of
from tileops_core.signature.build import build_signature
from tileops_core.signature.kinds import IntKind, MaybeKind
from tileops_core.signature.workload import cases
from tileops_core.spec.catalogue import known_ops, load_spec


def counts(signature):
    """The places of parameters that are one int."""
    for place, param in enumerate(signature.params):
        kind = param.kind.of if isinstance(param.kind, MaybeKind) else param.kind
        if isinstance(kind, IntKind):
            yield place, param.name


@pytest.mark.parametrize("op", sorted(known_ops()))
def test_what_no_call_of_a_row_could_have_is_refused_at_construction(op):
    plan = build_plan(build_signature(load_spec(op)))
    width = len(plan.signature.params)
    rows = [call_of(plan, case) for case in cases(plan.signature)]
    for (place, name), count in itertools.product(counts(plan.signature), (0, -1)):
        made, refused = 0, []
        for known, specs in rows:
            values = [*known[:width]]
            values[place] = count
            try:
                statics = plan.statics(tuple(values))
            except SignatureError:
                continue
            made += 1
            try:
                plan.check(statics, *specs)
            except SignatureError as error:
                refused.append(str(error))
        assert not made or len(refused) < made, (name, count, refused[0])


@pytest.mark.parametrize(
    ("op", "params", "match"),
    [
        ("FusedMoEFwdOp", {"top_k": 0}, "requires top_k > 0, got top_k=0"),
        ("FusedMoESharedExpertFwdOp", {"top_k": -1}, "requires top_k > 0, got top_k=-1"),
        ("FusedTopKFwdOp", {"top_k": 0}, "requires top_k > 0, got top_k=0"),
        ("FusedMoEFwdOp", {"top_k": 2, "num_expert_group": 0}, "num_expert_group=0"),
        ("FusedMoEFwdOp", {"top_k": 2, "topk_group": 2}, "topk_group=2, num_expert_group=1"),
        ("FusedMoESharedExpertFwdOp", {"top_k": 2, "tp_size": 0}, "tp_size >= 1, got tp_size=0"),
        ("MoEPermuteAlignFwdOp", {"num_experts": 0}, "num_experts > 0, got num_experts=0"),
        ("RoPENeoxPositionIdsFwdOp", {"max_position": 4, "rotary_dim": 0}, "got rotary_dim=0"),
        ("GQADenseFwdOp", {"pos_encoding_mode": "rope", "rotary_dim": -2}, "got rotary_dim=-2"),
    ],
)
def test_the_refusal_names_op_parameter_and_value(op, params, match):
    with pytest.raises(SignatureError, match=f"{op}: the signature .*{match}"):
        getattr(ops, op)(**params)
