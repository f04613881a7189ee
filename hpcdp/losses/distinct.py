"""The distinct values of training outputs, and where an output is among them.

Values are told apart by their 64-bit hashes, the same in every process: single numbers exactly, rows and bytes but for two
given ones in 2⁶⁴. Where values would be too many, fewer bits tell classes of values apart (`hpcdp.losses.frequency`). Of
single numbers hashes differ whenever the numbers do (every step can be undone); of rows and bytes two given values share one
with probability 2⁻⁶⁴ (heuristic: the hash taken as random).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.losses.protocol import Outputs, Side

Hashes = NDArray[np.uint64]

_START = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@kernel(inline="always")
def _mix(x):  # type: ignore[no-untyped-def]
    """The output function of SplitMix64 (Steele, Lea and Flood 2014), a permutation of 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@kernel()
def _hash_rows(words, out):  # type: ignore[no-untyped-def]
    """h ← mix((h + start) ⊕ word) over the words of each row, from h = 0."""
    for i in range(words.shape[0]):
        h = np.uint64(0)
        for c in range(words.shape[1]):
            h = _mix((h + _START) ^ words[i, c])
        out[i] = h


@kernel()
def _hash_bytes(data, ends, out):  # type: ignore[no-untyped-def]
    """The same over words of 8 bytes, the last one filled with zeros, from h = mix(length)."""
    start = np.int64(0)
    for i in range(ends.size):
        h = _mix(np.uint64(ends[i] - start))
        word, place = np.uint64(0), np.uint64(0)
        for j in range(start, ends[i]):
            word |= np.uint64(data[j]) << place
            place += np.uint64(8)
            if place == 64:
                h = _mix((h + _START) ^ word)
                word, place = np.uint64(0), np.uint64(0)
        out[i] = _mix((h + _START) ^ word)
        start = ends[i]


def hash_outputs(outputs: Outputs) -> Hashes:
    """Hash of each output, shape (size,), uint64; equal outputs of one dtype and shape have equal hashes."""
    out = np.empty(outputs.shape[0], np.uint64)
    if outputs.dtype == object:
        ends = np.cumsum(np.fromiter(map(len, outputs), np.int64, outputs.size))
        _hash_bytes(np.frombuffer(b"".join(outputs), np.uint8), ends, out)
    else:
        _hash_rows(_words(outputs), out)
    return out


def _words(outputs: NDArray[Any]) -> Hashes:
    """Numeric outputs as rows of 64-bit words that are equal where the outputs are, shape (size, words)."""
    if outputs.dtype == np.bool_ and outputs.ndim == 2:
        return pack_bits(outputs)
    if outputs.dtype == np.bool_:
        return outputs.astype(np.uint64)[:, None]
    number = np.float64 if outputs.dtype.kind == "f" else np.int64
    table = np.ascontiguousarray(np.add(outputs, number(0), dtype=number))  # −0.0 becomes 0.0
    return table.view(np.uint64).reshape(outputs.shape[0], prod(outputs.shape[1:]))


def pack_bits(outputs: NDArray[np.bool_]) -> Hashes:
    """Bits (size, d), d >= 1, in words of 64, shape (size, ceil(d/64)), uint64; the last word ends in zeros."""
    words = np.zeros((outputs.shape[0], 8 * -(-outputs.shape[1] // 64)), np.uint8)
    words[:, : -(-outputs.shape[1] // 8)] = np.packbits(outputs, axis=1, bitorder="little")
    return words.view("<u8").astype(np.uint64, copy=False)


Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

_ALL_BITS = 64
_TABLE_BITS = 20  # whole numbers of a range below two to it are looked up in a table
_FEW = 1 << 12  # outputs of a side that tell whether values come again


@dataclass(frozen=True, eq=False)
class Distinct:
    """Distinct values, numbered in the order of their hashes, or classes of values whose hashes begin alike."""

    keys: Keys  # the leading bits of the hashes, ascending
    bits: int = _ALL_BITS
    outputs: Outputs | None = None  # the values; None of classes, and where they are not needed

    @property
    def size(self) -> int:
        """How many there are."""
        return self.keys.size

    def values(self) -> Outputs:
        """The values as outputs, in order."""
        assert self.outputs is not None
        return self.outputs

    @cached_property
    def _guide(self) -> tuple[int, NDArray[np.int32]]:
        """How many bits of a key do not choose a cell, and the first key of each cell, and of one more."""
        cells = max(1, min(self.bits, self.size.bit_length()))
        shift = self.bits - cells
        starts = np.arange(1 << cells, dtype=np.uint64) << np.uint64(shift)
        return shift, np.append(np.searchsorted(self.keys, starts), self.size).astype(np.int32)

    @cached_property
    def _table(self) -> tuple[int, Ints] | None:
        """Of whole numbers of a small range: one less than the least, and the number of each from there to one beyond them."""
        whole = None if self.outputs is None else _as_whole(self.outputs)
        if whole is None or _span(whole) is None:
            return None
        low = int(whole.min()) - 1
        table = np.full(int(whole.max()) - low + 2, -1)
        table[whole - low] = np.arange(whole.size)
        return low, table

    def find(self, outputs: Outputs) -> Ints:
        """Number of each output's value or class, shape (size,); -1 for one that is not there."""
        columns, known = _columns(outputs), _columns(outputs if self.outputs is None else self.outputs)
        if columns != known:
            raise ValueError(f"outputs have {columns} columns, the training outputs {known}")
        if self._table is not None and (whole := _as_whole(outputs)) is not None:
            low, table = self._table
            return table.take(whole - low, mode="clip")
        shift, guide = self._guide
        out = np.empty(outputs.shape[0], np.int64)
        _find(hash_outputs(outputs) >> np.uint64(_ALL_BITS - self.bits), self.keys, guide, np.uint64(shift), out)
        return out

    def only(self, chosen: NDArray[np.bool_]) -> Distinct:
        """Some of them, chosen (size,), in their order."""
        return Distinct(self.keys[chosen], self.bits, None if self.outputs is None else self.outputs[chosen])

    def state(self) -> dict[str, NDArray[Any]]:
        """The keys, how many bits they have, and the values where a table serves to find them."""
        values = {} if self._table is None else {"values": self.values()}
        return {"keys": self.keys, "bits": np.array(self.bits), **values}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Distinct:
        """What the `state` is of."""
        return cls(state["keys"], int(state["bits"]), state.get("values"))


@kernel()
def _find(keys, known, guide, shift, out):  # type: ignore[no-untyped-def]
    """Place of each key among ascending known ones, from the first of its cell on; −1 where it is not there."""
    for i in range(keys.size):
        cell = np.int64(keys[i] >> shift)
        place, stop = np.int64(guide[cell]), np.int64(guide[cell + 1])
        while place < stop and known[place] < keys[i]:
            place += 1
        out[i] = place if place < stop and known[place] == keys[i] else -1


def _columns(outputs: Outputs) -> int:
    return int(outputs.shape[1]) if outputs.ndim == 2 else 1


def _as_whole(outputs: Outputs) -> Ints | None:
    """Integers, booleans and rows of a few booleans as one whole number each; None of others."""
    if outputs.dtype == np.bool_ and outputs.ndim == 2 and outputs.shape[1] <= _TABLE_BITS:
        return pack_bits(outputs)[:, 0].astype(np.int64)
    return outputs.astype(np.int64, copy=False) if outputs.ndim == 1 and outputs.dtype.kind in "bi" else None


def _span(whole: Ints) -> int | None:
    """Largest less smallest of whole numbers, where that is small."""
    span = int(whole.max()) - int(whole.min()) if whole.size else 0
    return span if whole.size and span < 1 << _TABLE_BITS else None


def learn_distinct(outputs: Outputs) -> tuple[Distinct, Ints]:
    """The distinct values of outputs (numbers, rows or bytes), and the number of each output's value."""
    whole = _as_whole(outputs)
    span = None if whole is None else _span(whole)
    if whole is not None and span is not None and span < 8 * whole.size:  # a table tells them apart
        places = whole - whole.min()
        first = np.full(span + 1, -1)
        first[places] = np.arange(places.size)
        held = np.flatnonzero(first >= 0)
        keys, order = np.unique(hash_outputs(outputs[first[held]]), return_index=True)
        numbers = np.empty(span + 1, np.int64)
        numbers[held[order]] = np.arange(order.size)
        return Distinct(keys, outputs=outputs[first[held[order]]]), numbers[places]
    keys, place, codes = np.unique(hash_outputs(outputs), return_index=True, return_inverse=True)
    return Distinct(keys, outputs=outputs[place]), codes


def count_distinct(outputs: Outputs) -> int:
    """How many distinct outputs there are."""
    return int(np.unique(hash_outputs(outputs)).size)


def tally(side: Side) -> tuple[Outputs, Ints] | None:
    """The distinct outputs of a side and how often each is there, kept, as one D serves many pairs; None where most come once."""
    if "tally" not in side.kept:
        few = side.spread(_FEW)
        side.kept["tally"] = None
        if 2 * count_distinct(few) <= few.shape[0]:
            distinct, codes = learn_distinct(side.outputs)
            side.kept["tally"] = distinct.values(), np.bincount(codes, minlength=distinct.size)
    counted: tuple[Outputs, Ints] | None = side.kept["tally"]
    return counted


def learn_both(p: Outputs, q: Outputs) -> tuple[Distinct, Ints, Ints]:
    """The distinct outputs of both sides together, and how often each is there on either."""
    distinct, codes = learn_distinct(np.concatenate([p, q]))
    c0, c1 = (np.bincount(part, minlength=distinct.size) for part in np.split(codes, [len(p)]))
    return distinct, c0, c1


def learn_sides(p: Side, q: Side) -> tuple[Distinct, Ints, Ints]:
    """The same of sides: of their tallies where most outputs come again, since one D serves many pairs."""
    first, second = tally(p), tally(q)
    if first is None or second is None:
        return learn_both(p.outputs, q.outputs)
    distinct, codes = learn_distinct(np.concatenate([first[0], second[0]]))
    counts = np.zeros((2, distinct.size), np.int64)
    counts[0, codes[: first[1].size]], counts[1, codes[first[1].size :]] = first[1], second[1]
    return distinct, counts[0], counts[1]
