"""The distinct values of training outputs, and where an output is among them: by equality only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.frequency import _row_kernels as kernels
from hpcdp.losses.protocol import Outputs, Side

Ints = NDArray[np.int64]

_KEYS = 1 << 62  # keys of rows stay below, so that they fit int64
_TABLE = 1 << 20  # integers of a range below are looked up in a table
_BITS = 62  # booleans of a row that are packed, so that they fit int64
_FEW = 1 << 12  # outputs of a side that tell whether values come again
_SPARSE = 8  # up to so many keys per training row are looked up in a table, more by bisection


class Distinct(Protocol):
    """Distinct values in a fixed order, numbered from 0."""

    @property
    def size(self) -> int:
        """How many distinct values there are."""
        ...

    def find(self, outputs: Outputs) -> Ints:
        """Number of each output's value, shape (size,); -1 for a value that is not there."""
        ...

    def values(self) -> Outputs:
        """The distinct values as outputs, in order."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays that `restore_distinct` makes the values from."""
        ...


def _locate(ascending: NDArray[Any], x: NDArray[Any], seen: NDArray[np.bool_]) -> Ints:
    """Position of each x in ascending distinct values; seen becomes False where x is not there (position any)."""
    if not ascending.size:
        seen[:] = False
        return np.zeros(x.size, np.int64)
    place = _places(ascending, x)
    seen &= ascending[place] == x
    return place


def _places(ascending: NDArray[Any], x: NDArray[Any]) -> Ints:
    """Position of each x in ascending distinct values; any where it is not there. Integers of a small range by a table."""
    span = _span(ascending)
    if span is None or x.dtype != ascending.dtype:
        return np.asarray(np.minimum(np.searchsorted(ascending, x), ascending.size - 1))
    low = int(ascending[0])
    table, found = np.zeros(span + 1, np.int64), np.empty(x.size, np.int64)
    table[ascending.astype(np.int64) - low] = np.arange(ascending.size)
    kernels.look_up(x.astype(np.int64, copy=False), low, table, found)
    return found


def _find_packed(ascending: Ints, x: Ints) -> Ints:
    """Position of each x in ascending distinct whole numbers; −1 where it is not there."""
    span = _span(ascending)
    if span is None:
        seen = np.ones(x.size, np.bool_)
        found = _locate(ascending, x, seen)
        found[~seen] = -1
        return found
    table, low = np.full(span + 3, -1, np.int64), int(ascending[0]) - 1  # one more at both ends, for all beyond them
    table[ascending - low] = np.arange(ascending.size)
    found = np.empty(x.size, np.int64)
    kernels.look_up(x, low, table, found)
    return found


def _is_packed(table: NDArray[Any]) -> bool:
    """Whether rows are told apart as whole numbers: so many booleans that one holds them."""
    return table.dtype == np.bool_ and 2 <= table.shape[1] <= _BITS


def _pack(table: NDArray[Any]) -> Ints:
    """Rows of booleans as whole numbers in the same order, (size,)."""
    key = np.empty(table.shape[0], np.int64)
    kernels.pack(np.ascontiguousarray(table), key)
    return key


def _span(ascending: NDArray[Any]) -> int | None:
    """Largest less smallest of integers or booleans, where that is small."""
    if ascending.dtype.kind not in "bi" or not ascending.size:
        return None
    span = int(ascending[-1]) - int(ascending[0])
    return span if span < _TABLE else None


def _ascending(column: NDArray[Any]) -> NDArray[Any]:
    """The distinct values of a column, ascending."""
    if column.dtype.kind in "bi" and column.size:
        low, high = int(column.min()), int(column.max())
        if high - low < min(_TABLE, _SPARSE * column.size):
            found = np.flatnonzero(np.bincount(column.astype(np.int64) - low)) + low
            return np.asarray(found.astype(column.dtype))
    return np.unique(column)


def as_rows(outputs: Outputs) -> NDArray[Any]:
    """Numeric outputs of shape (size,) or (size, d) as rows, shape (size, d)."""
    return outputs[:, None] if outputs.ndim == 1 else outputs


@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct numbers or rows, in lexicographic order.

    columns: distinct values of each column, ascending, of as many columns as tell all rows apart. A row's key is the
    mixed-radix number of its columns' positions. merges: before column c the keys so far become their positions in
    merges[c], or they would overflow. kept: keys of the rows, ascending. table: row of each key, -1 for none; empty
    when there are too many keys, and for one column, whose keys are the rows' numbers already. Rows of up to 62 booleans
    are one column of whole numbers. rows: (size, d).
    scalar: outputs have shape (size,).
    """

    columns: tuple[NDArray[Any], ...]
    merges: Mapping[int, Ints]
    kept: Ints
    table: Ints
    rows: NDArray[Any]
    scalar: bool

    @classmethod
    def learn(cls, outputs: Outputs) -> tuple[Rows, Ints]:
        """The distinct values of outputs of shape (size,) or (size, d), and the number of each output's value."""
        table = as_rows(outputs)
        if _is_packed(table):
            packed = _pack(table)
            values = _ascending(packed)
            codes = _places(values, packed) if values.size else np.zeros(0, np.int64)
            first = np.zeros(values.size, np.int64)
            first[codes] = np.arange(codes.size)
            empty = np.empty(0, np.int64)
            return cls((values,), {}, np.arange(values.size), empty, table[first], outputs.ndim == 1), codes
        columns: list[NDArray[Any]] = []
        merges: dict[int, Ints] = {}
        key, space = np.zeros(table.shape[0], np.int64), 1
        for c in range(table.shape[1]):
            column = np.ascontiguousarray(table[:, c])
            values = _ascending(column)
            if space * max(1, values.size) > _KEYS:
                merges[c], key = np.unique(key, return_inverse=True)
                space = merges[c].size
            key = key * values.size + (_places(values, column) if values.size else 0)
            space *= values.size
            columns.append(values)
            if values.size == column.size:
                break  # all rows are distinct already
        if table.shape[1] == 1:  # every key occurs
            kept, codes, rows = np.arange(space), key, columns[0][:, None]
        else:
            kept, first, codes = np.unique(key, return_index=True, return_inverse=True)
            rows = table[first]
        places = np.empty(0, np.int64)
        if table.shape[1] > 1 and space <= _SPARSE * table.shape[0]:
            places = np.full(space, -1, np.int64)
            places[kept] = np.arange(kept.size)
        return cls(tuple(columns), merges, kept, places, rows, outputs.ndim == 1), codes

    @property
    def size(self) -> int:
        """How many distinct rows there are."""
        return self.kept.size

    def find(self, outputs: Outputs) -> Ints:
        """Number of each output's row, shape (size,); -1 for a row that is not there."""
        table = as_rows(outputs)
        if table.shape[1] != self.rows.shape[1]:
            raise ValueError(f"outputs have {table.shape[1]} columns, the training outputs {self.rows.shape[1]}")
        if _is_packed(table) and _is_packed(self.rows):
            return _find_packed(self.columns[0], _pack(table))
        seen = np.ones(table.shape[0], np.bool_)
        key = np.zeros(table.shape[0], np.int64)
        for c, values in enumerate(self.columns):
            if c in self.merges:
                key = _locate(self.merges[c], key, seen)
            key = key * values.size + _locate(values, np.ascontiguousarray(table[:, c]), seen)
        if self.table.size:
            key = self.table[np.where(seen, key, 0)]
        elif table.shape[1] > 1:
            key = _locate(self.kept, key, seen)
        key[~seen] = -1
        if len(self.columns) < table.shape[1]:  # the other columns have to agree as well
            found = np.flatnonzero(key >= 0)
            differ = (self.rows[key[found]] != table[found]).any(axis=1)
            key[found[differ]] = -1
        return key

    def values(self) -> Outputs:
        """The distinct outputs, shape (size,) or (size, d)."""
        return self.rows[:, 0] if self.scalar else self.rows

    def state(self) -> dict[str, NDArray[Any]]:
        """The values themselves."""
        return {"values": self.values()}


@dataclass(frozen=True, eq=False)
class Words:
    """Distinct bytes; places: the number of each."""

    places: dict[bytes, int]

    @classmethod
    def learn(cls, outputs: Outputs) -> tuple[Words, Ints]:
        """The distinct values of an object array (size,) of bytes, and the number of each output's value."""
        places: dict[bytes, int] = {}
        codes = np.fromiter((places.setdefault(o, len(places)) for o in outputs), np.int64, outputs.size)
        return cls(places), codes

    @property
    def size(self) -> int:
        """How many distinct bytes there are."""
        return len(self.places)

    def find(self, outputs: Outputs) -> Ints:
        """Number of each output's bytes, shape (size,); -1 for bytes that are not there."""
        place = self.places.get
        return np.fromiter((place(o, -1) for o in outputs), np.int64, outputs.size)

    def values(self) -> Outputs:
        """The distinct bytes, an object array (size,)."""
        out = np.empty(self.size, object)
        out[:] = list(self.places)
        return out

    def state(self) -> dict[str, NDArray[Any]]:
        """All bytes in a row, and where each value starts and ends."""
        lengths = np.fromiter((len(word) for word in self.places), np.int64, self.size)
        data = np.frombuffer(b"".join(self.places), np.uint8)
        return {"data": data, "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)}


def learn_distinct(outputs: Outputs) -> tuple[Distinct, Ints]:
    """The distinct values of outputs (numbers, rows or bytes), and the number of each output's value."""
    return Words.learn(outputs) if outputs.dtype == object else Rows.learn(outputs)


def count_distinct(outputs: Outputs) -> int:
    """How many distinct outputs there are."""
    if outputs.dtype.kind == "f" and outputs.ndim == 1:
        ordered = np.sort(outputs)
        return min(1, ordered.size) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    return learn_distinct(outputs)[0].size


def tally(side: Side) -> tuple[Outputs, Ints] | None:
    """The distinct outputs of a side and how often each is there; None where most come once only."""
    if "tally" not in side.kept:
        few = side.spread(_FEW)
        side.kept["tally"] = None
        if 2 * count_distinct(few) <= few.shape[0]:
            distinct, codes = learn_distinct(side.outputs)
            side.kept["tally"] = distinct.values(), np.bincount(codes, minlength=distinct.size)
    found: tuple[Outputs, Ints] | None = side.kept["tally"]
    return found


def learn_both(p: Side, q: Side) -> tuple[Distinct, Ints, Ints]:
    """The distinct outputs of both sides together, and how often each is there on either."""
    told = tally(p), tally(q)
    if told[0] is None or told[1] is None:
        distinct, codes = learn_distinct(np.concatenate([p.outputs, q.outputs]))
        numbers = codes[: p.size], codes[p.size :]
        counts = [np.bincount(found, minlength=distinct.size) for found in numbers]
        return distinct, counts[0], counts[1]
    distinct, codes = learn_distinct(np.concatenate([told[0][0], told[1][0]]))
    counts = [np.zeros(distinct.size, np.int64) for _ in told]
    cut = told[0][1].size
    counts[0][codes[:cut]], counts[1][codes[cut:]] = told[0][1], told[1][1]
    return distinct, counts[0], counts[1]


def restore_values(state: Mapping[str, NDArray[Any]]) -> Outputs:
    """The distinct values whose `state` this is, as outputs, in their order."""
    if "values" in state:
        return state["values"]
    data, offsets = state["data"].tobytes(), state["offsets"]
    out = np.empty(offsets.size - 1, object)
    out[:] = [data[a:b] for a, b in pairwise(offsets)]
    return out
