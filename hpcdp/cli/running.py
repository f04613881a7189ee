"""The commands that compute, here or as jobs on a cluster, and what all share that do: places, signals, plans, pictures."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpcdp._base.asked import typed
from hpcdp._base.raised import describe_raised
from hpcdp.cli.reading import default_plot, verify
from hpcdp.engine.progress import on_stderr
from hpcdp.engine.stopping import GRACE, Stop, stopped_by_signals
from hpcdp.errors import DONE, FAILED, StudyError
from hpcdp.mechanisms import BUILTINS, STORED
from hpcdp.store.layout import Layout
from hpcdp.store.records import foreign
from hpcdp.store.root import open_latest, open_layout


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
    # without knowing its draws, a method plans by what its store has learned
    store = None if study.method.knows_draws else default_store(study)
    if options.store is not None:
        store = open_layout(options.store).root
    planned = plan(study, options.workers, options.profile, say, store=store)
    print(planned)
    if wanted:
        from hpcdp.results.ranking import find_power

        print(f"  to refute      {find_power(study, *wanted, planned.pairs)}")


def risk(options: argparse.Namespace) -> None:
    """The same of a study with [at_risk]."""
    _run(options, parse_early(options), at_risk=True)


def run(options: argparse.Namespace) -> int:
    """Run a study, or go on with its store, and verify its claim where that is asked for; the exit code."""
    study = parse_early(options)
    if options.verify and study.study.claim is None:
        raise StudyError(f"--verify: {options.study} makes no claim; accepted: a study with study.claim")
    store = _run(options, study)
    if not options.verify:
        return DONE
    print(flush=True)
    return verify(argparse.Namespace(store=store, claim=None, format="table", incomplete=False, show_rows=False))


def _run(options: argparse.Namespace, parsed: Any, at_risk: bool = False) -> Path:
    """The store. at_risk: whether the study has [at_risk]."""
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
    options.kept_in = store
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
    place, again = default_plot(store), f"hpcdp plot {typed(store)}"
    print(draw(draws_picture(options, plan), lambda: result.plot(place), place, again), end="")


def say(text: str) -> None:
    """One line of news, before anything runs."""
    print(text, file=sys.stderr, flush=True)


def parse_early(options: argparse.Namespace) -> Any:
    """A study, as its file says; where processes are asked for, or code is named, they start while this loads libraries."""
    from hpcdp._base.node import start_early

    if options.workers and options.cluster == "local":
        start_early()
    from hpcdp.study.file import Study

    study = Study.from_toml(options.study)
    if study.mechanism.call not in (*BUILTINS, STORED):
        start_early()
    return study


def placed(options: argparse.Namespace) -> Any:
    """Where a command's tasks run; StudyError before anything else where its options contradict each other."""
    from hpcdp.clusters import parse_place
    from hpcdp.engine.executors import refuse_place

    where = parse_place(options.cluster)
    refuse_place(place_of(options, Stop()))
    return where


@contextmanager
def stoppable(where: Any) -> Iterator[Stop]:
    """A request to stop that signals make from here on: USR1 anywhere, SIGTERM on a cluster, where tasks may end first."""
    stop, profile = Stop(), where.profile
    drain = 0.75 * profile.cluster.drain if profile else GRACE
    with stopped_by_signals(stop, drain, terminate=profile is not None):
        yield stop


@contextmanager
def resolved(options: argparse.Namespace, study: Any, store: Path, where: Any) -> Iterator[tuple[Any, Any, Stop]]:
    """The problem of a study, its trial draws and a request to stop; StudyError where the store holds another study."""
    from hpcdp.study.resolving import resolve
    from hpcdp.study.versions import refuse_other_study

    options.kept_in = store
    with stoppable(where) as stop:
        problem, trial = resolve(study, say, where.library_threads)
        refuse_other_study(store, problem, options.allow_changed_code)
        yield problem, trial, stop


def place_of(options: argparse.Namespace, stop: Stop) -> Any:
    """How a run is done, by the command's options."""
    from hpcdp.engine.executors import Options

    changed, trusted = options.allow_changed_code, options.trust_code
    quiet = not options.debug
    report = options.performance_report
    return Options(options.cluster, options.workers, None, changed, trusted, stop, options.dashboard, quiet, report)


def compute(options: argparse.Namespace, store: Path, problem: Any, trial: Any, stop: Stop) -> Any:
    """The result of a run, told of on stderr."""
    from hpcdp.driver.driver import run_problem

    with on_stderr() as progress:
        return run_problem(problem, trial, store, place_of(options, stop), progress)


def plan_of(options: argparse.Namespace, store: Path, problem: Any, trial: Any, where: Any) -> Any:
    """What is left to do."""
    from hpcdp.clusters import default_workers
    from hpcdp.driver.driver import index_of
    from hpcdp.driver.plan import make_plan

    workers = getattr(options, "workers", None)
    if not where.is_here or getattr(options, "dashboard", False):
        workers = workers or default_workers()
    return make_plan(problem, trial, workers, index_of(store), where.profile)


def print_plan(plan: Any, study: Path | None = None) -> None:
    """The plan before work begins. study: of a run, whose details `hpcdp plan` prints."""
    text = str(plan) if study is None else plan.brief(f"hpcdp plan {typed(study)}")
    print(text, end="\n\n", file=sys.stderr, flush=True)


def draws_picture(options: argparse.Namespace, plan: Any) -> bool:
    """Whether there is a picture at the end: as asked, else as planned; never by how long it took."""
    return bool(options.plot if options.plot is not None else plan.draws_picture)


def draw(is_drawn: bool, drawing: Callable[[], object], picture: Path, again: str) -> str:
    """The line that names the picture, or the command that draws it; empty where drawing fails, which is said on stderr."""
    if not is_drawn:
        return f"draw:  {again}\n"
    try:
        drawing()
    except Exception as error:  # whatever fonts and file systems do, the run has ended well
        say(f"the picture could not be drawn ({describe_raised(error)}); it is drawn by: {again}")
        return ""
    return f"plot:  {picture}\n"


def again_with_picture(options: argparse.Namespace) -> str:
    """The command again, with a picture."""
    given = [argument for argument in options.given if argument not in ("--plot", "--no-plot")]
    end = given.index("--") if "--" in given else len(given)
    return shlex.join(["hpcdp", *given[:end], "--plot", *given[end:]])


def audited_claim(options: argparse.Namespace, study: Any) -> Any:
    """The claim of the command line, else the study's own."""
    from hpcdp.study.claims import parse_claim

    if options.claim is not None:
        return parse_claim(options.claim)
    if study.study.claim is None:
        raise StudyError("--claim: none was given, and the study makes none; accepted: such as gaussian(mu=1)")
    return parse_claim(study.study.claim, study.folder)


def submit(options: argparse.Namespace) -> None:
    """Put a whole run on a cluster as a job."""
    from hpcdp.clusters import Where, slurm
    from hpcdp.clusters.profile import Profile
    from hpcdp.clusters.slurm import driver_name, job_folder
    from hpcdp.clusters.submit import refuse_second_driver, submit_driver
    from hpcdp.driver.driver import read_study, store_problem
    from hpcdp.study.resolving import resolve
    from hpcdp.study.versions import refuse_other_study

    profile = Profile.from_toml(options.profile)
    slurm.check_installed()
    study, store = read_study(options.study, options.store)
    text = Path(options.profile).read_text(encoding="utf-8")
    problem, trial = resolve(study, say, profile.worker.library_threads)
    refuse_other_study(store, problem, options.allow_changed_code)
    print_plan(plan_of(options, store, problem, trial, Where(profile)))
    folder = job_folder(Layout(store), study.name)
    refuse_second_driver(folder)
    ended = {job.id for job in slurm.jobs_named([driver_name(folder.name)]) if not job.is_active}
    store_problem(problem, store, options.allow_changed_code, options.trust_code, ended)
    print(submit_driver(profile, text, folder, store.resolve(), options.trust_code), flush=True)
    path = typed(store)
    print(f"store: {store}; see hpcdp status {path}, hpcdp logs {path}, hpcdp cancel {path}", file=sys.stderr)


def logs(options: argparse.Namespace) -> None:
    """Print the ends of the logs of a store's jobs."""
    from hpcdp.report.status import logs

    for line in logs(_folder_of(options.store), options.lines, options.job):
        print(line)


def cancel(options: argparse.Namespace) -> None:
    """End a run and its jobs."""
    from hpcdp.clusters import slurm
    from hpcdp.clusters.submit import cancel

    slurm.check_installed()
    for line in cancel(Layout(options.store), _folder_of(options.store)):
        print(line)


def _folder_of(store: Path) -> Any:
    """The folder of a store's jobs; StudyError when there is no store."""
    from hpcdp.clusters.slurm import job_folder
    from hpcdp.study.stored import stored_study

    with foreign(store):
        layout, version = open_latest(store)
        return job_folder(layout, stored_study(layout, version).name)


def certificate(options: argparse.Namespace) -> None:
    """Make a certificate for a scheduler of the user's own."""
    from hpcdp.clusters.certificates import Certificate

    if options.folder.exists():
        raise StudyError(f"FOLDER: one that does not exist yet; given: {options.folder}")
    print(Certificate.create(options.folder).exports())


def cluster_test(options: argparse.Namespace) -> int:
    """Do a small task on each node of a few jobs, and say what is wrong; the exit code is 1 if anything is."""
    from hpcdp.clusters import check_profile, silence_dask
    from hpcdp.clusters.cluster_test import try_cluster
    from hpcdp.clusters.profile import Profile

    profile = Profile.from_toml(options.profile)
    check_profile(profile)
    if not options.debug:
        silence_dask()
    nodes = options.nodes or max(1, profile.size.least)
    if nodes > profile.size.most:
        raise StudyError(f"--nodes: at most {profile.size.most}, the jobs of {options.profile}; given: {nodes}")
    wrong = try_cluster(profile, nodes, options.wait, say)
    for line in wrong:
        print(f"wrong: {line}")
    if not wrong:
        print(f"{options.profile} works: every process of {nodes} job{'s' if nodes > 1 else ''} did its task")
    return FAILED if wrong else DONE
