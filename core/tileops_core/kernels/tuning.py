"""Choose a kernel's configuration by measuring, at its next launch.

The launch that tunes has real tensors. Each configuration is built, its result is compared with the
first one's, and it is timed; the fastest of those that agree takes over. Nothing of the kernel
itself changes but what its ``forward`` and ``config`` lead to, so calls in flight finish on what
they have.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import torch

from tileops_core.by_fields import EqualByFields
from tileops_core.kernels import tune_store
from tileops_core.kernels.agreement import disagreement
from tileops_core.kernels.device_name import device_name
from tileops_core.kernels.kernel import Kernel
from tileops_core.kernels.progress import progress

_log = logging.getLogger("tileops.tune")

_ROUNDS = 3
_ROUND_SECONDS = 0.01
_MOST_LAUNCHES = 200


@attrs.frozen(eq=False, repr=False)
class Origin(EqualByFields):
    """Which kernel it is: what the choice depends on besides the kernel's class and the call.

    Args:
        op: The op's name.
        key: The kernel type's key, or the target's name.
        backend: Who brought it.
        version: The version of that backend's distribution.
        identity: What was compiled in.
    """

    op: str
    key: str
    backend: str | None
    version: str | None
    identity: object


def request(kernel: Kernel, origin: Origin | None = None) -> None:
    """Ask a kernel to be tuned.

    Args:
        kernel: The kernel; one whose class writes ``request_tune`` sees to it by itself.
        origin: Which kernel it is; without it the choice is not kept for other processes.
    """
    if type(kernel).request_tune is not Kernel.request_tune:
        kernel.request_tune()
    elif kernel.autotune_configs:
        vars(kernel)["forward"] = Launch(kernel, origin)


def is_pending(entry: object) -> bool:
    """Whether an entry's ``forward`` is one that tunes, and will be another one soon."""
    return isinstance(getattr(entry, "__dict__", {}).get("forward"), Launch)


class Launch:
    """Stands for a kernel's ``forward`` until a launch with real tensors has tuned it."""

    forward: Callable[..., Any]

    def __init__(self, kernel: Kernel, origin: Origin | None) -> None:
        self.kernel = kernel
        self.origin = origin
        forward: Callable[..., Any] = kernel.forward
        # Asked twice, it is tuned once.
        self.forward = forward.forward if isinstance(forward, Launch) else forward
        self._busy = threading.Lock()

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Tune, if nobody else is at it, and compute."""
        if not is_pending(self.kernel):
            return self.kernel.forward(*inputs, **named)  # it has been tuned meanwhile
        if _can_tune([*inputs, *named.values()]) and self._busy.acquire(blocking=False):
            try:
                winner = best(self.kernel, self.forward, inputs, named, self.origin)
                if vars(self.kernel).get("forward") is self:
                    self._adopt(winner)
            finally:
                self._busy.release()
            return self.kernel.forward(*inputs, **named)
        return self.forward(*inputs, **named)

    def _adopt(self, winner: Kernel | None) -> None:
        """Let the kernel compute as another one does; None for as it did before."""
        if winner is not None:
            vars(self.kernel).update(forward=winner.forward, config=winner.config)
        elif getattr(self.forward, "__self__", None) is self.kernel:
            del vars(self.kernel)["forward"]
        else:
            vars(self.kernel)["forward"] = self.forward


def _can_tune(arguments: Sequence[Any]) -> bool:
    """Whether a launch has data, and is no part of a graph that is captured."""
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    if any(type(t) is not torch.Tensor or t.device.type == "meta" for t in tensors):
        return False
    on_cuda = any(t.device.type == "cuda" for t in tensors)
    return not (on_cuda and torch.cuda.is_current_stream_capturing())


def best(
    kernel: Kernel,
    forward: Callable[..., Any],
    inputs: Sequence[Any],
    named: Mapping[str, Any],
    origin: Origin | None,
) -> Kernel | None:
    """The kernel with the fastest configuration that computes what the first one does.

    Args:
        kernel: The kernel to be tuned.
        forward: What it computes with now.
        inputs: A launch's arguments; they stay as they are.
        named: Those by name.
        origin: Which kernel it is.

    Returns:
        The kernel built with that configuration; None where the present one stays.
    """
    configs = [dict(config) for config in kernel.autotune_configs or ()]
    call = _Trial(inputs, named)
    started = time.perf_counter()
    title = f"tuning {_name(kernel, origin)}"
    try:
        is_first = dict(kernel.config) == configs[0]
        first = forward if is_first else kernel.with_config(configs[0]).forward
        due = call.outcome(first)
    except Exception as error:
        _log.warning("%s: its first configuration %s fails: %s", title, configs[0], error)
        return None
    key = _key(kernel, configs, call, origin)
    known = tune_store.chosen(key, len(configs)) if key is not None else None
    if known is not None:
        found = call.candidate(kernel, configs[known], due, title)
        if found is not None:
            _log.info("%s: %s, as was measured before", title, configs[known])
            return found
    made: dict[int, Kernel] = {}
    seconds: dict[int, float] = {}
    with progress(title, len(configs)) as step:
        for number, config in enumerate(configs):
            found = call.candidate(kernel, config, due, title)
            if found is not None:
                made[number] = found
                seconds[number] = measure(partial(call.run, found.forward), call.device)
            step()
    if not seconds:
        return None
    number = min(seconds, key=lambda n: seconds[n])
    if key is not None:
        tune_store.keep(key, number, {str(configs[n]): taken for n, taken in seconds.items()})
    _log.info(
        "%s: %s, %.3g us where the first takes %.3g us; %d of %d configurations in %.1f s",
        title,
        configs[number],
        seconds[number] * 1e6,
        seconds.get(0, float("nan")) * 1e6,
        len(seconds),
        len(configs),
        time.perf_counter() - started,
    )
    return made[number]


class _Trial:
    """One launch that is repeated on copies of its tensors."""

    def __init__(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> None:
        self.inputs = tuple(inputs)
        self.named = dict(named)
        tensors = [a for a in (*inputs, *named.values()) if isinstance(a, torch.Tensor)]
        self.device = tensors[0].device if tensors else torch.device("cpu")
        self._copies = self._copied()

    def facts(self) -> list[Any]:
        """What of the launch the best configuration may depend on."""
        return [
            [str(a.dtype), list(a.shape), list(a.stride())] if isinstance(a, torch.Tensor) else a
            for a in (*self.inputs, *(self.named[name] for name in sorted(self.named)))
        ]

    def _copied(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies of all tensors; arguments that are one tensor share one."""
        made: dict[int, torch.Tensor] = {}

        def copy(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            if id(value) not in made:
                made[id(value)] = value.detach().clone()
            return made[id(value)]

        return tuple(map(copy, self.inputs)), {n: copy(v) for n, v in self.named.items()}

    def outcome(self, run: Callable[..., Any]) -> Any:
        """What a launch returns, and what its tensors hold afterwards."""
        inputs, named = self._copied()
        result = run(*inputs, **named)
        return [result, list(inputs), [named[name] for name in sorted(named)]]

    def run(self, run: Callable[..., Any]) -> None:
        """Launch for the clock."""
        run(*self._copies[0], **self._copies[1])

    def candidate(
        self, kernel: Kernel, config: Mapping[str, Any], due: Any, title: str
    ) -> Kernel | None:
        """The kernel with a configuration, None if it cannot be had or computes something else."""
        try:
            made = kernel.with_config(config)
            problem = disagreement(due, self.outcome(made.forward))
        except Exception as error:
            _log.info("%s: %s is left out: %s: %s", title, config, type(error).__name__, error)
            return None
        if problem is not None:
            _log.warning("%s: %s is left out: it %s", title, config, problem)
            return None
        return made


def measure(run: Callable[[], object], device: torch.device) -> float:
    """Seconds of one launch: the best of several rounds, each of as many as make a clock exact."""
    module = getattr(torch, device.type, None)
    wait = getattr(module, "synchronize", lambda: None)
    run()
    wait()
    started = time.perf_counter()
    run()
    wait()
    once = max(time.perf_counter() - started, 1e-9)
    count = max(1, min(_MOST_LAUNCHES, round(_ROUND_SECONDS / once)))
    found = once
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        found = min(found, (time.perf_counter() - started) / count)
    return found


def _name(kernel: Kernel, origin: Origin | None) -> str:
    return type(kernel).__qualname__ if origin is None else f"{origin.op}, kernel {origin.key!r}"


def _key(
    kernel: Kernel, configs: Sequence[Mapping[str, Any]], call: _Trial, origin: Origin | None
) -> Mapping[str, Any] | None:
    """What a choice depends on; None where some of it cannot be told."""
    source = _source_of(type(kernel))
    if origin is None or source is None or re.search(r" at 0x[0-9a-f]+", repr(origin.identity)):
        return None
    return {
        "op": origin.op,
        "kernel": origin.key,
        "class": f"{type(kernel).__module__}.{type(kernel).__qualname__}",
        "source": source,
        "identity": repr(origin.identity),
        "call": call.facts(),
        "configurations": [repr(sorted(config.items())) for config in configs],
        "device": device_name(call.device),
        "threads": torch.get_num_threads() if call.device.type == "cpu" else None,
        "versions": {
            "torch": torch.__version__,
            "tileops-core": _core_version(),
            str(origin.backend): origin.version,
        },
    }


def _core_version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tileops-core")
    except PackageNotFoundError:  # the package stands on the path, and nobody installed it
        return None


def _source_of(kernel_type: type) -> str | None:
    """A digest of the source of a class's own module and its bases', None if it has none."""
    digest = hashlib.sha256()
    for cls in kernel_type.__mro__:
        if cls is Kernel:
            break
        module = sys.modules.get(cls.__module__)
        try:
            text = inspect.getsource(module)  # type: ignore[arg-type]
        except (OSError, TypeError):
            return None
        digest.update(text.encode())
    return digest.hexdigest()[:32]
