"""Problems and the versions of a store: loaded from one, stored as the next, and refused where they are another study's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcdp._base.asked import option
from hpcdp.errors import DamagedError, StoreError, StudyError
from hpcdp.keys import digest_array
from hpcdp.mechanisms.outputs import Schema
from hpcdp.store.databases import store_databases
from hpcdp.store.fence import discard, replacing
from hpcdp.store.layout import Generation, Layout, group_metadata
from hpcdp.store.records import commit, has_record, put_json, read_record, record_names
from hpcdp.store.root import MARK, has_lost_its_root, is_store, latest_version, open_layout
from hpcdp.study.changes import describe_change, may_be_either, refuse_changes, same
from hpcdp.study.distributions import Distribution, known_distributions, load_distributions
from hpcdp.study.file import Study
from hpcdp.study.named_code import own_sources
from hpcdp.study.problem import Problem
from hpcdp.study.sampler import Sampler
from hpcdp.study.stored import code_of, databases_of, read_study_record, sound_study, study_of, with_decisions

_STUDY = "study"  # kind of records: a copy of each version


def mend(layout: Layout, generation: Generation) -> Iterator[str]:
    """Write anew, and tell, what is damaged of the root's metadata and the study's versions; StoreError where none is whole."""
    if has_lost_its_root(layout):
        discard(layout, generation, layout.results)  # attributes of the root come with the results
        with replacing(layout, generation, layout.root / "zarr.json") as new:
            new.write_text(group_metadata(MARK))
        yield f"damaged: {layout.root / 'zarr.json'}; it is written anew"
    copied = {int(name) for name in record_names(layout, _STUDY) if name.isdigit()}
    versions = sorted({*range(1, latest_version(layout) + 1), *copied})
    for version in versions:
        try:
            sound_study(layout, version)
            continue
        except DamagedError as error:
            words = str(error)
        if (body := _copy_of(layout, version)) is not None:
            yield f"damaged: {words}; it is written anew"
            put_json(layout, layout.study(version), body, generation)
        elif version == versions[-1]:
            if any(record_names(layout, kind) for kind in ("samples", "packs", "fits", "counts", "pilots")):
                raise StoreError(
                    f"{words}, and so is its copy; nothing tells any more which study the store's counts are of; give another "
                    f"{option('store')}, or a copy of that file"
                )
            yield f"damaged: {words}; it is written anew"
            discard(layout, generation, layout.study(version))


def _copy_of(layout: Layout, version: int) -> Any:
    """A version as the journals hold it; None where they do not."""
    try:
        return read_record(layout, _STUDY, str(version))["body"]
    except (DamagedError, KeyError):
        return None


def load_problem(layout: Layout, version: int, allow_changed_code: bool = False) -> Problem:
    """The problem of one version, from the store and the mechanism's code; StudyError if the code changed."""
    body = read_study_record(layout, version)
    study = study_of(body)
    sampler, distributions = Sampler.of(study), load_distributions(study)
    sources = own_sources(study, distributions)
    if not allow_changed_code:
        _refuse_changed_code(body, sampler.source, study, sources)
    problem = replace(_problem(layout, body, study, sampler, distributions), sources=sources)
    return with_decisions(layout, problem)


def read_problem(layout: Layout, version: int) -> Problem:
    """The problem of one version for reading results: from the store alone, so its sampler cannot draw."""
    body = read_study_record(layout, version)
    study = study_of(body)
    distributions = known_distributions(study, body.get("shapes", ()))
    sampler = Sampler.keys_only(study, body["source"])
    return with_decisions(layout, _problem(layout, body, study, sampler, distributions))


def _problem(
    layout: Layout, body: dict[str, Any], study: Study, sampler: Sampler, distributions: Sequence[Distribution]
) -> Problem:
    databases = databases_of(layout, body)
    schema, chosen = Schema.from_dict(body["schema"]), body.get("chosen")
    return Problem(study, databases, sampler, schema, distributions, chosen=chosen)


def _refuse_changed_code(body: dict[str, Any], source: str, study: Study, now: Mapping[str, str]) -> None:
    """StudyError when the code of a stored study is another now. source, now: digests of the mechanism's code, and of others."""
    before = body.get("sources", {})
    changed = [what for what, digest in now.items() if before.get(what, digest) != digest]
    changed += [what for what in before if what.startswith("estimate.") and what not in now]  # it is elsewhere now
    if source != body["source"]:
        changed.insert(0, code_of(study))
    if changed:
        moved = Path(body["folder"]) != study.folder.resolve()
        where = f" from that in {body['folder']}" if moved else ""
        raise StudyError(
            f"{changed[0]} changed{where} since the store was made, so the store's numbers describe the earlier version; "
            f"accepted: another {option('store')} or study.name, which measures it anew. "
            f"If the distribution of outputs is unchanged, {option('allow_changed_code', True)} "
            "goes on all the same, with a warning"
        )


def save_problem(layout: Layout, problem: Problem, generation: Generation, allow_changed_code: bool) -> int:
    """Make this problem the store's latest version, which is returned; StudyError where it differs in more than additions."""
    version, body = latest_version(layout), _body_of(problem)
    old = read_study_record(layout, version) if version else None
    if old is not None:
        _refuse_other(layout.root, old, body, problem, allow_changed_code)
    store_databases(layout, dict(zip(body["databases"], problem.databases, strict=True)), generation)
    if not same(old, body):  # another folder is another version: workers import from the folder that a version names
        version += 1
        put_json(layout, layout.study(version), body, generation)
    if not has_record(layout, _STUDY, str(version)):  # after the file, else a version that never was would be taken
        commit(layout, _STUDY, str(version), {"body": body}, generation)
    return version


def refuse_other_study(root: Path, problem: Problem, allow_changed_code: bool) -> None:
    """StudyError where a store is there that holds another study, as `save_problem`; before anything is planned or written."""
    with contextlib.suppress(DamagedError):  # the run says so, and writes it anew
        if is_store(root) and (version := latest_version(layout := open_layout(root))):
            old = read_study_record(layout, version)
            _refuse_other(root, old, _body_of(problem), problem, allow_changed_code)


def _body_of(problem: Problem) -> dict[str, Any]:
    """A problem as a version of a store holds it."""
    body: dict[str, Any] = {
        "study": problem.study.to_stored(),
        "folder": str(problem.study.folder.resolve()),
        "databases": [digest_array(database) for database in problem.databases],
        "schema": problem.schema.to_dict(),
        "source": problem.sampler.source,
    }
    if problem.distributions:
        body["shapes"] = [list(distribution.shape) for distribution in problem.distributions]
    if problem.sources:
        body["sources"] = dict(problem.sources)
    return body


def _refuse_other(
    root: Path, old: dict[str, Any], body: dict[str, Any], problem: Problem, allow_changed_code: bool
) -> None:
    """StudyError where a stored study, or its code, is another than a problem's."""
    kept, study, known = old["study"].get("estimate"), problem.study, old
    if study.at_risk is None and kept is not None and may_be_either(study.estimate, kept):  # the file names no loss
        known = {**old, "study": {**old["study"], "estimate": {**kept, "loss": study.estimate.loss}}}
    refuse_changes(root, known, body)  # first: another callable has another source too
    if not allow_changed_code:
        _refuse_changed_code(old, problem.sampler.source, problem.study, problem.sources)
    if old["schema"] != body["schema"]:
        words = describe_change("the outputs of mechanism.call", old["schema"], body["schema"])
        raise StudyError(f"{root} holds another study; changed: {words}; give another {option('store')}")
