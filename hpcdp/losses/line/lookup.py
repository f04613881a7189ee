"""Finding the run of a step function that holds an output, and tables that count many outputs at a few nanoseconds each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.line import _kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CELLS = 1 << 22
_MANY_CLASSES = 1 << 12  # with more, as tallies of a pilot's cells have, most table cells are of several classes
_SMALLEST, _LARGEST = 1 << 13, 1 << 18  # cells; the nearest cache holds the one, the next one the other
_FEW = 1 << 16  # outputs, besides two a run, that pay for a table
_SEEN = 1 << 11  # outputs that tell where a table's cells should lie
_LATE = 0.01  # share of the outputs that may take more than a look
_BEYOND = (0.001, 0.02)  # their shares that may lie outside, at either end: more where tails are far away


def _grid(low: float, high: float, cells: int) -> tuple[float, float]:
    """Origin and scale of equal cells from low to high; the first and the last cell hold what is beyond."""
    width = max(high - low, abs(low) * 2.0**-20, 2.0**-1000)  # of one place a little of its neighbourhood
    margin = 2 * width / cells
    return (low - margin, cells / (width + 2 * margin)) if np.isfinite(width) else (0.0, 0.0)


def _places(starts: Floats, origin: float, scale: float, cells: int) -> Ints:
    """The cell of each start, as kernels place outputs: a place that is no number is the first."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num((starts - origin) * scale, nan=0.0).clip(0.0, cells - 1.0).astype(np.int64)


@dataclass(frozen=True)
class Lookup:
    """Finds the run of an output: a guide table `first` over the middle of the starts, then a short binary search."""

    starts: Floats
    first: NDArray[np.int32]
    origin: float
    scale: float

    @classmethod
    def over(cls, starts: Floats) -> Lookup:
        """A lookup in increasing starts, starts[0] = -inf."""
        inner = starts[1:] if starts.size > 1 else np.zeros(1)
        cut = int(0.005 * (inner.size - 1) + 0.5)
        low, high = float(inner[cut]), float(inner[-1 - cut])
        cells = int(min(_CELLS, max(1, 8 * (starts.size - 1))))
        width = high * 0.5 - low * 0.5
        scale = 0.5 * cells / width if width > 0 and np.isfinite(0.5 * cells / width) else 0.0
        place = _places(starts[1:], low, scale, cells)
        first = np.append(0, np.cumsum(np.bincount(place, minlength=cells))) + 1
        return cls(starts, first.astype(np.int32), low, scale)

    def runs(self, x: Floats) -> Ints:
        """Run of each x, shape (size,), int64."""
        out = np.empty(x.size, np.int64)
        kernels.find_runs(x, self.starts, self.first, self.origin, self.scale, out)
        return out


Count = Callable[[Floats], tuple[Ints, int]]
"""Gives the histogram of x (size,) over the classes, int64, and how many of them took more than a look."""


def by_class(lookup: Lookup, codes: NDArray[np.int32], classes: int, low: float, high: float, cells: int) -> Count:
    """Counts outputs, mostly in [low, high], by class: most cells are of one, which one look tells. For up to 65,534 classes."""
    dtype = np.dtype(np.uint8 if classes <= np.iinfo(np.uint8).max else np.uint16)
    split, (origin, scale) = dtype.type(classes), _grid(low, high, cells)
    places = _places(lookup.starts[1:], origin, scale, cells)
    table = np.repeat(codes.astype(dtype), np.diff(places, prepend=0, append=cells))
    table[places] = split

    def count(x: Floats) -> tuple[Ints, int]:
        counts = np.zeros(classes + 1, np.int64)
        kernels.count_classes(
            x, table, origin, scale, split, lookup.starts, codes, lookup.first, lookup.origin, lookup.scale, counts
        )
        return counts[:-1], int(counts[-1])

    return count


def by_run(lookup: Lookup, codes: NDArray[np.int32], classes: int, low: float, high: float, cells: int) -> Count:
    """Counts outputs by run, then runs by class: a cell tells the run up to two comparisons. For very many classes."""
    runs = lookup.starts.size
    dtype = np.dtype(np.uint16 if runs <= np.iinfo(np.uint16).max else np.uint32)
    origin, scale = _grid(low, high, cells)
    many, following = dtype.type(runs), np.append(lookup.starts[1:], [np.nan] * 3)
    places = _places(lookup.starts[1:], origin, scale, cells)
    table = np.repeat(np.arange(runs, dtype=dtype), np.diff(places, prepend=0, append=cells))
    table[places[::-1]] = np.arange(runs - 1, dtype=dtype)[
        ::-1
    ]  # the run that enters a cell, before the first start there
    table[places[2:][places[2:] == places[:-2]]] = many

    def count(x: Floats) -> tuple[Ints, int]:
        counts = np.zeros(runs + 1, np.uint32)  # half of what 64 bits take of the cache
        kernels.count_each_run(
            x, table, origin, scale, many, following, lookup.starts, lookup.first, lookup.origin, lookup.scale, counts
        )
        return np.bincount(codes, counts[:-1], classes).astype(np.int64), int(counts[-1])

    return count


@dataclass
class Tables:
    """The table of a step function where the outputs lie that are being counted; made anew when they come to lie elsewhere."""

    lookup: Lookup
    codes: NDArray[np.int32]
    classes: int
    made: tuple[Count, float] | None = None  # and the share of outputs that took more than a look
    seen: int = 0

    def pay(self, size: int) -> bool:
        """Whether a table is worth its making once so many outputs more are to be counted."""
        self.seen += size
        return size >= _SEEN and _FEW + 2 * self.codes.size <= self.seen

    def count(self, x: Floats) -> Ints:
        """Histogram of x (size,) over the classes, int64."""
        made = self.made or self._make(x)
        counts, late = made[0](x)
        lies_elsewhere = late > x.size * max(0.125, 2.0 * made[1])
        self.made = None if lies_elsewhere else made
        return counts

    def _make(self, x: Floats) -> tuple[Count, float]:
        """The smallest table that serves a sample of x well, else the one that serves it best."""
        starts, sample = self.lookup.starts, np.sort(x[:: max(1, x.size // _SEEN)])
        kind, each = (by_class, 64) if self.classes <= _MANY_CLASSES else (by_run, 1)
        candidates: list[tuple[Count, float]] = []
        for share in _BEYOND:
            cut = int(share * sample.size)
            first, last = starts[[min(1, starts.size - 1), -1]]  # beyond them is one run at either end
            low, high = np.clip([sample[cut], sample[-1 - cut]], first, last).tolist()
            inside = int(np.searchsorted(starts, high, "right") - np.searchsorted(starts, low))
            cells = 1 << (min(max(each * inside, _SMALLEST), _LARGEST) - 1).bit_length()
            while cells <= _LARGEST:
                table = kind(self.lookup, self.codes, self.classes, low, high, cells)
                candidates.append((table, table(sample)[1] / sample.size))
                if candidates[-1][1] < 2 * share + _LATE:
                    return candidates[-1]
                cells *= 2
        return min(candidates, key=lambda candidate: candidate[1])
