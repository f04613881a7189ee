"""Whose code a store's study would run: a store of another user's is resumed only when its reader says so."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from hpcdp.errors import StudyError
from hpcdp.losses import named_code
from hpcdp.mechanisms import BUILTINS, SCORES
from hpcdp.mechanisms._builtin import named_callables
from hpcdp.store.layout import Layout
from hpcdp.store.studies import latest_version
from hpcdp.study import ProgramCall, Study


def refuse_foreign_code(layout: Layout, study: Study) -> None:
    """StudyError that says what would run, where the store or its study is another user's and names code."""
    owners = {path.stat().st_uid for path in (layout.root, layout.study(latest_version(layout)))} - {os.geteuid()}
    code = list(_named(study)) if owners else []
    if code:
        raise StudyError(
            f"{layout.root} belongs to {' and '.join(map(_user, sorted(owners)))}, and its study names code, which resume would "
            f"run as yours: {'; '.join(code)}; read it and add --trust-code, or leave it"
        )


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (user {uid})"
    except KeyError:
        return f"user {uid}"


def _named(study: Study) -> Iterator[str]:
    """Every piece of code that a study names: its key, its name, and where it is."""
    section, pairs, e = study.mechanism, study.pairs, study.estimate
    call = section.call
    if isinstance(call, ProgramCall):
        yield f"mechanism.call = {call.command}, in {study.folder}"
    elif call in BUILTINS:
        for place, path in named_callables(call, section.parameters).items():
            yield f"{'.'.join(('mechanism.parameters', *place))} = {_where(path, study.folder)}"
    elif call == SCORES:
        yield f"mechanism.parameters.score = {_where(str(section.parameters.get('score')), study.folder)}"
    elif ":" in call:
        yield f"mechanism.call = {_where(call, study.folder)}"
    if pairs.relative is not None and pairs.relative.call is not None:
        yield f"pairs.relative.call = {_where(pairs.relative.call, study.folder)}"
    for distribution in pairs.distributional or ():
        yield f"pairs.distributional.call = {_where(distribution.call, study.folder)}"
    for name in (e.default_loss, named_code(e.default_loss, e.parameters)):
        if name is not None and ":" in name:
            yield f"estimate.loss = {_where(name, study.folder)}"


def _where(path: str, folder: Path) -> str:
    """A callable's name and its module's file, found without importing it."""
    spec = PathFinder.find_spec(path.partition(":")[0].partition(".")[0], [str(folder)])
    return f"{path} from {spec.origin}" if spec is not None and spec.origin else f"{path}, an installed module"
