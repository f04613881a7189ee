"""Cells: the line cut for tallies, so that fresh outputs of one dimension need only be counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.line.cell_edges import MOST_CELLS, cut_line, cut_values, lattice_spacing
from hpcdp.losses.line.step import Lookup, StepCounter

__all__ = ["MOST_CELLS", "LineCells"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FEW = 1 << 15  # distinct values that may have cells of their own
_ATOM_SHARE = 1 << 13  # a value held by more than the outputs over this is an atom: it would fill a quantile cell alone
_ATOM_LEAST = 8
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class LineCells:
    """Cell i is [starts[i], starts[i + 1]); the first starts at -inf, the last has no end. At most 2¹⁶ cells.

    starts: (cells,) float64, increasing. centres: (cells,) float64, finite, increasing, each inside its cell. atoms:
    (cells,) bool, whether a cell holds one value whose log-ratio need not be near its neighbours'.
    """

    starts: Floats
    centres: Floats
    atoms: NDArray[np.bool_]

    @classmethod
    def of(cls, p: Floats, q: Floats, *, most: int = MOST_CELLS) -> LineCells:
        """Cells from sorted finite pilot outputs of both sides, (size,) float64 each, at least one output in all.

        most: cells beside those of values that many hold, where outputs have a density; 2¹⁶ with these at most.

        Widths follow the pilot's quantiles and change slowly, also far beyond the pilot. Values that many pilot
        outputs hold are cells of their own, as are the values of a lattice and outputs of few distinct values.

        Raises:
            ValueError: there is no pilot output.
        """
        pool = np.sort(np.concatenate([p, q]), kind="stable")
        if not pool.size:
            raise ValueError("no pilot output from which the line could be cut; accepted: at least one")
        with np.errstate(over="ignore"):  # what lies beyond the largest float is left out
            return cls._of_pool(pool, most)

    @classmethod
    def _of_pool(cls, pool: Floats, most: int) -> LineCells:
        first = np.flatnonzero(np.append(True, pool[1:] != pool[:-1]))
        values, held = pool[first], np.diff(np.append(first, pool.size))
        if values.size == 1:
            return cls._of_edges(np.empty(0), values)
        if values.size <= _FEW:
            near = np.append(0, 1 + np.flatnonzero(np.diff(values) > _ROUNDING * np.abs(values).max()))
            merged = values[near] if near.size > 1 else values  # what rounding alone has told apart
            for points in (values, merged):
                spacing = lattice_spacing(points, _FEW)
                if spacing is not None:
                    return cls._of_values(points, spacing, True)
            times = np.add.reduceat(held, near) if near.size > 1 else held
            if 2 * np.count_nonzero(times == 1) <= times.size:
                return cls._of_values(merged, None, False)
        common = held > max(_ATOM_LEAST, pool.size // _ATOM_SHARE)
        rest = np.repeat(values[~common], held[~common])
        if rest.size and rest[0] < rest[-1]:
            own = 2 * int(common.sum())
            return cls._of_edges(cut_line(rest, min(most, MOST_CELLS - own) - 1), values[common])
        return cls._of_values(values, None, False)

    @classmethod
    def _of_edges(cls, edges: Floats, atoms: Floats) -> LineCells:
        """Cells between edges; atoms have cells [v, v⁺) of their own."""
        after = np.nextafter(atoms, np.inf)
        edges = np.unique(np.concatenate([edges, atoms, after[np.isfinite(after)]]))
        return cls._between(edges, atoms, atoms)

    @classmethod
    def _of_values(cls, values: Floats, spacing: float | None, smooth: bool) -> LineCells:
        """A cell for each of these values, and for those of the lattice that the pilot has not seen."""
        return cls._between(cut_values(values, spacing, MOST_CELLS - 1), values, values[:0] if smooth else values)

    @classmethod
    def _between(cls, edges: Floats, known: Floats, atoms: Floats) -> LineCells:
        """Cells of finite increasing edges (at least one); known values are the centres of their cells, atoms so marked."""
        edges = edges[edges > -_LARGEST]  # below it there is no place for a cell
        starts = np.concatenate([[-np.inf], edges])
        middle = 0.5 * edges[:-1] + 0.5 * edges[1:]
        middle = np.where((middle >= edges[:-1]) & (middle < edges[1:]), middle, edges[:-1])
        width = edges[1] - edges[0] if edges.size > 1 else 0.0
        low = min(max(edges[0] - width, -_LARGEST), np.nextafter(edges[0], -np.inf))
        width = edges[-1] - edges[-2] if edges.size > 1 else 0.0
        high = min(edges[-1] + width, _LARGEST)
        centres = np.concatenate([[low], middle, [high]])
        centres[np.searchsorted(starts, known, "right") - 1] = known
        held = np.zeros(starts.size, np.bool_)
        held[np.searchsorted(starts, atoms, "right") - 1] = True
        return cls(starts, centres, held)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.starts.size

    @cached_property
    def lookup(self) -> Lookup:
        """Finds the cell of an output."""
        return Lookup.over(self.starts)

    @cached_property
    def _counter(self) -> StepCounter:
        return StepCounter(self.lookup, np.arange(self.size, dtype=np.int32), self.size)

    def tally(self, outputs: NDArray[Any]) -> Ints:
        """How many of finite outputs (size,) or (size, 1) each cell holds, (cells,) int64; tallies of chunks add up."""
        return self._counter.count(outputs)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that `restore` needs."""
        return {"starts": self.starts, "centres": self.centres, "atoms": self.atoms}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> LineCells:
        """The cells that `state` came from."""
        return cls(state["starts"], state["centres"], state["atoms"])
