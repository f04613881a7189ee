"""Sums of independent Laplace losses: exactly, or on a grid as a pair that dominates the true one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic._cells import evaluate_series, gauss
from hpcdp.analytic.discrete import Discrete

Array = NDArray[np.float64]

MERGED = 1e-12
"""Knots nearer than this, in units of the sum of the shifts, are one."""

_MOST_NODES = 64


@dataclass(frozen=True)
class TiltedSum:
    """An even measure: atoms at places (a,), and between knots (k,) a density with series (k - 1, n), times half the width."""

    knots: Array
    series: Array
    places: Array
    atoms: Array

    def density(self, points: Array) -> Array:
        """The density at points (m,), 0 outside the knots; shape (m,)."""
        out = np.zeros(points.shape)
        inside, cell, at, half = self._locate(points)
        out[inside] = np.maximum(evaluate_series(at, self.series[cell]), 0.0) / half
        return out

    def mass_between(self, low: Array, high: Array) -> Array:
        """The mass of [low, high], (m,) each, from the nearer end of the line, so that tails keep their digits."""
        lower = self._mass_above(np.where(low + high > 0.0, low, -high))
        upper = self._mass_above(np.where(low + high > 0.0, high, -low))
        return np.maximum(lower - upper, 0.0)

    def _mass_above(self, points: Array) -> Array:
        """The mass above each point; the measure is even, so that below -x is the mass above x."""
        out = np.where(points < self.knots[0], 2.0 * self.series[:, 0].sum(), 0.0)
        inside, cell, at, _ = self._locate(points)
        rule = gauss(self.series.shape[1]) if self.series.size else None
        if rule is not None and inside.any():
            whole = 2.0 * self.series[:, 0]
            later = np.concatenate((np.cumsum(whole[::-1])[::-1][1:], [0.0]))
            left = evaluate_series(at, (self.series @ rule.integral.T)[cell])
            out[inside] = later[cell] + np.clip(whole[cell] - left, 0.0, whole[cell])
        above = np.concatenate((np.cumsum(self.atoms[::-1])[::-1], [0.0]))
        return np.asarray(out + above[np.searchsorted(self.places, points, side="right")])

    def _locate(self, points: Array) -> tuple[NDArray[np.bool_], NDArray[np.intp], Array, Array]:
        inside = (points > self.knots[0]) & (points < self.knots[-1])
        cell = np.searchsorted(self.knots, points[inside], side="right") - 1
        half = 0.5 * (self.knots[cell + 1] - self.knots[cell])
        return inside, cell, np.clip((points[inside] - self.knots[cell]) / half - 1.0, -1.0, 1.0), half


def sum_losses(shifts: Array) -> TiltedSum:
    """The sum over the coordinates, normalised to mass 1; (d,) positive shifts, added one after the other."""
    apart = MERGED * float(shifts.sum())
    start = np.zeros(1)
    law = TiltedSum(start, np.empty((0, 1)), start, np.ones(1))
    for count, shift in enumerate(shifts, start=1):
        law = _add(law, float(shift), min(count, _MOST_NODES), apart)
    return law


def count_knots(shifts: Array) -> float:
    """How many knots the sum has when no two combinations of shifts meet, an upper limit."""
    return float(np.prod(np.unique(shifts, return_counts=True)[1] + 1.0))


def _add(law: TiltedSum, shift: float, terms: int, apart: float) -> TiltedSum:
    knots, _ = _join(np.concatenate((law.knots - shift, law.knots + shift)), None, apart)
    share = 1.0 / (1.0 + 0.5 * shift)
    places, atoms = _join(
        np.concatenate((law.places - shift, law.places + shift)), 0.5 * share * np.tile(law.atoms, 2), apart
    )
    rule = gauss(terms)
    half = 0.5 * np.diff(knots)[:, None]
    x = (knots[:-1, None] + half * (1.0 + rule.nodes)).ravel()
    values = 0.5 * (law.density(x - shift) + law.density(x + shift)) + 0.25 * law.mass_between(x - shift, x + shift)
    return TiltedSum(knots, (share * values.reshape(half.size, terms) * half) @ rule.to_series.T, places, atoms)


def _join(places: Array, masses: Array | None, apart: float) -> tuple[Array, Array]:
    """Sorted places with those nearer than `apart` made one, and the sums of their masses."""
    order = np.argsort(places, kind="stable")
    places = places[order]
    starts = np.flatnonzero(np.concatenate(([True], np.diff(places) > apart)))
    sums = np.zeros(starts.size) if masses is None else np.add.reduceat(masses[order], starts)
    return places[starts], sums


STEPS = 1 << 18
"""Steps of the grid over the range of the sum of the losses."""

_ROUNDING = 1e-9  # a shift this near to a grid point, in steps, is on it


def sum_on_grid(shifts: Array, steps: int = STEPS) -> Discrete:
    """Return the pair of the sum of the coordinates' losses, each loss spread over its two neighbours on a grid.

    What lies between goes to both so that its masses under P and Q stay: a mean-preserving spread of q/p under P, so the spectrum
    is no smaller than the true one, by second order (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). shifts: (d,), > 0.
    """
    different, repeated = np.unique(shifts, return_counts=True)
    # A step that divides the most frequent shift keeps its atoms where they are.
    common = float(different[np.argmax(repeated)])
    step = common / np.ceil(0.5 * common * steps / shifts.sum())
    reach = int(np.sum(repeated * np.ceil(different / step)))  # steps from 0 to the largest sum
    size = 1 << (2 * reach + 1).bit_length()  # a power of two is transformed fastest
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    for shift, times in zip(different, repeated, strict=True):
        law = _one(float(shift), step)
        half = law.size // 2
        wrapped = np.zeros(size)
        wrapped[: half + 1], wrapped[size - half :] = law[half:], law[:half]
        transform *= np.fft.rfft(wrapped) ** int(times)
    positive = np.maximum(np.fft.irfft(transform, size)[: reach + 1], 0.0)
    loss = step * np.arange(reach + 1)
    # The pair is symmetric: the half where P is larger gives the other, without the transform's rounding.
    mirrored = positive * np.exp(-loss)
    p = np.concatenate((mirrored[:0:-1], positive))
    p /= p.sum()
    return Discrete(p, p[::-1])


def _one(shift: float, step: float) -> Array:
    """The masses under P of one coordinate on -n to n steps, n = ceil(shift / step)."""
    inside = int(shift / step + _ROUNDING)
    rest = max(shift - inside * step, 0.0)
    count = inside if rest <= _ROUNDING * step else inside + 1
    tilted = np.zeros(2 * count + 1)
    full = 0.25 * 2.0 * np.tanh(0.25 * step)  # what a whole step gives to each of its two ends
    centre = count
    for side in (1, -1):
        ends = centre + side * np.arange(inside + 1)
        tilted[ends[:-1]] += full
        tilted[ends[1:]] += full
        last = ends[-1]
        if count > inside:
            # The atom, and the density on the part of a step that is left.
            scale = np.sinh(0.5 * step)
            tilted[last] += 0.5 * np.sinh(0.5 * (step - rest)) / scale
            tilted[last + side] += 0.5 * np.sinh(0.5 * rest) / scale
            tilted[last] += np.sinh(0.25 * (2.0 * step - rest)) * np.sinh(0.25 * rest) / scale
            tilted[last + side] += np.sinh(0.25 * rest) ** 2 / scale
        else:
            tilted[last] += 0.5
    loss = step * np.arange(-count, count + 1)
    return np.asarray(tilted * np.exp(0.5 * (loss - shift)))
