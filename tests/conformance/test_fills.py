from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
import torch

from tileops_core.conformance import fills
from tileops_core.signature.build import build_signature
from tileops_core.spec.catalogue import known_ops, load_spec

SIGNATURES = {op: build_signature(load_spec(op)) for op in known_ops()}


@pytest.mark.parametrize("fill", fills.FILLS, ids=lambda fill: f"{fill.ops}-{fill.inputs[0]}")
def test_the_table_speaks_of_inputs_that_there_are(fill):
    for name in fill.inputs:
        ops = [
            op
            for op, signature in SIGNATURES.items()
            if fnmatchcase(op, fill.ops)
            and name in {t.name for t in (*signature.inputs, *signature.construction_tensors)}
        ]
        assert any(fills.fill_of(op, name) is fill.draw for op in ops), name
    assert fill.why


DOMAINS = [
    ("GLAFwdOp", "g", lambda x: (x <= 0).all()),
    ("SSDChunkStateFwdOp", "dA_cumsum", lambda x: (x.diff(dim=-1) <= 0).all() and (x <= 0).all()),
    ("SamplingFromProbsFwdOp", "probs", lambda x: torch.allclose(x.sum(-1), torch.ones(5))),
    ("GEMMFP8FwdOp", "a_scale", lambda x: (x > 0).all()),
    ("BatchNormFwdOp", "running_var", lambda x: (x > 0).all()),
    ("TopPMaskFwdOp", "top_p", lambda x: ((x > 0) & (x <= 1)).all()),
    ("DeltaNetFwdOp", "k", lambda x: torch.allclose(x.norm(dim=-1), torch.ones(5))),
    ("DivFwdOp", "other", lambda x: (x.abs() >= 1).all()),
    ("GEMMW4A16FwdOp", "weight_zero", lambda x: ((x >= 0) & (x <= 15)).all()),
]


@pytest.mark.parametrize(("op", "name", "holds"), DOMAINS, ids=lambda v: None if callable(v) else v)
def test_values_are_inside_of_the_domain(op, name, holds):
    dtype = torch.uint8 if name == "weight_zero" else torch.float32
    generator = torch.Generator().manual_seed(0)
    assert holds(fills.draw(op, name, dtype, (5, 40), generator))


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float8_e4m3fn, torch.int8, torch.uint8, torch.bool], ids=str
)
def test_a_seed_decides_the_values(dtype):
    one, same, other = (
        fills.draw("X", "x", dtype, (64,), torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(one.view(torch.uint8), same.view(torch.uint8))
    assert not torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_large_values_are_finite_and_near_the_end(dtype):
    x = fills.draw("X", "x", dtype, (1000,), torch.Generator().manual_seed(0))
    large = fills.large(x).double()
    assert large.isfinite().all()
    assert large.abs().max() > 100 * x.double().abs().max() / 2
