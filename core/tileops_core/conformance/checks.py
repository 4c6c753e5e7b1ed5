"""The checks of one op: each call against the oracle, and what holds of calls altogether."""

from __future__ import annotations

import gc
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor

from tileops_core.call.checking import checks
from tileops_core.collector import nothing_older
from tileops_core.conformance.inputs import Arguments
from tileops_core.conformance.kinds import DISTRIBUTION
from tileops_core.conformance.outcomes import Failed, Refused, Skipped
from tileops_core.conformance.served import Served, described, poisoned_memory, same_bits
from tileops_core.conformance.turns import Turns, in_turn, turns_of
from tileops_core.conformance.variants import COLUMNS, Variant, Variants

CONTRACT: Mapping[str, str] = {
    "purity": "inputs stay as they are unless the entry says otherwise, and no memory is handed "
    "out twice",
    "determinism": "the same bits for the same inputs, unless the op draws",
    "metadata": "shapes, dtypes, devices and strides of results, and what the record says",
    "build-once": "one kernel for calls of one kind, however many threads ask first",
    "threads": "sixteen threads on one instance get what one gets",
    "in-turn": "one instance gives what new ones give, called with other shapes and dtypes in turn",
    "leak": "memory does not grow with the number of calls",
    "compile": "under torch.compile(fullgraph=True) the same as in eager mode",
}
"""What holds of calls altogether: columns besides those of single calls."""

SLOW = frozenset({"leak"})
"""Columns that take longer than the others."""

ALL_COLUMNS: Mapping[str, str] = {
    "registration": "what is registered is for an op that exists, and can be imported",
    **COLUMNS,
    **CONTRACT,
}
"""Every column, in the order of a report."""

THREADS = 16
_ROUNDS = 8
_WARM, _WINDOW, _WINDOWS = 20, 40, 4
_NATIVE = 1 << 20
"""Bytes that a process may grow in a window of calls without anybody keeping anything."""


@attrs.frozen(eq=False)
class Check:
    """Something to find out about an op.

    Attributes:
        op: the op.
        family: its family.
        column: one of ``ALL_COLUMNS``.
        name: which one.
        run: finds it out: raises ``Failed``, ``Refused`` or ``Skipped``, or returns.
    """

    op: str
    family: str
    column: str
    name: str
    run: Callable[[], None]

    @property
    def id(self) -> str:
        """The check's name in reports, in files of expected failures and on the command line."""
        return f"{self.op}/{self.column}/{self.name}"


def checks_of(served: Served, elements: int) -> Iterator[Check]:
    """Every check of one op.

    Args:
        served: the op, its target and device.
        elements: how many elements the tensors of a row's call may have together.
    """
    variants = Variants(served.signature, elements)
    family = served.signature.family

    def check(column: str, name: str, run: Callable[[], None]) -> Check:
        return Check(served.op, family, column, name, run)

    every = variants.all()
    for variant in every:
        yield check(variant.column, variant.name, partial(run_call, served, variant))
    for branch in variants.unreached:
        yield check("branch", branch, partial(_not_reached, branch))
    few = variants.representatives()
    for column, contract in _CONTRACT_CHECKS.items():
        # What leaks is seen at tensors of some size.
        first = every[:1] if column == "leak" else few[:1]
        for variant in few if column in _EACH else first:
            yield check(column, variant.name, partial(contract, served, variant))
    for turns in turns_of(variants, every):
        yield check("in-turn", turns.name, partial(_in_turn, served, turns))


def _not_reached(branch: str) -> None:
    raise Skipped(f"the entry allows {branch}, and no row comes near enough to make a call of it")


# -- one call -----------------------------------------------------------------------------


def run_call(served: Served, variant: Variant) -> None:
    """Call a new instance twice and compare both times with the oracle.

    The first call finds a kernel, into memory that is poisoned; the second one takes the short way
    that the first has found.
    """
    if variant.values.startswith("nan:") and served.kind.spreads:
        name = variant.values.partition(":")[2]
        if name != served.signature.inputs[0].name:
            raise Skipped(f"a NaN in {name} may spread: {served.kind.why}")
    with quiet():
        arguments = served.arguments(variant)
        if DISTRIBUTION in served.kind.outputs.values():
            raise Skipped("drawn results are compared by how often each comes, in many calls")
        due = served.exact(variant.call, arguments)
        op = served.construct(arguments)
        for around in (poisoned_memory, quiet):
            arguments = served.arguments(variant)
            before = arguments.copies().inputs
            with around():
                results = served.call(op, arguments)
            served.check_facts(variant.call, arguments, results)
            served.check_untouched(variant.call, arguments, before)
            served.check_values(variant.call, arguments, results, due)


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, which are for users of an op."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _in_turn(served: Served, turns: Turns) -> None:
    with quiet():
        in_turn(served, turns)


# -- all calls ----------------------------------------------------------------------------


def purity(served: Served, variant: Variant) -> None:
    """Several calls under the checks that catch writes and memory that is handed out twice."""
    with quiet(), checks(metadata=True, purity=True):
        op, kept = served.construct(served.arguments(variant)), []
        for seed in range(3):
            arguments = served.arguments(variant, seed)
            before = arguments.copies().inputs
            try:
                results = served.call(op, arguments)
            except Failed as failed:
                raise Failed(f"purity: {str(failed).partition(': ')[2]}") from failed
            served.check_untouched(variant.call, arguments, before)
            written = served.written(variant.call)
            if not written and arguments.out is None:
                kept += [(x, x.clone()) for x in results if x is not None]
            for result, copy in kept:
                if not same_bits(result, copy):
                    raise Failed("purity: a later call changed an earlier call's result")


def determinism(served: Served, variant: Variant) -> None:
    """The same bits from one instance again and again, and from another one."""
    if served.kind.random:
        raise Skipped(f"two calls may differ: {served.kind.why}")
    with quiet():
        op = served.construct(served.arguments(variant))
        first = _results(served, op, variant)
        for other in (op, op, served.construct(served.arguments(variant))):
            for one, two in zip(first, _results(served, other, variant), strict=True):
                if not same_bits(one, two):
                    raise Failed("determinism: equal calls give different bits")


def metadata(served: Served, variant: Variant) -> None:
    """Results and the record of a call say what the entry says."""
    with quiet():
        arguments = served.arguments(variant)
        op = served.construct(arguments)
        served.check_facts(variant.call, arguments, served.call(op, arguments))
        record = op.last_call
    if record.served_by.target not in (served.target, None):
        raise Failed(f"metadata: {record.served_by.target!r} served, not {served.target!r}")
    if set(record.written) != set(served.written(variant.call)):
        raise Failed(f"metadata: the record says that {record.written} were written")
    for name, fact in {**variant.call.inputs, **variant.call.outputs}.items():
        if fact is None or name not in record.tensors:
            continue
        shape, dtype = record.tensors[name]
        if (tuple(shape), str(dtype)) != (fact[1], f"torch.{fact[0]}"):
            raise Failed(f"metadata: the record says that {name} is {dtype}{tuple(shape)}")


def build_once(served: Served, variant: Variant) -> None:
    """One kernel for one kind of call: again and again, and for threads that ask together."""
    with quiet(), _builds(served.op) as built:
        op = served.construct(served.arguments(variant))
        for _ in range(3):
            _results(served, op, variant)
        _expect_builds(built, "three calls of one kind")
        built.clear()
        op = served.construct(served.arguments(variant))
        _together(lambda thread: _results(served, op, variant))
        _expect_builds(built, f"{THREADS} threads with calls of one kind")


def _expect_builds(built: Sequence[str], of: str) -> None:
    if len(built) > len(set(built)):
        raise Failed(f"build-once: {len(built)} kernels were built for {of}")


def threads(served: Served, variant: Variant) -> None:
    """Sixteen threads on one new instance, each with inputs of its own."""
    with quiet():
        alone = served.construct(served.arguments(variant))
        due = [_results(served, alone, variant, thread) for thread in range(THREADS)]
        op = served.construct(served.arguments(variant))
        wrong: list[int] = []

        def work(thread: int) -> None:
            for _ in range(_ROUNDS):
                arguments = served.arguments(variant, thread)
                results = _all(served, arguments, served.call(op, arguments), variant)
                if all(same_bits(x, y) for x, y in zip(results, due[thread], strict=True)):
                    continue
                if served.oracle is None or served.kind.random:
                    wrong.append(thread)
                    continue
                # Not the same bits; a backend whose sums come in any order may still be right.
                again = served.exact(variant.call, served.arguments(variant, thread))
                served.check_values(variant.call, arguments, results[: len(again.outputs)], again)

        _together(work)
    if wrong:
        raise Failed(f"threads: {len(set(wrong))} of {THREADS} threads got other results than one")


def leak(served: Served, variant: Variant) -> None:
    """Memory of several windows of calls: what grows in each of the later ones leaks."""
    with quiet(), nothing_older():
        arguments = served.arguments(variant)
        op = served.construct(arguments)
        # The same arguments each time: whatever grows is not ours.
        for _ in range(_WARM):
            served.call(op, arguments)
        seen: list[_Memory] = []
        for _ in range(_WINDOWS):
            seen.append(_Memory.now(served.device))
            for _ in range(_WINDOW):
                served.call(op, arguments)
        seen.append(_Memory.now(served.device))
    for what, least in (("objects", _WINDOW // 8), ("device", 1), ("process", _NATIVE)):
        sizes = [getattr(memory, what) for memory in seen]
        grown = [after - before for before, after in pairwise(sizes)]
        if all(one >= least for one in grown[1:]):
            unit = "Python objects" if what == "objects" else f"bytes of the {what}"
            raise Failed(f"leak: each {_WINDOW} calls leave {min(grown[1:])} {unit} behind")


@attrs.frozen
class _Memory:
    """What is in use: objects that Python tracks, bytes on the device, bytes of the process."""

    objects: int
    device: int
    process: int

    @classmethod
    def now(cls, device: torch.device) -> _Memory:
        gc.collect()
        module = getattr(torch, device.type, None)
        allocated = getattr(module, "memory_allocated", None)
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
        except (OSError, ValueError):
            pages = 0
        return cls(len(gc.get_objects()), allocated(device) if allocated else 0, pages * 4096)


def compiled(served: Served, variant: Variant) -> None:
    """One graph, and the bits of eager mode."""
    composite = served.signature.composition is not None  # traced through to its sub-ops
    if not (served.op_class.compile_op_names or composite):
        raise Skipped("the op takes no tensor, so graphs hold what it gave and not the call")
    with quiet():
        arguments = served.arguments(variant)
        op = served.construct(arguments)
        due = _results(served, op, variant)
        if composite and op._binding.builder is not None:
            raise Skipped("a composite that a target serves whole stands between graphs")
        names = [item.name for item in served.signature.inputs if item.kw_only]

        def function(positional: list[Any], named: dict[str, Any]) -> Any:
            return op(*positional, **named)

        torch.compiler.reset()
        graph = torch.compile(function, fullgraph=True, backend="aot_eager")
        arguments = served.arguments(variant)
        pairs = list(zip(served.signature.inputs, arguments.inputs, strict=True))
        named = {item.name: x for item, x in pairs if item.name in names}
        try:
            result = graph([x for item, x in pairs if not item.kw_only], named)
        except Exception as error:
            raise Failed(f"compile: {described(error)}") from error
        finally:
            torch.compiler.reset()
        results = result if isinstance(result, tuple) else (result,)
        results = results if served.signature.outputs else ()
    for one, two in zip(_all(served, arguments, results, variant), due, strict=True):
        if not same_bits(one, two):
            raise Failed("compile: a graph gives other bits than eager mode")


_CONTRACT_CHECKS: Mapping[str, Callable[[Served, Variant], None]] = {
    "purity": purity,
    "determinism": determinism,
    "metadata": metadata,
    "build-once": build_once,
    "threads": threads,
    "leak": leak,
    "compile": compiled,
}
_EACH = frozenset({"purity", "determinism", "metadata", "compile"})
"""Columns that look at every set of effects and every dtype; the others at one call."""


def _results(served: Served, op: Any, variant: Variant, seed: int = 0) -> list[Tensor]:
    arguments = served.arguments(variant, seed)
    return _all(served, arguments, served.call(op, arguments), variant)


def _all(
    served: Served, arguments: Arguments, results: Sequence[Any], variant: Variant
) -> list[Tensor]:
    """Everything that a call gives: its results, then the inputs that it writes."""
    written = served.written(variant.call)
    pairs = zip(served.signature.inputs, arguments.inputs, strict=True)
    found = [*results, *(x for item, x in pairs if item.name in written)]
    return [x for x in found if x is not None]


def _together(work: Callable[[int], Any]) -> None:
    """Run work in threads that start at once; the first error is raised here."""
    barrier, errors = threading.Barrier(THREADS), list[BaseException]()

    def run(thread: int) -> None:
        try:
            barrier.wait(60)
            with torch.inference_mode(False):
                work(thread)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(THREADS)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for error in errors:
        if isinstance(error, Failed):
            raise Failed(f"threads: {error}") from error
        if isinstance(error, Refused | Skipped):
            raise error
        raise Failed(f"threads: {described(error)}") from error


@contextmanager
def _builds(op: str) -> Iterator[list[str]]:
    """What was built for an op inside the ``with``, as its log says it, without the times."""
    built: list[str] = []

    class Listens(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if text.startswith(f"{op}: built "):
                built.append(text.rpartition(" in ")[0])

    logger, handler = logging.getLogger("tileops.build"), Listens()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield built
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
