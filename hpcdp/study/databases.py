"""T and the pairs: databases from lists, files or a callable, and their neighbours; rows of distributions held at values."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.doing import at_risk
from hpcdp._base.integers import ACCEPTED, exact_integers, lost_integer, objects_of, rounded_place
from hpcdp._base.raised import Blamed
from hpcdp.errors import StudyError
from hpcdp.keys import digest_array
from hpcdp.mechanisms.user_code import import_callable
from hpcdp.study.at_risk import load_population
from hpcdp.study.distributions import Conditional, Distribution
from hpcdp.study.file import Study
from hpcdp.study.pairs import Framed, FramedRows, GivenCall, GivenPair, Relative

Database = NDArray[Any]
_MOST_PAIRS = 1_000_000  # a pair takes about a kilobyte in every process

Input = Database | Conditional
"""What a mechanism is run on: one database, or databases drawn from a distribution with a row held."""


@dataclass(frozen=True, eq=False)
class Pair:
    """An ordered pair (D, D') and where it comes from; a neighbour is made when asked for, as all together are too large."""

    number: int  # its place in the study
    d: Input = field(repr=False)
    given: Input | None = field(default=None, repr=False)
    origin: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def d_prime(self) -> Input:
        """The neighbour."""
        if self.given is not None:
            return self.given
        assert isinstance(self.d, np.ndarray)
        return neighbour(self.d, self.origin["rows"][0], self.origin.get("value"))


def neighbour(database: Database, row: int, value: Any = None) -> Database:
    """A database without one row, or (a value is given) with one row edited."""
    if value is None:
        return np.delete(database, row, axis=0)
    edited = database.copy()
    edited[row] = value
    return edited


def load_databases(study: Study) -> list[Database]:
    """Databases of T (relative pairs), D and D' of each given pair in turn, or midpoints; none of distributional pairs."""
    pairs = study.pairs
    if study.framed:
        return _frame_codes(study)
    if study.at_risk is not None:
        return [load_population(study.at_risk, study.folder, read_database)] * 2
    if pairs.distributional is not None:
        return []
    if pairs.given is not None:
        listed = _called_pairs(pairs.given, study) if isinstance(pairs.given, GivenCall) else pairs.given
        both = ((pair.d, pair.d_prime) if isinstance(pair, GivenPair) else pair for pair in listed)
        return [
            to_database(value, f"pairs.given.{number}.{side}")
            for number, pair in enumerate(both)
            for side, value in zip(("d", "d_prime"), pair, strict=True)
        ]
    if pairs.domain is not None:
        return [to_database([point], "pairs.domain") for point in pairs.domain.midpoints]
    relative = pairs.relative
    assert relative is not None
    if relative.databases is not None:
        return [to_database(v, f"pairs.relative.databases.{i}") for i, v in enumerate(relative.databases)]
    if relative.file is not None:
        return [read_database(study.folder / relative.file)]
    assert relative.call is not None
    made = _call("pairs.relative.call", relative.call, {}, study)
    many = list(made) if isinstance(made, (list, tuple)) else [made]
    if not many:
        raise StudyError(f"pairs.relative.call: {relative.call} returned no database")
    return [to_database(v, f"pairs.relative.call: database {i}") for i, v in enumerate(many)]


def _frame_codes(study: Study) -> list[Database]:
    """Codes of the rows of DataFrames; StudyError where other databases are beside them."""
    pairs = study.pairs
    others = 2 * len(pairs.given) if isinstance(pairs.given, list) else 0
    others += len(pairs.relative.databases or ()) if pairs.relative is not None else 0
    if len(study.framed) != others:
        raise StudyError(f"pairs: DataFrames alone, or none; given: {len(study.framed)} of {others} databases")
    if study.frames is None:
        raise frames_missing()
    return study.frames[1]


def frames_missing() -> StudyError:
    """The error where DataFrames are known by a store alone."""
    return StudyError(
        "pairs: its databases were given as DataFrames, of which a store keeps codes alone; give them again to hpcdp.run"
    )


def _call(key: str, path: str, parameters: Mapping[str, Any], study: Study) -> Any:
    """What a callable of the study returns; StudyError where it raises."""
    function = import_callable(path, study.folder, key)
    with Blamed(f"{key}: {path}", failure=StudyError), at_risk(f"{key} {path}"):
        return function(**parameters)


def _called_pairs(given: GivenCall, study: Study) -> list[tuple[Any, Any]]:
    """The ordered pairs that a callable returns."""
    made = _call("pairs.given.call", given.call, given.parameters, study)
    pairs = list(made) if isinstance(made, (list, tuple)) else []
    if not pairs or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise StudyError(f"pairs.given.call: {given.call} returns a list of pairs (D, D′), at least one")
    _refuse_many("pairs.given.call", len(pairs))
    return [(pair[0], pair[1]) for pair in pairs]


def enumerate_pairs(
    study: Study, databases: Sequence[Database], distributions: Sequence[Distribution] = ()
) -> list[Pair]:
    """All ordered pairs of the study; identical neighbours of one database are one pair with several rows."""
    if study.pairs.distributional is not None:
        return _held_rows(study, distributions)
    if study.pairs.given is not None:
        return [Pair(i, databases[2 * i], databases[2 * i + 1]) for i in range(len(databases) // 2)]
    if study.pairs.domain is not None:  # two by two, so that each midpoint is in some pair; no result is of these
        last = len(databases) - 1
        starts = range(0, last + 1, 2)
        return [
            Pair(n, databases[i], databases[j], {"points": [i, j]})
            for n, i in enumerate(starts)
            for j in [i + 1 if i < last else 0]
        ]
    relative = study.pairs.relative
    assert relative is not None
    pairs: list[Pair] = []
    for number, database in enumerate(databases):
        for origin in _neighbours(relative, number, database):
            pairs.append(Pair(len(pairs), database, None, {"database": number, **origin}))
    if not pairs:
        raise StudyError("pairs.relative: no neighbour differs from its database")
    return pairs


def _held_rows(study: Study, distributions: Sequence[Distribution]) -> list[Pair]:
    """Every distribution, row, and two of its values; of exchangeable rows the first stands for all."""
    pairs: list[Pair] = []
    for section, distribution in zip(study.pairs.distributional or (), distributions, strict=True):
        rows = range(distribution.rows) if section.index == "all" else section.index
        chosen = rows[:1] if section.exchangeable else rows
        _refuse_many("pairs.distributional", len(pairs) + len(chosen) * math.comb(len(section.values), 2))
        for row in chosen:
            held = [Conditional(distribution, int(row), value) for value in section.values]
            for first, second in combinations(held, 2):
                values = [first.value, second.value]
                origin = {"distribution": distribution.number, "index": int(row), "values": values}
                pairs.append(Pair(len(pairs), first, second, origin))
    return pairs


def _refuse_many(key: str, pairs: int) -> None:
    if pairs > _MOST_PAIRS:
        raise StudyError(f"{key}: at most {_MOST_PAIRS:,} pairs; given: {pairs:,}")


def _neighbours(relative: Relative, number: int, database: Database) -> list[dict[str, Any]]:
    """Rows (and value) of each distinct neighbour, in the order of the rows."""
    rows = range(database.shape[0]) if relative.rows == "all" else relative.rows
    _refuse_many("pairs.relative", len(rows))
    beyond = [row for row in rows if row >= database.shape[0]]
    if beyond:
        raise StudyError(
            f"pairs.relative.rows: database {number} has rows 0 to {database.shape[0] - 1}; given: {beyond[0]}"
        )
    neighbours: dict[str, dict[str, Any]] = {}
    if relative.relation == "remove":
        for row in rows:
            neighbours.setdefault(digest_array(neighbour(database, row)), {"rows": []})["rows"].append(int(row))
        return list(neighbours.values())
    own = digest_array(database)
    values, kept = _edit_values(relative, number, database)
    _refuse_many("pairs.relative", len(rows) * len(values))
    for row in rows:
        for value in values:
            edited = np.concatenate([database[row, :kept], value]) if kept else value
            key = digest_array(neighbour(database, row, edited))
            if key != own:
                neighbours.setdefault(key, {"rows": [int(row)], "value": edited.tolist()})
    return list(neighbours.values())


def _edit_values(relative: Relative, number: int, database: Database) -> tuple[Database, int]:
    """What rows are set to, and how many columns at the start an edit leaves: of a DataFrame its kind and the row's label."""
    framed = relative.databases[number] if relative.databases is not None else None
    kept = 1 + framed.levels if isinstance(framed, Framed) else 0
    if relative.values is None:
        return np.unique(database[:, kept:] if kept else database, axis=0), kept
    if isinstance(relative.values, FramedRows):
        return np.array(relative.values.codes, np.int64), kept
    array = to_database(relative.values, "pairs.relative.values")
    if array.shape[1:] != database.shape[1:]:
        raise StudyError(
            f"pairs.relative.values: each value is a row of the database, shape {database.shape[1:]}; "
            f"given: shape {array.shape[1:]}"
        )
    if not np.can_cast(array.dtype, database.dtype, "same_kind"):
        raise StudyError(f"pairs.relative.values: values of type {database.dtype}; given: {array.dtype}")
    return array.astype(database.dtype), kept


def to_database(value: Any, where: str) -> Database:
    """A database as bool, int64 or float64 of shape (rows,) or (rows, columns), or StudyError naming `where`."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise StudyError(f"{where}: rows of one length; given: rows of different lengths") from None
    if array.size == 0:
        raise StudyError(f"{where}: an empty database (shape {array.shape}); accepted: at least one row")
    if array.ndim not in (1, 2):
        raise StudyError(f"{where}: a list of numbers or of rows of numbers; given: shape {array.shape}")
    beyond = array.dtype.kind == "u" and int(array.max()) >> 63  # which int64 would make negative
    if array.dtype.kind not in "biuf" or beyond or lost_integer(value, array) is not None:
        raise StudyError(f"{where}: numbers only; given: {_first_odd(value)}")
    array = exact_integers(value, array)
    if (rounded := rounded_place(value, array)) is not None:  # told by size and place: what rows hold is private
        place, number = rounded
        column = f", column {place[1]}" if len(place) > 1 else ""
        raise StudyError(
            f"{where}: beside real numbers, integers that 64-bit floats hold, as all to 2**53; given: one of "
            f"{number.bit_length():,} bits in row {place[0]}{column}, which would be rounded"
        )
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        array[np.isnan(array)] = np.nan  # of one kind, so that equal databases have one key
    elif array.dtype.kind in "iu":
        array = array.astype(np.int64)
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _first_odd(value: Any) -> str:
    """What is no number, by its type and place: what rows hold is private."""
    for place, item in np.ndenumerate(objects_of(value)):
        plain = item.item() if isinstance(item, np.generic) else item
        if isinstance(plain, int) and not -(2**63) <= plain < 2**63:
            return f"an integer of {plain.bit_length():,} bits, and accepted are integers {ACCEPTED}"
        if not isinstance(plain, int | float):
            what = "text" if isinstance(plain, str) else type(plain).__name__
            return f"{what} in row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
    return "numbers of which some are too large"


def read_database(path: Path, key: str = "pairs.relative.file") -> Database:
    """A database from a .csv (header optional), .npy or .parquet file; one column gives shape (rows,). key: that names it."""
    where = f"{key} {path.name}"
    if not path.is_file():
        raise StudyError(f"{where}: no file at {path}")
    readers: dict[str, Callable[[Path, str], Any]] = {".csv": _read_csv, ".npy": _read_npy, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise StudyError(f"{where}: accepted are .csv, .npy and .parquet; given: {path.suffix or 'no suffix'}")
    rows = reader(path, where)
    is_column = len(rows) > 0 and np.ndim(rows[0]) == 1 and len(rows[0]) == 1
    return to_database([row[0] for row in rows] if is_column else rows, where)


def _read_npy(path: Path, where: str) -> NDArray[Any]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        raise StudyError(f"{where}: not a readable .npy file of numbers: {error}") from None


def _read_csv(path: Path, where: str) -> list[list[int | float]]:
    with path.open(newline="", encoding="utf-8-sig") as handle:
        lines = list(csv.reader(handle))
    while lines and not lines[-1]:
        lines.pop()
    if max(map(len, lines), default=0) == 1:  # a line without text is an empty cell
        lines = [line or [""] for line in lines]
    lines = [line for line in lines if line]
    if not lines:
        raise StudyError(f"{where}: an empty database (no rows); accepted: at least one row")
    header = None if all(_number(cell) is not None for cell in lines[0]) else lines[0]
    rows: list[list[int | float]] = []
    for number, line in enumerate(lines[1:] if header else lines):
        if len(line) != len(lines[0]):
            raise StudyError(f"{where}: row {number} has {len(line)} cells; accepted: {len(lines[0])}")
        cells = [_number(cell) for cell in line]
        if None in cells:  # neither the text nor what may be no header: rows are private, and messages end in logs
            column = cells.index(None)
            problem, accepted = _no_number(line[column])
            raise StudyError(f"{where}: column {column} (from 0) {problem} in row {number}; accepted: {accepted}")
        rows.append([cell for cell in cells if cell is not None])
    if not rows:
        raise StudyError(f"{where}: an empty database (a header and no rows); accepted: at least one row")
    return rows


def _no_number(text: str) -> tuple[str, str]:
    """Why a cell is no number, and what is accepted."""
    if not text.strip():
        return "is empty", "a number in every cell; fill in what is missing, or leave out its row"
    if ";" in text:
        return "has semicolons", (
            "commas between cells, and points in numbers; or, in Python, the DataFrame of pandas.read_csv(file, sep=';')"
        )
    accepted = "numbers; give text to hpcdp in Python, as a DataFrame of pandas.read_csv, where each text is a category"
    return "is not numeric", accepted


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text.strip())
    return None


def _read_parquet(path: Path, where: str) -> NDArray[Any] | list[tuple[Any, ...]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise StudyError(f"{where}: .parquet needs pyarrow; install hpcdp[parquet]") from None
    try:
        table = parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise StudyError(f"{where}: not a readable .parquet file: {error}") from None
    columns, kinds = [], (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    for name in table.column_names:
        column = table[name]
        numeric = any(is_kind(column.type) for is_kind in kinds)
        if not numeric or column.null_count:
            given = f"type {column.type}" if not numeric else f"{column.null_count} missing values"
            raise StudyError(f"{where}: column {name!r} is not numeric; given: {given}")
        columns.append(column.to_numpy())
    if not columns:
        return np.empty((0, 0))
    array = np.column_stack(columns)
    if not array.size or array.dtype.kind != "f" or np.abs(array).max() < 2.0**53:
        return array
    return list(zip(*(column.tolist() for column in columns), strict=True))  # NumPy may have rounded integers
