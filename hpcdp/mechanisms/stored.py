"""Samples that were drawn elsewhere, one file per database, and models, one file each, of which a callable makes samples.

A seeded permutation splits them into stages.
"""

from __future__ import annotations

import csv
import glob
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.integers import ACCEPTED, lost_integer
from hpcdp._base.raised import Blamed, interruptions
from hpcdp._check import without_contents
from hpcdp.errors import MechanismError, StudyError
from hpcdp.keys import digest_bytes, stream
from hpcdp.mechanisms.outputs import Outputs, canonicalise
from hpcdp.mechanisms.user_code import import_callable, refuse_call

_READ_SECONDS = 2e-8  # one output


@dataclass
class StoredSamples:
    """Outputs read from files, one path per database, chosen by the database's one number."""

    files: tuple[Path, ...]
    _cache: dict[int, NDArray[Any]] = field(default_factory=dict, repr=False)
    _orders: dict[tuple[int, str, int], NDArray[np.int64]] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def seconds_each(self) -> float:
        """Seconds to read one output (a rough constant)."""
        return _READ_SECONDS

    def describe(self, database: NDArray[Any]) -> str:
        """What holds a database's outputs, in messages."""
        return str(self.files[self.index(database)])

    def total(self, database: NDArray[Any]) -> int:
        """How many outputs there are of a database."""
        return int(self.outputs(database).shape[0])

    def first(self, database: NDArray[Any], size: int) -> NDArray[Any]:
        """Outputs that show what they look like; `size` are enough, but here all are read at once."""
        return self.outputs(database)

    def outputs(self, database: NDArray[Any]) -> NDArray[Any]:
        """All outputs in the database's file, shape (n,) or (n, d)."""
        index = self.index(database)
        with self._lock:
            if index not in self._cache:
                self._cache.clear()  # one file at a time: they may be large
                self._cache[index] = read_outputs(self.files[index])
            return self._cache[index]

    def index(self, database: NDArray[Any]) -> int:
        """The file's number: the database's one number."""
        number = float(database.reshape(-1)[0]) if database.size == 1 else -1.0
        if number != int(number) or not 0 <= number < len(self.files):
            raise MechanismError(
                f"a database is one number from 0 to {len(self.files) - 1}, the place of its file in files; "
                f"given: {without_contents(database)}" + ("" if database.size > 1 else ", another number")
            )
        return int(number)

    def take(self, database: NDArray[Any], seed: int, key: str, stage: str, start: int, size: int) -> NDArray[Any]:
        """Samples start to start + size of a stage, in the order of the seeded permutation."""
        # training from the permuted file's start, testing from its end: either may grow without touching what the other used
        total = self.total(database)
        if start + size > total:
            raise MechanismError(f"{self.describe(database)} holds {total} outputs, too few")
        order = self._order(seed, key, total)
        if stage == "test":
            order = order[::-1]
        elif stage != "train":
            raise MechanismError(f"stored samples are split into train and test; asked for {stage}")
        return self._pick(database, order[start : start + size])

    def _pick(self, database: NDArray[Any], numbers: NDArray[np.int64]) -> Any:
        """The outputs with these numbers in the file."""
        return self.outputs(database)[numbers]

    def _order(self, seed: int, key: str, total: int) -> NDArray[np.int64]:
        """The law's permutation of its file, shape (total,); the last one is kept, since chunks of a law come in turn."""
        name = (seed, key, total)
        with self._lock:
            if name not in self._orders:
                self._orders.clear()
                self._orders[name] = stream(seed, key, None, 0).permutation(total)
            return self._orders[name]


def load_stored(parameters: dict[str, Any], folder: Path) -> StoredSamples:
    """Validate `files` of the study; StudyError names what is missing."""
    unknown = sorted(set(parameters) - {"files"})
    if unknown:
        raise StudyError(f"mechanism.parameters.{unknown[0]}: unknown key; accepted by stored: files")
    files = parameters.get("files")
    if not isinstance(files, list) or not files or not all(isinstance(f, str) for f in files):
        raise StudyError(f"mechanism.parameters.files: a list of paths, one per database; given: {files!r}")
    paths = tuple(folder / f for f in files)
    refuse_missing_or_shared(files, paths, "a file of its own for each database, for the samples of two databases")
    return StoredSamples(paths)


def refuse_missing_or_shared(files: Sequence[str], paths: Sequence[Path], accepted: str) -> None:
    """StudyError when a file is not there, or is listed twice; accepted: what must be independent, in words."""
    named: dict[Path, str] = {}
    for file, path in zip(files, paths, strict=True):
        if not path.exists():
            raise StudyError(f"mechanism.parameters.files: no file at {path}")
        place = path.resolve()
        if place in named:
            raise StudyError(
                f"mechanism.parameters.files: {named[place]!r} and {file!r} are one file; accepted: {accepted} must be "
                "independent"
            )
        named[place] = file


def files_digest(stored: StoredSamples) -> str:
    """Digest of all files' names, sizes and bytes."""
    parts: list[bytes] = []
    for path in stored.files:
        parts += [part for member in _members(path) for part in (member.name.encode(), member.read_bytes())]
    return digest_bytes(b"files", *parts)


def _members(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())


def read_outputs(path: Path) -> NDArray[Any]:
    """Outputs of one file: .npy, .csv (numbers, perhaps with a header, or text), .parquet (columns side by side) or Zarr."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        if suffix == ".csv":
            return _read_csv(path)
        if suffix == ".parquet":
            return _read_parquet(path)
        if (path / "zarr.json").is_file() or (path / ".zarray").is_file():
            from hpcdp.mechanisms._foreign_arrays import read_foreign

            return read_foreign(path)
    except StudyError:
        raise
    except Exception as error:
        raise StudyError(f"mechanism.parameters.files: cannot read {path}: {type(error).__name__}: {error}") from None
    raise StudyError(f"mechanism.parameters.files: accepted are .npy, .csv, .parquet and Zarr arrays; given: {path}")


def _read_csv(path: Path) -> NDArray[Any]:
    with path.open(newline="", encoding="utf-8-sig") as handle:
        lines = [line for line in csv.reader(handle) if line]

    def numbers(rows: list[list[str]]) -> NDArray[Any] | None:
        try:
            whole = [[int(c) for c in row] for row in rows]
            array = np.asarray(whole)
        except ValueError:
            try:
                return np.asarray([[_number(c) for c in row] for row in rows])
            except ValueError:
                return None
        if (lost := lost_integer(whole, array)) is not None:
            raise StudyError(
                f"mechanism.parameters.files: {path} has an integer of {lost.bit_length():,} bits; accepted: {ACCEPTED}"
            )
        return array

    array = numbers(lines)
    if array is None and len(lines) > 1:
        array = numbers(lines[1:])  # the first line is a header
    if array is None:
        array = np.asarray(lines)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _number(cell: str) -> float | None:
    return None if cell in ("", "None") else float(cell)


def _read_parquet(path: Path) -> NDArray[Any]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise StudyError(f"mechanism.parameters.files: {path} needs pyarrow; install hpcdp[parquet]") from None
    table = parquet.read_table(path)
    columns = [table[name].to_numpy() for name in table.column_names]
    columns = [c.astype(np.str_) if c.dtype == object else c for c in columns]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


_ACCEPTED = ("files", "score", "parameters")
_END_BYTES = 1 << 16  # of the start and of the end of a file, for its digest: models may be large
_FIRST_SECONDS = 1.0
_SHOWN = 80  # characters of something that is no score
_FEWEST = 2  # models that show what scores look like, however long that takes


@dataclass
class ScoredModels(StoredSamples):
    """Stored samples, of which each is the score of one file, computed when it is first asked for, once in a process."""

    models: tuple[tuple[Path, ...], ...] = ()  # the files of each database, in the order of their names
    score: Callable[..., Any] = float  # called with a file's path and the parameters, a function of them alone
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
        """Scores of the first models, at most `size` and as many as a second allows, shape (n,) or (n, d)."""
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
    """Validate `files`, for each database a glob or a list, `score` and `parameters`; StudyError names what is wrong."""
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
            parts += [part for member in _members(path) for part in (member.name.encode(), *_ends(member))]
    return digest_bytes(b"models", *parts)


def _ends(path: Path) -> tuple[bytes, bytes, bytes]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_END_BYTES)
        file.seek(max(len(start), size - _END_BYTES))
        return str(size).encode(), start, file.read(_END_BYTES)
