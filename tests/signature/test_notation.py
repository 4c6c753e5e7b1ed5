"""Expressions, calls and tensors as text."""

from __future__ import annotations

import pytest

from tileops_core.signature.build import build_signature
from tileops_core.signature.notation import as_python, remarks, text_of
from tileops_core.spans import NOWHERE
from tileops_core.spec.catalogue import known_ops, load_spec, load_spec_from
from tileops_core.spec.grammar import parse_expression, parse_shape


def nowhere(start: int, length: int):
    return NOWHERE


@pytest.mark.parametrize(
    "text",
    [
        "a + b - c",
        "a - (b - c)",
        "a * (b + c)",
        "(a + b) * c // d % e",
        "-a * b",
        "(-a) ** 2",
        "a ** 2 * b",
        "not (a and b) or c",
        "(a or b) and c",
        "(not a) == b",
        "0 < a <= b != c",
        "x in ('a', 'b')",
        "x not in (1,)",
        "a if b else c if d else e",
        "(a if b else c) + 1",
        "x if (a if b else c) else y",
        "s[0] + s[1:] + s[:n]",
        "(a + b)[-1]",
        "eps.value > 0.5",
        "reduced(S, dim, keepdim=k, mode='full')",
        "prod(d + 1 for d in S)",
        "conv.out(N, 2 * p + 1)",
        "inf",
        "True",
    ],
)
def test_text_is_what_the_entry_has(text: str) -> None:
    assert text_of(parse_expression(text, nowhere)) == text


@pytest.mark.parametrize("text", ["[]", "[M, 2 * N + 1, *S]", "[*broadcast(A, B)]", "Mat[t, M, K]"])
def test_a_shape_is_what_the_entry_has(text: str) -> None:
    assert text_of(parse_shape(text, nowhere)) == text


@pytest.mark.parametrize(
    ("text", "short"),
    [("((a)) + (b * c)", "a + b * c"), ("(a + b) + c", "a + b + c"), ("not (not a)", "not not a")],
)
def test_there_are_no_more_parentheses_than_needed(text: str, short: str) -> None:
    assert text_of(parse_expression(text, nowhere)) == short


@pytest.mark.parametrize("op", sorted(known_ops()))
def test_every_expression_of_the_manifest_reads_back_as_itself(op: str) -> None:
    signature = build_signature(load_spec(op))
    written = [rule.expr for rule in signature.rules] + [let.expr for let in signature.lets]
    written += [axis for t in signature.inputs for case in t.shape for axis in case.axes]
    for expr in written:
        text = text_of(expr)
        again = parse_shape(f"[{text}]", nowhere).items[0] if text[0] == "*" else None
        assert (again or parse_expression(text, nowhere)) == expr


def test_python_shows_out_and_arguments_taken_by_name() -> None:
    signature = build_signature(
        load_spec_from(
            {
                "family": "acme",
                "status": "spec-only",
                "signature": {
                    "forall": {"N": "Dim", "T": "DType[float32]"},
                    "params": {"p": {"type": "int", "default": 1, "kw_only": True}},
                    "inputs": {
                        "x": {"dtype": "T", "shape": "[N]"},
                        "bias": {"dtype": "T", "shape": "[N]", "optional": True, "kw_only": True},
                    },
                    "outputs": {"y": {"dtype": "T", "shape": "[N]", "buffer": "out"}},
                },
                "workloads": [{"label": "a", "N": 1, "dtype_cases": [{"T": "float32"}]}],
            },
            "AcmeFwdOp",
        )
    )
    construct, call = as_python(signature).splitlines()
    assert construct == "op = AcmeFwdOp(*, p: int = 1, target=None)"
    assert call == "y = op(x, *, bias=None, out=None)"
    assert remarks(signature.outputs[0]) == ["into out= if passed"]
