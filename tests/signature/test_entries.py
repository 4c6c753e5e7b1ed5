"""The entries of the manifest, as they are."""

from __future__ import annotations

import inspect
import itertools

import pytest
import torch

from tileops_core.signature.build import build_signature
from tileops_core.signature.evaluate import evaluate
from tileops_core.signature.kinds import DTypeKind, MaybeKind
from tileops_core.signature.model import REQUIRED
from tileops_core.signature.workload import cases, check_workloads
from tileops_core.spec.catalogue import installed, known_ops, load_spec

OPS = sorted(known_ops())


@pytest.fixture(params=OPS)
def signature(request):
    return build_signature(load_spec(request.param))


def facts(signature, case):
    values = {**case.params, **case.indices, **case.inputs}
    for let in signature.lets:
        values[let.name] = evaluate(let.expr, values)
    return values


def test_every_entry_builds_and_fits_its_family(signature):
    assert signature.family == installed().index()[signature.op]["family"]
    assert signature.status in ("implemented", "spec-only")


def test_every_row_describes_a_call_that_its_signature_accepts(signature):
    assert [str(problem) for problem in check_workloads(signature)] == []


def test_every_entry_has_two_rows_of_real_models(signature):
    assert len(signature.workloads) >= 2
    assert all("-" in row.label for row in signature.workloads)


@pytest.mark.parametrize("small", [False, True])
def test_every_cost_that_is_a_formula_is_a_whole_number(signature, small):
    """MAN-16."""
    if signature.roofline.func is not None:
        pytest.skip("a function counts it, whose tests are in tests/record/costs")
    for case in cases(signature, small=small):
        flops = evaluate(signature.roofline.flops, facts(signature, case))
        assert type(flops) is int
        assert flops >= 0


def test_small_rows_are_small(signature):
    for case in cases(signature, small=True):
        elements = 0
        for _, shape in filter(None, case.inputs.values()):
            product = 1
            for length in shape:
                product *= length
            elements += product
        assert elements <= 2_000_000


def test_sixteen_bit_dtypes_come_with_float32(signature):
    for kind in (
        *(index.kind for index in signature.indices),
        *(p.kind.of if isinstance(p.kind, MaybeKind) else p.kind for p in signature.params),
    ):
        if isinstance(kind, DTypeKind):
            wide = {"float16", "bfloat16", "float32"} & set(kind.members or ())
            assert len(wide) in (0, 1, 3)


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("LayerNormFwdOp", torch.nn.functional.layer_norm),
        ("RMSNormFwdOp", torch.nn.functional.rms_norm),
        ("ReLUFwdOp", torch.nn.functional.relu),
        ("SoftmaxFwdOp", torch.nn.functional.softmax),
    ],
)
def test_defaults_are_those_of_the_reference_api(op, function):
    """MAN-04."""
    reference = inspect.signature(function).parameters
    for param in build_signature(load_spec(op)).params:
        expected = reference[param.name].default
        assert param.default == (REQUIRED if expected is inspect.Parameter.empty else expected)


def test_a_large_matrix_product_is_counted_exactly():
    """MAN-16."""
    signature = build_signature(load_spec("GEMMFwdOp"))
    values = dict.fromkeys("MNK", 2**18)
    assert evaluate(signature.roofline.flops, values) == 2 * 2**54


def test_the_work_of_attention_counts_the_visible_pairs_exactly():
    signature = build_signature(load_spec("GQADenseFwdOp"))
    lets = {let.name: let for let in signature.lets}
    windows = (-1, 0, 1, 3, 50)
    for queries, keys, causal, left, right in itertools.product(
        (0, 1, 2, 5), (1, 2, 4, 7), (False, True), windows, windows
    ):
        if causal and queries > keys:
            continue
        visible = 0
        for query, key in itertools.product(range(queries), range(keys)):
            place = query + keys - queries
            visible += (
                (not causal or key <= place)
                and (left < 0 or key >= place - left)
                and (right < 0 or key <= place + right)
            )
        values = {
            "S_q": queries,
            "S_kv": keys,
            "is_causal": causal,
            "window_size_left": left,
            "window_size_right": right,
        }
        for name in ("reach_left", "reach_right", "pairs"):
            values[name] = evaluate(lets[name].expr, values)
        assert values["pairs"] == visible, values


def test_a_relu_in_place_returns_its_input():
    signature = build_signature(load_spec("ReLUFwdOp"))
    (item,), (output,) = signature.inputs, signature.outputs
    assert evaluate(item.mutated, {"inplace": True}) is True
    assert output.alias == "input"


def test_a_matrix_is_stored_as_its_flag_says():
    signature = build_signature(load_spec("GEMMFwdOp"))
    for transposed, shape in ((False, (3, 5)), (True, (5, 3))):
        values = {"trans_a": transposed, "M": 3, "K": 5}
        (case,) = [c for c in signature.inputs[0].shape if evaluate(c.when, values)]
        assert tuple(evaluate(axis, values) for axis in case.axes) == shape
