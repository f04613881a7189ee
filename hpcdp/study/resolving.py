"""From a study to a problem: databases, mechanism and trial draws; code that the study names runs in a child process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from hpcdp._base.doing import Listener, tell
from hpcdp._base.node import NodeExecutor, ProcessDied
from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms.stored import StoredSamples
from hpcdp.mechanisms.user_code import Parcel
from hpcdp.notions.anchors import warm
from hpcdp.store.layout import Layout
from hpcdp.study.claims import parse_claim
from hpcdp.study.databases import Database, Pair, enumerate_pairs, load_databases
from hpcdp.study.distributions import known_distributions, load_distributions
from hpcdp.study.file import Study
from hpcdp.study.named_code import names_code, own_sources
from hpcdp.study.problem import Problem, each_once
from hpcdp.study.sampler import TRIAL_SIZE, Sampler, name_mechanism
from hpcdp.study.trial_draws import Trial, try_out, unanswered
from hpcdp.study.versions import load_problem, read_problem

Note = Callable[[str], None]
Found = tuple[Problem, Trial]


def resolve(study: Study, note: Note = lambda _: None, threads: int = 1) -> tuple[Problem, Trial]:
    """Load databases and try the mechanism out; StudyError on anything wrong. Code that is named runs in a child process."""
    if not names_code(study):
        return _resolved(study, threads, note)
    if not study.mechanism.isolated:
        note("mechanism.isolated = false is ignored: the study's code always runs in processes of its own")
    problem, trial = _in_child(study, note, _resolved, study.without_objects(), threads)
    for database in problem.databases:
        database.setflags(write=False)
    return (replace(problem, study=study) if problem.study.to_dict() == study.to_dict() else problem), trial


def resolve_stored(
    layout: Layout, version: int, allow_changed_code: bool, note: Note = lambda _: None, threads: int = 1
) -> tuple[Problem, Trial]:
    """The problem of one version of a store, tried out again; StudyError also where its code changed and that is not allowed."""
    problem = read_problem(layout, version)
    if not names_code(problem.study):
        return _stored(layout, version, allow_changed_code, threads, note)
    where = Layout(layout.root.resolve()), version, allow_changed_code, threads
    stored, trial = _in_child(problem.study, note, _stored, *where)
    return replace(problem, sampler=stored.sampler, sources=stored.sources), trial


def _in_child(study: Study, note: Note, function: Callable[..., Found], *arguments: Any) -> Found:
    """What a function finds in a process of its own, which ends with it; StudyError where it ends before."""
    parcel = Parcel.of(name_mechanism(study), study.handed) if study.handed else None
    call = (_apart, (function, *arguments)) if parcel is None else (parcel.call, (_apart, function, *arguments))
    with NodeExecutor(1, Listener(note).hear) as node:
        try:
            future = node.submit_pickled(pickle.dumps((*call, {})))
            warm()  # what results need, while this process would wait
            return cast(Found, future.result())
        except ProcessDied as died:
            if died.limit is not None:
                words = f"{unanswered(died.limit)} (seen in trial draws)"
                raise StudyError(f"{Sampler.keys_only(study, '').named}: {words}") from None
            raise StudyError(str(died)) from None


def _apart(function: Callable[..., Found], *arguments: Any) -> Found:
    """In a child: what a function finds, as it is told to the parent, where the problem cannot draw."""
    problem, trial = function(*arguments, lambda text: tell(note=text))
    study, shapes = problem.study, [distribution.shape for distribution in problem.distributions]
    sampler, distributions = Sampler.keys_only(study, problem.sampler.source), known_distributions(study, shapes)
    sources = own_sources(study, problem.distributions)
    return Problem(study, problem.databases, sampler, trial.schema, distributions, sources=sources), trial


def _stored(layout: Layout, version: int, allow_changed_code: bool, threads: int, note: Note) -> Found:
    problem = load_problem(layout, version, allow_changed_code)
    trial = _tried(problem.study, problem.sampler, problem.pairs, note, threads)
    problem.study.method.refuse_outputs(problem, trial)
    return problem, trial


def _resolved(study: Study, threads: int, note: Note) -> Found:
    databases, distributions = load_databases(study), load_distributions(study)
    sampler = Sampler.of(study)
    if isinstance(sampler.mechanism, StoredSamples):
        study = _with_halves(study, sampler.mechanism, databases)
        e = study.estimate
        sampler = replace(sampler, chunk=min(e.chunk, max(e.train, e.test)))
    trial = _tried(study, sampler, enumerate_pairs(study, databases, distributions), note, threads)
    problem = Problem(study, databases, sampler, trial.schema, distributions)
    study.method.refuse_outputs(problem, trial)
    if study.study.claim is not None:
        try:
            parse_claim(study.study.claim, study.folder)
        except StudyError as error:
            raise StudyError(f"study.claim: {error}") from None
    if problem.declared is not None:
        law, size = problem.pair_laws[0][1], TRIAL_SIZE
        outputs = sampler.trial(problem.laws[law], size, 0, problem.schema)
        try:
            problem.declared.refuse(outputs, f"{size} trial draws of {problem.describe_law(law)}")
        except MechanismError as error:
            raise StudyError(str(error)) from None
    return problem, trial


def _tried(study: Study, sampler: Sampler, pairs: Sequence[Pair], note: Note, threads: int) -> Trial:
    """What trial draws show; StudyError where the mechanism is wrong."""
    needed = study.estimate.train + study.estimate.test
    return try_out(sampler, each_once(pairs), needed, note, threads, study.method.time_draws)


def _with_halves(study: Study, stored: StoredSamples, databases: Sequence[Database]) -> Study:
    """The study with sizes for stored outputs that are fewer than the defaults: halves of the smallest file, or its rest."""
    e = study.estimate
    left_out = [key for key in ("train", "test") if key not in e.model_fields_set]
    if not left_out:
        return study
    try:
        total = min(stored.total(database) for database in databases)
    except MechanismError as error:
        raise StudyError(f"mechanism.call {study.mechanism.call}: {error}") from None
    if total >= e.train + e.test or total < 2:
        return study
    rest = total // 2 if len(left_out) == 2 else total - getattr(e, "test" if left_out == ["train"] else "train")
    sizes = {key: max(1, min(getattr(e, key), rest)) for key in left_out}
    return Study.from_dict({**study.to_dict(), "estimate": {**study.to_dict()["estimate"], **sizes}}, study.folder)
