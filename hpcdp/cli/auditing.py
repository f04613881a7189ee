"""The commands `audit`, and `check`: one function on two databases against one claim, without a study file."""

from __future__ import annotations

import argparse
import ast
import json
import os
import shlex
from pathlib import Path
from typing import Any

from hpcdp._base.asked import typed
from hpcdp._base.files import parse_toml, to_toml
from hpcdp.cli.reading import print_contents, refuse_contents, verify
from hpcdp.cli.running import (
    again_with_picture,
    audited_claim,
    compute,
    draw,
    draws_picture,
    parse_early,
    place_of,
    placed,
    plan_of,
    print_plan,
    resolved,
    say,
    stoppable,
)
from hpcdp.engine.progress import on_stderr
from hpcdp.errors import DONE, VIOLATED, StudyError
from hpcdp.results.shown import VIOLATION

_GRID = {"start": 0.0, "stop": 2.0, "count": 21}  # of a claim that is a curve
_FUNCTION = "FILE.py:function, or package.module:function"


def audit(options: argparse.Namespace) -> int:
    """Run a study and audit a claim by its trade-off points; the exit code."""
    from hpcdp.driver.direct import refuse_unaudited, with_audited_loss, with_etas
    from hpcdp.driver.driver import read_study
    from hpcdp.report._spectra import check_path
    from hpcdp.report.plots_methods import draw_audit
    from hpcdp.results.audit import audit

    refuse_contents(options)
    if options.sequential and options.show_rows:
        raise StudyError("--show-rows: accepted without --sequential; given: both")
    where = placed(options)
    study, store = read_study(parse_early(options), options.store)
    if study.pure is None:
        refuse_unaudited(study)
    claim = audited_claim(options, study)
    if study.pure is not None:
        return _audit_pure(options, study, store, claim, where)
    if options.output is not None and options.plot is False:
        raise StudyError("-o: accepted without --no-plot; given: both")
    study = with_audited_loss(study, store)
    picture = options.output or store.with_name(f"{store.stem}-audit.png")
    check_path(picture)
    if options.sequential:
        return _play(options, study, claim, store, picture, where)
    study = with_etas(study)
    with resolved(options, study, store, where) as (problem, trial, stop):
        plan = plan_of(options, store, problem, trial, where)
        print_plan(plan)
        audited = audit(compute(options, store, problem, trial, stop), claim, options.orientation, options.limits)
    is_drawn = options.output is not None or draws_picture(options, plan)
    drawn = draw(is_drawn, lambda: draw_audit(audited, picture), picture, again_with_picture(options))
    return _finish(options, audited, store, drawn)


def _finish(options: argparse.Namespace, audited: Any, store: Path, drawn: str = "", text: str | None = None) -> int:
    """Print what an audit found; the exit code. text: of it, where it does not read as one itself."""
    from hpcdp.results.result import to_json

    if options.format == "json":
        print(to_json(audited.to_dict()))
    else:
        print(f"{text or audited}\n\nstore: {store}\n{drawn}", end="")
    if options.show_rows:
        print_contents(audited.result)
    return VIOLATED if audited.verdict == VIOLATION else DONE


def _audit_pure(options: argparse.Namespace, study: Any, store: Path, claim: Any, where: Any) -> int:
    """Run a study with [pure] and judge a claim of pure ε by its limit; the exit code."""
    from hpcdp.results.verdict import verify

    if claim.pure_level is None:
        raise StudyError(
            "audit: tests trade-off points, which a study with [pure] does not count; leave [pure] out, or claim dp(epsilon=…)"
        )
    is_plain = (options.orientation, options.limits) == ("both", "exact")
    if not is_plain or options.sequential or options.output or options.plot:
        raise StudyError(
            "audit: with [pure] accepted without --sequential, --orientation, --limits, --output and --plot"
        )
    with resolved(options, study, store, where) as (problem, trial, stop):
        print_plan(plan_of(options, store, problem, trial, where))
        verdict = verify(compute(options, store, problem, trial, stop), claim)
    return _finish(options, verdict, store)


def _play(options: argparse.Namespace, study: Any, claim: Any, store: Path, picture: Path, where: Any) -> int:
    """A sequential audit; the exit code."""
    from hpcdp.driver.sequential_audit import refuse_unplayable, run_sequential
    from hpcdp.report.audit import sequential_report
    from hpcdp.report.plots_methods import draw_sequential
    from hpcdp.results.sequential import Rounds
    from hpcdp.study.resolving import resolve

    again = shlex.join(["hpcdp", *options.given])
    is_drawn = options.plot is not False
    options.kept_in = store
    with stoppable(where) as stop:
        problem, trial = resolve(study, say, where.library_threads)
        refuse_unplayable(problem)
        rounds = Rounds.of(problem, options.batch, options.budget)
        with on_stderr() as progress:
            place = place_of(options, stop)
            audited = run_sequential(problem, trial, store, claim, options.orientation, rounds, place, progress, again)
    drawn = draw(is_drawn, lambda: draw_sequential(audited, picture), picture, again_with_picture(options))
    return _finish(options, audited, store, drawn, sequential_report(audited))


def check(options: argparse.Namespace) -> int:
    """Run the function on both databases and check the claim; the exit code is that of `verify`."""
    from hpcdp.driver.direct import run_study
    from hpcdp.study.claims import parse_claim
    from hpcdp.study.file import Study

    folder, call, takes_rng = _function(options.function)
    claim = options.claim or f"dp(epsilon={options.epsilon}, delta={options.delta})"
    parse_claim(claim, folder)
    text = to_toml(_study_of(options, call, takes_rng, claim, folder))
    if options.save is not None:
        _save(options.save, folder, text)
    study = Study.from_dict(parse_toml(text), folder)
    if not takes_rng:
        say(f"{call} takes no rng: its randomness is its own, so that another run draws other outputs")
    options.kept_in = options.store
    with on_stderr() as progress:
        result = run_study(study, options.store, progress=progress, workers=options.workers)
    code = verify(argparse.Namespace(store=result.store, claim=None, format="table", incomplete=False, show_rows=False))
    if options.save is not None:
        print(f"\nthe same by a study: hpcdp run {typed(options.save)} --verify")
    return code


def _function(given: str) -> tuple[Path, str, bool]:
    """The folder from which a function is imported, its "module:name", and whether it takes its randomness from `rng`."""
    place, _, name = given.rpartition(":")
    if not place or not name.isidentifier():
        raise StudyError(f"FUNCTION: {given!r} was given; accepted: {_FUNCTION}")
    if not place.endswith(".py"):
        return Path.cwd(), given, True
    path = Path(place)
    if not path.is_file() or not path.stem.isidentifier():
        what = "there is no such file" if not path.is_file() else "its name cannot be imported"
        raise StudyError(f"FUNCTION: {path} was given: {what}; accepted: {_FUNCTION}")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise StudyError(f"FUNCTION: {path} is not Python: {error}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    takes = [a.arg for node in functions for a in (*node.args.args, *node.args.kwonlyargs)]
    takes_rng = not functions or "rng" in takes or functions[-1].args.kwarg is not None
    return path.resolve().parent, f"{path.stem}:{name}", takes_rng


def _study_of(options: argparse.Namespace, call: str, takes_rng: bool, claim: str, folder: Path) -> dict[str, Any]:
    """The study that asks for the same, as a file has it."""
    return {
        "study": {"name": call.rpartition(":")[2], "seed": options.seed, "claim": claim},
        "mechanism": {"call": call, "reproducible": None if takes_rng else False},
        "pairs": _pairs(options.d, options.d_prime, folder),
        "estimate": {
            "epsilons": _GRID if options.claim else [options.epsilon],
            "train": options.train,
            "test": options.test,
        },
    }


def _pairs(d: list[str], d_prime: list[str] | None, folder: Path) -> dict[str, Any]:
    """The section [pairs]: one given pair; or, of a table alone, the table and what is left of it without each row in turn."""
    if d_prime is not None:
        first, second = _database("--d", d), _database("--d-prime", d_prime)
        if first == second:
            raise StudyError(
                f"--d-prime: {' '.join(d_prime)} is the same database as --d, for which every function passes; accepted: "
                "a neighbouring database"
            )
        if _has_columns(first) != _has_columns(second):
            raise StudyError(
                "--d and --d-prime: rows of as many columns; given: one of single numbers, the other of several"
            )
        return {"given": [{"d": first, "d_prime": second}]}
    if not _is_file(d):
        raise StudyError(
            "--d-prime: is missing; accepted without it is --d FILE.csv, which loses each of its rows in turn"
        )
    return {"relative": {"file": os.path.relpath(d[0], folder)}}


def _has_columns(database: list[Any]) -> bool:
    return bool(database) and isinstance(database[0], list)


def _is_file(values: list[str]) -> bool:
    return len(values) == 1 and values[0].lower().endswith((".csv", ".npy", ".parquet"))


def _database(option: str, values: list[str]) -> list[Any]:
    """A database as a study file has it: of a file, or of rows such as 3 or 1,2.5."""
    from hpcdp.study.databases import read_database

    if _is_file(values):
        return list(read_database(Path(values[0]), option).tolist())
    try:
        rows: list[Any] = [[_number(number) for number in row.split(",")] for row in values]
    except ValueError:
        raise StudyError(
            f"{option}: {' '.join(values)} was given; accepted: a number for each row, numbers with commas for rows of several "
            "columns, or one .csv, .npy or .parquet file"
        ) from None
    return [row[0] if len(row) == 1 else row for row in rows]


def _number(text: str) -> Any:
    special = text.strip().lower().removeprefix("+") in ("nan", "inf", "-inf")
    return float(text) if special else json.loads(text)


def _save(path: Path, folder: Path, text: str) -> None:
    """Write the study beside the function, where it finds it; nothing is overwritten."""
    if path.suffix != ".toml" or path.resolve().parent != folder:
        raise StudyError(f"--save: {path} was given; accepted: a .toml file in {folder}, where the function is found")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise StudyError(f"--save: {path} is there already, and nothing is overwritten") from None
