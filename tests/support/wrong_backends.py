"""Backends that get one thing wrong, and what the conformance suite has to say of each.

Every fault is a whole-op builder for one op, made of the reference's function, so that nothing else
is wrong with it; or a kernel type, where what is wrong is the identity of what it builds.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs
import torch
from torch import Tensor

from tileops_core.backend.registry import REGISTRY
from tileops_core.interfaces.reduction import SoftmaxFwdInterface
from tileops_core.kernels import Kernel

Builder = Callable[..., Callable[..., Any]]


def right(op: str) -> Builder:
    """A builder without a fault."""

    def build(*specs: Any, **params: Any) -> Callable[..., Any]:
        function = REGISTRY.oracle(op)
        assert function is not None

        def kernel(*inputs: Any, out: Tensor | None = None, **named: Any) -> Any:
            # Tensors given at construction come with the call, and with the builder as specs.
            result = function(*inputs, **{**params, **named})
            return result if out is None else out.copy_(result)

        return kernel

    return build


@attrs.frozen
class Fault:
    """What is wrong, and how it has to be told.

    Attributes:
        name: what kind of fault it is.
        op: the op that is built wrongly.
        build: the builder, or the kernel type.
        columns: columns in which it must show, all of them.
        says: how every failure in those begins.
        spares: columns in which it must not show.
    """

    name: str
    op: str
    build: Builder | type[Kernel]
    columns: frozenset[str]
    says: str
    spares: frozenset[str] = frozenset()


def _off_by_one_axis(*specs: Any, dim: int, **params: Any) -> Callable[..., Any]:
    def kernel(x: Tensor) -> Tensor:
        return torch.cumsum(x, (dim + 1) % max(x.dim(), 1), dtype=params["dtype"])

    return kernel


def _sums_in_16_bits(*specs: Any, dim: int, dtype: Any, **params: Any) -> Callable[..., Any]:
    def kernel(x: Tensor) -> Tensor:
        x = x if dtype is None else x.to(dtype)
        total, results = torch.zeros_like(x.select(dim, 0)), []
        for part in x.unbind(dim):
            total = total + part
            results.append(total)
        return torch.stack(results, dim)

    return kernel


def _experts_in_16_bits(*specs: Any) -> Callable[..., Any]:
    def product(a: Tensor, b: Tensor) -> Tensor:
        total = torch.zeros(a.shape[0], b.shape[0], dtype=a.dtype)
        for k in range(a.shape[1]):
            total += a[:, k : k + 1] * b[:, k]
        return total

    def kernel(hidden_states: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
        gate, up = product(hidden_states, w_gate_up).float().chunk(2, -1)
        hidden = torch.nn.functional.silu(gate) * up
        return product(hidden.to(hidden_states.dtype), w_down)

    return kernel


def _squares_in_16_bits(*specs: Any, eps: float, **params: Any) -> Callable[..., Any]:
    def kernel(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        total = x + residual
        mean = (total * total).mean(-1, keepdim=True)
        return total * torch.rsqrt(mean + eps) * weight, total

    return kernel


def _writes_its_input(*specs: Any, **params: Any) -> Callable[..., Any]:
    good = right("TanhFwdOp")(*specs, **params)

    def kernel(x: Tensor) -> Any:
        result = good(x)
        x.zero_()
        return result

    return kernel


def _reuses_its_buffer(*specs: Any, **params: Any) -> Callable[..., Any]:
    buffer = torch.empty(specs[0].shape, dtype=specs[0].dtype)
    return lambda x: torch.tanh(x, out=buffer)


def _ignores_weight(*specs: Any, **params: Any) -> Callable[..., Any]:
    good = right("RMSNormFwdOp")(*specs, **params)
    return lambda x, weight: good(x, None)


def _needs_weight(*specs: Any, **params: Any) -> Callable[..., Any]:
    good = right("RMSNormFwdOp")(*specs, **params)
    return lambda x, weight: good(x, weight + 0)


def _ignores_offsets(*specs: Any, **params: Any) -> Callable[..., Any]:
    """Reads from where the memory begins, not from where the tensor does."""
    return lambda x: torch.tanh(torch.as_strided(x, x.shape, x.stride(), 0))


def _empty_is_nan(*specs: Any, **params: Any) -> Callable[..., Any]:
    good = right("SumFwdOp")(*specs, **params)
    return lambda x: good(x) if x.numel() else good(x) / 0


def _empty_divides(*specs: Any, **params: Any) -> Callable[..., Any]:
    good = right("SumFwdOp")(*specs, **params)

    def kernel(x: Tensor) -> Any:
        assert 1024 // x.numel() is not None
        return good(x)

    return kernel


def _eats_nan(*specs: Any, inplace: bool) -> Callable[..., Any]:
    def kernel(x: Tensor) -> Tensor:
        result = torch.fmax(x, torch.zeros((), dtype=x.dtype))
        return x.copy_(result) if inplace else result

    return kernel


def _is_racy(*specs: Any, **params: Any) -> Callable[..., Any]:
    """One scratch buffer for all threads, and time enough for another one to write it."""
    scratch = torch.empty(specs[0].shape, dtype=specs[0].dtype)

    def kernel(x: Tensor) -> Tensor:
        scratch.copy_(x)
        time.sleep(1e-4)
        return torch.tanh(scratch)

    return kernel


def _wrong_dtype_on_one_branch(*specs: Any, dtype: Any, **params: Any) -> Callable[..., Any]:
    return right("SoftmaxFwdOp")(*specs, dtype=None, **params)


def _wrong_form_on_one_branch(*specs: Any, approximate: str) -> Callable[..., Any]:
    return right("GELUFwdOp")(*specs, approximate="none")


def _leaks(*specs: Any, **params: Any) -> Callable[..., Any]:
    kept: list[Tensor] = []
    count = itertools.count()

    def kernel(x: Tensor) -> Tensor:
        result = torch.tanh(x)
        if next(count) % 4 == 0:
            kept.append(result.clone())
        return result

    return kernel


_LEAKED: list[Any] = []


def _leaks_memory_unseen(*specs: Any, **params: Any) -> Callable[..., Any]:
    """Memory that Python's collector knows nothing of: a single object that grows."""
    kept = bytearray()
    _LEAKED.append(kept)

    def kernel(x: Tensor) -> Tensor:
        kept.extend(bytes(256 * 1024))
        return torch.tanh(x)

    return kernel


def _draws(*specs: Any, **params: Any) -> Callable[..., Any]:
    """Right as far as the tolerance goes, and never the same."""
    lock, count = threading.Lock(), itertools.count()

    def kernel(x: Tensor) -> Tensor:
        with lock:
            sign = 1 - 2 * (next(count) % 2)
        result = torch.tanh(x)
        if x.dtype is torch.float32:
            return result
        # Computed in float32 a hair away, some results are rounded to the other neighbor.
        return torch.tanh(x.float() * (1 + sign * 2.0**-21)).to(x.dtype)

    return kernel


def _unwritten_elements(*specs: Any, **params: Any) -> Callable[..., Any]:
    def kernel(x: Tensor) -> Tensor:
        result = torch.empty_like(x)
        done = x.numel() // 8 * 8  # whole blocks, and no tail
        torch.tanh(x.view(-1)[:done], out=result.view(-1)[:done])
        return result

    return kernel


def _halves_of_the_group(*specs: Any, **params: Any) -> Callable[..., Any]:
    """Query heads read the key heads in turns and not in groups."""
    good = right("GQADenseFwdOp")(*specs, **params)

    def kernel(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Any:
        group = q.shape[2] // max(k.shape[2], 1)
        order = torch.arange(q.shape[2]).view(group, -1).T.reshape(-1)
        back = torch.argsort(order)
        return good(q[:, :, order], k, v, *rest)[:, :, back]

    return kernel


_ALONE = frozenset(
    {"workload", "dtype", "odd", "scalar", "purity", "determinism", "build-once", "threads"}
)
"""Columns whose instances get calls of one kind each."""


def _keeps_the_first_weight(*specs: Any, **params: Any) -> Callable[..., Any]:
    """Packs its weight at the first call, and reads no other one's."""
    good, packed = right("RMSNormFwdOp")(*specs, **params), list[Any]()

    def kernel(x: Tensor, weight: Tensor | None) -> Any:
        packed[1:] = []
        packed.append(None if weight is None else weight.clone())
        return good(x, packed[0])

    return kernel


class _Softmax(Kernel, SoftmaxFwdInterface):
    """What is right of the kernel types below: each builds for one call and calls that its own."""

    devices = frozenset({"cpu"})

    def __init__(self, call: Any) -> None:
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(self.call.out_dtype).float()
        return torch.softmax(wide, self.call.dim).to(self.call.out_dtype)


class IdentityWithoutDtype(_Softmax):
    @classmethod
    def entry_for(cls, call: Any) -> Any:
        return (call.dim, call.shape), lambda: cls(call)


class IdentityWithoutShape(_Softmax):
    @classmethod
    def entry_for(cls, call: Any) -> Any:
        return (call.dim, call.dtype, call.out_dtype), lambda: cls(call)

    def forward(self, x: Tensor) -> Tensor:
        """As with a grid that is compiled in: so many elements are done, and no others."""
        done, result = math.prod(self.call.shape), torch.zeros_like(x, dtype=self.call.out_dtype)
        result.view(-1)[:done] = super().forward(x).view(-1)[:done]
        return result


class IdentityWithoutRank(_Softmax):
    @classmethod
    def entry_for(cls, call: Any) -> Any:
        return (call.dtype, call.out_dtype), lambda: cls(call)


FAULTS: tuple[Fault, ...] = (
    Fault(
        "off by one axis", "CumsumFwdOp", _off_by_one_axis,
        frozenset({"parameter", "workload"}), "value: output",
        frozenset({"purity", "determinism", "leak", "threads"}),
    ),
    Fault(
        "wrong accumulation dtype", "CumsumFwdOp", _sums_in_16_bits,
        frozenset({"long", "workload"}), "value: output",
        frozenset({"scalar", "purity", "determinism"}),
    ),
    Fault(
        "wrong accumulation dtype of a norm", "FusedAddRMSNormFwdOp", _squares_in_16_bits,
        frozenset({"long", "workload"}), "value: output",
    ),
    Fault(
        "wrong accumulation dtype of experts", "SharedExpertMLPFwdOp", _experts_in_16_bits,
        frozenset({"long", "workload", "odd"}), "value: output",
        frozenset({"purity", "determinism"}),
    ),
    Fault(
        "writes its input", "TanhFwdOp", _writes_its_input,
        frozenset({"purity", "workload"}), "purity: ",
        frozenset({"determinism", "leak"}),
    ),
    Fault(
        "reuses a buffer", "TanhFwdOp", _reuses_its_buffer,
        frozenset({"purity"}), "purity: TanhFwdOp: target 'wrong' (backend 'runtime') returned "
        "memory that an earlier result still uses",
        frozenset({"workload", "leak"}),
    ),
    Fault(
        "ignores an optional input", "RMSNormFwdOp", _ignores_weight,
        frozenset({"workload", "optional"}), "value: output",
    ),
    Fault(
        "needs an optional input", "RMSNormFwdOp", _needs_weight,
        frozenset({"optional"}), "error: TypeError: unsupported operand",
        frozenset({"purity", "determinism"}),
    ),
    Fault(
        "wrong on non-contiguous", "TanhFwdOp", _ignores_offsets,
        frozenset({"layout"}), "value: output",
        frozenset({"workload", "dtype", "empty", "purity"}),
    ),
    Fault(
        "wrong on empty", "SumFwdOp", _empty_is_nan,
        frozenset({"empty"}), "value: output NaN or infinity",
        frozenset({"workload", "layout", "purity"}),
    ),
    Fault(
        "fails on empty", "SumFwdOp", _empty_divides,
        frozenset({"empty"}), "error: ZeroDivisionError",
        frozenset({"workload", "layout", "purity"}),
    ),
    Fault(
        "NaN-eating max", "ReLUFwdOp", _eats_nan,
        frozenset({"special"}), "value: output NaN or infinity",
        frozenset({"workload", "layout", "empty", "purity"}),
    ),
    Fault(
        "racy", "TanhFwdOp", _is_racy,
        frozenset({"threads"}), "threads: ",
        frozenset({"workload", "purity", "determinism", "leak"}),
    ),
    Fault(
        "wrong dtype on one branch", "SoftmaxFwdOp", _wrong_dtype_on_one_branch,
        frozenset({"dtype"}), "contract: SoftmaxFwdOp: target 'wrong' (backend 'runtime') "
        "returned dtype",
        frozenset({"parameter", "layout"}),
    ),
    Fault(
        "wrong form on one branch", "GELUFwdOp", _wrong_form_on_one_branch,
        frozenset({"branch"}), "value: output",
        frozenset({"empty", "purity"}),
    ),
    Fault(
        "slow leak", "TanhFwdOp", _leaks,
        frozenset({"leak"}), "leak: each 40 calls leave",
        frozenset({"workload", "purity", "determinism", "threads"}),
    ),
    Fault(
        "slow leak that Python cannot see", "TanhFwdOp", _leaks_memory_unseen,
        frozenset({"leak"}), "leak: each 40 calls leave",
        frozenset({"workload", "purity", "determinism", "threads"}),
    ),
    Fault(
        "not deterministic", "TanhFwdOp", _draws,
        frozenset({"determinism"}), "determinism: equal calls give different bits",
        frozenset({"purity", "leak"}),
    ),
    Fault(
        "leaves a tail unwritten", "TanhFwdOp", _unwritten_elements,
        frozenset({"odd"}), "value: output NaN or infinity",
        frozenset({"purity", "leak"}),
    ),
    Fault(
        "maps heads of groups wrongly", "GQADenseFwdOp", _halves_of_the_group,
        frozenset({"workload", "branch"}), "value: o ",
        frozenset({"purity", "determinism"}),
    ),
    Fault(
        "an identity without the dtype", "SoftmaxFwdOp", IdentityWithoutDtype,
        frozenset({"in-turn"}), "in-turn: contract: SoftmaxFwdOp: ",
        _ALONE,
    ),
    Fault(
        "an identity without the shape", "SoftmaxFwdOp", IdentityWithoutShape,
        frozenset({"in-turn"}), "in-turn: value: output ",
        _ALONE,
    ),
    Fault(
        "an identity without the rank", "SoftmaxFwdOp", IdentityWithoutRank,
        frozenset({"in-turn"}), "in-turn: ",
        _ALONE,
    ),
    Fault(
        "keeps the first weight", "RMSNormFwdOp", _keeps_the_first_weight,
        frozenset({"in-turn"}), "in-turn: value: output ",
        _ALONE - {"threads"},
    ),
)  # fmt: skip
"""Each kind of fault, by name."""
