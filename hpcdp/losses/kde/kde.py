"""kde: L̂ from Gaussian kernel density estimates of both sides, of outputs that are numbers or pairs of numbers.

p̂(t) = (1/(n h)) Σ K((t − xᵢ)/h), n the draws, with a bandwidth h of each side's own, and a product kernel in two columns
(Askin, Kutta and Dette, S&P 2022, Algorithm 2). A density below floor/(n h), or floor/(√(2π) n h₀ h₁), is not told from any
smaller one: L̂ is then the value nearest to 0 that is possible, so 0 where both are below. The floor scales with the
outputs, as one kernel alone is K(0)/(n h) high. Where a density jumps, both estimates blur the jump alike only if their
bandwidths are alike; with bandwidths of one rule they are, unless the laws differ much in width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.counts import PlainCounter
from hpcdp.losses.kde import _kernels as kernels
from hpcdp.losses.kde._density import Line, Plane, Summary, choose_bandwidths
from hpcdp.losses.line.step import Lookup, StepCounter
from hpcdp.losses.parameters import KdeParameters, refuse_unestimable
from hpcdp.losses.protocol import Outputs, Side, ascending

__all__ = ["Kde", "KdeParameters", "LineModel", "PlaneModel"]

Floats = NDArray[np.float64]

_MOST_CELLS = 1 << 20  # of a plane's masses


@dataclass(frozen=True, eq=False)
class LineModel:
    """L̂ of scalar outputs from the density estimates of D (p) and D' (q)."""

    p: Line
    q: Line

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size,) or (size, 1), shape (size,), natural log, finite."""
        x = np.asarray(outputs, np.float64).reshape(-1)
        return _log_ratios(self.p.density(x), self.q.density(x), self.p.floor, self.q.floor)

    @cached_property
    def cells(self) -> tuple[Floats, Floats, Floats]:
        """The nodes of both, sorted and distinct, and both densities there, (nodes,) each."""
        nodes = np.union1d(self.p.nodes, self.q.nodes)
        return nodes, self.p.density(nodes), self.q.density(nodes)

    def counter(self, thresholds: Floats, low: float = -np.inf, high: float = np.inf) -> StepCounter:
        """A counter for sorted distinct thresholds, shape (T,), of outputs from `low` to `high`."""
        nodes, p, q = self.cells
        first = max(0, int(np.searchsorted(nodes, low, "right")) - 1)
        span = slice(first, int(np.searchsorted(nodes, high)) + 1)
        given = nodes[span], p[span], q[span], self.p.floor, self.q.floor
        starts, codes = kernels.step_function(*given, np.asarray(thresholds))
        return StepCounter(Lookup.over(starts), codes, 2 * len(thresholds) + 1)

    def masses(self) -> tuple[Floats, Floats]:
        """Probability of each cell between neighbouring nodes under both estimates, without floors; see `_shares`."""
        nodes, p, q = self.cells
        widths = np.diff(nodes)
        return _shares(*(0.5 * (density[1:] + density[:-1]) * widths for density in (p, q)))


@dataclass(frozen=True, eq=False)
class PlaneModel:
    """L̂ of outputs of two columns from the density estimates of D (p) and D' (q)."""

    p: Plane
    q: Plane

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size, 2), shape (size,), natural log, finite."""
        rows = np.asarray(outputs, np.float64)
        return _log_ratios(self.p.density(rows), self.q.density(rows), self.p.floor, self.q.floor)

    def counter(self, thresholds: Floats) -> PlainCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return PlainCounter(self, thresholds)

    def masses(self) -> tuple[Floats, Floats]:
        """Probability of each cell of a grid of both sides' nodes, of at most 2²⁰ cells, under both estimates, without floors."""
        axes = [np.union1d(self.p.axis(k), self.q.axis(k)) for k in range(2)]
        step = int(np.ceil(np.sqrt(axes[0].size * axes[1].size / _MOST_CELLS)))
        axes = [axis[::step] for axis in axes]
        rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        areas = np.multiply.outer(np.diff(axes[0]), np.diff(axes[1]))
        masses = []
        for side in (self.p, self.q):
            values = side.density(rows).reshape(axes[0].size, axes[1].size)
            corners = values[1:, 1:] + values[1:, :-1] + values[:-1, 1:] + values[:-1, :-1]
            masses.append((0.25 * corners * areas).reshape(-1))
        return _shares(*masses)


@dataclass(frozen=True)
class Kde:
    """The kernel density estimator of L (`KdeParameters`); see this module."""

    parameters: KdeParameters = field(default_factory=KdeParameters)

    def fit(self, p: Side, q: Side) -> LineModel | PlaneModel:
        """Learn from training outputs of D (p) and D' (q), which have one shape and kind; integers and booleans are reals."""
        columns = p.outputs.shape[1] if p.outputs.ndim == 2 else 1
        refuse_unestimable(p.dtype == object, columns)
        with np.errstate(over="ignore"):  # outputs that are farther apart than the largest float
            if columns > 1:
                return self._fit_plane(p, q)
            given = (p.ascending, q.ascending), (Summary.of_side(p), Summary.of_side(q)), self.parameters.bandwidth
            sides = zip((p, q), choose_bandwidths(*given), strict=True)
            return LineModel(*(Line.of_side(side, h, self.parameters.floor) for side, h in sides))

    def _fit_plane(self, p: Side, q: Side) -> PlaneModel:
        rule = self.parameters.bandwidth
        rows = [np.ascontiguousarray(side.outputs, np.float64) for side in (p, q)]
        columns, hs = [], np.empty((2, 2))
        for k in range(2):
            one, other = (np.ascontiguousarray(x[:, k]) for x in rows)
            if rule == "sheather-jones":
                one, other = ascending(one), ascending(other)
            columns.append((Summary.of(one), Summary.of(other)))
            hs[:, k] = choose_bandwidths((one, other), columns[k], rule, columns=2)
        given = zip(rows, zip(*columns, strict=True), (p.draws, q.draws), hs, strict=True)
        return PlaneModel(*(Plane.learn(x, both, draws, h, self.parameters.floor) for x, both, draws, h in given))

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> StepCounter:
        """The counter whose `state` this is."""
        return StepCounter.restore(state)


def _log_ratios(p: Floats, q: Floats, floor_p: float, floor_q: float) -> Floats:
    """L̂ of points from their densities (size,) and the floors, finite, as `kernels` has it at nodes."""
    low_p, low_q = p < floor_p, q < floor_q
    unknown = (low_p & low_q) | (low_q & (p <= floor_q)) | (low_p & (q <= floor_p))
    with np.errstate(invalid="ignore"):  # where both are infinite
        ratios = np.log(np.where(low_p, floor_p, p)) - np.log(np.where(low_q, floor_q, q))
    return np.where(unknown, 0.0, ratios)


def _shares(p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Masses (cells,) of cells that either side has mass in, each divided by its sum."""
    held = (p > 0.0) | (q > 0.0)
    totals = float(p.sum()), float(q.sum())
    if 0.0 in totals:
        raise ValueError("a side has no training output from which its density could be estimated")
    return p[held] / totals[0], q[held] / totals[1]
