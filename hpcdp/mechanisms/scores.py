"""Models trained elsewhere: one file a model, and a callable that turns a model's file into a number or a small vector."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.raised import Blamed, interruptions
from hpcdp.errors import MechanismError, StudyError
from hpcdp.keys import digest_bytes
from hpcdp.mechanisms.outputs import Outputs, canonicalise
from hpcdp.mechanisms.stored import StoredSamples, refuse_missing_or_shared
from hpcdp.mechanisms.user_code import import_callable, refuse_call

_ACCEPTED = ("files", "score", "parameters")
_END_BYTES = 1 << 16  # of the start and of the end of a file, for its digest: models may be large
_FIRST_SECONDS = 1.0
_SHOWN = 80  # characters of something that is no score
_FEWEST = 2  # models that show what scores look like, however long that takes


@dataclass
class ScoredModels(StoredSamples):
    """Stored samples, of which each is the score of one file, computed when it is first asked for.

    models: the files of each database, in the order of their names. score: called with a file's path and the parameters;
    a function of them alone. A process computes each score once; tasks of different processes score different files.
    """

    models: tuple[tuple[Path, ...], ...] = ()
    score: Callable[..., Any] = float
    parameters: Mapping[str, Any] = field(default_factory=dict)
    _scores: dict[Path, Outputs] = field(default_factory=dict, repr=False)
    _seconds: list[float] = field(default_factory=list, repr=False)

    @property
    def seconds_each(self) -> float:
        """Seconds to score a model: the median of those that were scored here (the first may load libraries)."""
        return median(self._seconds) if self._seconds else 0.0

    def total(self, database: NDArray[Any]) -> int:
        """How many models there are of a database."""
        return len(self.models[self.index(database)])

    def first(self, database: NDArray[Any], size: int) -> NDArray[Any]:
        """Scores of the first models, at most `size` and as many as a second allows, shape (n,) or (n, d).

        Raises:
            MechanismError: a model cannot be scored, or gets another score when it is scored again.
        """
        paths, begin, count = self.models[self.index(database)][:size], time.perf_counter(), 0
        while count < len(paths) and (count < _FEWEST or time.perf_counter() - begin < _FIRST_SECONDS):
            self._score(paths[count])
            count += 1
        if not np.array_equal(self._score_anew(paths[0]), self._score(paths[0])):
            raise MechanismError(
                f"{paths[0]} has another score when it is scored again; accepted: a function of the file"
            )
        return self._pick(database, np.arange(count))

    def outputs(self, database: NDArray[Any]) -> NDArray[Any]:
        """Scores of all models of a database, shape (n,) or (n, d)."""
        return self._pick(database, np.arange(self.total(database)))

    def _pick(self, database: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[Any]:
        paths = [self.models[self.index(database)][number] for number in numbers]
        scores = [self._score(path) for path in paths]
        for path, outputs in zip(paths, scores, strict=True):
            if outputs.shape != scores[0].shape:
                lengths = [array.shape[1] if array.ndim == 2 else 1 for array in (outputs, scores[0])]
                raise MechanismError(f"the score of {path} has length {lengths[0]}, that of {paths[0]} {lengths[1]}")
        return np.concatenate(scores)

    def _score(self, path: Path) -> Outputs:
        if path not in self._scores:
            self._scores[path] = self._score_anew(path)
        return self._scores[path]

    def _score_anew(self, path: Path) -> Outputs:
        begin = time.perf_counter()
        with Blamed(f"the score of {path}"):
            score = self.score(path, **self.parameters)
        self._seconds.append(time.perf_counter() - begin)
        try:
            array = np.asarray(score)
        except interruptions():
            raise
        except BaseException:  # whatever a class of someone else raises
            array = np.empty(0)
        if array.dtype.kind not in "biuf" or array.ndim > 1 or not array.size or not np.isfinite(array).all():
            raise MechanismError(
                f"the score of {path} is {repr(score)[:_SHOWN]}; accepted: a finite number, or a vector of finite numbers"
            )
        return canonicalise(array[None], 1)


def load_scores(parameters: Mapping[str, Any], folder: Path) -> ScoredModels:
    """Validate `files`, `score` and `parameters` of the study; StudyError names what is wrong.

    files: for each database a glob, or a list of files. score: "package.module:callable", called as score(path, **parameters).
    """
    where = "mechanism.parameters"
    unknown = sorted(set(parameters) - set(_ACCEPTED))
    if unknown:
        raise StudyError(f"{where}.{unknown[0]}: unknown key; accepted by scores: {', '.join(_ACCEPTED)}")
    files, call, own = (parameters.get(name) for name in _ACCEPTED)
    own = {} if own is None else own
    if not isinstance(files, list) or not files:
        raise StudyError(f"{where}.files: a list of one glob, or one list of files, per database; given: {files!r}")
    if not isinstance(call, str):
        raise StudyError(f'{where}.score: "package.module:callable"; given: {call!r}')
    if not isinstance(own, dict):
        raise StudyError(f"{where}.parameters: a table, the keyword arguments of score; given: {own!r}")
    names = [_names(entry, number, folder) for number, entry in enumerate(files)]
    every = [name for group in names for name in group]
    refuse_missing_or_shared(
        every, [folder / name for name in every], "a file of its own for each model, for the scores of two models"
    )
    score = import_callable(call, folder, f"{where}.score")
    refuse_call(score, f"{where}.score", call, "score(path, **parameters)", Path(), **own)
    places = tuple(Path(entry if isinstance(entry, str) else f"files[{i}]") for i, entry in enumerate(files))
    return ScoredModels(
        places, models=tuple(tuple(folder / n for n in group) for group in names), score=score, parameters=own
    )


def _names(entry: Any, number: int, folder: Path) -> list[str]:
    """The files of one database as the study spells them, sorted: what stands in a folder has no order of its own."""
    where = f"mechanism.parameters.files[{number}]"
    if isinstance(entry, str):
        matches = sorted(glob.glob(entry, root_dir=folder, recursive=True))
        if not matches:
            raise StudyError(f"{where}: no file in {folder} matches {entry!r}")
        return matches
    if not isinstance(entry, list) or not entry or not all(isinstance(name, str) for name in entry):
        raise StudyError(f"{where}: a glob, or a list of files; given: {entry!r}")
    return sorted(entry)


def models_digest(models: ScoredModels) -> str:
    """Digest of all models' names and sizes, and of at most 64 KiB from the start and from the end of each file."""
    parts: list[bytes] = []
    for number, paths in enumerate(models.models):
        parts.append(str(number).encode())
        for path in paths:
            members = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
            parts += [part for member in members for part in (member.name.encode(), *_ends(member))]
    return digest_bytes(b"models", *parts)


def _ends(path: Path) -> tuple[bytes, bytes, bytes]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_END_BYTES)
        file.seek(max(len(start), size - _END_BYTES))
        return str(size).encode(), start, file.read(_END_BYTES)
