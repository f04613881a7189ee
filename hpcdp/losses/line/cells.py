"""Cells: the line cut for tallies, so that fresh outputs of one dimension need only be counted.

Cells begin on a line of slowly changing widths, or half-way between the values of a lattice. Widths obey
h(x) <= h(y) + growth·|x − y|, so a cell and its neighbour differ by the factor 1 + growth at most. The largest such h below the
pilot's quantile spacings is linear in pieces; cells are where the integral of 1/h is an integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.line.step import Lookup, StepCounter
from hpcdp.losses.protocol import Arrays

__all__ = ["MOST_CELLS", "LineCells"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CELLS = 1 << 16
"""No line is cut in more cells."""

_QUANTILES = 1 << 13
_FEWEST = 16  # pilot outputs between neighbouring quantiles, so that their spacing is not chance alone
_GROWTH = 0.002
_FAR = 1e6  # ranges of the pilot beyond which there is one last cell
_LATTICE_REACH = 2048  # values of a lattice beyond the pilot, or into a gap, that have cells of their own
_LATTICE_GROWTH = 0.005


def mirrored(size: int, parts: int) -> Ints:
    """Places that cut range(size + 1) in an odd number of about `parts` nearly equal parts, the same ones from the other end."""
    if parts >= size:
        return np.arange(size + 1)
    parts = max(1, parts - 1) | 1
    half = np.arange(parts // 2 + 1) * size // parts
    return np.unique(np.concatenate([half, size - half]))


def unit_exponent(x: Floats) -> int:
    """The power of two that brings the largest |x| into [1/2, 1)."""
    return int(np.frexp(np.abs(x).max())[1])


def cut_line(pool: Floats, most: int) -> Floats:
    """Edges of at most `most` cells, increasing and finite, of a sorted pool that holds two values or more."""
    exponent = unit_exponent(pool)
    unit = np.ldexp(pool, -exponent)  # neither differences nor tails overflow
    centre = 0.5 * unit[(unit.size - 1) // 2] + 0.5 * unit[unit.size // 2]
    at = mirrored(pool.size - 1, min(_QUANTILES, max(1, (pool.size - 1) // _FEWEST)))
    quantiles = np.unique(unit[at] - centre)
    fine = _QUANTILES / (quantiles.size - 1)
    growth = _GROWTH
    while True:
        nodes, widths = _pieces(quantiles, fine, growth)
        offsets = _integrate(nodes, widths, most - 1)
        if offsets is not None:
            break
        growth *= 2.0
        fine = max(1.0, fine / 2.0)
    edges = np.ldexp(centre + offsets, exponent)
    return np.unique(edges[np.isfinite(edges)])


def _pieces(x: Floats, fine: float, growth: float) -> tuple[Floats, Floats]:
    """Nodes of the width function and its values there, of sorted distinct quantiles x, at least two."""
    gaps = np.diff(x)
    caps = np.maximum(gaps / fine, np.finfo(float).tiny)
    at = np.minimum(np.append(caps, np.inf), np.append(np.inf, caps)).tolist()
    rises = (growth * gaps).tolist()
    for i in range(1, len(at)):
        at[i] = min(at[i], at[i - 1] + rises[i - 1])
    for i in range(len(at) - 2, -1, -1):
        at[i] = min(at[i], at[i + 1] + rises[i])
    left, right = np.array(at[:-1]), np.array(at[1:])
    meet = np.clip(0.5 * (gaps + (right - left) / growth), 0.0, gaps)
    up = np.minimum(np.maximum(caps - left, 0.0) / growth, meet)
    down = np.minimum(np.maximum(caps - right, 0.0) / growth, gaps - meet)
    nodes = np.stack([x[:-1], x[:-1] + up, x[1:] - down], axis=1).reshape(-1)
    widths = np.stack([left, left + growth * up, right + growth * down], axis=1).reshape(-1)
    far = _FAR * (x[-1] - x[0])
    nodes = np.concatenate([[x[0] - far], nodes, [x[-1], x[-1] + far]])
    widths = np.concatenate([[at[0] + growth * far], widths, [at[-1], at[-1] + growth * far]])
    return nodes, widths


def _integrate(nodes: Floats, widths: Floats, most: int) -> Floats | None:
    """Edges at equal steps, of about 1, of the integral of 1/width; None where that makes more than `most` cells."""
    lengths = np.maximum(np.diff(nodes), 0.0)
    rise = np.diff(widths)
    flat = np.abs(rise) < 1e-6 * widths[:-1]  # 1/width there is that of the middle, to 1e-13
    with np.errstate(invalid="ignore", divide="ignore"):
        bent = lengths * (np.diff(np.log(widths)) / rise)
    counts = np.where(flat, lengths / (widths[:-1] + 0.5 * rise), bent)
    sums = np.append(0.0, np.cumsum(counts))
    if not sums[-1] <= most - 1:
        return None
    targets = np.linspace(0.0, sums[-1], int(np.ceil(sums[-1])) + 1)
    piece = np.clip(np.searchsorted(sums, targets, "right") - 1, 0, lengths.size - 1)
    inside = targets - sums[piece]
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = (rise / lengths)[piece]
        bent = widths[piece] * (np.expm1(slope * inside) / slope)
    straight = inside * (widths[:-1] + 0.5 * rise)[piece]
    return nodes[piece] + np.minimum(np.where(flat[piece], straight, bent), lengths[piece])


def lattice_spacing(values: Floats, most: int) -> float | None:
    """The spacing of the lattice of sorted distinct values, in 2^`unit_exponent`; None: none, or of more than `most` values."""
    exponent = unit_exponent(values)
    gaps = np.diff(np.ldexp(values, -exponent))
    if not gaps.min() > 0:  # the smallest are lost beside the largest
        return None
    near = gaps[gaps < 1.5 * gaps.min()]
    spacing = float(np.median(near))
    steps = np.rint(gaps / spacing)
    rounding = 4 * np.finfo(float).eps
    missed = np.abs(gaps - steps * spacing)
    close = (missed <= 1e-9 * steps * spacing) & (missed <= 0.01 * spacing) & (steps <= 1e9)
    if not (close | ((missed <= rounding) & (8 * rounding <= spacing))).all():
        return None
    if np.minimum(steps, 2 * _LATTICE_REACH).sum() > most:
        return None
    return spacing


def cut_values(values: Floats, spacing: float | None, most: int) -> Floats:
    """Edges half-way between sorted distinct values, at most `most`: of a lattice within gaps too, and beyond them all."""
    exponent = unit_exponent(values)
    unit = np.ldexp(values, -exponent)
    gaps = np.diff(unit)
    step = spacing if spacing is not None else float(np.median(gaps[gaps > 0]))
    middle = 0.5 * values[:-1] + 0.5 * values[1:]
    middle = np.where((middle > values[:-1]) & (middle <= values[1:]), middle, values[1:])
    wide = np.flatnonzero(gaps > 1.5 * step) if spacing is not None else np.empty(0, np.int64)
    far = _FAR * (unit[-1] - unit[0]) / step
    reach, growth = _LATTICE_REACH, _LATTICE_GROWTH
    while True:
        outer = _growing(reach, growth, far)
        filled = [_fill(gaps[i] / step, reach, growth) for i in wide]
        total = 2 * outer.size + sum(part.size for part in filled) + middle.size
        if total <= most or reach == 0:
            break
        reach, growth = reach // 2, growth * 2.0
    new = [_between_values(unit[-1], step, outer), _between_values(unit[0], step, -outer)]
    new += [_between_values(unit[i], step, part) for i, part in zip(wide, filled, strict=True)]
    narrow = np.ones(middle.size, np.bool_)
    narrow[[i for i, part in zip(wide, filled, strict=True) if part.size]] = False
    edges = np.concatenate([middle[narrow], *(np.ldexp(part, exponent) for part in new)])
    return np.unique(edges[np.isfinite(edges)])


def _between_values(base: float, step: float, places: Floats) -> Floats:
    """Edges at base + step·places, half-way between two values; the upper one where no float is between them."""
    low, high = base + step * (places - 0.5), base + step * (places + 0.5)
    middle = 0.5 * low + 0.5 * high
    return np.where((middle > low) & (middle <= high), middle, high)


def _growing(reach: int, growth: float, limit: float) -> Floats:
    """Half-way places in steps beyond 0: ½, 1½, … `reach` times, then ever farther apart, up to the limit."""
    if reach == 0:
        return np.array([0.5])
    places = np.arange(min(reach, int(min(limit, reach)) + 1), dtype=np.float64)
    if limit > reach:
        count = int(np.ceil(np.log1p((limit - reach) * growth) / np.log1p(growth)))
        places = np.append(places, np.rint(reach - 1 + np.expm1(np.arange(1, count + 1) * np.log1p(growth)) / growth))
    return np.unique(places) + 0.5


def _fill(steps: float, reach: int, growth: float) -> Floats:
    """Half-way places inside a gap of so many steps, growing from both ends to its middle; empty where reach is 0."""
    if reach == 0:
        return np.empty(0)
    whole = float(np.rint(steps))
    if whole <= 2 * reach:
        return np.arange(whole) + 0.5
    near = _growing(reach, growth, whole / 2 - 1)
    near = near[near < whole / 2]
    return np.concatenate([near, whole - near[::-1]])


_FEW = 1 << 15  # distinct values that may have cells of their own
_ATOM_SHARE = 1 << 13  # a value held by more than the outputs over this is an atom: it would fill a quantile cell alone
_ATOM_LEAST = 8
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class LineCells(Arrays):
    """Cell i is [starts[i], starts[i + 1]); the first starts at -inf, the last has no end. At most 2¹⁶ cells."""

    starts: Floats  # (cells,), increasing
    centres: Floats  # (cells,), finite, increasing, each inside its cell
    # (cells,), whether a cell holds one value whose log-ratio need not be near its neighbours'
    atoms: NDArray[np.bool_]

    @classmethod
    def of(cls, p: Floats, q: Floats, *, most: int = MOST_CELLS) -> LineCells:
        """Cells from sorted finite pilot outputs of both sides; most: cells beside those of values that many hold."""
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
