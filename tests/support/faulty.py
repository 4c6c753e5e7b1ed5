"""Small ops with every kind of effect, and kernels and builders that misbehave in every way.

``SPECS`` holds entries by op name, ``KERNELS`` what computes them rightly. ``kernel_faults`` and
``builder_faults`` are for ``ProbeFwdOp``, one input and one output of the same type;
``diagnostic_faults`` are for no op.
"""

from __future__ import annotations

import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch
from torch import Tensor

_FLOATS = "DType[float16 | bfloat16 | float32]"
_ROW: Mapping[str, Any] = {"label": "small", "M": 3, "N": 4, "dtype_cases": [{"T": "float32"}]}


def _tensor(shape: str = "[M, N]", dtype: str = "T", **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, **more}


def _entry(
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    indices: Mapping[str, str] | None = None,
    row: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    signature = {
        "forall": {"M": "Dim", "N": "Dim", **(indices or {}), "T": _FLOATS},
        "params": dict(params or {}),
        "inputs": dict(inputs),
        "outputs": dict(outputs),
    }
    if not params:
        del signature["params"]
    return {
        "family": "probe",
        "status": "implemented",
        "signature": {**signature, **more},
        "workloads": [{**_ROW, **(row or {})}],
        "roofline": {"flops": "M * N"},
    }


SPECS: Mapping[str, Mapping[str, Any]] = {
    # y = 2 x
    "ProbeFwdOp": _entry({"x": _tensor()}, {"y": _tensor()}),
    # y = x + z, z optional
    "ProbePairFwdOp": _entry({"x": _tensor(), "z": _tensor(optional=True)}, {"y": _tensor()}),
    # y = factor x, into out if given
    "BufferFwdOp": _entry(
        {"x": _tensor()},
        {"y": _tensor(buffer="out")},
        {"factor": {"type": "float", "default": 2.0}},
    ),
    # state += x; nothing is returned
    "AccumulateFwdOp": _entry({"state": _tensor(mutated=True), "x": _tensor()}, {}),
    # cache = x; what the cache held is not read
    "StoreFwdOp": _entry({"cache": _tensor(mutated=True, write_only=True), "x": _tensor()}, {}),
    # values = the rows' maxima; where = their places, if asked for
    "MaximaFwdOp": _entry(
        {"x": _tensor()},
        {
            "values": _tensor("[M]"),
            "where": _tensor("[M]", "int64", nullable="not indices"),
        },
        {"indices": {"type": "bool", "default": True}},
    ),
    # y = x where keep, else 0; keep is passed by name
    "MaskFwdOp": _entry(
        {"x": _tensor(), "keep": _tensor(dtype="bool", kw_only=True)}, {"y": _tensor()}
    ),
    # y = x where keep, else 0; keep is passed by name or left out
    "MaybeMaskFwdOp": _entry(
        {"x": _tensor(), "keep": _tensor(dtype="bool", kw_only=True, optional=True)},
        {"y": _tensor()},
    ),
    # y = 2 x, and the caller's own x must be contiguous
    "ContiguousFwdOp": _entry({"x": _tensor(contiguous=True)}, {"y": _tensor()}),
    # x *= 2, x must be contiguous, the result is x
    "ContiguousInPlaceFwdOp": _entry(
        {"x": _tensor(contiguous=True, mutated=True)}, {"y": _tensor(alias="x")}
    ),
    # y = x with rows beyond lengths set to 0; lengths lie on the CPU wherever x is
    "LengthsFwdOp": _entry(
        {"x": _tensor(), "lengths": _tensor("[M]", "int64", device="cpu")}, {"y": _tensor()}
    ),
    # left, right = right, left
    "SwapFwdOp": _entry({"left": _tensor(mutated=True), "right": _tensor(mutated=True)}, {}),
    # left, right = left + right, left - right; each result is the input of that name
    "RotateFwdOp": _entry(
        {"left": _tensor(mutated=True), "right": _tensor(mutated=True)},
        {"sum": _tensor(alias="left"), "difference": _tensor(alias="right")},
    ),
    # y = 2 x, in x if in_place
    "MaybeInPlaceFwdOp": _entry(
        {"x": _tensor(mutated="in_place")},
        {"y": _tensor(alias="x")},
        {"in_place": {"type": "bool", "default": False}},
    ),
}
"""Entries by op name, to be stated as an op class's ``spec``."""


def _buffer(factor: float) -> Callable[..., Any]:
    def kernel(x: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.mul(x, factor, out=out)

    return kernel


def _accumulate(state: Tensor, x: Tensor) -> None:
    state.add_(x)


def _store(cache: Tensor, x: Tensor) -> None:
    cache.copy_(x)


def _maxima(indices: bool) -> Callable[..., Any]:
    def kernel(x: Tensor) -> tuple[Tensor, Tensor | None]:
        values, where = x.max(dim=1)
        return values, where if indices else None

    return kernel


def _mask(x: Tensor, keep: Tensor | None = None) -> Tensor:
    return x.clone() if keep is None else torch.where(keep, x, 0)


def _lengths(x: Tensor, lengths: Tensor) -> Tensor:
    column = torch.arange(x.shape[1], device=x.device)
    return torch.where(column < lengths.to(x.device)[:, None], x, 0)


def _swap(left: Tensor, right: Tensor) -> None:
    kept = left.clone()
    left.copy_(right)
    right.copy_(kept)


def _rotate(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    difference = left - right
    left.add_(right)
    right.copy_(difference)
    return left, right


def _doubled(x: Tensor) -> Tensor:
    return x * 2


def _double(x: Tensor) -> Tensor:
    return x.mul_(2)


KERNELS: Mapping[str, Callable[..., Callable[..., Any]]] = {
    "ProbeFwdOp": lambda: _doubled,
    "ProbePairFwdOp": lambda: lambda x, z=None: x.clone() if z is None else x + z,
    "BufferFwdOp": _buffer,
    "AccumulateFwdOp": lambda: _accumulate,
    "StoreFwdOp": lambda: _store,
    "MaximaFwdOp": _maxima,
    "MaskFwdOp": lambda: _mask,
    "MaybeMaskFwdOp": lambda: _mask,
    "ContiguousFwdOp": lambda: _doubled,
    "ContiguousInPlaceFwdOp": lambda: _double,
    "LengthsFwdOp": lambda: _lengths,
    "SwapFwdOp": lambda: _swap,
    "RotateFwdOp": lambda: _rotate,
    "MaybeInPlaceFwdOp": lambda in_place: _double if in_place else _doubled,
}
"""For each op, its parameters by name -> a kernel that computes it rightly."""


def builder(op: str) -> Callable[..., Callable[..., Any]]:
    """A target's builder for one of the ops, which does as it should."""

    def build_kernel(*specs: Any, **params: Any) -> Callable[..., Any]:
        return KERNELS[op](**params)

    return build_kernel


def in_tree(
    does: Callable[..., Any] = _doubled,
    *,
    factory: Callable[[], Any] | None = None,
    **declared: Any,
) -> tuple[dict[str, Any], type[Any]]:
    """The kernel interface of ``ProbeFwdOp``, and a kernel type for it.

    Args:
        does: What its kernel does; one of the kernel faults, say.
        factory: Builds the entry, if it is to be something else than an instance.
        declared: Class attributes and methods of the kernel type (``devices``, ``refusal``).

    Returns:
        ``interfaces`` for an op class whose ``call_spec`` returns ``interfaces["probe"].request``
        of device, dtype and shape; and the kernel type.
    """
    from tileops_core.kernels import CallSpec, Kernel, KernelInterface

    class ProbeCall(CallSpec):
        dtype: torch.dtype
        shape: tuple[int, ...]

    class ProbeKernel(KernelInterface):
        request = ProbeCall

        @abstractmethod
        def forward(self, x: Tensor) -> Tensor:
            """Double ``x``, of any shape; the result is new and of the same type."""

    body: dict[str, Any] = {"devices": None, "forward": staticmethod(does), **declared}
    if factory is not None:
        body["entry_for"] = classmethod(lambda cls, call: ((), factory))
    return {"probe": ProbeKernel}, type("Probe", (Kernel, ProbeKernel), body)


class NeedsArguments:
    """A class that a builder returns instead of an instance."""

    def __init__(self, block: int) -> None:
        self.block = block

    def __call__(self, x: Tensor) -> Tensor:
        return _doubled(x)


class Subclass(Tensor):
    """A tensor of a type that no kernel should make up."""


@attrs.frozen
class Fault:
    """How something misbehaves, and what the caller must be told.

    Attributes:
        name: For the test's id.
        does: The kernel, or the builder.
        error: The exception that the caller gets.
        says: Patterns that its text must match, all of them, whatever their order.
        noted: The exception is the backend's own: its type stays and a note names the backend.
    """

    name: str
    does: Callable[..., Any]
    error: type[BaseException]
    says: tuple[str, ...] = ()
    noted: bool = False

    def is_told_by(self, error: BaseException) -> bool:
        """Whether an exception is of the right type and says what it must."""
        text = str(error)
        return type(error) is self.error and all(re.search(pattern, text) for pattern in self.says)


def _raising(error: BaseException) -> Callable[..., Any]:
    def fail(*inputs: Any, **params: Any) -> Any:
        raise error

    return fail


def _backend_error() -> type[BaseException]:
    from tileops_core.errors import BackendError

    return BackendError


def _strided(x: Tensor) -> Tensor:
    """Right shape and values, in memory of another order."""
    return (x * 2).t().contiguous().t()


def _view(x: Tensor) -> Tensor:
    return x.view_as(x)


def _restored(x: Tensor) -> Tensor:
    """A tensor that is no view of the input, over the input's memory."""
    return torch.empty(0, dtype=x.dtype, device=x.device).set_(
        x.untyped_storage(), x.storage_offset(), x.shape, x.stride()
    )


def kernel_faults() -> tuple[Fault, ...]:
    """What a kernel of ``ProbeFwdOp`` may return or raise instead of a good result.

    Made for a float32 input of shape (M, N) with M and N above 1 and different.
    """
    wrong = _backend_error()

    def returns(name: str, make: Callable[[Tensor], Any], *says: str) -> Fault:
        return Fault(name, make, wrong, ("ProbeFwdOp", *says))

    def raises(error: BaseException, noted: bool = True) -> Fault:
        text = str(error)
        return Fault(f"raises {type(error).__name__}", _raising(error), type(error), (text,), noted)

    return (
        returns("wrong shape", lambda x: x.new_zeros(x.shape[0] + 1, x.shape[1]), "shape", "M, N"),
        returns("transposed shape", lambda x: x.new_zeros(x.shape[1], x.shape[0]), "shape"),
        returns("wrong rank", lambda x: x.new_zeros(x.numel()), "shape"),
        returns("wrong dtype", lambda x: x.double(), "dtype float64", "float32"),
        returns("wrong device", lambda x: torch.empty_like(x, device="meta"), "meta", "cpu"),
        returns("None", lambda x: None, "None"),
        returns("a list", lambda x: [x * 2], "a list of 1"),
        returns("a tuple", lambda x: (x * 2,), "a tuple of 1"),
        returns("too many results", lambda x: (x * 2, x * 2), "a tuple of 2"),
        returns("an integer", lambda x: 3, r"3 \(int\)"),
        returns("a number out of a tensor", lambda x: x.sum().item(), "float"),
        returns("an array", lambda x: (x * 2).numpy(), "ndarray"),
        returns("a subclass", lambda x: (x * 2).as_subclass(Subclass), "Subclass"),
        returns("a parameter", lambda x: torch.nn.Parameter(x * 2), "Parameter"),
        returns("its input", lambda x: x, "memory of its input x"),
        returns("a view of its input", _view, "memory of its input x"),
        returns("its input's storage", _restored, "memory of its input x"),
        returns("a detached input", lambda x: x.detach(), "memory of its input x"),
        returns("a strided tensor", _strided, "strides"),
        returns("an expanded tensor", lambda x: x.new_zeros(1).expand(x.shape), "strides"),
        returns("a sparse tensor", lambda x: (x * 2).to_sparse(), "layout"),
        returns("a result that requires grad", lambda x: (x * 2).requires_grad_(), "grad"),
        raises(ValueError("bad block size")),
        raises(NotImplementedError("no kernel for this")),
        raises(KeyboardInterrupt()),
        raises(SystemExit(3)),
    )


def builder_faults() -> tuple[Fault, ...]:
    """What a builder of ``ProbeFwdOp`` may return or raise instead of a kernel."""
    wrong = _backend_error()

    def returns(name: str, what: Any, says: str) -> Fault:
        return Fault(name, lambda *specs, **params: what, wrong, ("ProbeFwdOp", says))

    def raises(error: BaseException) -> Fault:
        return Fault(
            f"raises {type(error).__name__}", _raising(error), type(error), (str(error),), True
        )

    return (
        returns("None", None, "None"),
        returns("a number", 3, "3"),
        returns("a word", "kernel", "'kernel'"),
        returns("a tuple of kernels", (_doubled, _doubled), "_doubled"),
        returns("a class", NeedsArguments, "NeedsArguments"),
        returns("a tensor", torch.zeros(1), "tensor"),
        Fault("takes no arguments", lambda: _doubled, TypeError, ("positional argument",), True),
        raises(ValueError("rows must be even")),
        raises(ImportError("no compiler here")),
        raises(KeyboardInterrupt()),
        raises(SystemExit(3)),
    )


def diagnostic_faults() -> tuple[Fault, ...]:
    """What a diagnostic may return or raise instead of text or None."""
    wrong = _backend_error()

    def returns(name: str, what: Any, says: str) -> Fault:
        return Fault(f"returns {name}", lambda: what, wrong, ("C compiler", says))

    def raises(error: BaseException) -> Fault:
        name = type(error).__name__
        return Fault(f"raises {name}", _raising(error), wrong, ("C compiler", f"raised {name}"))

    return (
        returns("a number", 3, "returned int; it must return text or None"),
        returns("False", False, "returned bool"),
        returns("bytes", b"no g++", "returned bytes"),
        returns("nothing said", " \n", "returned an empty text"),
        Fault("takes an argument", lambda device: None, wrong, ("raised TypeError",)),
        raises(LookupError("no driver")),
        raises(ImportError("no compiler here")),
        raises(SystemExit(3)),
    )


# -- what checking mode catches ---------------------------------------------------------------


class ReusesItsBuffer:
    """A kernel that hands out one output buffer again and again, so that results change later."""

    def __init__(self) -> None:
        self.buffer: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.buffer is None or self.buffer.shape != x.shape:
            self.buffer = torch.empty_like(x)
        return torch.mul(x, 2, out=self.buffer)


def writes_its_input(x: Tensor) -> Tensor:
    """A kernel whose result is right and whose input is changed, though the entry reads it."""
    result = x * 2
    x.zero_()
    return result


# -- calls inside of calls, and slow builds ---------------------------------------------------


def kernel_that_calls(op: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A kernel of ``ProbeFwdOp`` that calls another op on its way; that call is its own affair."""

    def kernel(x: Tensor) -> Tensor:
        op(x)
        return _doubled(x)

    return kernel


def builder_that_calls(op: Callable[[Tensor], Tensor]) -> Callable[..., Callable[..., Any]]:
    """A builder of ``ProbeFwdOp`` that calls another op while it builds."""

    def build_kernel(x: Any, **params: Any) -> Callable[..., Any]:
        op(torch.ones(2, 2, dtype=x.dtype, device=x.device))
        return _doubled

    return build_kernel


class SlowBuilder:
    """A builder of ``ProbeFwdOp`` that counts its builds and lasts until it is let go.

    Attributes:
        counts: Shape -> how often a kernel for it was built.
        started: Set once a build has begun.
        let_go: Builds wait for it; set it in advance for a builder that only counts.
        failures: Exceptions that the next builds raise instead of returning, first one first.
    """

    def __init__(self, *failures: BaseException) -> None:
        self.counts: dict[tuple[int, ...], int] = {}
        self.started = threading.Event()
        self.let_go = threading.Event()
        self.failures = list(failures)
        self._lock = threading.Lock()

    def __call__(self, x: Any, **params: Any) -> Callable[[Tensor], Tensor]:
        with self._lock:
            self.counts[x.shape] = self.counts.get(x.shape, 0) + 1
            failure = self.failures.pop(0) if self.failures else None
        self.started.set()
        if not self.let_go.wait(20):
            raise AssertionError("nobody let the builder go")
        if failure is not None:
            raise failure
        return _doubled

    @property
    def count(self) -> int:
        """How many builds there were."""
        return sum(self.counts.values())
