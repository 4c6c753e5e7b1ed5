"""Which names there may be."""

from __future__ import annotations

import keyword
import re

import pytest

from tileops_core.spans import Span
from tileops_core.spec import names

SPAN = Span("a.yaml", 1)


@pytest.mark.parametrize("name", ["GELUFwdOp", "A1_bBwdOp", "RoPE2dFwdOp", "AFwdBwdOp"])
def test_an_op_is_called_like_a_class(name):
    assert names.is_op(name)
    assert names.op_problem(name, SPAN) is None


@pytest.mark.parametrize(
    "name",
    ["A-BFwdOp", "aFwdOp", "FwdOp", "BwdOp", "_AFwdOp", "1AFwdOp", "A FwdOp", "ÄFwdOp", "AéFwdOp",
     "A.BFwdOp", "AFwdOp\n", ""],
)  # fmt: skip
def test_what_no_class_can_be_called_is_no_op(name):
    assert not names.is_op(name)
    assert names.op_problem(name, SPAN).code == "op-name"


@pytest.mark.parametrize("name", ["Norm", "NormFwd", "NormOp", "NormFwdop"])
def test_a_name_without_a_direction_is_told_so(name):
    assert "neither FwdOp nor BwdOp" in names.op_problem(name, SPAN).message


@pytest.mark.parametrize("name", ["norm", "linear_attention", "fft2"])
def test_a_family_is_called_like_a_module(name):
    assert names.is_family(name)
    assert names.family_problem(name, SPAN) is None


@pytest.mark.parametrize("name", ["Norm", "a-b", "a.b", "_a", "1a", "é", "class", "in", ""])
def test_what_no_module_can_be_called_is_no_family(name):
    assert not names.is_family(name)
    assert names.family_problem(name, SPAN).code == "wrong-value"


@pytest.mark.parametrize("name", ["M", "x1", "a_b", "inward", "match"])
def test_what_is_declared_is_an_identifier(name):
    assert names.is_declared(name)


@pytest.mark.parametrize("name", ["_M", "1M", "M-N", "é", "", *keyword.kwlist])
def test_no_keyword_is_declared(name):
    assert not names.is_declared(name)


@pytest.mark.parametrize("name", ["torch.bmm", "a._b.C", "torch.nn.functional.gelu"])
def test_a_dotted_name_could_be_imported(name):
    assert names.is_dotted(name)


@pytest.mark.parametrize(
    "name", ["torch", "torch.", ".a", "a..b", "a.class", "a.1", "é.b", "a b.c"]
)
def test_no_part_of_a_dotted_name_is_a_keyword(name):
    assert not names.is_dotted(name)


@pytest.mark.parametrize("pattern", [names.OP, names.FAMILY, names.DECLARED])
def test_a_pattern_says_the_same_whoever_searches_with_it(pattern):
    """JSON Schema searches, and does not match from the beginning to the end."""
    for name in ("norm", "NormFwdOp", "class", "classes", "a-b", "x NormFwdOp", "NormFwdOp x"):
        assert bool(re.search(pattern, name)) == bool(re.fullmatch(pattern, name)), name
