"""What the command audit does with its parsed arguments."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from hpcdp.cli._computing import (
    again_with,
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
from hpcdp.cli.reading import print_contents, refuse_contents
from hpcdp.engine.progress import on_stderr
from hpcdp.errors import DONE, VIOLATED, StudyError
from hpcdp.results.decision import VIOLATION


def audit(options: argparse.Namespace) -> int:
    """Run a study and audit a claim by its trade-off points; the exit code."""
    from hpcdp.driver.direct import refuse_unaudited, with_audited_loss, with_etas
    from hpcdp.driver.driver import read_study
    from hpcdp.report._spectra import check_path
    from hpcdp.report.audit import report
    from hpcdp.report.plots_methods import draw_audit
    from hpcdp.results.audit import audit
    from hpcdp.results.result import to_json

    refuse_contents(options)
    if options.sequential and options.show_rows:
        raise StudyError("--show-rows: accepted without --sequential; given: both")
    where = placed(options)
    study, store = read_study(parse_early(options.study), options.store)
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
    drawn = draw(is_drawn, lambda: draw_audit(audited, picture), picture, again_with(options, "--plot"))
    if options.format == "json":
        print(to_json(audited.to_dict()))
    else:
        print(f"{report(audited)}\n\nstore: {store}\n{drawn}", end="")
    if options.show_rows:
        print_contents(audited.result)
    return VIOLATED if audited.verdict == VIOLATION else DONE


def _audit_pure(options: argparse.Namespace, study: Any, store: Path, claim: Any, where: Any) -> int:
    """Run a study with [pure] and judge a claim of pure ε by its limit; the exit code."""
    from hpcdp.report.verdict import report, to_json
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
    print(to_json([verdict]) if options.format == "json" else f"{report([verdict])}\n\nstore: {store}")
    if options.show_rows:
        print_contents(verdict.result)
    return VIOLATED if verdict.verdict == VIOLATION else DONE


def _play(options: argparse.Namespace, study: Any, claim: Any, store: Path, picture: Path, where: Any) -> int:
    """A sequential audit; the exit code."""
    from hpcdp.driver.sequential_audit import refuse_unplayable, run_sequential
    from hpcdp.report.audit import sequential_report
    from hpcdp.report.plots_methods import draw_sequential
    from hpcdp.results.result import to_json
    from hpcdp.results.sequential import Rounds
    from hpcdp.study.resolving import resolve

    again = shlex.join(["hpcdp", *options.given])
    is_drawn = options.plot is not False
    options.found = store
    with stoppable(where) as stop:
        problem, trial = resolve(study, say, where.library_threads)
        refuse_unplayable(problem)
        rounds = Rounds.of(problem, options.batch, options.budget)
        with on_stderr() as progress:
            place = place_of(options, stop)
            audited = run_sequential(problem, trial, store, claim, options.orientation, rounds, place, progress, again)
    drawn = draw(is_drawn, lambda: draw_sequential(audited, picture), picture, again_with(options, "--plot"))
    if options.format == "json":
        print(to_json(audited.to_dict()))
    else:
        print(f"{sequential_report(audited)}\n\nstore: {store}\n{drawn}", end="")
    return VIOLATED if audited.verdict == VIOLATION else DONE


def audited_claim(options: argparse.Namespace, study: Any) -> Any:
    """The claim of the command line, else the study's own."""
    from hpcdp.study.claims import parse_claim

    if options.claim is not None:
        return parse_claim(options.claim)
    if study.study.claim is None:
        raise StudyError("--claim: none was given, and the study makes none; accepted: such as gaussian(mu=1)")
    return parse_claim(study.study.claim, study.folder)
