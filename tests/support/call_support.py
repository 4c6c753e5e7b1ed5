"""Ops made of the entries in ``faulty.py``, and kernels and targets for them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import faulty
import torch

from tileops_core import Op
from tileops_core.backend import BuilderRegistration, TargetRegistration, registered


def op_class(name: str, **body: Any) -> type[Op]:
    """A class of one of the entries. All are of this module: one name, one meaning."""
    spec = body.pop("spec", None) or faulty.SPECS[name]
    return type(name, (Op,), {"__module__": __name__, "spec": spec, **body})


def never(device: torch.device) -> bool:
    """A detector that claims nothing, so that only ``target=`` chooses its target."""
    return False


@contextmanager
def target(
    build: Callable[..., Any] | None = None,
    *,
    op: str = "ProbeFwdOp",
    name: str = "acme",
    detect: Callable[[torch.device], bool] = never,
) -> Iterator[None]:
    """A target of backend ``vendor`` with a builder for one op."""
    made = build or faulty.builder(op)
    with registered(
        TargetRegistration(name, detect), BuilderRegistration(op, name, made), backend="vendor"
    ):
        yield


@contextmanager
def served(
    op: str = "ProbeFwdOp", build: Callable[..., Any] | None = None, **params: Any
) -> Iterator[Op]:
    """An instance of one of the entries, served by a target called ``acme``."""
    with target(build, op=op):
        yield op_class(op)(**params, target="acme")


class Switch:
    """A kernel that does what it is told at the moment, and its builder.

    Attributes:
        does: what the kernel does with a call's tensors.
        builds: how often it was built.
    """

    def __init__(self, does: Callable[..., Any]) -> None:
        self.does = does
        self.builds = 0

    def build(self, *specs: Any, **params: Any) -> Callable[..., Any]:
        self.builds += 1
        return lambda *tensors, **more: self.does(*tensors, **more)


def good(x: torch.Tensor) -> torch.Tensor:
    """What ``ProbeFwdOp`` is to compute."""
    return x * 2


def small(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Different numbers in every place."""
    shape = shape or (3, 4)
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1, dtype=dtype).reshape(shape)


def layouts(shape: tuple[int, ...] = (3, 4)) -> Iterable[tuple[str, torch.Tensor]]:
    """Float tensors of one shape whose memory lies in every odd way torch has."""
    base = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    rows, columns = shape
    wide = torch.zeros(rows, columns + 3)
    wide[:, 1 : columns + 1] = base
    stepped = torch.zeros(2 * rows, 2 * columns)
    stepped[::2, ::2] = base
    shifted = torch.zeros(rows * columns + 1)
    shifted[1:] = base.reshape(-1)
    negative = torch.complex(torch.zeros(shape), -base).conj().imag
    assert negative.is_neg()
    return (
        ("contiguous", base.clone()),
        ("transposed", base.t().contiguous().t()),
        ("pitched", wide[:, 1 : columns + 1]),
        ("stepped", stepped[::2, ::2]),
        ("shifted", shifted[1:].view(shape)),
        ("expanded", base[:1].expand(shape)),
        ("expanded from one element", base[:1, :1].expand(shape)),
        ("negative bit", negative),
        ("odd stride of an axis of one", base.as_strided((1, columns), (999, 1))),
    )


def odd_tensors() -> Iterable[tuple[str, str, Callable[[], torch.Tensor]]]:
    """Name, word in the error, and maker of (3, 4) tensors that no dense kernel can read."""

    def quantized() -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.quantize_per_tensor(small(), 1.0, 0, torch.qint8)

    def csr() -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return small().to_sparse_csr()

    def nested(layout: torch.layout) -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.nested.nested_tensor([small(2, 4), small(1, 4)], layout=layout)

    return (
        ("sparse_coo", "sparse_coo", lambda: small().to_sparse()),
        ("sparse_csr", "sparse_csr", csr),
        ("mkldnn", "mkldnn", lambda: small().to_mkldnn()),
        ("nested_strided", "nested", lambda: nested(torch.strided)),
        ("nested_jagged", "nested", lambda: nested(torch.jagged)),
        ("quantized", "quantized", quantized),
    )


@attrs.define
class Outcome:
    """What one thread's work came to."""

    result: Any = None
    error: BaseException | None = None


def in_threads(*work: Callable[[], Any]) -> list[Outcome]:
    """Run each function in a thread of its own, started together; what each came to, in order."""
    gate = threading.Barrier(len(work))
    outcomes = [Outcome() for _ in work]

    def run(function: Callable[[], Any], outcome: Outcome) -> None:
        gate.wait(30)
        try:
            outcome.result = function()
        except BaseException as error:
            outcome.error = error

    threads = [
        threading.Thread(target=run, args=pair, daemon=True)
        for pair in zip(work, outcomes, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return outcomes


def python(code: str, *paths: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    path = os.pathsep.join([*map(str, paths), *filter(None, sys.path)])
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TILEOPS_")}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**inherited, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
