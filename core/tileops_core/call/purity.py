"""The checks of ``checks(purity=True)``: a kernel touches nothing that it does not declare."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch

from tileops_core.call.compose import Effects, Tensors
from tileops_core.call.results import owner
from tileops_core.call.routes import Route
from tileops_core.call.state import CalledOp
from tileops_core.call.writes import overlap
from tileops_core.errors import BackendError

_LOCK = threading.Lock()
_HANDED_OUT: weakref.WeakKeyDictionary[Any, list[weakref.ref[torch.Tensor]]] = (
    weakref.WeakKeyDictionary()
)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits, NaNs included."""
    if a.numel() == 0:
        return True
    flat_a, flat_b = map(_bytes, (a, b))
    return torch.equal(flat_a, flat_b)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    # A copy, because strides of axes of length 1 may be anything, also in contiguous tensors, and
    # only a copy has no negative or conjugate bit.
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    return copy.resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)


class Purity:
    """Remembers a call's inputs before the kernel runs, and compares after."""

    def __init__(
        self, op: CalledOp, inputs: Tensors, out: torch.Tensor | None, effects: Effects
    ) -> None:
        self._op = op
        written = [w for w in (*(inputs[i] for i in effects.written), out) if w is not None]
        # An input that is the very view of a written one changes by right.
        self._read = [
            (i, x, x.detach().clone())
            for i, x in enumerate(inputs)
            if x is not None and not any(overlap(x, w) for w in written)
        ]
        self._kept = effects.aliases

    def check(self, route: Route, result: Any) -> None:
        """Compare the inputs with what they were, and new outputs with memory still in use.

        Raises:
            BackendError: the kernel wrote an input it does not declare, or handed out memory
                that an earlier result still uses.
        """
        inputs = self._op._plan.signature.inputs
        for i, tensor, before in self._read:
            if not same_bits(tensor, before):
                raise self._fault(
                    route, f"wrote into {inputs[i].name}, which the entry does not declare written"
                )
        results = result if isinstance(result, tuple) else (result,)
        fresh = [
            r
            for r, kept in zip(results, self._kept, strict=False)
            if r is not None and kept is None
        ]
        with _LOCK:
            earlier = _HANDED_OUT.setdefault(self._op, [])
            earlier[:] = [ref for ref in earlier if ref() is not None]
            for tensor in fresh:
                for ref in earlier:
                    other = ref()
                    if other is not None and overlap(tensor, other):
                        raise self._fault(
                            route,
                            "returned memory that an earlier result still uses; every "
                            "call needs an output of its own",
                        )
            earlier.extend(weakref.ref(tensor) for tensor in fresh)

    def _fault(self, route: Route, problem: str) -> BackendError:
        blamed, name = route.blamed, self._op._plan.op
        return BackendError(
            f"{name}: {owner(blamed)} {problem}; this is the backend's fault: report it there, or "
            "choose another target=",
            backend=blamed.backend,
            op=name,
            target=blamed.target,
        )
