"""What a store holds of its study: each version's study, databases, code and history, read without the mechanism.

And what runs decide once for it: sizes, one record a decision, and whether samples are reused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from hpcdp.errors import DamagedError
from hpcdp.keys import canonical_json, digest_json
from hpcdp.mechanisms import SCORES, STORED
from hpcdp.store.databases import Database, lost_place, read_databases
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import commit, read_json, read_record, record_names, set_aside
from hpcdp.store.root import latest_version
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Header, Study
from hpcdp.study.mechanism import FunctionCall, MechanismSection, ProgramCall
from hpcdp.study.problem import Problem, Sizes
from hpcdp.study.section import ALWAYS, Section


def read_study_record(layout: Layout, version: int) -> Any:
    try:
        return sound_study(layout, version)
    except DamagedError as error:
        raise DamagedError(f"{error}; run the study file again, which writes it anew") from None


def sound_study(layout: Layout, version: int) -> Any:
    body = read_json(layout.study(version))
    # what `save_problem` writes; the databases' names become paths
    kinds = {"study": dict, "folder": str, "databases": list, "schema": dict, "source": str}
    is_study = isinstance(body, dict) and all(isinstance(body.get(key), kind) for key, kind in kinds.items())
    if not is_study or not all(isinstance(d, str) and re.fullmatch("[0-9a-f]{32}", d) for d in body["databases"]):
        raise DamagedError(f"the record {layout.study(version)} is damaged (it is no study)")
    return body


def whole_versions(layout: Layout) -> list[Any]:
    """What the versions of a store held, but for damaged ones that are no longer needed; the latest last."""
    studies, last = [], latest_version(layout)
    for version in range(1, last + 1):
        try:
            studies.append(sound_study(layout, version))
        except DamagedError:
            if version == last:
                raise
    return studies


def stored_study(layout: Layout, version: int) -> Study:
    """The study of one version, without loading its databases or mechanism."""
    return study_of(read_study_record(layout, version))


def study_of(body: dict[str, Any]) -> Study:
    """A stored study: a key that it lacks has the value that its absence means, whatever the default is by now."""
    sections: dict[str, type[Section]] = {"study": Header, "mechanism": MechanismSection, "estimate": Estimate}
    filled = {
        name: {k: key.absent for k, key in model.keys().items() if key.absent is not ALWAYS}
        | body["study"].get(name, {})
        for name, model in sections.items()
        if name in body["study"]  # a study with [at_risk] has none but its own
    }
    return Study.from_dict(body["study"] | filled, body["folder"])


def stored_databases(layout: Layout, version: int) -> list[Database]:
    """The databases of one version; DamagedError where one is missing or not whole."""
    return databases_of(layout, read_study_record(layout, version))


def databases_of(layout: Layout, body: dict[str, Any]) -> list[Database]:
    """A stored study's databases in turn; one may be in many pairs."""
    digests = body["databases"]
    known = read_databases(layout, digests)
    for digest in digests:
        if digest not in known:
            where = layout.relative(lost_place(layout, digest))
            raise DamagedError(
                f"{where} in {layout.root} is damaged or missing; run the study file again, which stores it anew"
            )
        known[digest].setflags(write=False)
    return [known[digest] for digest in digests]


def changed_code(layout: Layout, study: Study) -> list[str]:
    """Code that was another in an earlier version of the store: what was drawn until then is not of the present one."""
    known: dict[str, set[str]] = {}
    own: dict[str, Any] = {}
    is_program = isinstance(study.mechanism.call, ProgramCall)  # whose command may hold paths, which no page shows
    name = "mechanism.call: the command or a file that it names" if is_program else code_of(study)
    for body in whole_versions(layout):
        own = {name: body["source"], **body.get("sources", {})}
        for what, digest in own.items():
            known.setdefault(what, set()).add(str(digest))
    gone = {what for what in known if what.startswith("estimate.") and what not in own}
    return [what for what, digests in known.items() if len(digests) > 1 or what in gone]


def code_of(study: Study) -> str:
    """What a stored digest of the source is of, by the key that names it."""
    call, key = study.mechanism.call, "mechanism.call" if study.at_risk is None else "at_risk.query"
    if call == STORED:
        return f"{key}: the stored samples' files"
    if call == SCORES:
        return f"{key}: the models' files, or the source of their score,"
    if isinstance(call, FunctionCall):
        return f"{key}: {call.function}, or what it reads,"
    if isinstance(call, ProgramCall) and call.command:
        return f"{key}: the command or a file that it names, {call.command}"
    return f"{key}: the source of {call}"


def changed_words(changed: Sequence[str]) -> list[str]:
    """That numbers are of code that is there no more."""
    return [
        f"{what} changed since the first draws of this store were made, as was allowed (--allow-changed-code): what was drawn "
        "until then is of the earlier one, and so are these numbers, or a part of what they are made of"
        for what in changed
    ]


def history(layout: Layout) -> list[str]:
    """What every version of the study asked for, in words, oldest first."""
    bodies = whole_versions(layout)
    now = set(_inputs(bodies[-1])) if bodies else set()
    lines = []
    for body in bodies:
        if section := body["study"].get("at_risk"):
            lines.append(f"{section['pairs']:,} pairs")
            continue
        estimate, relative = body["study"]["estimate"], body["study"]["pairs"]["relative"]
        rows = "" if relative is None or relative["rows"] == "all" else f" ({len(relative['rows'])} rows)"
        lost = sum(one not in now for one in _inputs(body))
        what = f"{len(_inputs(body))} {'databases' if body['databases'] else 'distributions'}{rows}"
        what += f", of which {lost} changed or left out since" if lost else ""
        if (loss := estimate["loss"]) != bodies[-1]["study"]["estimate"]["loss"]:
            what += f", loss {loss if isinstance(loss, str) else ', '.join(loss)}"
        chosen = ", ".join(f"{epsilon:g}" for epsilon in estimate.get("certify") or ())
        certified = f"certified at ε = {chosen}, " if chosen else ""
        lines.append(
            f"train {estimate['train']:,}, {_later(estimate)}, {len(estimate['epsilons'])} ε, "
            f"{len(estimate['etas'])} η, {certified}{what}"
        )
    return lines


def _later(estimate: dict[str, Any]) -> str:
    """What decides the draws after training, in words."""
    if estimate.get("target"):
        return f"target {', '.join(f'{k} {v:g}' for k, v in estimate['target'].items() if isinstance(v, float))}"
    if estimate.get("time"):
        return f"time {estimate['time']}"
    refine = f"refine {estimate['refine']:,}, " if estimate.get("refine") else ""
    reuse = estimate.get("reuse")
    return f"{refine}test {estimate['test']:,}" + (f", reuse {str(reuse).lower()}" if reuse else "")


def _inputs(body: dict[str, Any]) -> list[Any]:
    """What tells the databases or distributions of a stored study apart: digests, or tables as JSON."""
    return list(body["databases"]) or [
        canonical_json(table) for table in body["study"]["pairs"]["distributional"] or ()
    ]


_REUSE = {"reuse": True, "no-reuse": False}


def known_sizes(layout: Layout, problem: Problem) -> dict[str, Sizes]:
    """The latest decision of every pair of a study with a target, by pilot key; what is damaged is decided anew."""
    own = set(problem.pilot_keys)
    steps = (_decided(layout, name) for name in _steps(layout, problem))
    return {pilot: sizes for step in steps for pilot, sizes in step.items() if pilot in own}


def set_sizes_aside(layout: Layout, pilots: AbstractSet[str]) -> None:
    """Take every decision about these pairs out of use."""
    for name in record_names(layout, "sizes"):
        if pilots & _decided(layout, name).keys():
            set_aside(layout, "sizes", name)


def commit_sizes(
    layout: Layout, problem: Problem, sizes: Mapping[str, Sizes], why: Mapping[str, Any], generation: Generation
) -> None:
    """Record one decision, sizes by pilot key, and what it rests on, before anything acts on it."""
    pairs = {
        pilot: [s.refine, s.validation, s.test, *s.split, s.screen, *(s.d_prime if any(s.d_prime) else ())]
        for pilot, s in sizes.items()
    }
    last = max((int(name.rpartition("-")[2]) for name in _steps(layout, problem)), default=-1)
    commit(layout, "sizes", f"{_key(problem)}-{last + 1:06d}", {"pairs": pairs, "why": dict(why)}, generation)


def with_decisions(layout: Layout, problem: Problem) -> Problem:
    """The problem with what runs into this store have decided; as it is where nothing is to decide."""
    if problem.study.estimate.reuse == "auto" and problem.chosen is None:
        problem = replace(problem, chosen=known_choice(layout))
    return problem.sized(known_sizes(layout, problem)) if problem.study.estimate.has_budget else problem


def _decided(layout: Layout, name: str) -> dict[str, Sizes]:
    """Sizes by pilot key of one decision; none where it is damaged."""
    try:
        pairs = read_record(layout, "sizes", name)["pairs"]
    except DamagedError:
        return {}
    return {
        pilot: Sizes(refine, validation, test, (d, d_prime), screen, tuple(more) or (0, 0))
        for pilot, (refine, validation, test, d, d_prime, screen, *more) in pairs.items()
    }


def _steps(layout: Layout, problem: Problem) -> list[str]:
    """Names of the decisions about this target, in order."""
    head = f"{_key(problem)}-"
    return sorted(name for name in record_names(layout, "sizes") if name.startswith(head))


def _key(problem: Problem) -> str:
    target, time = problem.study.estimate.target, problem.study.estimate.time
    return digest_json(["target", time if target is None else target.model_dump(mode="json")])


def known_choice(layout: Layout) -> bool | None:
    """Whether samples of this store are reused; None where no run has chosen yet."""
    names = record_names(layout, "choices")
    return next((reuse for name, reuse in _REUSE.items() if name in names), None)


def commit_choice(layout: Layout, reuse: bool, why: Mapping[str, Any], generation: Generation) -> None:
    """Record the choice, and what it rests on, before anything acts on it."""
    name = next(name for name, value in _REUSE.items() if value == reuse)
    commit(layout, "choices", name, dict(why), generation)
