"""What reductions cost, counted while the formula of each is computed."""

from __future__ import annotations

import math
from pkgutil import resolve_name

import pytest
import torch
from costs import differing, ops_of, rows_of
from operations import blank, operations

from tileops_core.spec.catalogue import load_spec

OPS = ops_of("reduction")
each = pytest.mark.parametrize("op", OPS)


def total(x, dim, keepdim=False):
    return x.sum(dim, keepdim=keepdim)


def length(x, dim):
    """How many elements a result is made of."""
    axes = [dim] if isinstance(dim, int) else dim or range(x.ndim)
    return math.prod(x.shape[axis] for axis in axes)


def mean(x, dim, keepdim, dtype=None):
    return total(cast(x, dtype), dim, keepdim) / length(x, dim)


def cast(x, dtype):
    return x if dtype is None else x.to(dtype)


def var_mean(x, dim, correction, keepdim):
    middle = total(x, dim, True) / length(x, dim)
    difference = x - middle
    squares = total(difference * difference, dim, keepdim)
    free = max(length(x, dim) - (1 if correction is None else correction), 0)
    return squares / free, middle if keepdim else middle.reshape(squares.shape)


def vector_norm(x, ord, dim, keepdim, dtype):
    x = cast(x, dtype)
    if ord == 2:
        return torch.sqrt(total(x * x, dim, keepdim))
    return total(x.abs(), dim, keepdim) if ord == 1 else largest(x.abs(), dim, keepdim)


def largest(x, dim, keepdim):
    return x.amax(() if dim is None else dim, keepdim=keepdim)


def smallest(x, dim, keepdim):
    return x.amin(() if dim is None else dim, keepdim=keepdim)


def truth(x):
    """A bool says itself whether it is true."""
    return x if x.dtype == torch.bool else x != 0


def joined(join, x, dim, keepdim):
    if dim == ():
        return truth(x)
    return join(truth(x)) if dim is None and not keepdim else join(truth(x), dim, keepdim)


def implied(x):
    return 0 if x.ndim in (0, 1, 3) else 1


def exponentials(x, dim):
    most = x.amax(dim, keepdim=True)
    return torch.exp(x - most), most


def softmax(x, dim, dtype):
    dim = implied(x) if dim is None else dim
    e, _ = exponentials(cast(x, dtype), dim)
    return e / e.sum(dim, keepdim=True)


def log_softmax(x, dim, dtype):
    dim, x = implied(x) if dim is None else dim, cast(x, dtype)
    e, most = exponentials(x, dim)
    return x - (most + torch.log(e.sum(dim, keepdim=True)))


def logsumexp(x, dim, keepdim):
    e, most = exponentials(x, dim)
    result = torch.log(total(e, dim, keepdim))
    return result + (most if keepdim else most.reshape(result.shape))


# Tensors in the entry's order, parameters by name.
FORMULAS = {
    "SumFwdOp": lambda x, dim, keepdim, dtype: total(cast(x, dtype), dim, keepdim),
    "MeanFwdOp": mean,
    "ProdFwdOp": lambda x, dim, keepdim, dtype: cast(x, dtype).prod(dim, keepdim),
    "VarFwdOp": lambda x, **named: var_mean(x, **named)[0],
    "StdFwdOp": lambda x, **named: torch.sqrt(var_mean(x, **named)[0]),
    "VarMeanFwdOp": var_mean,
    "VectorNormFwdOp": vector_norm,
    "CumsumFwdOp": lambda x, dim, dtype: cast(x, dtype).cumsum(dim),
    "CumprodFwdOp": lambda x, dim, dtype: cast(x, dtype).cumprod(dim),
    "AmaxFwdOp": largest,
    "AminFwdOp": smallest,
    "ArgmaxFwdOp": torch.argmax,
    "ArgminFwdOp": torch.argmin,
    "AllFwdOp": lambda x, dim, keepdim: joined(torch.all, x, dim, keepdim),
    "AnyFwdOp": lambda x, dim, keepdim: joined(torch.any, x, dim, keepdim),
    "CountNonzeroFwdOp": lambda x, dim: truth(x).sum(dim),
    "SoftmaxFwdOp": softmax,
    "LogSoftmaxFwdOp": log_softmax,
    "LogSumExpFwdOp": logsumexp,
}


def tensor_of(op):
    (item,) = load_spec(op).inputs
    return item.name


@each
def test_flops_are_the_operations_of_the_formula(op):
    def count(row):
        (x,) = blank(row.record, tensor_of(op))
        return operations(FORMULAS[op], x, **row.record.parameters)

    assert differing(op, count, "flops") == {}


@each
def test_bytes_are_those_that_the_definition_reads_and_writes(op):
    outputs = {"VarMeanFwdOp": ("var", "mean")}.get(op, ("output",))
    assert differing(op, lambda row: row.size(tensor_of(op), *outputs), "bytes") == {}


def drawn(shape, dtype):
    generator = torch.Generator().manual_seed(math.prod(shape))
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=torch.float64, generator=generator)
    if dtype.is_complex:
        parts = torch.randint(0, 2, (*shape, 2), generator=generator).double()
        return torch.view_as_complex(parts)
    return torch.randint(0, 2, shape, generator=generator).to(dtype)


FUNCTIONS = {
    "SoftmaxFwdOp": torch.nn.functional.softmax,
    "CumsumFwdOp": torch.cumsum,
    "ArgmaxFwdOp": torch.argmax,
    "VarMeanFwdOp": torch.var_mean,
    "AllFwdOp": lambda x, dim, keepdim: torch.all(x, dim=dim, keepdim=keepdim),
    "AnyFwdOp": lambda x, dim, keepdim: torch.any(x, dim=dim, keepdim=keepdim),
}


@each
@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
def test_the_formula_is_the_function(op):
    function = FUNCTIONS.get(op) or resolve_name(str(load_spec(op).ref_api))
    for row in rows_of(op):
        shape, dtype = row.record.tensors[tensor_of(op)]
        named = {n: torch.float64 if n == "dtype" and v else v for n, v in named_of(row)}
        if math.prod(shape) <= 100_000:
            x = drawn(shape, dtype)
            torch.testing.assert_close(FORMULAS[op](x, **named), function(x, **named))


def named_of(row):
    return row.record.parameters.items()
