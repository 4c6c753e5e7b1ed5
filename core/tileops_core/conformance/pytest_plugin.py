"""The suite as a pytest plugin: ``pytest --pyargs tileops_core.conformance --tileops-target T``.

Every run of pytest in an environment that has tileops-core imports this module, so it imports
nothing itself but pytest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tileops_core.conformance.checks import Check
    from tileops_core.conformance.report import Report
    from tileops_core.conformance.suite import Suite
    from tileops_core.conformance.xfails import Xfails

_HERE = Path(__file__).parent / "suite.py"
_PROPERTY = "tileops"
_RUN = pytest.StashKey["_Run"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the suite's options."""
    group = parser.getgroup("tileops", "conformance of a TileOPs backend")
    group.addoption("--tileops-target", metavar="TARGET", help="the target to check, by name")
    group.addoption("--tileops-device", metavar="DEVICE", default="cpu", help="where (cpu)")
    group.addoption(
        "--tileops-op", metavar="OP", action="append", default=[], help="only this op; repeatable"
    )
    group.addoption(
        "--tileops-family",
        metavar="F",
        action="append",
        default=[],
        help="only ops of this family; repeatable",
    )
    group.addoption(
        "--tileops-seed", metavar="N", type=int, default=0, help="decides all chance (0)"
    )
    group.addoption(
        "--tileops-elements",
        metavar="N",
        type=int,
        help="elements that a workload's tensors may have together",
    )
    group.addoption(
        "--tileops-xfails", metavar="FILE", help="checks that are expected to fail, one a line"
    )
    group.addoption(
        "--tileops-report",
        metavar="FILE",
        action="append",
        default=[],
        help="write a report there, in the form of its ending: .json, .html or .txt; repeatable",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of checks that take long."""
    config.addinivalue_line("markers", "tileops_slow: a conformance check that takes longer")
    if config.getoption("--tileops-target") is not None:
        config.pluginmanager.register(_Reporter(config), "tileops-reporter")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the suite where pytest meets its module."""
    if file_path != _HERE:
        return None
    collected: pytest.Collector = Conformance.from_parent(parent, path=file_path)
    return collected


class _Run:
    """What the options ask for, and what has come of it so far."""

    def __init__(self, config: pytest.Config) -> None:
        from tileops_core.conformance.report import form_of
        from tileops_core.conformance.suite import Misuse, Request, Suite
        from tileops_core.conformance.xfails import Xfails

        target = config.getoption("--tileops-target")
        if target is None:
            raise pytest.UsageError("the conformance suite checks a target: --tileops-target NAME")
        request = Request(
            target=target,
            device=config.getoption("--tileops-device"),
            ops=tuple(config.getoption("--tileops-op")),
            families=tuple(config.getoption("--tileops-family")),
            seed=config.getoption("--tileops-seed"),
            elements=config.getoption("--tileops-elements"),
        )
        path = config.getoption("--tileops-xfails")
        self.reports: list[str] = config.getoption("--tileops-report")
        try:
            for report in self.reports:
                form_of(report)
            self.xfails: Xfails = Xfails.read(path) if path else Xfails()
            self.suite: Suite = Suite(request)
        except (Misuse, ValueError, OSError) as error:
            raise pytest.UsageError(str(error)) from None

    @classmethod
    def of(cls, config: pytest.Config) -> _Run:
        """The one run of a configuration."""
        if _RUN not in config.stash:
            config.stash[_RUN] = cls(config)
        return config.stash[_RUN]


class Conformance(pytest.File):
    """The suite: its ops."""

    def collect(self) -> Iterable[pytest.Collector]:
        """One collector per op, in the order of families and names."""
        by_op: dict[str, list[Check]] = {}
        for check in _Run.of(self.config).suite.checks():
            by_op.setdefault(check.op, []).append(check)
        for op, checks in by_op.items():
            yield OpChecks.from_parent(self, name=op, checks=checks)


class OpChecks(pytest.Collector):
    """One op: its checks."""

    def __init__(self, *, checks: list[Check], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checks = checks

    def collect(self) -> Iterable[pytest.Item]:
        """One item per check."""
        for check in self.checks:
            yield CheckItem.from_parent(self, name=f"{check.column}/{check.name}", check=check)


class CheckItem(pytest.Item):
    """One check."""

    def __init__(self, *, check: Check, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.check = check
        from tileops_core.conformance.checks import SLOW

        if check.column in SLOW:
            self.add_marker("tileops_slow")

    def runtest(self) -> None:
        """Run the check and give its outcome pytest's form."""
        from tileops_core.conformance import outcomes
        from tileops_core.conformance.suite import run_one

        result = _Run.of(self.config).xfails.judge(run_one(self.check))
        # As text, because a worker of pytest-xdist sends it to the process that reports.
        self.user_properties.append((_PROPERTY, json.dumps(result.as_dict())))
        if result.outcome == outcomes.FAILED:
            raise outcomes.Failed(result.message)
        if result.outcome == outcomes.XFAILED:
            pytest.xfail(result.message)
        if result.outcome in (outcomes.SKIPPED, outcomes.REFUSED):
            pytest.skip(f"{result.outcome}: {result.message}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A failure of the backend in its own words; where it came from, only for other errors."""
        from tileops_core.conformance.outcomes import Failed

        if isinstance(excinfo.value, Failed):
            return f"{self.check.id}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the check stands, and its id."""
        return self.path, None, self.check.id


class _Reporter:
    """Keeps what each check came to, whichever process ran it, and reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seen: list[dict[str, Any]] = []
        self.is_worker = hasattr(config, "workerinput")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a check's result."""
        if report.when == "call":
            for name, value in report.user_properties:
                if name == _PROPERTY:
                    self.seen.append(json.loads(str(value)))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the reports, in the process that has all results."""
        if self.seen and not self.is_worker:
            report = self._report()
            for path in _Run.of(self.config).reports:
                report.write(path)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Close with a sentence, and with expectations that are no longer so."""
        if not self.seen or self.is_worker:
            return
        report = self._report()
        terminalreporter.section("tileops conformance")
        terminalreporter.line(report.sentence())
        for note in report.notes:
            terminalreporter.line(f"note: {note}")
        for path in _Run.of(self.config).reports:
            terminalreporter.line(f"report: {path}")

    def _report(self) -> Report:
        from tileops_core.conformance.outcomes import Result
        from tileops_core.conformance.report import report_of

        results = [
            Result(**{name: value for name, value in seen.items() if name != "id"})
            for seen in self.seen
        ]
        run = _Run.of(self.config)
        return report_of(run.suite, results, run.xfails)
