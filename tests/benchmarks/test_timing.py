from __future__ import annotations

import gc

import pytest

from benchmarks.timing import (
    block_of,
    bytes_kept,
    difference_us,
    fastest,
    lower_quartiles,
    medians,
    overhead_us,
)


class Clock:
    """Seconds that pass only when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def taking(self, seconds: float):
        def function(*arguments: object) -> None:
            self.now += seconds

        return function


def test_overhead_is_the_op_minus_its_kernel() -> None:
    clock = Clock()
    op, kernel = clock.taking(5e-6), clock.taking(2e-6)
    found = overhead_us(op, kernel, ("x",), rounds=4, loops=10, clock=clock)
    assert found == pytest.approx(3.0)


def test_one_slow_round_moves_no_median() -> None:
    clock = Clock()
    durations = iter([1.0, 1.0, 500.0, 1.0, 1.0])

    def block() -> int:
        clock.now += next(durations)
        return 1

    assert medians([lambda: block], 5, clock=clock) == [1.0]


def test_preparing_a_block_is_not_timed() -> None:
    clock = Clock()

    def prepare():
        clock.now += 100.0

        def timed() -> int:
            clock.now += 2.0
            return 2

        return timed

    assert medians([prepare], 3, clock=clock) == [pytest.approx(1.0)]


def test_blocks_are_interleaved_and_every_second_round_is_turned_around() -> None:
    order: list[str] = []

    def block(name: str):
        def run() -> int:
            order.append(name)
            return 1

        return lambda: run

    medians([block("a"), block("b")], 3)
    assert order == ["a", "b", "b", "a", "a", "b"]


def test_the_collector_rests_while_timing_and_runs_again_after() -> None:
    states: list[bool] = []

    def run() -> int:
        states.append(gc.isenabled())
        return 1

    difference_us(lambda: run, lambda: run, 2)
    assert states == [False] * 4
    assert gc.isenabled()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_block_calls_with_the_arguments_as_often_as_it_says(number: int) -> None:
    seen: list[tuple[object, ...]] = []
    arguments = tuple(range(number))
    block = block_of(lambda *given: seen.append(given), arguments, 4)
    assert block() == 4
    assert seen == [arguments] * 4


def test_a_block_of_more_arguments_than_there_are_loops_is_refused() -> None:
    with pytest.raises(ValueError, match="4 arguments"):
        block_of(print, (1, 2, 3, 4), 1)


def test_bytes_kept_counts_what_stays_and_not_what_is_dropped() -> None:
    size = 1_000_000

    def drop() -> None:
        bytearray(size)

    assert abs(bytes_kept(lambda: bytearray(size)) - size) < 10_000
    assert abs(bytes_kept(drop)) < 10_000


def test_a_quartile_ignores_what_neighbors_take_from_most_of_the_blocks() -> None:
    clock = Clock()
    durations = iter([9.0, 9.0, 1.0, 5.0, 7.0, 1.0, 1.0, 8.0, 6.0, 9.0])

    def call() -> None:
        clock.now += next(durations)

    found = lower_quartiles([call], 0.0, fewest=8, clock=clock)
    assert found == [1.0]


def test_a_short_call_is_repeated_and_a_long_one_is_not() -> None:
    clock = Clock()
    counts = {"short": 0, "long": 0}

    def call(name: str, seconds: float):
        def run() -> None:
            counts[name] += 1
            clock.now += seconds

        return run

    calls = [call("short", 0.25), call("long", 2.0)]
    found = lower_quartiles(calls, 0.0, block=1.0, fewest=3, clock=clock)
    assert found == [0.25, 2.0]
    assert counts == {"short": 2 + 3 * 4, "long": 2 + 3}


def test_a_long_budget_takes_more_blocks_but_not_without_end() -> None:
    clock = Clock()

    def blocks(seconds: float) -> int:
        called = 0

        def call() -> None:
            nonlocal called
            called += 1
            clock.now += 1.0

        lower_quartiles([call], seconds, fewest=2, most=10, clock=clock)
        return called - 2

    assert [blocks(0.0), blocks(6.0), blocks(1000.0)] == [2, 6, 10]


def test_the_fastest_round_is_what_counts() -> None:
    clock = Clock()
    rounds = iter([3e-6, 1e-6, 2e-6])

    def block() -> int:
        clock.now += 2 * next(rounds)
        return 2

    assert fastest([block], 3, clock=clock) == [pytest.approx(1e-6)]
