"""Data frames, where the user's code has any: as outputs, and as databases whose rows a store holds as codes.

pandas is imported by none of this: what is no object of its is none of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError, StudyError
from hpcdp.keys import digest_json
from hpcdp.mechanisms.code_digest import digest_value, is_of


def is_frame(value: Any) -> bool:
    """Whether it is a DataFrame of pandas."""
    return is_of(value, "pandas", "DataFrame")


def plain_outputs(raw: Any) -> Any:
    """Outputs of a call for many: a frame is one a row, a series one an item; anything else as it is."""
    if is_frame(raw):
        columns = [raw.iloc[:, place] for place in range(raw.shape[1])]
        if all(_is_numeric(column) for column in columns):
            return raw.to_numpy()
        return list(zip(*(_items(column) for column in columns), strict=True))
    if is_of(raw, "pandas", "Series"):
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
    return plain_outputs(raw) if is_of(raw, "pandas", "Series") else raw


def _is_numeric(column: Any) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"


def _items(column: Any) -> list[Any]:
    """Values as outputs have them: what is missing is None, a time its text."""
    if _is_numeric(column):
        return column.tolist()
    values = (value.isoformat() if hasattr(value, "isoformat") else value for value in column.tolist())
    return [None if gone else value for value, gone in zip(values, column.isna().tolist(), strict=True)]


@dataclass(frozen=True, eq=False)
class Frames:
    """What makes DataFrames of the codes that a store holds: one for all of a study's, which have the same columns."""

    # Codes are int64 (rows, 1 + levels + columns): a digest of columns, dtypes and index, a number for each level of the index,
    # the values: numbers, booleans and times their own 64 bits, all else a digest, whose value this object alone knows. So a
    # frame's codes say nothing of others beside it.
    example: Any = field(repr=False)
    values: Mapping[int, Any] = field(repr=False)

    @classmethod
    def of(cls, frames: Sequence[Any], where: str, edits: Any = None) -> tuple[Frames, list[NDArray[np.int64]]]:
        """Of some frames, and their codes; StudyError names `where` one, or `edits`, is unlike the first, or has no codes."""
        values: dict[int, Any] = {}
        codes = []
        for number, frame in enumerate(frames):
            at = f"{where}, DataFrame {number}"
            if not len(frame):
                raise StudyError(f"{at}: an empty database (shape {frame.shape}); accepted: at least one row")
            if _kind_of(frame) != _kind_of(frames[0]) or _dtypes(frame) != _dtypes(frames[0]):
                raise StudyError(
                    f"{at}: columns, dtypes with their categories, and index as in the first, {_kind_of(frames[0])}; "
                    f"given: {_kind_of(frame)}"
                )
            codes.append(_encode(frame, values, at))
        if edits is not None:
            if _columns_of(edits) != _columns_of(frames[0]) or edits.dtypes.tolist() != frames[0].dtypes.tolist():
                raise StudyError(
                    f"{where}: rows that are set have columns and dtypes, with their categories, as the first DataFrame has, "
                    f"{_columns_of(frames[0])}; given: {_columns_of(edits)}"
                )
            row_codes(edits, values, f"{where}: rows that are set")
        return cls(frames[0].iloc[:0].copy(), values), codes

    def decode(self, codes: NDArray[np.int64]) -> Any:
        """The DataFrame of some codes, with its columns, dtypes, index and text."""
        import pandas as pd

        example = self.example
        labels = [self._column(codes[:, 1 + n], level.dtype) for n, level in enumerate(_levels(example.index))]
        first = 1 + len(labels)
        columns = {
            place: self._column(codes[:, first + place], example.iloc[:, place].dtype)
            for place in range(example.shape[1])
        }
        if len(labels) > 1:
            index = pd.MultiIndex.from_arrays(labels, names=example.index.names)
        else:
            index = pd.Index(labels[0], name=example.index.name)
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


def _levels(index: Any) -> list[Any]:
    """The labels of each level, of one level the index itself."""
    return [index.get_level_values(level) for level in range(index.nlevels)]


def _dtypes(frame: Any) -> list[Any]:
    dtypes = [*frame.dtypes.tolist(), *(level.dtype for level in _levels(frame.index))]
    return [(dtype, [*getattr(dtype, "categories", ())]) for dtype in dtypes]  # unordered ones are equal in any order


def _columns_of(frame: Any) -> str:
    columns = [f"{name!r}: {dtype}" for name, dtype in zip(frame.columns.tolist(), frame.dtypes.tolist(), strict=True)]
    return f"{{{', '.join(columns)}}}"


def _kind_of(frame: Any) -> str:
    """Columns, dtypes and index in words."""
    if frame.index.nlevels == 1:
        name = "" if frame.index.name is None else f" {frame.index.name!r}"
        return f"{_columns_of(frame)}, index{name} of {frame.index.dtype}"
    levels = [f"{level.name!r}: {level.dtype}" for level in _levels(frame.index)]
    return f"{_columns_of(frame)}, index of levels {', '.join(levels)}"


def _encode(frame: Any, values: dict[int, Any], where: str) -> NDArray[np.int64]:
    levels, dtypes = _levels(frame.index), frame.dtypes.tolist()
    several = [level.dtype for level in levels] if len(levels) > 1 else []
    for number, dtype in enumerate(several):
        own = frame.index.levels[number].dtype
        if own != dtype:
            raise StudyError(
                f"{where}: level {number} of the index: labels of {own} without missing ones; given: missing ones, which "
                f"make {dtype} of it"
            )
    kind = _code(digest_json([_kind_of(frame), [digest_value(dtype) for dtype in [*dtypes, *several]]]))
    labels = [
        _column_codes(level.to_series(), values, f"{where}: the index" + f", level {number}" * bool(several))
        for number, level in enumerate(levels)
    ]
    whole = np.column_stack([np.full(len(frame), kind), *labels, row_codes(frame, values, where)])
    whole.setflags(write=False)
    return whole


def row_codes(frame: Any, values: dict[int, Any], where: str) -> NDArray[np.int64]:
    """Codes of what rows hold beside their labels, int64 of shape (rows, columns); `values` gets what codes stand for."""
    columns = [
        _column_codes(frame.iloc[:, place], values, f"{where}: column {frame.columns[place]!r}")
        for place in range(frame.shape[1])
    ]
    return np.column_stack(columns) if columns else np.empty((len(frame), 0), np.int64)


def _column_codes(column: Any, values: dict[int, Any], where: str) -> NDArray[np.int64]:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biufmM":
        array = np.ascontiguousarray(column.to_numpy())
        if dtype.kind == "f":
            return array.astype(np.float64).view(np.int64)
        return array.view(np.int64) if dtype.itemsize == 8 else array.astype(np.int64)
    known: dict[tuple[type, Any], int] = {}
    codes = []
    for value, is_missing in zip(column.tolist(), column.isna().tolist(), strict=True):
        key = (type(value), None if is_missing else value)  # what is missing is equal to nothing
        try:
            code = known.get(key)
        except TypeError:  # a list, or what holds one
            raise _uncoded(value, where) from None
        if code is None:
            try:
                code = known[key] = _code(digest_value(value))
            except StudyError:
                raise _uncoded(value, where) from None
            values.setdefault(code, value)
        codes.append(code)
    return np.array(codes, np.int64)


def _uncoded(value: Any, where: str) -> StudyError:
    return StudyError(f"{where}: text, numbers, booleans, times and missing values; given: a {type(value).__name__}")


def _code(digest: str) -> int:
    return int(digest[:16], 16) >> 1
