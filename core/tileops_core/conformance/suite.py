"""Which checks a target has to pass on a device, and running them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module

import attrs
import torch

from tileops_core import ops
from tileops_core.backend.contract import ManifestPath
from tileops_core.backend.registrations import Registered
from tileops_core.backend.registry import REGISTRY
from tileops_core.backend.targets import select_target
from tileops_core.cached import cached_property
from tileops_core.conformance.checks import SLOW, Check, checks_of
from tileops_core.conformance.kinds import kind_of
from tileops_core.conformance.outcomes import (
    FAILED,
    PASSED,
    REFUSED,
    SKIPPED,
    Failed,
    Refused,
    Result,
    Skipped,
)
from tileops_core.conformance.served import Served, described
from tileops_core.errors import ManifestError, OpNotAvailableError, TileOpsError
from tileops_core.op import Op
from tileops_core.op.definition import held_classes, installed_for, living_classes
from tileops_core.ops._index import OPS
from tileops_core.spec import catalogue
from tileops_core.spec.text_files import UnreadableFileError, read_text
from tileops_core.suggest import did_you_mean, listed

ON_CPU, ELSEWHERE = 1 << 16, 1 << 22
"""Elements that the tensors of a row's call may have together, by the kind of device."""


class Misuse(ValueError):
    """What was asked for makes no sense, in one line."""


@attrs.frozen
class Request:
    """What to check.

    Attributes:
        target: a target's name, or a backend's.
        device: the device.
        ops: names of ops, or ``module:Class`` of ops of other distributions; all that the target
            serves if there are none.
        families: families of ops; all if there are none.
        seed: decides all chance.
        elements: how many elements the tensors of a row's call may have together; None for what
            suits the device.
        slow: whether the columns that take long are looked at.
    """

    target: str
    device: str = "cpu"
    ops: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    seed: int = 0
    elements: int | None = None
    slow: bool = True


class Suite:
    """The checks that a request comes to.

    Args:
        request: What to check.

    Raises:
        Misuse: an op, a family, a target or a device that there is not.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        REGISTRY.ensure_loaded()
        self.device = _device(request.device)
        names = REGISTRY.target_names()
        if request.target not in names:
            failure = REGISTRY.failure_of(request.target)
            why = f": {failure}" if failure else f"; there are {listed(names) or 'none'}"
            raise Misuse(
                f"there is no target {request.target!r}{did_you_mean(request.target, names)}{why}"
            )
        self._imported = dict(map(_imported, (o for o in request.ops if ":" in o)))
        self._named = {o.rpartition(":")[2] for o in request.ops}
        self._check_names()

    def _check_names(self) -> None:
        for op in sorted(self._named - self.known.keys()):
            raise Misuse(f"no manifest knows an op {op!r}{did_you_mean(op, self.known)}")
        families = sorted(set(self.known.values()))
        for family in self.request.families:
            if family not in families:
                guess = did_you_mean(family, families) or f"; there are {listed(families)}"
                raise Misuse(f"there is no family {family!r}{guess}")

    # -- which ops ------------------------------------------------------------------------

    @cached_property
    def known(self) -> dict[str, str]:
        """The family of every op that a manifest knows: the library's, and backends' spec files."""
        found = {op: catalogue.family_of(op) or "" for op in catalogue.known_ops()}
        for registered in self._registered(ManifestPath):
            path = registered.registration.path
            try:
                file = catalogue.ManifestFile(path, read_text(path))
                found |= {op: file.load(op).family for op in file.ops}
            except (UnreadableFileError, ManifestError):
                continue  # `tileops doctor` and `tileops validate` say what is wrong with it
        for name, op_class in {**held_classes(), **self._imported}.items():
            plan = getattr(op_class, "_plan", None)
            if plan is not None:
                found.setdefault(name, plan.signature.family)
        return found

    @cached_property
    def served(self) -> list[Served]:
        """The ops that the target serves on the device and that were asked for, by family."""
        found = []
        for op, family in sorted(self.known.items(), key=lambda item: (item[1], item[0])):
            if self._named and op not in self._named:
                continue
            if self.request.families and family not in self.request.families:
                continue
            op_class = self._class(op)
            if op_class is not None and self._is_served(op_class):
                found.append(self._of(op_class))
        return found

    def _of(self, op_class: type[Op]) -> Served:
        signature = op_class._plan.signature
        return Served(
            op_class=op_class,
            signature=signature,
            kind=kind_of(signature.op),
            oracle=REGISTRY.oracle(signature.op),
            target=self.request.target,
            device=self.device,
            seed=self.request.seed,
        )

    def _class(self, op: str) -> type[Op] | None:
        """The class of an op that has one: the library's, or one that somebody has imported."""
        if op in self._imported:
            return self._imported[op]
        found = getattr(ops, op) if op in OPS else living_classes().get(op)
        usable = isinstance(found, type) and issubclass(found, Op) and hasattr(found, "_plan")
        return found if usable else None

    def _is_served(self, op_class: type[Op]) -> bool:
        """Whether the target serves an op; one that has no kernels of its own, by its sub-ops."""
        plan = op_class._plan
        installed = installed_for(op_class, plan)
        kind = self.device.type
        stages = op_class.delegate_types.values()
        try:
            chosen = select_target(
                plan.op,
                self.request.target,
                self.device,
                in_tree=lambda backend: installed.runs_on(kind, backend),
                composite=bool(stages),
                own_kernels=bool(installed.interfaces),
            )
        except OpNotAvailableError:
            return False
        if chosen.builder is None and stages and not installed.interfaces:
            return all(map(self._is_served, stages))
        return chosen.builder is not None or chosen.backend is not None

    def told(self) -> list[str]:
        """What of the request was left out, in sentences."""
        said = []
        for op in sorted(self._named - {served.op for served in self.served}):
            why = (
                f"{self.request.target} does not serve it on {self.device}"
                if self._class(op) is not None
                else "it has a contract and no class yet"
                if op in catalogue.known_ops()
                else "its class is not imported; name it as module:Class"
            )
            said.append(f"{op}: {why}")
        return said

    def _registered(self, kind: type) -> Iterator[Registered]:  # type: ignore[type-arg]
        for backend in REGISTRY.backends():
            for registered in REGISTRY.registered_by(backend.name):
                if isinstance(registered.registration, kind):
                    yield registered

    # -- which checks ---------------------------------------------------------------------

    def checks(self) -> Iterator[Check]:
        """Every check, by op."""
        yield from self._registrations()
        elements = self.request.elements
        if elements is None:
            elements = ON_CPU if self.device.type == "cpu" else ELSEWHERE
        for served in self.served:
            for check in checks_of(served, elements):
                if self.request.slow or check.column not in SLOW:
                    yield check

    def _registrations(self) -> Iterator[Check]:
        """What the target's backends have registered for ops, each by itself."""
        for backend in REGISTRY.backends():
            everything = REGISTRY.registered_by(backend.name)
            mine = backend.name == self.request.target
            for registered in everything:
                registration = registered.registration
                op = getattr(registration, "op", None)
                of_target = getattr(registration, "target", None) == self.request.target
                if op is None or not (mine or of_target) or (self._named and op not in self._named):
                    continue
                family = self.known.get(op, "")
                if self.request.families and family not in self.request.families:
                    continue
                run = partial(self._check_registration, op, registered)
                yield Check(op, family, "registration", registration.title, run)

    def _check_registration(self, op: str, registered: Registered) -> None:  # type: ignore[type-arg]
        if op not in self.known:
            guess = did_you_mean(op, self.known)
            raise Failed(f"registration: no manifest knows an op {op!r}{guess}")
        try:
            registered.resolve()
        except TileOpsError as error:
            raise Failed(f"registration: {error}") from error
        op_class = self._class(op)
        dropped = installed_for(op_class, op_class._plan).faults if op_class is not None else ()
        for source, fault in dropped:
            if id(source) == id(registered):
                raise Failed(f"registration: {fault}") from fault


def run(
    checks: Sequence[Check], told: Callable[[Result], None], judge: Callable[[Result], Result]
) -> list[Result]:
    """Run checks one after the other.

    Args:
        checks: what to run.
        told: is told each result.
        judge: what a result is in the light of expected failures.
    """
    results = []
    for check in checks:
        result = judge(run_one(check))
        results.append(result)
        told(result)
    return results


def run_one(check: Check) -> Result:
    """Run a check; what it raises becomes its outcome."""
    started = time.perf_counter()
    outcome, message = PASSED, ""
    try:
        check.run()
    except Refused as refused:
        outcome, message = REFUSED, str(refused)
    except Skipped as skipped:
        outcome, message = SKIPPED, str(skipped)
    except Failed as failed:
        outcome, message = FAILED, str(failed)
    except Exception as error:  # the suite's own, or what a backend did to it
        outcome, message = FAILED, f"error: {described(error)}"
    seconds = time.perf_counter() - started
    return Result(check.op, check.family, check.column, check.name, outcome, seconds, message)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise Misuse(f"there is no device {name!r} here: {text}") from error
    return device


def _imported(name: str) -> tuple[str, type[Op]]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Misuse(f"{name!r} leads nowhere: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Op) and hasattr(found, "_plan")):
        raise Misuse(f"{name!r} is no op")
    return found._plan.op, found
