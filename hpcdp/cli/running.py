"""What the commands that compute do with their parsed arguments: plan, run, resume."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hpcdp._base.asked import typed
from hpcdp.cli._computing import (
    compute,
    draw,
    draws_picture,
    parse_early,
    placed,
    plan_of,
    print_plan,
    resolved,
    say,
    stoppable,
)
from hpcdp.cli.auditing import audited_claim
from hpcdp.cli.reading import default_plot, verify
from hpcdp.engine.stopping import Stop
from hpcdp.errors import DONE, StudyError


def plan(options: argparse.Namespace) -> None:
    """Print what would run."""
    from hpcdp.driver.driver import default_store
    from hpcdp.driver.plan import plan
    from hpcdp.study.claims import parse_claim
    from hpcdp.study.file import Study

    if options.claim is not None and options.truth is None:
        raise StudyError("--claim: accepted with --truth, the curve that may be true instead; given: --claim alone")
    study = Study.from_toml(options.study)
    if options.truth is not None:
        from hpcdp.driver.direct import refuse_unaudited

        refuse_unaudited(study)
    wanted = options.truth is not None and (audited_claim(options, study), parse_claim(options.truth))
    is_known = study.method.knows_draws  # else what its store has learned tells how many draws follow
    planned = plan(study, options.workers, options.profile, say, store=None if is_known else default_store(study))
    print(planned)
    if wanted:
        from hpcdp.results.power import find_power

        print(f"  to refute      {find_power(study, *wanted, planned.pairs)}")


def risk(options: argparse.Namespace) -> None:
    """The same of a study with [at_risk]."""
    _run(options, at_risk=True)


def run(options: argparse.Namespace) -> int:
    """Run a study, or go on with its store, and verify its claim where that is asked for; the exit code."""
    if options.verify:
        from hpcdp.study.file import Study

        if Study.from_toml(options.study).study.claim is None:
            raise StudyError(f"--verify: {options.study} makes no claim; accepted: a study with study.claim")
    store = _run(options)
    if not options.verify:
        return DONE
    print(flush=True)
    return verify(argparse.Namespace(store=store, claim=None, format="table", incomplete=False, show_rows=False))


def _run(options: argparse.Namespace, at_risk: bool = False) -> Path:
    """The store. at_risk: whether the study has [at_risk]."""
    parsed = parse_early(options.study)
    from hpcdp.driver.driver import read_study

    where = placed(options)
    study, store = read_study(parsed, options.store)
    if (study.at_risk is not None) != at_risk:
        has, command = ("no", "run") if at_risk else ("a section", "risk")
        raise StudyError(
            f"STUDY: {options.study} has {has} [at_risk]; go on with: hpcdp {command} {typed(options.study)}"
        )
    with resolved(options, study, store, where) as (problem, trial, stop):
        plan = plan_of(options, store, problem, trial, where)
        print_plan(plan, options.study)
        _drive(options, store, problem, trial, stop, plan)
    return store


def resume(options: argparse.Namespace) -> None:
    """Go on from a store alone."""
    from hpcdp.driver.driver import resolve_latest

    where, store = placed(options), options.store
    options.found = store
    with stoppable(where) as stop:
        problem, trial = resolve_latest(
            store, options.allow_changed_code, options.trust_code, say, where.library_threads
        )
        plan = plan_of(options, store, problem, trial, where) if options.plot is None else None
        _drive(options, store, problem, trial, stop, plan)


def _drive(options: argparse.Namespace, store: Path, problem: Any, trial: Any, stop: Stop, plan: Any) -> None:
    from hpcdp.report.notions import text

    result = compute(options, store, problem, trial, stop)
    print(text(result))
    claims = result.study.study.claim is not None and not getattr(options, "verify", False)
    check = f"check: hpcdp verify {typed(store)}\n" if claims else ""
    print(f"\nstore: {store}\n{check}page:  hpcdp report {typed(store)}\n", end="", flush=True)
    again = f"hpcdp plot {typed(store)}"
    place = default_plot(store)
    print(draw(draws_picture(options, plan), lambda: result.plot(place), place, again), end="")
