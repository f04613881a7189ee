"""Data frames, where the user's code has any: as outputs, and as databases whose rows a store holds as codes.

pandas is imported by none of this: what is no object of its is none of these.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError, StudyError
from hpcdp.keys import digest_json

_OWN = 2  # columns of codes before those of the frame: of what kind it is, and its index


def is_frame(value: Any) -> bool:
    """Whether it is a DataFrame of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _is_series(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.Series)


def plain_outputs(raw: Any) -> Any:
    """Outputs of a call for many: a frame is one a row, a series one an item; anything else as it is."""
    if is_frame(raw):
        columns = [raw.iloc[:, place] for place in range(raw.shape[1])]
        if all(_is_numeric(column) for column in columns):
            return raw.to_numpy()
        return list(zip(*(_items(column) for column in columns), strict=True))
    if _is_series(raw):
        return raw.to_numpy() if _is_numeric(raw) else _items(raw)
    return raw


def plain_output(raw: Any) -> Any:
    """One output of a call for one: a series, or a frame of one row, is the sequence of its values; anything else as it is."""
    if is_frame(raw):
        rows = plain_outputs(raw)
        if len(rows) != 1:
            raise MechanismError(
                f"the mechanism returned a DataFrame of {len(rows)} rows as one output; accepted: of one row, a Series or a tuple"
            )
        return rows[0]
    return plain_outputs(raw) if _is_series(raw) else raw


def _is_numeric(column: Any) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"


def _items(column: Any) -> list[Any]:
    """Values as outputs have them: what is missing is None, a time its text."""
    if _is_numeric(column):
        return column.tolist()
    missing = column.isna().tolist()
    return [None if gone else _spelled(value) for value, gone in zip(column.tolist(), missing, strict=True)]


def _spelled(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


@dataclass(frozen=True, eq=False)
class Frames:
    """What makes DataFrames of the codes that a store holds: one for all of a study's, which have the same columns.

    Codes are int64 of shape (rows, 2 + columns): what kind of frame it is (a digest of its columns, dtypes and index), the
    row's label, its values. Numbers, booleans and times are their own 64 bits; all else is a digest of the value, and only
    this object, which no store holds, knows the value. So a frame's codes say nothing of others beside it.
    """

    example: Any = field(repr=False)
    values: Mapping[int, Any] = field(repr=False)

    @classmethod
    def of(cls, frames: Sequence[Any], where: str) -> tuple[Frames, list[NDArray[np.int64]]]:
        """Of some frames, and their codes; StudyError names `where` one is unlike the first, or has values without codes."""
        values: dict[int, Any] = {}
        codes = []
        for number, frame in enumerate(frames):
            at = f"{where}, DataFrame {number}"
            if not len(frame):
                raise StudyError(f"{at}: an empty database (shape {frame.shape}); accepted: at least one row")
            if frame.index.nlevels > 1:
                raise StudyError(f"{at}: an index of one level; given: {frame.index.nlevels} levels")
            if _kind_of(frame) != _kind_of(frames[0]) or frame.dtypes.tolist() != frames[0].dtypes.tolist():
                raise StudyError(
                    f"{at}: columns, dtypes with their categories, and index as in the first, {_kind_of(frames[0])}; "
                    f"given: {_kind_of(frame)}"
                )
            codes.append(_encode(frame, values, at))
        return cls(frames[0].iloc[:0].copy(), values), codes

    def decode(self, codes: NDArray[np.int64]) -> Any:
        """The DataFrame of some codes, with its columns, dtypes, index and text."""
        import pandas as pd

        example = self.example
        columns = {
            place: self._column(codes[:, _OWN + place], example.iloc[:, place].dtype)
            for place in range(example.shape[1])
        }
        index = pd.Index(self._column(codes[:, 1], example.index.dtype), name=example.index.name)
        if index.dtype == np.int64 and np.array_equal(index, np.arange(len(index))):
            index = pd.RangeIndex(len(index), name=index.name)
        made = pd.DataFrame({place: pd.Series(column, index=index) for place, column in columns.items()}, index=index)
        made.columns = example.columns
        return made

    def _column(self, codes: NDArray[np.int64], dtype: Any) -> Any:
        import pandas as pd

        if not isinstance(dtype, np.dtype) or dtype.kind not in "biufmM":
            return pd.Series([self.values[code] for code in codes.tolist()], dtype=dtype).array
        if dtype.kind == "f":
            return codes.view(np.float64).astype(dtype)
        return codes.view(dtype) if dtype.itemsize == codes.itemsize else codes.astype(dtype)


def _kind_of(frame: Any) -> str:
    """Columns, dtypes and index in words."""
    columns = [f"{name!r}: {dtype}" for name, dtype in zip(frame.columns.tolist(), frame.dtypes.tolist(), strict=True)]
    name = "" if frame.index.name is None else f" {frame.index.name!r}"
    return f"{{{', '.join(columns)}}}, index{name} of {frame.index.dtype}"


def _encode(frame: Any, values: dict[int, Any], where: str) -> NDArray[np.int64]:
    from hpcdp.mechanisms.code_digest import digest_value  # what reads stores need not know

    whole = np.empty((len(frame), _OWN + frame.shape[1]), np.int64)
    dtypes = [digest_value(dtype).digest for dtype in frame.dtypes.tolist()]  # of categories too
    whole[:, 0] = _code(digest_json([_kind_of(frame), dtypes]))
    columns = [frame.index.to_series(), *(frame.iloc[:, place] for place in range(frame.shape[1]))]
    for place, column in enumerate(columns, 1):
        name = "the index" if place == 1 else f"column {frame.columns[place - _OWN]!r}"
        whole[:, place] = _column_codes(column, values, f"{where}: {name}")
    whole.setflags(write=False)
    return whole


def _column_codes(column: Any, values: dict[int, Any], where: str) -> NDArray[np.int64]:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biufmM":
        array = np.ascontiguousarray(column.to_numpy())
        if dtype.kind == "f":
            return array.astype(np.float64).view(np.int64)
        return array.view(np.int64) if dtype.itemsize == 8 else array.astype(np.int64)
    known: dict[tuple[type, Any], int] = {}
    found = []
    for value, is_missing in zip(column.tolist(), column.isna().tolist(), strict=True):
        key = (type(value), None if is_missing else value)  # what is missing is equal to nothing
        if key not in known:
            known[key] = _value_code(value, values, where)
        found.append(known[key])
    return np.array(found, np.int64)


def _value_code(value: Any, values: dict[int, Any], where: str) -> int:
    from hpcdp.mechanisms.code_digest import digest_value

    digest = digest_value(value)
    if digest.undigested:
        raise StudyError(f"{where}: text, numbers, booleans, times and missing values; given: a {type(value).__name__}")
    code = _code(digest.digest)
    values.setdefault(code, value)
    return code


def _code(digest: str) -> int:
    return int(digest[:16], 16) >> 1
