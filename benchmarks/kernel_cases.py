"""Which calls the kernels are measured on: the manifest's rows, rows of decoding, and a grid.

A subject is an op with the parameters that choose its program. Its cases come from the entry's
workload rows, at full size and in every dtype that programs are written for; the calls of decoding
and of the grid are the same rows with other sizes, so the entry's rules hold for them as well.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import attrs
import torch
from torch import Tensor

from benchmarks import kernel_eager
from tileops_core import ops
from tileops_core.signature.build import build_signature
from tileops_core.signature.model import Signature, Workload
from tileops_core.signature.workload import WorkloadCase, instantiate
from tileops_core.spec.catalogue import load_spec

DTYPES = ("float32", "float16", "bfloat16")
MOST_BYTES = 512 << 20
"""What the inputs and outputs of one case may take."""

DECODE_ROWS = (1, 16)
GRID_ROWS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
GRID_COLUMNS = (16, 64, 256, 1024, 4096, 16384, 65536)
GRID_MOST = 1 << 24
"""Elements of the largest point of the grid."""

Sizes = tuple[dict[str, Any], dict[str, Any]]
"""Parameters and indices."""


@dataclass(frozen=True)
class Subject:
    """An op and the parameters that choose its program.

    Args:
        key: What the command line calls it.
        title: What tables call it.
        op: The op's name.
        eager: What a user of torch writes; see `kernel_eager`.
        grid: Parameters and indices of so many rows and columns.
        resized: A workload row's indices with so many rows; None where that is no case of its own.
        params: What is special about it; rows with other values belong to another subject.
        some: Optional inputs that calls of the grid pass.
        rows_too: Whether workload rows are measured; if not, the grid alone.
    """

    key: str
    title: str
    op: str
    eager: Callable[..., kernel_eager.Eager]
    grid: Callable[[int, int], Sizes]
    resized: Callable[[Workload, int], dict[str, Any] | None]
    params: Mapping[str, Any] = field(default_factory=dict)
    some: tuple[str, ...] = ()
    rows_too: bool = True


@dataclass(frozen=True)
class Case:
    """One call to measure.

    Args:
        subject: Whose.
        kind: `workload`, `decode` or `grid`.
        label: The workload row's label, or what stands for it.
        dtype: Short name of the tensors' dtype.
        call: Parameters, and what each input is.
        rows: On the grid.
        columns: On the grid.
    """

    subject: Subject
    kind: str
    label: str
    dtype: str
    call: WorkloadCase
    rows: int = 0
    columns: int = 0

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs that are passed."""
        return {name: fact[1] for name, fact in self.call.inputs.items() if fact}

    @property
    def bytes(self) -> int:
        """About what inputs and outputs take: outputs are hardly larger than inputs here."""
        facts = [fact for fact in self.call.inputs.values() if fact]
        return 2 * sum(prod(shape) * getattr(torch, name).itemsize for name, shape in facts)

    def op(self, **more: Any) -> Callable[..., Any]:
        """A new instance of the op."""
        return getattr(ops, self.subject.op)(**self.call.params, **more)  # type: ignore[no-any-return]

    def eager(self) -> kernel_eager.Eager:
        """What a user of torch writes for it."""
        return self.subject.eager(self.call.params, self.shapes, getattr(torch, self.dtype))

    def tensors(self) -> list[Tensor | None]:
        """The inputs in order, None for those that are not passed; the same at every call."""
        name = f"{self.subject.key} {self.label} {self.dtype} {self.shapes}"
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        return [fact and self._tensor(*fact, generator) for fact in self.call.inputs.values()]

    def _tensor(self, dtype: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        if dtype in ("int32", "int64"):
            most = self.call.params["max_position"]
            return torch.randint(0, most, shape, generator=generator).to(getattr(torch, dtype))
        return torch.randn(shape, generator=generator).to(getattr(torch, dtype))


def signature_of(subject: Subject) -> Signature:
    """The contract of the subject's op."""
    return _signature(subject.op)


@functools.cache
def _signature(op: str) -> Signature:
    return build_signature(load_spec(op))


def workload_cases(subject: Subject) -> Iterator[Case]:
    """The op's workload rows that belong to the subject, in every dtype, where they fit."""
    for row in _rows(subject):
        for dtype in DTYPES:
            case = _case(subject, "workload", row, dtype)
            if case.bytes <= MOST_BYTES:
                yield case


def decode_cases(subject: Subject) -> Iterator[Case]:
    """The same rows with the few tokens of a step of decoding."""
    seen: list[tuple[object, object]] = []
    for row in _rows(subject):
        for rows in DECODE_ROWS:
            indices = subject.resized(row, rows)
            if indices is None:
                continue
            small = attrs.evolve(row, indices={**row.indices, **indices})
            for dtype in DTYPES:
                case = _case(subject, "decode", small, dtype)
                what = (case.call.params, case.call.inputs)
                if what not in seen:
                    seen.append(what)
                    yield case


def quick_cases(subject: Subject) -> Iterator[Case]:
    """Of each dtype the smallest workload row, and a step of decoding."""
    for dtype in DTYPES:
        rows = [case for case in workload_cases(subject) if case.dtype == dtype]
        steps = [case for case in decode_cases(subject) if case.dtype == dtype]
        yield from (min(cases, key=lambda case: case.bytes) for cases in (rows, steps) if cases)


def grid_cases(
    subject: Subject,
    rows: tuple[int, ...] = GRID_ROWS,
    columns: tuple[int, ...] = GRID_COLUMNS,
    dtypes: tuple[str, ...] = DTYPES,
) -> Iterator[Case]:
    """Rows times columns in every dtype, up to `GRID_MOST` elements."""
    (first, *_) = signature_of(subject).workloads
    for dtype in dtypes:
        for row in rows:
            for column in columns:
                if row * column > GRID_MOST:
                    continue
                params, indices = subject.grid(row, column)
                made = attrs.evolve(
                    first,
                    label=f"{row}x{column}",
                    params={**subject.params, **params},
                    indices=indices,
                    some=subject.some,
                )
                yield _case(subject, "grid", made, dtype, row, column)


def _rows(subject: Subject) -> Iterator[Workload]:
    signature = signature_of(subject)
    for row in signature.workloads if subject.rows_too else ():
        params = {param.name: param.default for param in signature.params} | dict(row.params)
        if all(params[name] == value for name, value in subject.params.items()):
            yield row


def _case(
    subject: Subject, kind: str, row: Workload, dtype: str, rows: int = 0, columns: int = 0
) -> Case:
    dtypes = {**row.dtype_cases[0], "T": dtype}
    call = instantiate(signature_of(subject), row, dtypes, requires=False)
    return Case(subject, kind, row.label, dtype, call, rows, columns)


def _heads(columns: int) -> tuple[int, int]:
    """Heads and features per head of so many columns."""
    features = min(columns, 128)
    return columns // features, features


def _norm_grid(rows: int, columns: int) -> Sizes:
    return {"normalized_shape": [columns]}, {"B": [rows]}


def _fused_norm_grid(rows: int, columns: int) -> Sizes:
    return {}, {"B": [rows], "N": columns}


def _gated_grid(rows: int, columns: int) -> Sizes:
    return {}, {"M": rows, "N": columns}


def _rope_grid(rows: int, columns: int) -> Sizes:
    heads, features = _heads(columns)
    return {"input_layout": "2d"}, {"B": 1, "S": rows, "H": heads, "D": features}


def _rope_position_ids_grid(rows: int, columns: int) -> Sizes:
    heads, features = _heads(columns)
    return {"max_position": 32768}, {"N": rows, "H": heads, "D": features, "seq_lens": (1,) * rows}


def _last_axis_grid(rows: int, columns: int) -> Sizes:
    return {"dim": -1}, {"S": [rows, columns]}


def _first_axis_grid(rows: int, columns: int) -> Sizes:
    return {"dim": 0}, {"S": [columns, rows]}


def _batch(row: Workload, rows: int) -> dict[str, Any]:
    return {"B": [rows]}


def _matrix(row: Workload, rows: int) -> dict[str, Any]:
    return {"M": rows}


def _sequences(row: Workload, rows: int) -> dict[str, Any]:
    return {"B": rows, "S": 1} if "B" in row.indices else {"S": rows}


def _tokens(row: Workload, rows: int) -> dict[str, Any]:
    return {"N": rows, "seq_lens": (1,) * rows}


def _last_axis(row: Workload, rows: int) -> dict[str, Any] | None:
    shape = row.indices["S"]
    return {"S": [rows, shape[-1]]} if row.params.get("dim") == -1 else None


SUBJECTS = (
    Subject(
        "rms_norm",
        "RMSNorm",
        "RMSNormFwdOp",
        kernel_eager.rms_norm,
        _norm_grid,
        _batch,
        some=("weight",),
    ),
    Subject(
        "fused_add_rms_norm",
        "FusedAddRMSNorm",
        "FusedAddRMSNormFwdOp",
        kernel_eager.fused_add_rms_norm,
        _fused_norm_grid,
        _batch,
    ),
    Subject(
        "layer_norm",
        "LayerNorm",
        "LayerNormFwdOp",
        kernel_eager.layer_norm,
        _norm_grid,
        _batch,
        some=("weight", "bias"),
    ),
    Subject(
        "fused_add_layer_norm",
        "FusedAddLayerNorm",
        "FusedAddLayerNormFwdOp",
        kernel_eager.fused_add_layer_norm,
        _fused_norm_grid,
        _batch,
    ),
    Subject(
        "silu_and_mul",
        "SiLUAndMul",
        "SiLUAndMulFwdOp",
        kernel_eager.silu_and_mul,
        _gated_grid,
        _matrix,
    ),
    Subject(
        "gelu_and_mul",
        "GELUAndMul",
        "GELUAndMulFwdOp",
        kernel_eager.gelu_and_mul,
        _gated_grid,
        _matrix,
        {"approximate": "none"},
    ),
    Subject(
        "gelu_tanh_and_mul",
        "GELUAndMul, tanh",
        "GELUAndMulFwdOp",
        kernel_eager.gelu_and_mul,
        _gated_grid,
        _matrix,
        {"approximate": "tanh"},
    ),
    Subject(
        "rope",
        "RoPE",
        "RoPEFwdOp",
        kernel_eager.rope,
        _rope_grid,
        _sequences,
        {"rope_layout": "neox"},
    ),
    Subject(
        "rope_interleaved",
        "RoPE, interleaved",
        "RoPEFwdOp",
        kernel_eager.rope,
        _rope_grid,
        _sequences,
        {"rope_layout": "interleaved"},
    ),
    Subject(
        "rope_position_ids",
        "RoPENeoxPositionIds",
        "RoPENeoxPositionIdsFwdOp",
        kernel_eager.rope_position_ids,
        _rope_position_ids_grid,
        _tokens,
    ),
    Subject(
        "argmax",
        "Argmax",
        "ArgmaxFwdOp",
        kernel_eager.argmax,
        _last_axis_grid,
        _last_axis,
    ),
    Subject(
        "argmax_first_axis",
        "Argmax along the first axis",
        "ArgmaxFwdOp",
        kernel_eager.argmax,
        _first_axis_grid,
        _last_axis,
        rows_too=False,
    ),
    Subject(
        "softmax",
        "Softmax",
        "SoftmaxFwdOp",
        kernel_eager.softmax,
        _last_axis_grid,
        _last_axis,
    ),
    Subject(
        "softmax_first_axis",
        "Softmax along the first axis",
        "SoftmaxFwdOp",
        kernel_eager.softmax,
        _first_axis_grid,
        _last_axis,
        rows_too=False,
    ),
    Subject(
        "softmax_to_float32",
        "Softmax, result in float32",
        "SoftmaxFwdOp",
        kernel_eager.softmax,
        _last_axis_grid,
        _last_axis,
        {"dtype": "float32"},
        rows_too=False,
    ),
)


def subjects_named(names: list[str]) -> list[Subject]:
    """The subjects that the command line names by key or by op, in the tables' order.

    Raises:
        ValueError: A name is neither.
    """
    known = {subject.key for subject in SUBJECTS} | {subject.op for subject in SUBJECTS} | {"all"}
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(sorted(known))}")
    return [s for s in SUBJECTS if {"all", s.key, s.op} & set(names)]
