"""Checks, outputs and costs work on symbolic lengths, and leave them symbolic."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch
from calling import called
from plan_support import facts, plan, plan_of, statics
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import tileops_core.ops
from tileops_core.errors import SignatureError
from tileops_core.ops._index import OPS
from tileops_core.signature.primitives import PRIMITIVES
from tileops_core.signature.workload import cases
from tileops_core.spec.entries import AdtValue


class Symbols:
    """Tensors whose lengths are all symbols, each of its own; checks find which are equal."""

    def __init__(self):
        self.env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.env)
        self.count = 0

    def tensor(self, *shape, dtype=torch.float32):
        self.count += 1
        context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * len(shape))
        return self.mode.from_tensor(
            torch.empty(shape, dtype=dtype),
            source=ConstantSource(f"t{self.count}"),
            symbolic_context=context,
        )

    def is_free(self, length):
        """Whether a length is still a symbol, not settled to one number."""
        return isinstance(length, torch.SymInt) and length.node.maybe_as_int() is None


@pytest.fixture
def symbols():
    return Symbols()


def sizes(shape):
    """The lengths that a symbolic shape has in this trace."""
    return tuple(n.node.hint if isinstance(n, torch.SymInt) else n for n in shape)


def small_cases(op):
    """The plan of an op, and its rows' small cases of lengths that torch does not fix (0, 1)."""
    made = plan_of(op)
    usual = [
        case
        for case in cases(made.signature, small=True)
        if all(n > 1 for given in case.inputs.values() if given for n in given[1])
    ]
    return made, usual


def made_of(symbols, case):
    """The tensors of a case, all lengths symbols."""
    return [
        None if given is None else symbols.tensor(*given[1], dtype=getattr(torch, given[0]))
        for given in case.inputs.values()
    ]


def test_lengths_stay_symbols_through_check_and_outputs(symbols):
    made = plan("M N K *B", {"a": "[*B, M, K]", "b": "[K, 2*N]"}, {"d": "[*B, M, N + 1]"})
    found = facts(made, {"a": symbols.tensor(5, 2, 3), "b": symbols.tensor(3, 8)})
    assert sizes([found["M"], found["N"], found["K"], *found["B"]]) == (2, 4, 3, 5)
    ((shape, _),) = made.outputs((), tuple(found.values()))
    assert sizes(shape) == (5, 2, 5)
    assert all(map(symbols.is_free, shape))


def test_lengths_that_must_be_equal_become_one_symbol(symbols):
    made = plan("M", {"a": "[M]", "b": "[M]"})
    a, b = symbols.tensor(4), symbols.tensor(4)
    assert str(a.shape[0]) != str(b.shape[0])
    facts(made, {"a": a, "b": b})
    assert str(a.shape[0]) == str(b.shape[0])
    assert symbols.is_free(a.shape[0])


def test_lengths_that_differ_are_refused_with_their_sizes(symbols):
    made = plan("M", {"a": "[M]", "b": "[2*M]"})
    with pytest.raises(SignatureError, match="b has shape"):
        facts(made, {"a": symbols.tensor(4), "b": symbols.tensor(6)})


def test_a_length_that_does_not_divide_is_refused(symbols):
    made = plan("M", {"a": "[2*M + 1]"})
    assert sizes([facts(made, {"a": symbols.tensor(5)})["M"]]) == (2,)
    with pytest.raises(SignatureError, match="no whole, non-negative number solves"):
        facts(made, {"a": symbols.tensor(6)})


@pytest.mark.parametrize(
    ("let", "due"),
    [("ceil_div(M, 3)", 2), ("max(M, N)", 5), ("min(M, 3)", 3), ("M * N - 1", 9),
     ("prod((M, N, 2))", 20), ("sum(i * 2 for i in (M, N))", 14), ("M if M > N else N", 5),
     ("M ** 2 % 3", 1), ("-(M // 2)", -2)],
)  # fmt: skip
def test_arithmetic_and_primitives_take_symbols(symbols, let, due):
    made = plan("M N", {"x": "[M, N]"}, let={"L": let})
    found = facts(made, {"x": symbols.tensor(5, 2)})
    assert sizes([found["L"]]) == (due,)


@pytest.mark.parametrize(
    ("shape", "due"),
    [("[*broadcast(A, B)]", (7, 5, 3)), ("[*reduced(B, -1, true, 'full')]", (7, 5, 1)),
     ("[*reduced(B, (0, 2), false, 'full')]", (5,)), ("[*B[1:], len(B)]", (5, 3, 3))],
)  # fmt: skip
def test_shapes_of_symbols_broadcast_and_reduce(symbols, shape, due):
    shape = shape.replace("true", "keep").replace("false", "drop")
    params = {"keep": {"type": "bool", "default": True}, "drop": {"type": "bool", "default": False}}
    made = plan("*A *B", {"a": "[*A]", "b": "[*B]"}, {"y": shape}, params=params)
    found = facts(made, {"a": symbols.tensor(5, 3), "b": symbols.tensor(7, 5, 3)})
    ((lengths, _),) = made.outputs(statics(made), tuple(found.values()))
    assert sizes(lengths) == due


def numbers(*values):
    """The ints that parameters hold."""
    for value in values:
        if isinstance(value, int):
            yield value
        elif isinstance(value, tuple):
            yield from numbers(*value)
        elif isinstance(value, AdtValue):
            yield from numbers(*(of for _, of in value.fields))


@pytest.mark.parametrize("op", OPS)
def test_every_op_checks_symbols_and_fixes_none(op):
    made, usual = small_cases(op)
    for case in usual:
        symbols = Symbols()
        known = statics(made, **case.params)
        found = made.check(known, *made_of(symbols, case))
        if made.flops is not None:  # else a function counts, which needs numbers
            cost = made.flops(known, found, {})
            assert int(sizes([cost])[0]) > 0
        # Parameters are numbers, and so is the length that keepdim leaves.
        fixed = {1, *numbers(*case.params.values())}
        for shape, dtype in filter(None, made.outputs(known, found)):
            assert isinstance(dtype, torch.dtype)
            for length in shape:
                assert symbols.is_free(length) or sizes([length])[0] in fixed, case.case_id


@pytest.mark.parametrize("op", OPS)
def test_every_op_called_under_a_fake_mode_gives_symbolic_results(op):
    made, usual = small_cases(op)
    for case in usual:
        symbols = Symbols()
        inputs = made_of(symbols, case)
        instance = getattr(tileops_core.ops, op)(**case.params)
        with warnings.catch_warnings(), symbols.mode:
            warnings.simplefilter("ignore")
            results = called(made.signature, instance, inputs)
        results = results if isinstance(results, tuple) else (results,)
        known = statics(made, **case.params)
        due = made.outputs(known, made.check(known, *inputs))
        assert [result is None for result in results] == [one is None for one in due]
        pairs = [(r, one) for r, one in zip(results, due, strict=True) if one is not None]
        for result, (shape, dtype) in pairs:
            assert result.fake_mode is symbols.mode
            assert sizes(result.shape) == sizes(shape)
            assert result.dtype is dtype
        assert instance.serving_target is None
        for output, one in zip(made.signature.outputs, due, strict=True):
            assert instance.last_call.present(output.name) == (one is not None)


TIGHT, ALIGNED = (SimpleNamespace(kind="contiguous", alignment=n) for n in (1, 16))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("conv.out", lambda n: (n, 3, 2, 1, 1)),
        ("pool.out", lambda n: (n, 3, 2, 1, 1, False)),
        ("pool.out", lambda n: (n, 3, 2, 1, 1, True)),
        ("moe.capacity", lambda n: (TIGHT, 8 * n, 4)),
        ("moe.capacity", lambda n: (ALIGNED, 8 * n, 4)),
    ],
)
def test_a_family_primitive_leaves_lengths_symbolic(symbols, name, args):
    (length,) = symbols.tensor(33).shape
    run = PRIMITIVES[name].run
    found = run(*args(length))
    assert symbols.is_free(found)
    assert sizes([found]) == (run(*args(33)),)
