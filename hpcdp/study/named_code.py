"""Code that a study names: objects in the place of names, digests of what runs beside the mechanism, and whose code it is."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from hpcdp._base.asked import option
from hpcdp.errors import DamagedError, StudyError
from hpcdp.losses import named_code, stores_pickles
from hpcdp.mechanisms import BUILTINS, SCORES
from hpcdp.mechanisms.exceptions import is_imported
from hpcdp.mechanisms.subsampled import named_callables
from hpcdp.mechanisms.user_code import import_callable, lies_in, source_digest
from hpcdp.store.layout import Layout
from hpcdp.store.root import latest_version
from hpcdp.study.distributions import Distribution
from hpcdp.study.file import Study
from hpcdp.study.mechanism import FunctionCall, ProgramCall
from hpcdp.study.stored import stored_study


def own_sources(study: Study, distributions: Sequence[Distribution]) -> dict[str, str]:
    """Digests of code that is neither the mechanism's nor an installed package's, by the key that names it."""
    sources = {f"pairs.distributional: the source of {d.call}": d.source for d in distributions}
    called = None if study.at_risk is None else study.at_risk.population.call
    if called is not None:
        sources[f"at_risk.population.call: the source of {called}"] = source_digest(called, study.folder)
    if (declared := study.mechanism.impossible) is not None:
        import_callable(declared, study.folder, "mechanism.impossible")
        sources[f"mechanism.impossible: the source of {declared}"] = source_digest(declared, study.folder)
    for where, names in (("estimate.view", study.estimate.view), ("mechanism.raises", study.mechanism.raises)):
        for name in filter(is_imported, names or ()):
            import_callable(name, study.folder, where)
            sources[f"{where}: the source of {name}"] = source_digest(name, study.folder)
    path = named_code(study.estimate.default_loss, study.estimate.parameters)
    key = "loss" if path == study.estimate.default_loss else "parameters"
    if path is not None:
        import_callable(path, study.folder, f"estimate.{key}")
    if path is not None and (key == "loss" or lies_in(path, study.folder)):
        sources[f"estimate.{key}: the source of {path}"] = source_digest(path, study.folder)
    return sources


def refuse_foreign_code(layout: Layout, given: Study | None = None) -> None:
    """StudyError that says what would run, where another user owns part of the store. given: the study about to be run there."""
    stored = _stored(layout) if layout.root.exists() else None
    pickles = [study for study in (stored, given) if study is not None and _reads_pickles(study)]
    owners = (_owners(layout) | (_owners_of_states(layout) if pickles else set())) - {os.geteuid()}
    if not owners:
        return
    study = stored or given
    code = list(_named(study)) if study is not None else []
    code += [
        f"estimate.loss = {study.estimate.default_loss}, whose stored models, in {layout.root / 'counters'} and "
        f"{layout.root / 'pilots'}, are pickles, which can run code when they are read"
        for study in pickles[:1]
    ]
    if code:
        raise StudyError(
            f"{layout.root} belongs to {' and '.join(map(_user, sorted(owners)))}, and its study names code, or reads "
            f"pickles, which would run as yours: {'; '.join(code)}; read it and add "
            f"{option('trust_code', True)}, or give another {option('store')}"
        )


def _owners(layout: Layout) -> set[int]:
    """Who owns the store, what lies in it and what lies beside its study: each could put another study there."""
    root = layout.root
    if not root.exists():
        return set()
    parts = [root, *(path for folder in (root, root / "study") if folder.is_dir() for path in folder.iterdir())]
    return {path.lstat().st_uid for path in parts} | {root.stat().st_uid}


def _owners_of_states(layout: Layout) -> set[int]:
    """Who owns any part of what was learned: each could put another model there."""
    return {
        os.lstat(os.path.join(folder, name)).st_uid
        for group in ("counters", "pilots")
        for folder, folders, files in os.walk(layout.root / group)
        for name in (*folders, *files)
    }


def _reads_pickles(study: Study) -> bool:
    """Whether a task may read models that no other format can hold."""
    e = study.estimate
    return stores_pickles(e.default_loss, e.parameters) or any(stores_pickles(name, {}) for name in e.other_losses)


def _stored(layout: Layout) -> Study | None:
    """The store's study; None where there is none or it is damaged, and a run stores its own."""
    try:
        version = latest_version(layout)
        return stored_study(layout, version) if version else None
    except DamagedError:
        return None


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (user {uid})"
    except KeyError:
        return f"user {uid}"


def names_code(study: Study) -> bool:
    """Whether drawing or learning runs other code than hpcdp's."""
    return any(True for _ in _named(study))


def _named(study: Study) -> Iterator[str]:
    """Every piece of code that a study names: its key, its name, and where it is."""
    section, e = study.mechanism, study.estimate
    call = section.call
    if study.at_risk is not None:  # whose query is the call
        pass
    elif isinstance(call, ProgramCall):
        yield f"mechanism.call = {call.command}, in {study.folder}"
    elif isinstance(call, FunctionCall):
        yield f"mechanism.call = {call.function}, a function that was given as an object"
    elif call in BUILTINS:
        for place, path in named_callables(call, section.parameters).items():
            yield f"{'.'.join(('mechanism.parameters', *place))} = {_where(path, study.folder)}"
    elif call == SCORES:
        yield f"mechanism.parameters.score = {_where(str(section.parameters.get('score')), study.folder)}"
    elif ":" in call:
        yield f"mechanism.call = {_where(call, study.folder)}"
    own = named_code(e.default_loss, e.parameters)
    more = [("estimate.loss", own)] if own is not None and own != e.default_loss else []
    for key, path in (*study.named_paths(), *more):
        if ":" in path:
            yield f"{key} = {_where(path, study.folder)}"


def _where(path: str, folder: Path) -> str:
    """A callable's name and its module's file, found without importing it."""
    spec = PathFinder.find_spec(path.partition(":")[0].partition(".")[0], [str(folder)])
    return f"{path} from {spec.origin}" if spec is not None and spec.origin else f"{path}, an installed module"
