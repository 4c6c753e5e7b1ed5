"""Timing and memory helpers: interleaved blocks, medians, the collector off."""

from __future__ import annotations

import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat

MICRO = 1e6

Clock = Callable[[], float]
Block = Callable[[], int]


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Garbage is collected now, and not while the block runs."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def block_of(function: Callable[..., object], arguments: Sequence[object], loops: int) -> Block:
    """A block that calls a function with the same arguments, written out as a user writes it.

    A call through `*arguments` is slower than one that names its arguments, and not equally so
    for a function and for an object with `__call__`; so each number of arguments has its own loop.

    Args:
        function: What is called.
        arguments: One to four positional arguments.
        loops: Calls per block.

    Returns:
        A callable that runs the loop and returns the number of calls.

    Raises:
        ValueError: There is no loop for so many arguments.
    """
    if len(arguments) == 1:
        (a,) = arguments

        def one() -> int:
            for _ in repeat(None, loops):
                function(a)
            return loops

        return one
    if len(arguments) == 2:
        a, b = arguments

        def two() -> int:
            for _ in repeat(None, loops):
                function(a, b)
            return loops

        return two
    if len(arguments) == 3:
        a, b, c = arguments

        def three() -> int:
            for _ in repeat(None, loops):
                function(a, b, c)
            return loops

        return three
    raise ValueError(f"no loop is written for {len(arguments)} arguments")


def medians(
    blocks: Sequence[Callable[[], Block]],
    rounds: int,
    *,
    clock: Clock = time.perf_counter,
) -> list[float]:
    """Median seconds per call of each block, measured in turn.

    Interleaving gives all blocks the same weather: a change of the processor's frequency or a
    neighbor's load reaches all of them. Every second round runs them in the opposite order.

    Args:
        blocks: Per block a callable that prepares it, untimed, and returns what is timed; the
            timed callable returns its number of calls.
        rounds: How often each block is timed.
        clock: Seconds.

    Returns:
        One median per block, in the order given.
    """
    samples: list[list[float]] = [[] for _ in blocks]
    order = list(range(len(blocks)))
    with quiet_collector():
        for number in range(rounds):
            for index in order if number % 2 == 0 else reversed(order):
                timed = blocks[index]()
                start = clock()
                calls = timed()
                end = clock()
                samples[index].append((end - start) / calls)
    return [statistics.median(values) for values in samples]


def lower_quartiles(
    calls: Sequence[Callable[[], object]],
    seconds: float,
    *,
    block: float = 4e-4,
    fewest: int = 5,
    most: int = 200,
    clock: Clock = time.perf_counter,
) -> list[float]:
    """Lower quartile of the seconds that each call takes, measured in turn.

    What a neighbor takes from the machine only ever makes a call slower, so the faster half says
    more about the call; the fastest of all may be luck. A random order, the same in every run,
    gives each call each of the others as its predecessor, with what that leaves in the caches.

    Args:
        calls: Each is called twice before any timing; what it returns is dropped.
        seconds: About how long all of it may take.
        block: Seconds of one timed block; a call that is shorter is repeated.
        fewest: Timed blocks of each, however long they take.
        most: Timed blocks of each, however short they are.
        clock: Seconds.

    Returns:
        One figure per call, in the order given.
    """
    loops, one_round = [], 0.0
    for call in calls:
        call()
        start = clock()
        call()
        once = max(clock() - start, 1e-7)
        loops.append(max(1, int(block / once)))
        one_round += loops[-1] * once
    samples: list[list[float]] = [[] for _ in calls]
    order, turns = list(range(len(calls))), random.Random(0)
    with quiet_collector():
        for _ in range(max(fewest, min(most, int(seconds / one_round)))):
            turns.shuffle(order)
            for index in order:
                call, times = calls[index], loops[index]
                start = clock()
                for _ in repeat(None, times):
                    call()
                samples[index].append((clock() - start) / times)
    return [sorted(values)[len(values) // 4] for values in samples]


def fastest(
    blocks: Sequence[Block], rounds: int, *, clock: Clock = time.perf_counter
) -> list[float]:
    """Seconds per call of each block at its best, measured in turn.

    For differences of a few nanoseconds: what the machine does beside it only ever adds.

    Args:
        blocks: Each runs and returns its number of calls.
        rounds: How often each is timed.
        clock: Seconds.

    Returns:
        One figure per block, in the order given.
    """
    best = [float("inf")] * len(blocks)
    with quiet_collector():
        for _ in range(rounds):
            for index, block in enumerate(blocks):
                start = clock()
                calls = block()
                best[index] = min(best[index], (clock() - start) / calls)
    return best


def difference_us(
    call: Callable[[], Block],
    direct: Callable[[], Block],
    rounds: int,
    *,
    clock: Clock = time.perf_counter,
) -> float:
    """Median of the one minus median of the other, microseconds per call."""
    with_framework, without = medians([call, direct], rounds, clock=clock)
    return (with_framework - without) * MICRO


def overhead_us(
    op: Callable[..., object],
    kernel: Callable[..., object],
    arguments: Sequence[object],
    *,
    rounds: int,
    loops: int,
    clock: Clock = time.perf_counter,
) -> float:
    """What a call of the op costs beyond the kernel called directly with the same tensors.

    Args:
        op: The op; called once before any timing.
        kernel: The very callable that serves it; called once before any timing.
        arguments: What both are called with.
        rounds: Timed blocks of each.
        loops: Calls per block.
        clock: Seconds.

    Returns:
        Microseconds: the median of `op(*arguments)` minus the median of `kernel(*arguments)`.
    """
    op(*arguments)
    kernel(*arguments)
    with_framework = block_of(op, arguments, loops)
    without = block_of(kernel, arguments, loops)
    return difference_us(lambda: with_framework, lambda: without, rounds, clock=clock)


def bytes_kept(action: Callable[[], object]) -> int:
    """Bytes of Python memory that are alive after an action and were not before.

    Args:
        action: What it does is counted; what it returns is alive while counting.

    Returns:
        Bytes as `tracemalloc` counts them, after a collection on both sides.
    """
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        kept = action()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        del kept
        return after - before
    finally:
        if not was_tracing:
            tracemalloc.stop()
