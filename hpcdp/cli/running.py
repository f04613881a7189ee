"""What the commands that compute do with their parsed arguments: plan, run, resume, audit, and those of jobs.

Heavy packages are imported by the command that needs them, so that help and plan start at once.
"""

from __future__ import annotations

import argparse
import gc
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpcdp._base.again import typed
from hpcdp._base.collecting import uncollected
from hpcdp._base.raised import describe_raised
from hpcdp.cli._unchanged import digest_inputs, named_store
from hpcdp.cli.reading import default_plot, print_contents, refuse_contents
from hpcdp.engine.stopping import GRACE, Stop, stopped_by_signals
from hpcdp.errors import DONE, VIOLATED, StudyError
from hpcdp.store.texts import read_texts


def plan(options: argparse.Namespace) -> None:
    """Print what would run."""
    from hpcdp.planning.summary import plan
    from hpcdp.study.claims import parse_claim
    from hpcdp.study.file import Study

    profile = None
    if options.profile:
        from hpcdp.clusters.profile import Profile

        profile = Profile.from_toml(options.profile)
    if options.claim is not None and options.truth is None:
        raise StudyError("--claim: accepted with --truth, the curve that may be true instead; given: --claim alone")
    study = Study.from_toml(options.study)
    if study.at_risk is not None and options.truth is not None:
        raise StudyError("--truth: accepted with a study of databases; this one has [at_risk]")
    if options.truth is not None:
        _refuse_tape(study, "plan --truth")
    wanted = options.truth is not None and (_audited_claim(options, study), parse_claim(options.truth, Path.cwd()))
    planned = plan(study, options.workers, profile, _say, _stored_index(study) if study.estimate.tape else None)
    print(planned)
    if wanted:
        from hpcdp.results.power import find_power

        print(f"  to refute      {find_power(study, *wanted, planned.pairs)}")


def risk(options: argparse.Namespace) -> None:
    """The same of a study with [at_risk]."""
    run(options, at_risk=True)


def run(options: argparse.Namespace, at_risk: bool = False) -> None:
    """Run a study, or go on with its store. at_risk: whether it has [at_risk]."""
    if _is_shown(options):
        return
    _load()
    from hpcdp.engine.driver import read_study
    from hpcdp.study.problem import resolve
    from hpcdp.study.versions import refuse_other_study

    given = digest_inputs(Path(options.study))
    where = _placed(options)
    study, store = read_study(options.study, options.store)
    if (study.at_risk is not None) != at_risk:
        has, command = ("no", "run") if at_risk else ("a section", "risk")
        raise StudyError(
            f"STUDY: {options.study} has {has} [at_risk]; go on with: hpcdp {command} {typed(options.study)}"
        )
    with _settled(options, store) as there, _stoppable(where) as stop:
        problem, trial = resolve(study, _say, where.library_threads)
        refuse_other_study(there.root, problem, options.allow_changed_code)
        plan = _make_plan(options, there.root, problem, trial, where)
        _print_plan(plan)
        _drive(options, there, problem, trial, stop, plan, given)


def _is_shown(options: argparse.Namespace) -> bool:
    """Print what a complete store of this very study prints, where there is one and no more is asked for."""
    if options.recheck or options.plot or options.dashboard or options.workers or options.cluster != "local":
        return False
    path = Path(options.study)
    store = options.store or named_store(path)
    kept = read_texts(store) if store is not None else {}
    if store is None or not {"table", "inputs"} <= kept.keys() or digest_inputs(path) != kept["inputs"]:
        return False
    _say(f"{store} holds all that {path} asks for; to check its samples too: {_again(options, '--recheck')}")
    print(kept["table"])
    print(f"\nstore: {store}\ndraw:  hpcdp plot {typed(store)}", flush=True)
    return True


@uncollected()
def _load() -> None:
    """Load what most of the time of a small run is for."""
    import hpcdp.engine.driver
    import hpcdp.engine.tasks
    import hpcdp.planning.summary
    import hpcdp.report.printed  # noqa: F401

    gc.freeze()  # what is loaded stays


def _stored_index(study: Any) -> Any:
    """What the store holds where a run of a study goes by itself: of a random tape, levels there tell how many draws follow."""
    from hpcdp.engine.driver import index_of

    return index_of(Path("runs") / f"{study.name}.zarr")


def _say(text: str) -> None:
    """One line of news, before anything runs."""
    print(text, file=sys.stderr, flush=True)


def _make_plan(options: argparse.Namespace, store: Path, problem: Any, trial: Any, where: Any) -> Any:
    """What is left to do."""
    from hpcdp.clusters import default_workers
    from hpcdp.engine.driver import index_of
    from hpcdp.planning.summary import make_plan

    workers = getattr(options, "workers", None)
    if not where.is_here or getattr(options, "dashboard", False):
        workers = workers or default_workers()
    return make_plan(problem, trial, workers, index_of(store), where.profile)


def _print_plan(plan: Any) -> None:
    print(plan, end="\n\n", file=sys.stderr, flush=True)


def resume(options: argparse.Namespace) -> None:
    """Go on from a store alone."""
    from hpcdp.engine.driver import resolve_stored

    where = _placed(options)
    with _settled(options, options.store) as there, _stoppable(where) as stop:
        problem, trial = resolve_stored(
            there.root, options.allow_changed_code, options.trust_code, _say, where.library_threads
        )
        plan = _make_plan(options, there.root, problem, trial, where) if options.plot is None else None
        _drive(options, there, problem, trial, stop, plan)


def _placed(options: argparse.Namespace) -> Any:
    """Where a command's tasks run; StudyError before anything else where its options contradict each other."""
    from hpcdp.clusters import parse_place
    from hpcdp.engine.places import refuse_place

    where = parse_place(options.cluster)
    refuse_place(_place(options, Stop()))
    return where


@contextmanager
def _settled(options: argparse.Namespace, store: Path) -> Iterator[Any]:
    """The store's place, which an interruption names too."""
    from hpcdp.engine.settled import settled

    with settled(store) as there:
        options.found = there
        yield there


@contextmanager
def _stoppable(where: Any) -> Iterator[Stop]:
    """A request to stop that signals make from here on: USR1 anywhere, SIGTERM on a cluster, where tasks may end first."""
    stop, profile = Stop(), where.profile
    if where.is_here:
        import hpcdp.engine.tasks  # noqa: F401  # which worker processes need
        from hpcdp.clusters._processes import fork_nursery

        fork_nursery()
    drain = 0.75 * profile.cluster.drain if profile else GRACE
    with stopped_by_signals(stop, drain, terminate=profile is not None):
        yield stop


def _compute(
    options: argparse.Namespace, there: Any, problem: Any, trial: Any, stop: Stop, given: str | None = None
) -> Any:
    """The result of a run, told of on stderr. given: digest of what the study was made of, where that tells all."""
    from hpcdp.engine.driver import run_problem
    from hpcdp.engine.progress import on_stderr
    from hpcdp.report.printed import texts_of

    def texts(result: Any) -> dict[str, str]:
        is_known = given is not None and given == digest_inputs(Path(options.study))
        return texts_of(result) | ({"inputs": str(given)} if is_known else {})

    with on_stderr() as progress:
        place = _place(options, stop)
        return run_problem(problem, trial, there.root, place, there.telling(progress), texts)


def _place(options: argparse.Namespace, stop: Stop) -> Any:
    """How a run is done, by the command's options."""
    from hpcdp.engine.places import Options

    changed, trusted = options.allow_changed_code, options.trust_code
    quiet = not options.debug
    return Options(options.cluster, options.workers, None, changed, trusted, stop, options.dashboard, quiet)


def _drive(
    options: argparse.Namespace, there: Any, problem: Any, trial: Any, stop: Stop, plan: Any, given: str | None = None
) -> None:
    from hpcdp.report.printed import text

    result = _compute(options, there, problem, trial, stop, given)
    print(text(result))
    print(f"\nstore: {there.given}", flush=True)
    again = f"hpcdp plot {typed(there.given)}"
    place = default_plot(there.root)
    print(_draw(_is_drawn(options, plan), lambda: result.plot(place), default_plot(there.given), again), end="")


def _is_drawn(options: argparse.Namespace, plan: Any) -> bool:
    """Whether there is a picture at the end: as asked, else as planned; never by how long it took."""
    return bool(options.plot if options.plot is not None else plan.draws_picture)


def _draw(is_drawn: bool, draw: Callable[[], object], picture: Path, again: str) -> str:
    """The line that names the picture of what is done and stored, or the command that draws it where it is not wanted; empty
    where drawing fails, which is said on stderr."""
    if not is_drawn:
        return f"draw:  {again}\n"
    try:
        draw()
    except Exception as error:  # whatever fonts and file systems do, the run has ended well
        _say(f"the picture could not be drawn ({describe_raised(error)}); it is drawn by: {again}")
        return ""
    return f"plot:  {picture}\n"


def submit(options: argparse.Namespace) -> None:
    """Put a whole run on a cluster as a job."""
    from hpcdp.clusters import Where, slurm
    from hpcdp.clusters.folder import job_folder
    from hpcdp.clusters.profile import Profile
    from hpcdp.clusters.submit import refuse_second_driver, submit_driver
    from hpcdp.engine.driver import read_study, store_problem
    from hpcdp.engine.settled import settled
    from hpcdp.store.layout import Layout
    from hpcdp.study.problem import resolve
    from hpcdp.study.versions import refuse_other_study

    profile = Profile.from_toml(options.profile)
    slurm.check_installed()
    study, store = read_study(options.study, options.store)
    text = Path(options.profile).read_text(encoding="utf-8")
    with settled(store) as there:
        problem, trial = resolve(study, _say, profile.worker.library_threads)
        refuse_other_study(there.root, problem, options.allow_changed_code)
        _print_plan(_make_plan(options, there.root, problem, trial, Where(profile)))
        folder = job_folder(Layout(there.root), study.name)
        refuse_second_driver(folder)
        store_problem(problem, there.root, options.allow_changed_code, options.trust_code)
        print(submit_driver(profile, text, folder, there.root.resolve(), options.trust_code), flush=True)
    path = typed(store)
    print(f"store: {store}; see hpcdp status {path}, hpcdp logs {path}, hpcdp cancel {path}", file=sys.stderr)


def logs(options: argparse.Namespace) -> None:
    """Print the ends of the logs of a store's jobs."""
    from hpcdp.report.logs import logs

    for line in logs(_folder_of(options.store), options.lines, options.job):
        print(line)


def cancel(options: argparse.Namespace) -> None:
    """End a run and its jobs."""
    from hpcdp.clusters import slurm
    from hpcdp.clusters.cancel import cancel
    from hpcdp.store.layout import Layout

    slurm.check_installed()
    for line in cancel(Layout(options.store), _folder_of(options.store)):
        print(line)


def _folder_of(store: Path) -> Any:
    """The folder of a store's jobs; StudyError when there is no store."""
    from hpcdp.clusters.folder import job_folder
    from hpcdp.store.records import foreign
    from hpcdp.store.root import open_latest
    from hpcdp.study.versions import stored_study

    with foreign(store):
        layout, version = open_latest(store)
        return job_folder(layout, stored_study(layout, version).name)


def certificate(options: argparse.Namespace) -> None:
    """Make a certificate for a scheduler of the user's own."""
    from hpcdp.clusters.certificates import Certificate

    if options.folder.exists():
        raise StudyError(f"FOLDER: one that does not exist yet; given: {options.folder}")
    print(Certificate.create(options.folder).exports())


def audit(options: argparse.Namespace) -> int:
    """Run a study and audit a claim by its trade-off points; the exit code."""
    from hpcdp.engine.driver import read_study
    from hpcdp.report.audit import report, to_json
    from hpcdp.report.plots import check_path
    from hpcdp.report.plots_audit import draw_audit
    from hpcdp.results.audit import audit
    from hpcdp.results.verdict import VIOLATION
    from hpcdp.study.problem import resolve
    from hpcdp.study.versions import refuse_other_study

    refuse_contents(options)
    if options.sequential and options.show_rows:
        raise StudyError("--show-rows: accepted without --sequential; given: both")
    where = _placed(options)
    study, store = read_study(options.study, options.store)
    if study.at_risk is not None:
        raise StudyError(
            f"STUDY: {options.study} has a section [at_risk], which makes no trade-off points; see hpcdp risk"
        )
    _refuse_tape(study, "audit")
    claim = _audited_claim(options, study)
    if study.pure is not None:
        return _audit_pure(options, study, store, claim, where)
    if options.output is not None and options.plot is False:
        raise StudyError("-o: accepted without --no-plot; given: both")
    study = _with_audited_loss(study, store)
    picture = options.output or store.with_name(f"{store.stem}-audit.png")
    check_path(picture)
    if options.sequential:
        return _play(options, study, claim, store, picture, where)
    study = _with_etas(study)
    with _settled(options, store) as there, _stoppable(where) as stop:
        place = picture.absolute()
        problem, trial = resolve(study, _say, where.library_threads)
        refuse_other_study(there.root, problem, options.allow_changed_code)
        plan = _make_plan(options, there.root, problem, trial, where)
        _print_plan(plan)
        found = audit(_compute(options, there, problem, trial, stop), claim, options.orientation, options.limits)
    is_drawn = options.output is not None or _is_drawn(options, plan)
    drawn = _draw(is_drawn, lambda: draw_audit(found, place), picture, _again(options, "--plot"))
    if options.format == "json":
        print(to_json(found))
    else:
        print(f"{report(found)}\n\nstore: {store}\n{drawn}", end="")
    if options.show_rows:
        print_contents(found.result)
    return VIOLATED if found.verdict == VIOLATION else DONE


def _audit_pure(options: argparse.Namespace, study: Any, store: Path, claim: Any, where: Any) -> int:
    """Run a study with [pure] and judge a claim of pure ε by its limit; the exit code."""
    from hpcdp.report.verdict import report, to_json
    from hpcdp.results.verdict import VIOLATION, verify
    from hpcdp.study.problem import resolve
    from hpcdp.study.versions import refuse_other_study

    if claim.pure_level is None:
        raise StudyError(
            "audit: tests trade-off points, which a study with [pure] does not count; leave [pure] out, or claim dp(epsilon=…)"
        )
    if (
        options.sequential
        or options.orientation != "both"
        or options.limits != "exact"
        or options.output
        or options.plot
    ):
        raise StudyError(
            "audit: with [pure] accepted without --sequential, --orientation, --limits, --output and --plot"
        )
    with _settled(options, store) as there, _stoppable(where) as stop:
        problem, trial = resolve(study, _say, where.library_threads)
        refuse_other_study(there.root, problem, options.allow_changed_code)
        _print_plan(_make_plan(options, there.root, problem, trial, where))
        found = verify(_compute(options, there, problem, trial, stop), claim)
    print(to_json([found]) if options.format == "json" else f"{report([found])}\n\nstore: {store}")
    if options.show_rows:
        print_contents(found.result)
    return VIOLATED if found.verdict == VIOLATION else DONE


def _play(options: argparse.Namespace, study: Any, claim: Any, store: Path, picture: Path, where: Any) -> int:
    """A sequential audit; the exit code."""
    from hpcdp.engine.progress import on_stderr
    from hpcdp.engine.sequential_audit import Rounds, refuse_unplayable, run_sequential
    from hpcdp.report.plots_audit import draw_sequential
    from hpcdp.report.sequential import report, to_json
    from hpcdp.results.verdict import VIOLATION
    from hpcdp.study.problem import resolve

    again = shlex.join(["hpcdp", *options.given])
    is_drawn = options.plot is not False
    with _settled(options, store) as there, _stoppable(where) as stop:
        to, root = picture.absolute(), there.root
        problem, trial = resolve(study, _say, where.library_threads)
        refuse_unplayable(problem)
        rounds = Rounds.of(problem, options.batch, options.budget)
        with on_stderr() as progress:
            place, news = _place(options, stop), there.telling(progress)
            found = run_sequential(problem, trial, root, claim, options.orientation, rounds, place, news, again)
    drawn = _draw(is_drawn, lambda: draw_sequential(found, to), picture, _again(options, "--plot"))
    if options.format == "json":
        print(to_json(found))
    else:
        print(f"{report(found)}\n\nstore: {store}\n{drawn}", end="")
    return VIOLATED if found.verdict == VIOLATION else DONE


def _again(options: argparse.Namespace, word: str) -> str:
    """The command again, with an option."""
    given = [one for one in options.given if word != "--plot" or one not in ("--plot", "--no-plot")]
    end = given.index("--") if "--" in given else len(given)
    return shlex.join(["hpcdp", *given[:end], word, *given[end:]])


def _audited_claim(options: argparse.Namespace, study: Any) -> Any:
    """The claim of the command line, else the study's own."""
    from hpcdp.study.claims import parse_claim

    if options.claim is not None:
        return parse_claim(options.claim, Path.cwd())
    if study.study.claim is None:
        raise StudyError("--claim: none was given, and the study makes none; accepted: such as gaussian(mu=1)")
    return parse_claim(study.study.claim, study.folder)


def _refuse_tape(study: Any, command: str) -> None:
    """Audits count plain draws, or bet on them."""
    if study.estimate.tape:
        raise StudyError(
            f"{command}: audits, sequential ones too, are of plain draws; given: estimate.tape = true; accepted: a study "
            "without it. A claim is compared with what random tapes certify by: hpcdp verify"
        )


def _with_audited_loss(study: Any, store: Path) -> Any:
    """The study of an audit, in which a loss that chooses among others has one of these in its place; a store keeps its own."""
    from hpcdp.losses import kind_of
    from hpcdp.study.following import holds_loss

    name = study.estimate.default_loss
    other = kind_of(name).otherwise
    if other is None or holds_loss(store, name):
        return study
    return study.model_copy(update={"estimate": study.estimate.with_loss(other)})


def _with_etas(study: Any) -> Any:
    """The study, with the audit's own thresholds where it has none."""
    from hpcdp.losses import kind_of
    from hpcdp.losses.counts import audit_etas

    if kind_of(study.estimate.default_loss).way:
        raise StudyError(
            f"estimate.loss: {study.estimate.default_loss} has no L̂ of all η, so that nothing chooses among them before "
            "the test; accepted by audit: every loss that has one; by verify: this one too"
        )
    if study.estimate.reuse is not False:
        raise StudyError(
            "estimate.reuse: an audit tests one L̂ on samples that taught nothing; given: "
            f"{str(study.estimate.reuse).lower()}; accepted by audit: false"
        )
    if study.estimate.etas:
        return study
    estimate = study.estimate.model_copy(update={"etas": audit_etas()})
    return study.model_copy(update={"estimate": estimate})
