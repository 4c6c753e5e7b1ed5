"""`python -m benchmarks.profile_call`: what each line of an op's generated call costs.

The call is cut off after its first step, its second step and so on, up to the whole. All of these
are timed in turn, and a step costs what the call costs with it minus what it costs without it.
Beside the steps that a known call takes stands the call itself, empty, and the kernel alone.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.given import NULL_TARGET, TARGET, install, new, tensors_for
from benchmarks.libraries import Ours
from benchmarks.timing import MICRO, block_of, fastest

CASES: dict[str, tuple[str, str]] = {
    "null_1": ("ReLUFwdOp", NULL_TARGET),
    "null_2": ("RMSNormFwdOp", NULL_TARGET),
    "null_3": ("LayerNormFwdOp", NULL_TARGET),
    "relu": ("ReLUFwdOp", TARGET),
    "gemm": ("GEMMFwdOp", TARGET),
    "rms_norm": ("RMSNormFwdOp", TARGET),
}
"""Rows of the table: the op, and the target whose kernel it calls."""

Step = tuple[str, list[ast.stmt]]
"""What is printed of a step, and all statements up to its end."""


@dataclass(frozen=True)
class Cost:
    """A step of the call.

    Args:
        text: Its source.
        us: Microseconds.
    """

    text: str
    us: float


def executed(call: Callable[..., object], arguments: Sequence[object]) -> set[int]:
    """The lines of a generated function that run, counted as in its file.

    Args:
        call: The function.
        arguments: What it is called with.

    Returns:
        Line numbers.
    """
    code, lines = call.__code__, set[int]()  # type: ignore[attr-defined]

    def local(frame: FrameType, event: str, argument: object) -> Any:
        lines.add(frame.f_lineno)
        return local

    def watch(frame: FrameType, event: str, argument: object) -> Any:
        return local if frame.f_code is code else None

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        call(*arguments)
    finally:
        sys.settrace(before)
    return lines


def steps_of(body: Sequence[ast.stmt], lines: set[int]) -> list[Step]:
    """The steps that a call takes through a generated function.

    Args:
        body: Its statements.
        lines: Those lines of it that run.

    Returns:
        In order of execution, each with all statements up to its own end.
    """
    steps: list[Step] = []
    done: list[ast.stmt] = []

    def add(text: str, *own: ast.stmt) -> None:
        steps.append((text, [*done, *own]))

    def walk(statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if _starts(statement).isdisjoint(lines):
                continue
            if isinstance(statement, ast.Try):
                walk(statement.body)
            elif isinstance(statement, ast.If):
                for operand in _operands(statement.test):
                    test = ast.If(operand, [ast.Pass()], [])
                    add(f"if {ast.unparse(operand)}", test)
                    done.append(test)
                taken = any(not _starts(s).isdisjoint(lines) for s in statement.body)
                walk(statement.body if taken else statement.orelse)
            elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Tuple):
                parts = statement.value.elts
                for count, part in enumerate(parts, 1):
                    shorter = ast.Tuple(parts[:count], ast.Load())
                    indent = f"{ast.unparse(statement.targets[0])} = (" if count == 1 else "    "
                    add(f"{indent}{ast.unparse(part)},", ast.Assign(statement.targets, shorter))
                done.append(statement)
            elif not _is_text(statement):
                add(ast.unparse(statement), statement)
                done.append(statement)

    walk(body)
    return steps


def _starts(statement: ast.stmt) -> set[int]:
    """The lines of a statement at which running it can be seen."""
    inner = [node for node in ast.walk(statement) if isinstance(node, ast.expr | ast.stmt)]
    return {node.lineno for node in inner}


def _operands(test: ast.expr) -> list[ast.expr]:
    is_any = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
    return test.values if is_any else [test]  # type: ignore[attr-defined]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def cut(
    function: ast.FunctionDef, statements: Sequence[ast.stmt], names: Mapping[str, Any]
) -> Callable[..., object]:
    """A generated function that ends after some of its statements.

    Args:
        function: The whole of it.
        statements: Those that are left.
        names: Its globals.

    Returns:
        The function.
    """
    shorter = ast.FunctionDef(
        function.name, function.args, [*statements, ast.Pass()], [], None, None
    )
    module = ast.fix_missing_locations(ast.Module([shorter], []))
    found = dict(names)
    exec(compile(module, "<a call cut off>", "exec"), found)
    made: Callable[..., object] = found[function.name]
    return made


def standing_in(op: Any, call: Callable[..., object]) -> Callable[..., object]:
    """An object with the state of an op, and another call."""
    slots = ("_binding", "_construction", "_key", "_running")
    cls = type("Shortened", (), {"__slots__": ("__dict__", *slots), "__call__": call})
    other: Any = cls()
    for name in slots:
        setattr(other, name, getattr(op, name))
    other.__dict__.update(op.__dict__)
    return other  # type: ignore[no-any-return]


def profile(op: Any, tensors: Sequence[torch.Tensor], rounds: int, loops: int) -> list[Cost]:
    """What each step of a known call costs.

    Args:
        op: An instance.
        tensors: What it is called with.
        rounds: How often each cut call is timed.
        loops: Calls in one timed block.

    Returns:
        The empty call, then the steps in order; together they are the whole call.
    """
    op(*tensors)
    call = type(op).__call__
    text = type(op)._call_code.text
    module = ast.parse(text)
    function = next(f for f in module.body if getattr(f, "name", "") == "__call__")
    assert isinstance(function, ast.FunctionDef)
    steps = steps_of(function.body, executed(call, (op, *tensors)))
    whole = [("the call itself, empty", []), *steps]
    cuts = [cut(function, statements, call.__globals__) for _, statements in whole]
    objects = [standing_in(op, function) for function in cuts]
    blocks = [block_of(each, tensors, loops) for each in objects]
    seconds = fastest(blocks, rounds)
    before = [0.0, *seconds[:-1]]
    return [
        Cost(text, (after - less) * MICRO)
        for (text, _), after, less in zip(whole, seconds, before, strict=True)
    ]


def show(title: str, costs: Sequence[Cost], kernel: float, console: Console) -> None:
    """Print the steps with their costs, and what they come to.

    Args:
        title: What was called.
        costs: What `profile` returned.
        kernel: Microseconds of the kernel called directly.
        console: Where to.
    """
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("step", overflow="fold")
    table.add_column("ns", justify="right", no_wrap=True)
    for cost in costs:
        table.add_row(cost.text.replace("[", "\\["), f"{cost.us * 1e3:.0f}")
    whole = sum(cost.us for cost in costs)
    table.add_section()
    table.add_row("the whole call", f"{whole * 1e3:.0f}")
    table.add_row("the kernel alone", f"{kernel * 1e3:.0f}")
    table.add_row("beyond the kernel", f"{(whole - kernel) * 1e3:.0f}")
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_call", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=400, help="timed blocks of each step")
    parser.add_argument("--loops", type=int, default=50, help="calls in one timed block")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.cases) - set(CASES))
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")

    torch.set_num_threads(1)
    library, console = Ours(), Console()
    install(library)
    for case in options.cases or CASES:
        name, target = CASES[case]
        op, tensors = new(library, name, target), tensors_for(name)
        op(*tensors)
        costs = profile(op, tensors, options.rounds, options.loops)
        kernel = next(iter(op._binding.young.values())).call  # type: ignore[attr-defined]
        (alone,) = fastest([block_of(kernel, tensors, options.loops)], options.rounds)
        show(f"{case}: {name} on target {target}", costs, alone * MICRO, console)


if __name__ == "__main__":
    main()
