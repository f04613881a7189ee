"""Short intervals on which two densities are smooth and the privacy loss is monotone.

Gauss-Legendre quadrature on panels, and Legendre series of what is smooth on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Rule:
    """The Gauss-Legendre rule on [-1, 1], and matrices from values to a series, its integral from -1 and its slope."""

    def __init__(self, order: int) -> None:
        legendre = np.polynomial.legendre
        self.order = order
        self.nodes, self.weights = legendre.leggauss(order)
        values = legendre.legvander(self.nodes, order - 1)
        self.to_series = np.asarray((np.arange(order) + 0.5)[:, None] * (self.weights[:, None] * values).T, np.float64)
        self.integral = np.asarray(legendre.legint(np.eye(order), lbnd=-1.0, axis=0), np.float64)
        self.slope: Array = np.zeros((order, order))
        if order > 1:
            self.slope[:-1] = legendre.legder(np.eye(order), axis=0)


@lru_cache
def gauss(order: int) -> Rule:
    """Return the rule of this order, made once."""
    return Rule(order)


def evaluate_series(points: Array, series: Array) -> Array:
    """Evaluate row i of `series`, (rows, terms), at points[i], (rows,), in [-1, 1]: Clenshaw's recurrence."""
    return np.asarray(np.polynomial.legendre.legval(points, series.T, tensor=False))


def panel_edges(breaks: Array, low: float, high: float, width: float) -> Array:
    """Return ascending panel edges from `low` to `high`, with every break between, at most `width` apart."""
    inner = breaks[(breaks > low) & (breaks < high)]
    marks = np.unique(np.concatenate(([low], inner, [high])))
    pieces = [
        np.linspace(start, stop, int(np.ceil((stop - start) / width)) + 1)[:-1]
        for start, stop in itertools.pairwise(marks)
    ]
    return np.concatenate([*pieces, marks[-1:]])


def panel_nodes(edges: Array, rule: Rule) -> tuple[Array, Array]:
    """Return the nodes of `rule` on the panels between the edges, and their weights, each flat and ascending."""
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1.0 + rule.nodes)).ravel(), (half * rule.weights).ravel()


LogDensities = Callable[[Array], tuple[Array, Array]]

_RULE = gauss(20)
_RESOLVED = 1e-12  # last coefficients of a series that is cut off too late to matter
_FLAT = 1e-12  # range of a loss that is constant up to rounding
_NO_MASS = 1e-18
_NOISE = 1e-4  # so that errors below 1e-16 of all the mass need no halving
_HALVINGS = 60
_DENSE = np.linspace(-1.0, 1.0, 2 * _RULE.order + 1)
_LAST_STEP = 1e-9  # the error after a Newton step of this size is below rounding
_MOST_PENDING = 1 << 16
_BLOCK = 4_000_000  # comparisons of levels with cells at once


@dataclass(frozen=True)
class Intervals:
    """Intervals with a monotone loss: Legendre series of it and of both masses from the left end, masses (cells,)."""

    loss: Array
    p_sum: Array
    q_sum: Array
    p: Array
    q: Array
    ends: Array

    def masses_below(self, levels: Array) -> tuple[Array, Array, Array, Array]:
        """Return P(L < level), Q(L < level), P(L > level), Q(L > level) of the cells, each of shape (m,)."""
        low, high = self.ends.min(axis=1), self.ends.max(axis=1)
        rising = np.argsort(high, kind="stable")
        below = np.searchsorted(high[rising], levels, side="right")
        falling = np.argsort(-low, kind="stable")
        above = np.searchsorted(-low[falling], -levels, side="right")
        sums = [
            np.concatenate(([0.0], np.cumsum(mass[order])))[count]
            for order, count in ((rising, below), (falling, above))
            for mass in (self.p, self.q)
        ]
        step = max(1, _BLOCK // max(1, low.size))
        for start in range(0, levels.size, step):
            part = levels[start : start + step, None]
            row, cell = np.nonzero((low < part) & (part < high))
            if not row.size:
                continue
            row = row + start
            root = self._root(cell, levels[row])
            increasing = self.ends[cell, 0] < self.ends[cell, 1]
            for index, (total, series) in enumerate(((self.p, self.p_sum), (self.q, self.q_sum))):
                left = np.clip(evaluate_series(root, series[cell]), 0.0, total[cell])
                right = total[cell] - left
                np.add.at(sums[index], row, np.where(increasing, left, right))
                np.add.at(sums[2 + index], row, np.where(increasing, right, left))
        return sums[0], sums[1], sums[2], sums[3]

    def _root(self, cell: NDArray[np.intp], levels: Array) -> Array:
        """Where in [-1, 1] the loss of each cell takes its level: Newton's steps, kept inside a bracket."""
        series, ends = self.loss[cell], self.ends[cell]
        slope = series @ _RULE.slope.T
        sign = np.where(ends[:, 0] < ends[:, 1], 1.0, -1.0)
        lower, upper = np.full(levels.shape, -1.0), np.ones(levels.shape)
        at = np.clip(-1.0 + 2.0 * (levels - ends[:, 0]) / (ends[:, 1] - ends[:, 0]), -1.0, 1.0)
        for _ in range(_HALVINGS):
            gap = evaluate_series(at, series) - levels
            lower, upper = np.where(sign * gap < 0.0, at, lower), np.where(sign * gap < 0.0, upper, at)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = at - gap / evaluate_series(at, slope)
            moved = np.where((step >= lower) & (step <= upper), step, 0.5 * (lower + upper))
            still = np.abs(moved - at).max() <= _LAST_STEP
            at = moved
            if still:
                break
        return at


def divide(log_densities: LogDensities, edges: Array) -> tuple[Intervals, Array, Array]:
    """Halve intervals between edges until series resolve both densities: cells, and masses where the loss is flat or infinite."""
    left, right = edges[:-1], edges[1:]
    order = _RULE.order
    empty = (np.empty((0, order)), np.empty((0, order + 1)), np.empty((0, order + 1)), np.empty(0), np.empty(0))
    kept: list[tuple[Array, ...]] = [empty]
    p_atoms, q_atoms = [np.empty(0)], [np.empty(0)]
    for generation in range(_HALVINGS):
        if not left.size:
            break
        if left.size > _MOST_PENDING:
            raise ValueError(f"log_densities: not smooth near {left[0]:g}; accepted: edges wherever a density bends")
        half = 0.5 * (right - left)
        x = left[:, None] + half[:, None] * (1.0 + _RULE.nodes)
        log_p, log_q = (part.reshape(x.shape) for part in log_densities(x.ravel()))
        p_nodes, q_nodes = np.exp(log_p) * half[:, None], np.exp(log_q) * half[:, None]
        p, q = p_nodes @ _RULE.weights, q_nodes @ _RULE.weights
        finite: NDArray[np.bool_] = np.asarray((np.isfinite(log_p) & np.isfinite(log_q)).all(axis=1))
        with np.errstate(invalid="ignore"):
            loss_nodes = np.where(finite[:, None], log_p - log_q, 0.0)
        p_series, q_series, loss = (part @ _RULE.to_series.T for part in (p_nodes, q_nodes, loss_nodes))
        # A loss carries the rounding of both logarithms, and matters in proportion to the mass that has it.
        with np.errstate(divide="ignore", over="ignore"):
            size = 1.0 + 10.0 * _NOISE / (p + q)
        size = size + np.where(finite, np.abs(log_p).max(axis=1) + np.abs(log_q).max(axis=1), 0.0)
        fine = _resolved(p_series, p + _NOISE) & _resolved(q_series, q + _NOISE) & _resolved(loss, size)
        tiny = (p + q <= _NO_MASS) | (generation == _HALVINGS - 1)
        flat = fine & (~finite | (np.ptp(loss_nodes, axis=1) <= _FLAT))
        split = ~(fine | tiny)
        atom = flat | tiny
        p_atoms.append(p[atom])
        q_atoms.append(q[atom])
        good = ~(split | atom)
        pieces = [np.column_stack((left[split], left[split] + half[split], right[split]))]
        turning, cuts = _cut_at_turns(left, right, loss, size, np.flatnonzero(good))
        good[turning] = False
        kept.append(
            (loss[good], p_series[good] @ _RULE.integral.T, q_series[good] @ _RULE.integral.T, p[good], q[good])
        )
        left = np.concatenate([pieces[0][:, :2].ravel(), *(cut[:-1] for cut in cuts)])
        right = np.concatenate([pieces[0][:, 1:].ravel(), *(cut[1:] for cut in cuts)])
    loss, p_sum, q_sum, p, q = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    signs = np.where(np.arange(_RULE.order) % 2, -1.0, 1.0)
    ends = np.column_stack((loss @ signs, loss.sum(axis=1)))
    return Intervals(loss, p_sum, q_sum, p, q, ends), np.concatenate(p_atoms), np.concatenate(q_atoms)


def _resolved(series: Array, size: Array) -> NDArray[np.bool_]:
    return np.asarray(np.abs(series[:, -3:]).max(axis=1) <= _RESOLVED * size)


def _cut_at_turns(
    left: Array, right: Array, loss: Array, size: Array, cells: NDArray[np.intp]
) -> tuple[NDArray[np.intp], list[Array]]:
    """The cells whose loss turns, and for each its edges with the turning points between."""
    dense = loss[cells] @ np.polynomial.legendre.legvander(_DENSE, _RULE.order - 1).T
    detour = np.abs(np.diff(dense, axis=1)).sum(axis=1) - np.abs(dense[:, -1] - dense[:, 0])
    turning = cells[detour > 10.0 * _FLAT * size[cells]]
    cuts = []
    for cell in turning:
        slope = np.tile(_RULE.slope @ loss[cell], (_DENSE.size - 1, 1))
        sign = np.sign(evaluate_series(_DENSE, np.tile(slope[0], (_DENSE.size, 1))))
        change = np.flatnonzero(sign[:-1] * sign[1:] < 0.0)
        low, high = _DENSE[change], _DENSE[change + 1]
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            same = np.sign(evaluate_series(middle, slope[change])) == sign[change]
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        inner = left[cell] + 0.5 * (right[cell] - left[cell]) * (1.0 + 0.5 * (low + high))
        middle_only = [0.5 * (left[cell] + right[cell])] if not inner.size else inner
        cuts.append(np.unique(np.concatenate(([left[cell]], middle_only, [right[cell]]))))
    return turning, cuts
