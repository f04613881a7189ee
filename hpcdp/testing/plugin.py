"""The pytest plugin: `assert_private`, its options, and what the end of a run says. It imports nothing heavy."""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hpcdp.errors import HpcdpError, StudyError

if TYPE_CHECKING:
    from hpcdp.testing.suite import Suite

_SUITE = pytest.StashKey["Suite"]()
_ELSEWHERE = mmap.mmap(-1, 1)  # not 0 once a check ran in a copy of this process: memory that copies share


@dataclass
class _Made:
    """What a test's checks did, and what pytest showed of it. told: lines that a report has. process: the test's own."""

    lines: list[str] = field(default_factory=list)
    told: int = 0
    number: int = 0
    raised: list[BaseException] = field(default_factory=list)
    shown: list[BaseException] = field(default_factory=list)
    failed: bool = False
    outcome: str = ""
    process: int = field(default_factory=os.getpid)


_MADE = pytest.StashKey[_Made]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of pytest that are hpcdp's."""
    group = parser.getgroup("hpcdp", "privacy checks (hpcdp)")
    group.addoption(
        "--hpcdp-declare",
        action="store_true",
        help="declare the privacy checks that are met, in hpcdp-checks.json; test none",
    )
    group.addoption("--hpcdp-fresh", action="store_true", help="draw anew, not what the names of the tests seed")
    group.addoption(
        "--hpcdp-salt", metavar="TEXT", help="draw again what a run with --hpcdp-fresh drew, whose head says it"
    )
    parser.addini(
        "hpcdp_false_alarm",
        "probability that any privacy check of a run with fresh draws fails, if all claims are true",
        default="1e-3",
    )
    parser.addini("hpcdp_runs", "runs, such as those of a year, that share hpcdp_false_alarm", default="1")
    parser.addini(
        "hpcdp_record",
        "keep the verdicts of privacy checks in pytest's cache, while no code and nothing that is installed changes",
        type="bool",
        default=False,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Settle what is drawn, in workers as in the process that has them."""
    options, worker = config.option, getattr(config, "workerinput", None)
    if worker is not None:
        options.hpcdp_salt = worker["hpcdp_salt"]
    if options.hpcdp_declare and (getattr(options, "numprocesses", None) or worker is not None):
        raise pytest.UsageError("--hpcdp-declare: given with -n; accepted: in one process, which writes one file")
    if options.hpcdp_fresh and not options.hpcdp_salt:
        options.hpcdp_salt = secrets.token_hex(8)
    config.pluginmanager.register(_Summary(config), "hpcdp-summary")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_configure_node(node: Any) -> None:
    """Tell a worker what is drawn."""
    node.workerinput["hpcdp_salt"] = node.config.option.hpcdp_salt


@pytest.fixture
def assert_private(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Check a claim about a function on two databases: `assert_private(f, d=…, d_prime=…, claim=…, catches=…, seconds=…)`.

    f: `f(database, size, rng)`, which returns `size` outputs; without `size` one; without `rng` with randomness of its own.
    claim: such as "dp(epsilon=1)". catches: a violation that the check must be able to find, "laplace(epsilon=1.5)" or
    "delta(1) >= 0.1". seconds: that all its draws may take when it is declared.

    It raises AssertionError where the claim is violated, at the check's share of `hpcdp_false_alarm` (finite-sample), and an
    HpcdpError, which pytest shows as an error, where the check cannot be made or would find too little. A test that passes,
    is skipped or is expected to fail though it caught one of these or left a check running, or passes with fewer checks than
    declared, is an error too; so is a check in another process.
    """
    made = request.node.stash[_MADE] = _Made()

    def check(
        f: Callable[..., Any] | None = None,
        *,
        d: Any = None,
        d_prime: Any = None,
        claim: str | None = None,
        catches: str | None = None,
        seconds: float | None = None,
    ) -> None:  # what is left out is refused with all else that is wrong
        __tracebackhide__ = True  # what pytest shows is the test's line
        made.number += 1
        try:
            _refuse_copies(made)
            _refuse_reruns(request)
            from hpcdp.testing.checks import check_of

            module = getattr(getattr(request.node, "module", None), "__name__", "")
            asked = check_of(f"{request.node.nodeid}#{made.number}", f, d, d_prime, claim, catches, seconds, module)
            made.lines.append(_suite_of(request.config).check(asked))
        except BaseException as error:  # a timeout is of any class
            made.raised.append(error)
            if isinstance(error, (AssertionError, HpcdpError)):
                raise error.with_traceback(None) from error.__cause__
            raise

    return check


def _refuse_copies(made: _Made) -> None:
    """StudyError in a copy of the test's process, and a note to the test that there was one."""
    if os.getpid() != made.process:
        _ELSEWHERE[0] = 1
        raise StudyError("a check was made in another process, where its verdict is lost; accepted: in the test's own")


def _refuse_reruns(request: pytest.FixtureRequest) -> None:
    """StudyError where a test that fails may be run again: that would void the rate."""
    options, reasons = request.config.option, []
    reasons += [f"--{name}" for name in ("reruns", "retries", "force_flaky") if getattr(options, name, None)]
    reasons += [name for name in ("reruns", "retries") if _ini(request.config, name)]
    reasons += ["a mark that runs it again"] if request.node.get_closest_marker("flaky") is not None else []
    reasons += (
        ["@flaky"]
        if any(name.startswith("_flaky") for name in vars(getattr(request, "function", None) or object))
        else []
    )
    if reasons:
        raise StudyError(
            f"{request.node.nodeid}: {', '.join(reasons)} given; accepted: a privacy check that is run once, since "
            "running it until it passes voids its rate"
        )


def _ini(config: pytest.Config, name: str) -> Any:
    try:
        return config.getini(name)
    except (KeyError, ValueError):  # no plugin has it
        return None


def _suite_of(config: pytest.Config) -> Suite:
    if _SUITE not in config.stash:
        from hpcdp.testing.suite import Suite, rate_of_a_run

        config.stash[_SUITE] = Suite(
            root=Path(config.rootpath),
            false_alarm=rate_of_a_run(str(config.getini("hpcdp_false_alarm")), str(config.getini("hpcdp_runs"))),
            salt=config.option.hpcdp_salt,
            declares=config.option.hpcdp_declare,
            record=getattr(config, "cache", None) if config.getini("hpcdp_record") else None,
        )
    return config.stash[_SUITE]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Give the lines of its checks to a test's report, and tell errors of hpcdp from violations."""
    report: Any = yield
    if (made := item.stash.get(_MADE, None)) is None:
        return report
    made.shown += _shown(item, call, report)
    if call.when == "teardown" and not (made.failed or report.failed) and (words := _wrong(item, made)):
        report.outcome, report.longrepr = "failed", words
        vars(report).pop("wasxfail", None)
    made.failed = made.failed or report.failed
    if call.when == "call" or report.skipped:
        made.outcome = "expected to fail" if report.skipped and hasattr(report, "wasxfail") else str(report.outcome)
    if call.when == "call":
        report.hpcdp_lines, made.told = made.lines[made.told :], len(made.lines)
        report.hpcdp_error = call.excinfo is not None and call.excinfo.errisinstance(HpcdpError)
        ended = [] if call.excinfo is None else _members(call.excinfo.value)
        scripts = [error.script for error in ended if hasattr(error, "script")]
        report.sections += [("hpcdp: fresh draws against the recorded set", script) for script in scripts]
        if item.config.option.hpcdp_declare and made.lines and report.passed:
            report.outcome = "skipped"  # nothing was tested
            report.longrepr = (str(item.path), item.location[1] or 0, "Skipped: privacy checks declared, not made")
    return report


def _shown(item: pytest.Item, call: pytest.CallInfo[None], report: Any) -> list[BaseException]:
    """What ended a part of a test, and is told as what it is: a mark that expects any failure covers violations alone."""
    ended = [] if call.excinfo is None else list(_members(call.excinfo.value))
    if ended and not report.failed and hasattr(report, "wasxfail") and not _is_named(item, ended[0]):
        return [error for error in ended if isinstance(error, AssertionError)]
    return ended


def _is_named(item: pytest.Item, error: BaseException) -> bool:
    """Whether a mark says that this error is expected; what `pytest.RaisesGroup` matches, pytest has looked at."""
    named = [mark.kwargs.get("raises") for mark in item.iter_markers("xfail")]
    return any(
        hasattr(expected, "matches") or isinstance(error, expected) for expected in named if expected is not None
    )


def _members(error: BaseException) -> Iterator[BaseException]:
    yield error
    for part in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _members(part)


def _wrong(item: pytest.Item, made: _Made) -> str | None:
    """Why a test that did not fail is an error all the same; None where it is none."""
    if _ELSEWHERE[0]:
        _ELSEWHERE[0] = 0
        return (
            f"{item.nodeid}: {made.outcome}, though a check ran in another process (os.fork or multiprocessing), of this test "
            "or left behind by one before, where what it finds is lost; accepted: checks in the process of the test"
        )
    if lost := [error for error in made.raised if not any(error is shown for shown in made.shown)]:
        return (
            f"{item.nodeid}: {made.outcome}, though it caught what its checks raised; accepted: a test that lets it through, "
            "marked with xfail(strict=True) where a violation is expected, and with raises=… where another error is; caught:\n"
            + "\n".join(f"{type(error).__name__}: {error}" for error in lost)
        )
    if unended := made.number - len(made.lines) - len(made.raised):
        return (
            f"{item.nodeid}: {made.outcome}, though {unended:,} of its checks had not ended, so that what they find is lost; "
            "accepted: a test that waits for its threads"
        )
    if made.outcome == "passed" and (Path(item.config.rootpath) / "hpcdp-checks.json").exists():
        try:
            _suite_of(item.config).refuse_unmade(item.nodeid, made.number)
        except StudyError as error:
            return str(error)
    return None


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """An error of hpcdp is no failure: no claim was refuted."""
    return ("error", "E", "ERROR") if report.failed and getattr(report, "hpcdp_error", False) else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was declared; a check that is inconclusive fails the run, as it would fail each that makes it."""
    if session.config.option.hpcdp_declare and _SUITE in session.config.stash:
        suite = session.config.stash[_SUITE]
        suite.write()
        if not suite.decides and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


class _Summary:
    """What the head and the end of a run say of privacy checks."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self.lines = config, list[str]()

    def pytest_report_header(self) -> str | None:
        """How to draw the same again."""
        salt = self._config.option.hpcdp_salt
        return f"hpcdp: fresh draws, the same again with --hpcdp-salt={salt}" if salt else None

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the lines of a test's checks, of workers too."""
        self.lines += getattr(report, "hpcdp_lines", []) if report.when == "call" else []

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was looked for: green alone says too much."""
        if _SUITE in self._config.stash and self._config.option.hpcdp_declare:
            self.lines = self._config.stash[_SUITE].said
        if self.lines:
            terminalreporter.section("privacy checks")
            for line in self.lines:
                terminalreporter.line(line)
