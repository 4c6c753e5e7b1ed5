"""Run a transformer block of Llama-3.2-1B's dimensions, every computation of it served by an op.

A prefill of some tokens fills the cache of keys and values, then one more token is decoded against
it; in float32 and bfloat16, with no target named, under `target="reference"` and under
`target="tilelang"`. Prints who served each op and what its calls took, and how far the results are
from the same block in plain PyTorch. Exits with status 1 when that is too far.

    python examples/llama_block.py
    python examples/llama_block.py --tokens 512 --dtype bfloat16
    python examples/llama_block.py --threads 1   # steadier times where others use the cores too
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import llama_plain
import torch
from llama import LLAMA_3_2_1B, Block, Cache, Config, Pair, Step, Weights, random_weights
from rich import box
from rich.console import Console
from rich.table import Table

TARGETS = (None, "reference", "tilelang")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LIMITS = {
    # Sums of thousands of products in another order: some dozen units of float32's last place.
    torch.float32: 1e-5,
    # What ops hand on is rounded to 8 bits, by up to 2^-9 of each value; the largest of half a
    # million differences is several times a typical one.
    torch.bfloat16: 6e-2,
}
"""The largest difference, in units of the root mean square of the exact values."""

FEWEST = 3
"""Times that an op's calls are repeated at least, however long they take."""

NANOSECONDS = 200_000_000
"""What may be spent on repeating one op's calls under one target."""


@dataclass(frozen=True)
class Taken:
    """What one op's calls took in one run of the block.

    Args:
        op: The op's name.
        served_by: Who served each call.
        as_asked: Whether the target served them, not somebody in its stead.
        microseconds: All of them together, the median of repetitions.
    """

    op: str
    served_by: tuple[str, ...]
    as_asked: bool
    microseconds: float


@dataclass(frozen=True)
class Phase:
    """Prefill or decode under one target.

    Args:
        outputs: What the block gave.
        ops: What its ops took, in order of first use.
    """

    outputs: Pair
    ops: list[Taken]


@dataclass(frozen=True)
class Run:
    """What one target gave in one dtype.

    Args:
        target: Its name; None for no target.
        prefill: All tokens but the last.
        decode: The last token, against the cache.
        reasons: Ops that the target did not serve, and why.
    """

    target: str | None
    prefill: Phase
    decode: Phase
    reasons: list[tuple[str, str]]


def runs_of(config: Config, weights: Weights, x: torch.Tensor, repeats: int) -> list[Run]:
    """Prefill and decode under every target.

    Args:
        config: The block's dimensions.
        weights: Its tensors, shared by all targets.
        x: [tokens + 1, hidden] of the weights' dtype; the last one is decoded.
        repeats: How often to repeat an op's calls at most.
    """
    tokens = x.shape[0] - 1
    blocks = [Block(config, weights, target) for target in TARGETS]
    caches = [Cache(config, tokens + 1, x.dtype) for _ in blocks]
    with torch.inference_mode():
        prefills = phases(blocks, caches, x[:tokens], repeats)
        decodes = phases(blocks, caches, x[tokens:], repeats)
    return [
        Run(
            target, prefill, decode, [(s.name, reason) for s in steps.all() for reason in s.reasons]
        )
        for target, prefill, decode, steps in zip(
            TARGETS, prefills, decodes, (block.steps for block in blocks), strict=True
        )
    ]


def phases(
    blocks: Sequence[Block], caches: Sequence[Cache], x: torch.Tensor, repeats: int
) -> list[Phase]:
    """Run every block once, which also builds what its calls need; then time its ops."""
    for block in blocks:
        for step in block.steps.all():
            step.forget()
    outputs = [block(x, cache) for block, cache in zip(blocks, caches, strict=True)]
    by_op = [timed(steps, repeats) for steps in zip(*(b.steps.all() for b in blocks), strict=True)]
    return [
        Phase(given, list(ops))
        for given, ops in zip(outputs, zip(*by_op, strict=True), strict=True)
    ]


def timed(steps: Sequence[Step], repeats: int) -> list[Taken]:
    """Repeat the calls that the block made of one op, under all targets in turn.

    In turn, because what else the machine does then hits all of them alike; and all calls of a
    block before the next repetition, so that a matrix is read from as far away as in the block.
    Where a target served none of them the calls were the default's, and so are the times.

    Args:
        steps: The op under each target, the first without one.
        repeats: How often at most.
    """
    times: dict[Step, list[int]] = {
        step: [] for step in steps if any(call.as_asked for call in step.calls)
    }
    for number in range(repeats):
        if number >= FEWEST and sum(map(sum, times.values())) > NANOSECONDS * len(times):
            break
        for step, taken in times.items():
            start = time.perf_counter_ns()
            for call in step.calls:
                call.op(*call.tensors)
            taken.append(time.perf_counter_ns() - start)
    return [
        Taken(
            step.name,
            tuple(call.served_by for call in step.calls),
            all(call.as_asked for call in step.calls),
            median(times[step if step in times else steps[0]]) / 1e3,
        )
        for step in steps
    ]


def difference(outputs: Pair, exact: Pair) -> float:
    """The largest difference over the root mean square of the exact values; NaN stays NaN."""
    far = [
        (ours.to(plain.dtype) - plain).abs().max() / plain.square().mean().sqrt()
        for ours, plain in zip(outputs, exact, strict=True)
    ]
    return torch.stack(far).max().item()


def name_of(target: str | None) -> str:
    """What a target is called here."""
    return "default" if target is None else target


def who(prefill: Taken, decode: Taken) -> str:
    """Who served both phases; decode apart if others did."""
    one, two = (
        names if taken.as_asked else f"not served ({names})"
        for taken in (prefill, decode)
        for names in [", ".join(dict.fromkeys(taken.served_by))]
    )
    return one if one == two else f"{one}; decode: {two}"


def show(runs: Sequence[Run], title: str, out: Console) -> None:
    """Print one dtype's table: per op a line for each target."""
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for heading in ("op", "target", "served by"):
        table.add_column(heading, overflow="fold")
    for heading in ("calls", "prefill", "decode"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, first in enumerate(runs[0].prefill.ops):
        for run in runs:
            prefill, decode = run.prefill.ops[number], run.decode.ops[number]
            table.add_row(
                first.op if run is runs[0] else "",
                name_of(run.target),
                who(prefill, decode),
                str(len(prefill.served_by)),
                shown(prefill.microseconds, prefill.as_asked),
                shown(decode.microseconds, decode.as_asked),
                style=None if prefill.as_asked and decode.as_asked else "dim",
            )
    table.add_section()
    for run in runs:
        table.add_row(
            "all" if run is runs[0] else "",
            name_of(run.target),
            "",
            str(sum(len(taken.served_by) for taken in run.prefill.ops)),
            *(
                shown(sum(taken.microseconds for taken in ops), all(o.as_asked for o in ops))
                for ops in (run.prefill.ops, run.decode.ops)
            ),
        )
    out.print(title, style="bold", highlight=False)
    out.print(table)


def shown(microseconds: float, as_asked: bool) -> str:
    """A time, in parentheses when it is not the target's alone but the default's too."""
    return f"{microseconds:,.0f}" if as_asked else f"({microseconds:,.0f})"


def judge(runs: Sequence[Run], exact: Pair, dtype: torch.dtype, out: Console) -> bool:
    """Print how far each target is from the exact values; whether all are near enough."""
    tokens = exact[0].shape[0] - 1
    all_close = True
    for run in runs:
        prefill = difference(run.prefill.outputs, (exact[0][:tokens], exact[1][:tokens]))
        decode = difference(run.decode.outputs, (exact[0][tokens:], exact[1][tokens:]))
        close = prefill < LIMITS[dtype] and decode < LIMITS[dtype]
        all_close = all_close and close
        out.print(
            f"{name_of(run.target)}: largest difference from plain PyTorch: prefill {prefill:.1e}, "
            f"decode {decode:.1e}, {'within' if close else 'NOT within'} {LIMITS[dtype]:.0e} "
            "of the values' root mean square",
            style="green" if close else "bold red",
            highlight=False,
        )
    return all_close


def explain(runs: Sequence[Run], out: Console) -> None:
    """Print why a target did not serve what it did not, each reason once."""
    by_reason: dict[str, dict[str, None]] = {}
    for run in runs:
        for op, reason in run.reasons:
            by_reason.setdefault(reason, {})[op] = None
    out.print("Times of rows that the same kernel served differ by what else the machine does.")
    if by_reason:
        out.print(
            "Not served, so run with no target named (times in parentheses are the default's):",
            style="bold",
        )
    for reason, ops in by_reason.items():
        told = f"- {', '.join(ops)}: {reason}"
        out.print(told, highlight=False, markup=False, soft_wrap=True)


def positive(text: str) -> int:
    """A number of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main(arguments: Sequence[str], config: Config = LLAMA_3_2_1B) -> int:
    """Run the whole; return the exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--tokens", type=positive, default=128, help="of the prefill (128)")
    parser.add_argument("--dtype", choices=[*DTYPES, "both"], default="both")
    parser.add_argument("--threads", type=positive, help="that torch uses (its own choice)")
    parser.add_argument("--repeats", type=positive, default=25, help="of each op at most (25)")
    given = parser.parse_args(arguments)
    if given.threads is not None:
        torch.set_num_threads(given.threads)

    # A log has no window to fit; there no column should be cut.
    out = Console(width=None if sys.stdout.isatty() else 100)
    weights = random_weights(config)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(given.tokens + 1, config.hidden_size, generator=generator)
    all_close = True
    everything = []
    for name in DTYPES if given.dtype == "both" else [given.dtype]:
        dtype = DTYPES[name]
        rounded, tokens = weights.to(dtype), x.to(dtype)
        runs = runs_of(config, rounded, tokens, given.repeats)
        everything.extend(runs)
        title = (
            f"A block of Llama, {name}: prefill of {given.tokens:,} tokens, then decode of one; "
            f"median µs, threads: {torch.get_num_threads()}"
        )
        show(runs, title, out)
        # One sequence without a cache is right for both: no token sees a later one.
        exact = llama_plain.block(tokens.float(), rounded.to(torch.float32), config)
        all_close = judge(runs, exact, dtype, out) and all_close
        out.print()
    explain(everything, out)
    return 0 if all_close else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
