"""What the commands accept."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from hpcdp import __version__
from hpcdp._base.plugins import plugins
from hpcdp.cli import auditing, reading, running, starting
from hpcdp.errors import WRONG
from hpcdp.notions.renyi import LARGEST_ORDER, ORDER


class _Parser(argparse.ArgumentParser):
    def __init__(self, **given: Any) -> None:
        super().__init__(allow_abbrev=False, **given)

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized") and " --claim" in message:  # as in run STUDY --claim "dp(epsilon=1)"
            message += (
                '; a claim stands in the study, [study] claim = "…"; or after the run: hpcdp verify STORE --claim CLAIM'
            )
        elif message.startswith("unrecognized") and re.search(
            r"\w\(.*\)", message
        ):  # as in verify STORE "dp(epsilon=1)"
            message += "; a claim follows --claim"
        self.exit(WRONG, f"{self.prog}: {message}; see {self.prog} --help\n")


class _EitherWay(argparse.BooleanOptionalAction):
    """--NAME or --no-NAME, and not both."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        before = getattr(namespace, self.dest)
        super().__call__(parser, namespace, values, option_string)
        if before not in (None, getattr(namespace, self.dest)):
            parser.error(f"{' and '.join(self.option_strings)}: accepted: one of them; given: both")


def _number(kind: Callable[[str], Any], holds: Callable[[Any], bool], accepted: str) -> Callable[[str], Any]:
    """A reader of numbers for which something holds; of others it says what is accepted."""

    def read(text: str) -> Any:
        try:
            value = kind(text) + 0  # no −0
        except ValueError:
            value = math.nan
        if not holds(value):
            raise argparse.ArgumentTypeError(f"{accepted}; given: {text!r}")
        return value

    return read


_positive = _number(int, lambda value: value >= 1, "a positive integer")
_count = _number(int, lambda value: value >= 0, "0 or a positive integer")
_delta = _number(float, lambda value: 0.0 <= value < 1.0, "a number from 0 to below 1")
_risk = _number(float, lambda value: 0.0 <= value < math.inf, "a finite number, at least 0")
_order = _number(float, lambda value: 1.0 <= value <= LARGEST_ORDER, f"{ORDER}; infinite: --pure")


def _place(text: str) -> Path | str:
    """A path; an address as it is, since a path merges its slashes."""
    return text if "://" in text else Path(text)


def make_parser() -> argparse.ArgumentParser:
    """The parser of `hpcdp`; `command` of what it parses is the function that does the work, in `hpcdp.cli`."""
    parser = _Parser(prog="hpcdp", description="Measure how private a mechanism really is.")
    parser.add_argument("--version", action="version", version=f"hpcdp {__version__}")
    group = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, function: Callable[[Any], int | None], text: str) -> argparse.ArgumentParser:
        command = group.add_parser(name, help=text, description=text)
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
        command.set_defaults(command=function)
        return command

    def add_of_store(name: str, function: Callable[[Any], int | None], text: str) -> argparse.ArgumentParser:
        command = add(name, function, text)
        command.add_argument("store", type=Path, metavar="STORE")
        return command

    def add_place(command: argparse.ArgumentParser) -> None:
        text = (
            '"local", a scheduler address such as tcp://host:8786, a scheduler file (.json), a cluster profile (.toml)'
        )
        command.add_argument("--cluster", default="local", metavar="WHERE", help=text)
        text = "worker processes on this machine; 0: none, in one process, as small work is done by default"
        command.add_argument("--workers", type=_count, metavar="N", help=text)
        text = "serve Dask's dashboard, to every user of this machine (a profile: cluster.dashboard)"
        command.add_argument("--dashboard", action="store_true", help=text)
        text = "with --dashboard or --cluster: an HTML page of Dask's on how the run went"
        command.add_argument("--performance-report", metavar="FILE", help=text)
        command.add_argument("--chained", action="store_true", help=argparse.SUPPRESS)

    def add_study(command: argparse.ArgumentParser, text: str = "a study file") -> None:
        command.add_argument("study", metavar="STUDY", help=text)

    def add_into(command: argparse.ArgumentParser, what: str = "results go", of: str = "mechanism") -> None:
        command.add_argument("--store", type=Path, metavar="PATH", help=f"where {what} (default: runs/NAME.zarr)")
        add_code(command, of)

    def add_code(command: argparse.ArgumentParser, of: str = "mechanism") -> None:
        text = f"go on although the {of}'s source changed"
        command.add_argument("--allow-changed-code", action="store_true", help=text)
        text = "run the code that the study names although the store, or part of it, is another user's"
        command.add_argument("--trust-code", action="store_true", help=text)

    def add_picture(command: argparse.ArgumentParser) -> None:
        text = "draw the picture, or do not (default: only where the plan uses several processes)"
        command.add_argument("--plot", action=_EitherWay, help=text)

    init = add("init", starting.init, "write a study and a mechanism to change, and say the next command")
    text = f"what to start from: {', '.join(f'{kind} ({starting.MEANT[kind]})' for kind in starting.KINDS)}; default: function"
    init.add_argument("kind", nargs="?", choices=tuple(starting.KINDS), default="function", metavar="KIND", help=text)
    text = "where to; made if it is missing (default: this one)"
    init.add_argument("--folder", type=Path, default=Path(), metavar="FOLDER", help=text)

    text = (
        "check one Python function on two databases against a claim, without a study; exit code 3 when it is violated"
    )
    check = add("check", auditing.check, text)
    text = (
        "FILE.py:function or package.module:function; called with (database, size, rng), the last two as it takes them"
    )
    check.add_argument("function", metavar="FUNCTION", help=text)
    text = "the database: a number for each row (1,2 for rows of two columns); or a .csv, .npy or .parquet file"
    check.add_argument("--d", nargs="*", required=True, metavar="ROW", help=text)
    text = "its neighbour, in the same way (default: the file without each of its rows in turn)"
    check.add_argument("--d-prime", nargs="*", metavar="ROW", help=text)
    claimed = check.add_mutually_exclusive_group(required=True)
    claimed.add_argument("--epsilon", type=_risk, metavar="EPSILON", help="the claim: (ε, δ)-differential privacy")
    claimed.add_argument("--claim", metavar="CLAIM", help="another claim, such as gaussian(mu=1)")
    check.add_argument("--delta", type=_delta, default=0.0, metavar="DELTA", help="with --epsilon: the δ (default: 0)")
    text = "outputs of each database that {} (default: as in a study)"
    check.add_argument("--train", type=_positive, metavar="N", help=text.format("are learned from"))
    check.add_argument("--test", type=_positive, metavar="N", help=text.format("are counted"))
    check.add_argument("--seed", type=_count, default=0, metavar="N", help="from which all outputs follow (default: 0)")
    text = "write a study that does the same, beside FILE.py"
    check.add_argument("--save", type=Path, metavar="STUDY.toml", help=text)
    check.add_argument("--store", type=Path, metavar="PATH", help="keep the results here (default: nowhere)")
    check.add_argument("--workers", type=_count, metavar="N", help="worker processes on this machine")

    plan = add("plan", running.plan, "print what would run: pairs, tasks, samples, bytes, memory, time, expected error")
    add_study(plan)
    plan.add_argument("--workers", type=_count, metavar="N", help="worker processes to plan for; 0: one process")
    plan.add_argument("--profile", metavar="PROFILE", help="a cluster profile (.toml) to plan for")
    text = "with --truth: a claim, such as gaussian(mu=1), and about how many outputs refute it (default: the study's)"
    plan.add_argument("--claim", metavar="CLAIM", help=text)
    text = "the curve that may be true instead of the claim, written as a claim"
    plan.add_argument("--truth", metavar="CLAIM", help=text)

    run = add("run", running.run, "run a study, or go on with its store")
    add_study(run)
    add_into(run)
    run.add_argument("--recheck", action="store_true", help=argparse.SUPPRESS)  # every run checks
    run.add_argument(
        "--verify", action="store_true", help="then verify the study's claim; exit code 3 when it is violated"
    )
    add_place(run)
    add_picture(run)

    risk = add(
        "risk", running.risk, "draw the pairs of a study with [at_risk], and print which ε their sensitivities allow"
    )
    add_study(risk, "a study file with [at_risk]")
    add_into(risk, of="query")
    add_place(risk)
    add_picture(risk)

    resume = add_of_store("resume", running.resume, "go on from a store alone: the study is inside it")
    add_code(resume)
    add_place(resume)
    add_picture(resume)

    add_of_store("status", reading.status, "what is done, to do and failed, per stage")

    submit = add("submit", running.submit, "submit the whole run to a cluster as a job; prints the job's id")
    add_study(submit)
    submit.add_argument("--profile", required=True, metavar="PROFILE", help="a cluster profile (.toml)")
    add_into(submit)

    logs = add_of_store("logs", running.logs, "the last lines of the logs of a store's jobs")
    logs.add_argument("--lines", type=_positive, default=20, metavar="N", help="lines of each log (default: 20)")
    logs.add_argument("--job", metavar="ID", help="of this job only")

    add_of_store("cancel", running.cancel, "end a run and its jobs; the store stays and can be resumed")

    text = "make a certificate for a Dask scheduler that you start yourself; prints what the shell should export"
    certificate = add("certificate", running.certificate, text)
    certificate.add_argument("folder", type=Path, metavar="FOLDER", help="a folder to make, on a shared file system")

    text = "start a few jobs of a cluster profile, do a small task on each of their processes, and say what is wrong"
    cluster_test = add("cluster-test", running.cluster_test, text)
    cluster_test.add_argument("profile", metavar="PROFILE", help="a cluster profile (.toml)")
    cluster_test.add_argument(
        "--nodes", type=_positive, metavar="N", help="jobs to start (default: the profile's least, or 1)"
    )
    text = "seconds to wait for them (default: 600)"
    cluster_test.add_argument("--wait", type=_positive, default=600, metavar="SECONDS", help=text)

    copy = "a store; or an exported copy, by its folder or its address (such as https://…/NAME)"
    show = add("show", reading.show, "print a store's results")
    show.add_argument("store", type=_place, metavar="STORE", help=copy)
    show.add_argument("--format", choices=("table", "json", "csv", *plugins("hpcdp.renderers")), default="table")
    if notions := plugins("hpcdp.notions"):
        show.add_argument(
            "--notion", choices=[*notions], help="instead, what an installed package reads off the result"
        )
    text = (
        "instead, how accurate δ̂ is: resampled and binomial standard errors, and what is stated of it (table or json)"
    )
    show.add_argument("--accuracy", action="store_true", help=text)
    text = "instead, ε at this δ, with bounds; 0: the certified lower limit on pure ε; may be repeated"
    show.add_argument("--delta", action="append", type=_delta, metavar="DELTA", help=text)
    text = "instead, the Rényi divergence of this order, with a certified lower bound; 1: KL; may be repeated"
    show.add_argument("--renyi", action="append", type=_order, metavar="ORDER", help=text)
    text = "instead, the certified lower bound on ρ of zero-concentrated DP; may be given with --renyi"
    show.add_argument("--zcdp", action="store_true", help=text)
    text = "instead, pure ε: of a study with [pure] or a histogram, what is certified of it and what the published method says"
    show.add_argument("--pure", action="store_true", help=text)
    text = "instead, P[|L| > ε] at this ε: estimated, and a certified lower limit of P[L > ε]; may be repeated"
    show.add_argument("--risk", action="append", type=_risk, metavar="EPSILON", help=text)
    text = "instead, the removed or edited rows by how exposed they are"
    show.add_argument("--rows", action="store_true", help=text)
    contents = "print what is in the most exposed rows too, which is private"
    show.add_argument("--show-rows", action="store_true", help=contents)

    plot = add("plot", reading.plot, "draw a store's results")
    plot.add_argument("store", type=_place, metavar="STORE", help=copy)
    plot.add_argument("-o", "--output", type=Path, metavar="FILE", help=".png or .svg (default: beside the store)")
    text = "instead, of a study with [pure]: densities and loss of the leading pair, where it is largest, and the tested set"
    plot.add_argument("--loss", action="store_true", help=text)
    plot.add_argument("--log", action="store_true", default=None, help="δ on a logarithmic axis")

    report = add("report", reading.report, "write a page (.html) that needs nothing else, of one or several stores")
    report.add_argument("stores", type=_place, nargs="+", metavar="STORE", help=copy)
    report.add_argument("-o", "--output", type=Path, metavar="FILE", help=".html (default: beside the first store)")
    private = (
        "with what is in the most exposed rows, inline databases, local paths and texts of exceptions: all private"
    )
    report.add_argument("--show-rows", action="store_true", help=private)

    text = (
        "write a store's results for others: NetCDF, Parquet, JSON and a page, which show, plot and report read again"
    )
    export = add_of_store("export", reading.export, text)
    export.add_argument("folder", type=Path, metavar="FOLDER", help="a new or empty folder, or an earlier export")
    export.add_argument("--show-rows", action="store_true", help=private)

    text = (
        "check claims against a store's results; exit code 3 when one is violated, else 1 when the store is incomplete"
    )
    verify = add_of_store("verify", reading.verify, text)
    text = (
        "such as laplace(epsilon=1), dp(epsilon=1, delta=1e-6), file(curve.csv), or a product of these: laplace(epsilon=1)*"
        "gaussian(mu=1); several are ranked (default: the study's)"
    )
    verify.add_argument("--claim", action="append", metavar="CLAIM", help=text)
    verify.add_argument("--format", choices=("table", "json", "junit", "markdown"), default="table")
    text = "exit code 0 for an incomplete store too, where what has been counted shows no violation"
    verify.add_argument("--incomplete", action="store_true", help=text)
    verify.add_argument("--show-rows", action="store_true", help=contents)

    text = "run a study and audit a claimed trade-off curve (f-DP); exit code 3 when it is violated"
    audit = add("audit", auditing.audit, text)
    add_study(audit)
    text = (
        "such as gaussian(mu=1), laplace(epsilon=1), dp(epsilon=1, delta=1e-6), file(curve.csv) (default: the study's)"
    )
    audit.add_argument("--claim", metavar="CLAIM", help=text)
    add_into(audit, "samples go")
    text = (
        "both (default): the claim is about all neighbours; forward: it is T of (D, D') only; reverse: of (D', D) only"
    )
    audit.add_argument("--orientation", choices=("both", "forward", "reverse"), default="both", help=text)
    text = "of the error rates: exact (Clopper–Pearson, default) or hoeffding, as published"
    audit.add_argument("--limits", choices=("exact", "hoeffding"), default="exact", help=text)
    text = "draw batches, and stop as soon as the claim is refuted; the false-alarm rate holds however often one looks"
    audit.add_argument("--sequential", action="store_true", help=text)
    text = "samples per database of a batch (default: 100)"
    audit.add_argument("--batch", type=_positive, default=100, metavar="N", help=text)
    text = "samples per database at most, with --sequential (default: 10000)"
    audit.add_argument("--budget", type=_positive, default=10_000, metavar="N", help=text)
    audit.add_argument("--format", choices=("table", "json"), default="table")
    text = ".png or .svg (default: beside the store)"
    audit.add_argument("-o", "--output", type=Path, metavar="FILE", help=text)
    audit.add_argument("--show-rows", action="store_true", help=contents)
    add_place(audit)
    add_picture(audit)

    compare = add("compare", reading.compare, "draw several stores' spectra in one plot, and tell which is below which")
    compare.add_argument("stores", type=Path, nargs="+", metavar="STORE")
    text = ".png or .svg (default: compare.png beside the first store)"
    compare.add_argument("-o", "--output", type=Path, metavar="FILE", help=text)
    compare.add_argument("--log", action="store_true", help="draw δ on a logarithmic axis")
    compare.add_argument("--format", choices=("table", "json"), default="table")

    add("mechanisms", reading.mechanisms, "list the built-in mechanisms and their parameters")
    text = (
        "print the JSON Schema (Draft 2020-12) of study files, with what each key means, for editors and other programs"
    )
    add("schema", starting.schema, text)
    text = "print a script that completes hpcdp's commands and options in a shell; how to install it is in its head"
    completion = add("completion", starting.completion, text)
    completion.add_argument("shell", choices=starting.SHELLS, metavar="SHELL", help=" | ".join(starting.SHELLS))
    completion.set_defaults(parser=parser)
    return parser
