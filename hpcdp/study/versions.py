"""The study inside the store: its versions, its databases, and what may change from one version to the next."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hpcdp._base.files import parse_toml, read_bytes
from hpcdp.errors import DamagedError, StudyError
from hpcdp.keys import canonical_json, digest_array
from hpcdp.losses import kind_of, named_code, validate_parameters
from hpcdp.mechanisms import SCORES, STORED
from hpcdp.mechanisms.outputs import Schema
from hpcdp.mechanisms.user_code import import_callable, lies_in, source_digest
from hpcdp.store.databases import Database, read_databases, store_databases
from hpcdp.store.fence import discard, move, replacing
from hpcdp.store.layout import Generation, Layout, group_metadata
from hpcdp.store.records import put_json, read_json
from hpcdp.store.root import MARK, has_lost_its_root, is_store, latest_version, open_layout
from hpcdp.study.at_risk import AtRisk
from hpcdp.study.decisions import known_choice, with_known_sizes
from hpcdp.study.distributions import Distribution, known_distributions, load_distributions
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Header, MechanismSection, ProgramCall, Study
from hpcdp.study.problem import Problem
from hpcdp.study.sampler import Sampler
from hpcdp.study.section import ALWAYS, Section

_SHOWN = 80  # characters of a value in a message
_MOST_FILES = 100  # that are read to find a study's
_MOST_STUDY = 1 << 20  # bytes of one of them


def mend(layout: Layout, generation: Generation) -> Iterator[str]:
    """Write the root's metadata anew where they are damaged or missing, and set aside the study's latest records where they are
    damaged, so that the study is stored anew as if they were missing; tells of each.
    """
    if has_lost_its_root(layout):
        discard(layout, generation, layout.results)  # attributes of the root come with the results
        with replacing(layout, generation, layout.root / "zarr.json") as new:
            new.write_text(group_metadata(MARK))
        yield f"damaged: {layout.root / 'zarr.json'}; it is written anew"
    while version := latest_version(layout):
        try:
            _sound_study(layout, version)
        except DamagedError as error:
            yield f"damaged: {error}; it is written anew"
            path = layout.study(version)
            move(layout, generation, path, path.with_name(f"{path.stem}.damaged"))
        else:
            break


def _read_study(layout: Layout, version: int) -> Any:
    try:
        return _sound_study(layout, version)
    except DamagedError as error:
        raise DamagedError(f"{error}; run the study file again, which writes it anew") from None


def _sound_study(layout: Layout, version: int) -> Any:
    body = read_json(layout.study(version))
    if not _is_study(body):
        raise DamagedError(f"the record {layout.study(version)} is damaged (it is no study)")
    return body


def _earlier_study(layout: Layout, version: int) -> Any:
    """What a version held, None where it is damaged or missing and no longer needed."""
    try:
        return _sound_study(layout, version)
    except DamagedError:
        if version == latest_version(layout):
            raise
        return None


def _is_study(body: Any) -> bool:
    """Whether a record has what `save_problem` writes; the databases' names become paths."""
    kinds = {"study": dict, "folder": str, "databases": list, "schema": dict, "source": str}
    if not isinstance(body, dict) or not all(isinstance(body.get(key), kind) for key, kind in kinds.items()):
        return False
    return all(isinstance(name, str) and re.fullmatch("[0-9a-f]{32}", name) for name in body["databases"])


def load_problem(layout: Layout, version: int, allow_changed_code: bool = False) -> Problem:
    """The problem of one version, from the store and the mechanism's code; StudyError if the code changed."""
    body = _read_study(layout, version)
    study = _study_of(body)
    sampler, distributions = Sampler.of(study), load_distributions(study)
    if not allow_changed_code:
        _refuse_changed_code(body, sampler, study, distributions)
    return with_known_sizes(layout, _problem(layout, body, study, sampler, distributions))


def read_problem(layout: Layout, version: int) -> Problem:
    """The problem of one version for reading results: from the store alone, so its sampler cannot draw."""
    body = _read_study(layout, version)
    study = _study_of(body)
    distributions = known_distributions(study, body.get("shapes", ()))
    sampler = Sampler.keys_only(study, body["source"])
    return with_known_sizes(layout, _problem(layout, body, study, sampler, distributions))


def _problem(
    layout: Layout, body: dict[str, Any], study: Study, sampler: Sampler, distributions: Sequence[Distribution]
) -> Problem:
    databases = _databases_of(layout, body)
    chosen = known_choice(layout) if study.estimate.reuse == "auto" else None
    return Problem(study, databases, sampler, Schema.from_dict(body["schema"]), distributions, chosen=chosen)


def _study_of(body: dict[str, Any]) -> Study:
    """A stored study: a key that it lacks has the value that its absence means, whatever the default is by now."""
    sections: dict[str, type[Section]] = {"study": Header, "mechanism": MechanismSection, "estimate": Estimate}
    filled = {
        name: {k: key.absent for k, key in model.keys().items() if key.absent is not ALWAYS}
        | body["study"].get(name, {})
        for name, model in sections.items()
        if name in body["study"]  # a study with [at_risk] has none but its own
    }
    return Study.from_dict(body["study"] | filled, body["folder"])


def going_on(study: Study, root: Path) -> Study:
    """The study for the store at a path, if there is one: keys that the file leaves out and the store lacks mean what their
    absence in a store means, so that a newer default makes no other study of it; some mean what the store says.
    """
    held = _held(root)
    return _following(study, held[-1], held[:-1]) if held else study


def _held(root: Path) -> list[dict[str, Any]]:
    """The studies of a store's versions that are whole, the latest last; none without a store, or where the latest is damaged."""
    if not is_store(root):
        return []
    layout = open_layout(root)
    version = latest_version(layout)
    with contextlib.suppress(DamagedError):  # the run says so, and writes it anew
        bodies = [_earlier_study(layout, number) for number in range(1, version + 1)]
        return [body["study"] for body in bodies if body is not None]
    return []


def _following(study: Study, stored: dict[str, Any], earlier: Sequence[dict[str, Any]] = ()) -> Study:
    """The study of a file, for a store that holds this one and held earlier ones."""
    if (study.at_risk is None) != (stored.get("at_risk") is None):
        return study
    for name in ("study",) if study.at_risk is not None else ("study", "mechanism", "estimate"):
        section, known = getattr(study, name), stored[name]
        update = {
            k: known.get(k, key.absent)
            for k, key in section.keys().items()
            if key.absent is not ALWAYS and k not in section.model_fields_set and (key.kept or k not in known)
        }
        study = study.model_copy(update={name: section.model_copy(update=update)})
    if study.at_risk is not None:
        return study
    kept = stored["estimate"]
    given = _with_loss_of_store(study, [*(one["estimate"] for one in earlier if "estimate" in one), kept])
    study = study.model_copy(update={"estimate": given})
    if _mean_the_same(given.default_loss, given.parameters, kept):
        study = study.model_copy(update={"estimate": given.model_copy(update={"parameters": kept["parameters"]})})
    return study


def _may_be_either(given: Estimate, kept: dict[str, Any]) -> bool:
    """Whether a file names no loss, and a store's is the default or what takes its place: either may follow the other."""
    default = Estimate.model_fields["loss"].default
    return "loss" not in given.model_fields_set and kept["loss"] in (default, kind_of(default).otherwise)


def _with_loss_of_store(study: Study, held: Sequence[dict[str, Any]]) -> Estimate:
    """[estimate] with the loss that a store has, where the file names none, and sizes that are left out as the store has them.

    held: [estimate] of each version. A store that was made with the default goes back to it when what took its place is left out.
    """
    given, kept, default = study.estimate, held[-1], Estimate.model_fields["loss"].default
    if not _may_be_either(given, kept):
        return given
    if study.is_drawn_for_cells:
        given = given.with_loss(default if any(one["loss"] == default for one in held) else kept["loss"])
    if (kept["train"], kept["test"]) != kind_of(default).sizes:
        return given
    left_out = {"train", "test"} - given.model_fields_set
    return given.model_copy(update={key: kept[key] for key in left_out})


def holds_loss(root: Path, name: str) -> bool:
    """Whether there is a store at a path whose study names this loss."""
    held = _held(root)
    return bool(held) and held[-1].get("estimate", {}).get("loss") == name


def _mean_the_same(loss: str, parameters: dict[str, Any], kept: dict[str, Any]) -> bool:
    """Whether a loss's parameters, with the defaults that either leaves out, are those of a stored study."""
    old, stored = kept["loss"], kept["parameters"]
    if loss != (old if isinstance(old, str) else old[0]) or named_code(loss, parameters) or named_code(loss, stored):
        return False
    with contextlib.suppress(ValueError):
        return validate_parameters(loss, parameters) == validate_parameters(loss, stored)
    return False


def stored_study(layout: Layout, version: int) -> Study:
    """The study of one version, without loading its databases or mechanism."""
    body = _read_study(layout, version)
    return _study_of(body)


def stored_databases(layout: Layout, version: int) -> list[Database]:
    """The databases of one version; DamagedError where one is missing or not whole."""
    return _databases_of(layout, _read_study(layout, version))


def _own_sources(study: Study, distributions: Sequence[Distribution]) -> dict[str, str]:
    """Digests of code that is neither the mechanism's nor an installed package's, by the key that names it."""
    found = {f"pairs.distributional: the source of {d.call}": d.source for d in distributions}
    called = None if study.at_risk is None else study.at_risk.population.call
    if called is not None:
        found[f"at_risk.population.call: the source of {called}"] = source_digest(called, study.folder)
    if (declared := study.mechanism.impossible) is not None:
        import_callable(declared, study.folder, "mechanism.impossible")
        found[f"mechanism.impossible: the source of {declared}"] = source_digest(declared, study.folder)
    path = named_code(study.estimate.default_loss, study.estimate.parameters)
    key = "loss" if path == study.estimate.default_loss else "parameters"
    if path is not None:
        import_callable(path, study.folder, f"estimate.{key}")
    if path is not None and (key == "loss" or lies_in(path, study.folder)):
        found[f"estimate.{key}: the source of {path}"] = source_digest(path, study.folder)
    return found


def _refuse_changed_code(
    body: dict[str, Any], sampler: Sampler, study: Study, distributions: Sequence[Distribution]
) -> None:
    """StudyError when the code of a stored study is another now."""
    before, call = body.get("sources", {}), study.mechanism.call
    now = _own_sources(study, distributions)
    changed = [what for what, digest in now.items() if before.get(what, digest) != digest]
    changed += [
        what for what in before if what.startswith("estimate.") and what not in now
    ]  # it comes from elsewhere now
    if sampler.source != body["source"]:
        command = call.command if isinstance(call, ProgramCall) else None
        what = f"the command or a file that it names, {command}" if command else f"the source of {call}"
        what = "the stored samples' files" if call == STORED else what
        what = "the models' files, or the source of their score," if call == SCORES else what
        key = "mechanism.call" if study.at_risk is None else "at_risk.query"
        changed.insert(0, f"{key}: {what}")
    if changed:
        moved = Path(body["folder"]) != study.folder.resolve()
        where = f" from that in {body['folder']}" if moved else ""
        raise StudyError(
            f"{changed[0]} changed{where} since the store was made; --allow-changed-code goes on all the same"
        )


def save_problem(layout: Layout, problem: Problem, generation: Generation, allow_changed_code: bool) -> int:
    """Make this problem the store's latest version, unless it is already; returns the version.

    Raises StudyError naming the keys when it differs from the stored study in more than additions.
    """
    version = latest_version(layout)
    digests = [digest_array(database) for database in problem.databases]
    body: dict[str, Any] = {
        "study": problem.study.to_stored(),
        "folder": str(problem.study.folder.resolve()),
        "databases": digests,
        "schema": problem.schema.to_dict(),
        "source": problem.sampler.source,
    }
    if problem.distributions:
        body["shapes"] = [list(distribution.shape) for distribution in problem.distributions]
    sources = _own_sources(problem.study, problem.distributions)
    if sources:
        body["sources"] = sources
    old = _read_study(layout, version) if version else None
    if old is not None:
        # first: another callable has another source too
        refuse_changes(layout.root, _either_way(old, problem.study), body)
        if not allow_changed_code:
            _refuse_changed_code(old, problem.sampler, problem.study, problem.distributions)
        if old["schema"] != body["schema"]:
            words = _change("the outputs of mechanism.call", old["schema"], body["schema"])
            raise StudyError(f"{layout.root} holds another study; changed: {words}; give another --store")
    store_databases(layout, dict(zip(digests, problem.databases, strict=True)), generation)
    if _same(old, body):  # another folder is another version: workers import from the folder that a version names
        return version
    put_json(layout, layout.study(version + 1), body, generation)
    return version + 1


def _databases_of(layout: Layout, body: dict[str, Any]) -> list[Database]:
    """A stored study's databases in turn; one may be in many pairs."""
    digests = body["databases"]
    known = read_databases(layout, digests)
    for digest in digests:
        if digest not in known:
            where = layout.relative(layout.database(digest))
            raise DamagedError(
                f"{where} in {layout.root} is damaged or missing; run the study file again, which stores it anew"
            )
        known[digest].setflags(write=False)
    return [known[digest] for digest in digests]


def _either_way(old: dict[str, Any], study: Study) -> dict[str, Any]:
    """What a store held, with the study's loss in place of its own where the file names none of both."""
    kept = old["study"].get("estimate")
    if study.at_risk is not None or kept is None or not _may_be_either(study.estimate, kept):
        return old
    return {**old, "study": {**old["study"], "estimate": {**kept, "loss": study.estimate.loss}}}


def refuse_changes(root: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """StudyError naming every key in which `new` is more than an addition to `old` (contract of the study file)."""
    before, after = old["study"], new["study"]
    if "at_risk" in before or "at_risk" in after:
        _refuse_other_pairs(root, old, new)
        return
    changed = [
        words
        for section, model in (("study", Header), ("mechanism", MechanismSection), ("estimate", Estimate))
        for words in _changed_keys(section, model, before[section], after[section])
    ]
    changed += _changes("pure", before.get("pure"), after.get("pure"))
    changed += _changed_pairs(old, new)
    if changed:
        file = _file_of(old)
        own = f", that of {file}, which has the same name" if file else ""
        raise StudyError(
            f"{root} holds another study{own}; changed: {'; '.join(changed)}; accepted: databases of T or distributions of Δ "
            "added, changed or removed; more given pairs, epsilons, etas, test or train samples; for anything else give "
            f"{'another study.name or ' if file else ''}another --store"
        )


def _refuse_other_pairs(root: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """The same where one of both is a study with [at_risk]."""
    before, after = (body["study"].get("at_risk") for body in (old, new))
    changed = _changed_keys("study", Header, old["study"]["study"], new["study"]["study"])
    if before is None or after is None:
        changed.append(f"at_risk (the store's study has {'none' if before is None else 'it'})")
    else:
        changed += _changed_keys("at_risk", AtRisk, before, after)
        if not changed and old["databases"] != new["databases"]:
            changed.append(f"the rows of {after['population']['file']}")
    if changed:
        raise StudyError(
            f"{root} holds another study; changed: {'; '.join(changed)}; accepted: more pairs, another cover or confidence; for "
            "anything else give another --store"
        )


def _changed_keys(section: str, model: type[Section], old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What changed in a section that may not, key by key, in words."""
    found = []
    for name, key in model.keys().items():
        a: Any
        b: Any
        a, b = (values.get(name, None if key.absent is ALWAYS else key.absent) for values in (old, new))
        where = f"{section}.{name}"
        if key.may == "stay":
            found += _changes(where, a, b)
        elif key.may == "grow" and (b or 0) < (a or 0):
            found.append(f"{_change(where, a, b)} (may only grow)")
        elif key.may == "gain" and not (key.added is not None and tuple(a) == key.added()):
            left_out = sorted(set(a) - set(b))
            found += [f"{where} without {_brief(left_out)} (points may only be added)"] if left_out else []
    return found


def _changes(key: str, old: Any, new: Any) -> list[str]:
    """The keys below this one whose values differ, with both values; of tables those of their keys."""
    if key == "mechanism.call" and isinstance(old, dict) != isinstance(new, dict):
        old, new = ({"command": call["command"]} if isinstance(call, dict) else call for call in (old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        program = ProgramCall.keys() if key == "mechanism.call" else {}
        names = [k for k in dict.fromkeys([*old, *new]) if k not in program or program[k].may != "change"]
        return [words for k in names for words in _changes(f"{key}.{k}", old.get(k), new.get(k))]
    is_handed_on = ".parameters." in key  # to code that may tell 1, 1.0 and true apart, as keys of laws and models do
    return [] if (_same(old, new) if is_handed_on else old == new) else [_change(key, old, new)]


def _same(old: Any, new: Any) -> bool:
    """Whether both are one in a record, where 1, 1.0 and true are three."""
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def _change(key: str, old: Any, new: Any) -> str:
    return f"{key} ({_brief(old)} in the store, {_brief(new)} given)"


def _brief(value: Any) -> str:
    text = "none" if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def _file_of(body: dict[str, Any]) -> Path | None:
    """The study file from which a stored study came, where one in its folder still says the same."""
    folder = Path(body["folder"])
    try:
        if folder.stat().st_uid != os.geteuid():  # the record, and what lies there, may be a stranger's
            return None
        paths = sorted(folder.glob("*.toml"))[:_MOST_FILES]
    except (OSError, ValueError):
        return None
    for path in paths:
        with contextlib.suppress(StudyError, ValueError, OSError):
            text = read_bytes(path, _MOST_STUDY).decode()
            if (
                _following(Study.from_dict(parse_toml(text), folder.resolve()), body["study"]).to_stored()
                == body["study"]
            ):
                return path
    return None


def _changed_pairs(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    a, b = old["study"]["pairs"], new["study"]["pairs"]
    kinds = [next(k for k, value in p.items() if value is not None) for p in (a, b)]
    if kinds[0] != kinds[1]:
        return [f"pairs ({kinds[0]} became {kinds[1]})"]
    if kinds[0] == "given":
        pairs = [list(zip(s["databases"][::2], s["databases"][1::2], strict=True)) for s in (old, new)]
        return [] if set(pairs[0]) <= set(pairs[1]) else ["pairs.given (pairs may only be added)"]
    if kinds[0] == "distributional":
        return []  # Δ may change freely, as T may: a pair's records are keyed by what it is
    if kinds[0] == "domain":
        return _changes("pairs.domain", a["domain"], b["domain"])
    before, after = a["relative"], b["relative"]
    changed = [
        _change(f"pairs.relative.{k}", before[k], after[k]) for k in ("relation", "values") if before[k] != after[k]
    ]
    added = after["rows"] == "all" or (before["rows"] != "all" and set(before["rows"]) <= set(after["rows"]))
    words = f"{_change('pairs.relative.rows', before['rows'], after['rows'])} (rows may only be added)"
    return changed + ([] if added else [words])


def history(layout: Layout) -> list[str]:
    """What every version of the study asked for, in words, oldest first."""
    bodies = [body for version in range(1, latest_version(layout) + 1) if (body := _earlier_study(layout, version))]
    now = set(_inputs(bodies[-1])) if bodies else set()
    found = []
    for body in bodies:
        if section := body["study"].get("at_risk"):
            found.append(f"{section['pairs']:,} pairs")
            continue
        estimate, relative = body["study"]["estimate"], body["study"]["pairs"]["relative"]
        rows = "" if relative is None or relative["rows"] == "all" else f" ({len(relative['rows'])} rows)"
        lost = sum(one not in now for one in _inputs(body))
        what = f"{len(_inputs(body))} {'databases' if body['databases'] else 'distributions'}{rows}"
        what += f", of which {lost} changed or left out since" if lost else ""
        if (loss := estimate["loss"]) != bodies[-1]["study"]["estimate"]["loss"]:
            what += f", loss {loss if isinstance(loss, str) else ', '.join(loss)}"
        found.append(
            f"train {estimate['train']:,}, {_later(estimate)}, {len(estimate['epsilons'])} ε, "
            f"{len(estimate['etas'])} η, {_certified(estimate)}{what}"
        )
    return found


def _certified(estimate: dict[str, Any]) -> str:
    chosen = estimate.get("certify")
    return f"certified at ε = {', '.join(f'{epsilon:g}' for epsilon in chosen)}, " if chosen else ""


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
