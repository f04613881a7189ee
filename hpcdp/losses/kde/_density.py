"""Gaussian kernel density estimates of one side's outputs, frozen on nodes and interpolated linearly between them.

Outputs are binned linearly at spacing Δ = bandwidth/nodes and the bins are summed with a kernel of variance h² − Δ²/3:
binning adds Δ²/6 to the variance, interpolation another Δ²/6 (both on average over a cell), so h² is what remains. Nodes are
tied to the outputs' median and to the bandwidth, so the estimate moves and scales with the outputs. Bandwidths are in the
outputs' own unit: Silverman's rule, Sheather and Jones's plug-in, or a number. Sorted numbers are binned only where there are
any: far outliers cost a few bins each, not all between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.kde import _kernels as kernels
from hpcdp.losses.protocol import Side

Floats = NDArray[np.float64]
Rule = str | float
"""A bandwidth, or "silverman" or "sheather-jones"."""

SMALLEST, LARGEST = 1e-150, 1e150
"""Limits of a bandwidth: squares and reciprocals of it are finite."""

_UNRESOLVED = 128  # steps between floats at the median that a bandwidth has at least
_PILOT_REACH = 9.0  # pilot bandwidths beyond which the derivatives of the kernel count as 0
_NODES = 16  # bins in a pilot bandwidth; tests/unit/losses/test_kde.py bounds the error
_MOST_BINS = 1 << 20


@dataclass(frozen=True)
class Summary:
    """One column of a side's outputs: extremes, quartiles, sample standard deviation (n − 1); zeros where it is empty."""

    size: int
    low: float = 0.0
    lower: float = 0.0
    median: float = 0.0
    upper: float = 0.0
    high: float = 0.0
    deviation: float = 0.0

    @classmethod
    def of(cls, x: Floats) -> Summary:
        """Of finite numbers (size,), sorted (which is faster) or not. Nothing overflows on the way."""
        if not x.size:
            return cls(0)
        low, high = float(x.min()), float(x.max())
        lower, median, upper = (4.0 * np.quantile(0.25 * x, (0.25, 0.5, 0.75))).tolist()  # differences do not overflow
        centre = 0.25 * median
        unit = max(0.25 * high - centre, centre - 0.25 * low)
        if unit == 0.0:
            return cls(x.size, low, lower, median, upper, high)
        deviation = float(np.std((0.25 * x - centre) / unit, ddof=1))
        return cls(x.size, low, lower, median, upper, high, 4.0 * unit * deviation)

    def scale(self, normal_iqr: float = 1.34) -> float:
        """The smaller of standard deviation and interquartile range over `normal_iqr`; the former where the range is 0."""
        iqr = 4.0 * (0.25 * self.upper - 0.25 * self.lower) / normal_iqr
        return min(self.deviation, iqr) if iqr > 0.0 else self.deviation

    @classmethod
    def of_side(cls, side: Side) -> Summary:
        """Of a side's scalar outputs; kept, because one D serves many pairs."""
        if "summary" not in side.kept:
            side.kept["summary"] = cls.of(side.ascending)
        summary: Summary = side.kept["summary"]
        return summary


def silverman(scale: float, size: int, columns: int = 1) -> float:
    """Silverman's rule of thumb (1986, equation 3.31, and table 4.1 of two columns). Asymptotic, for normal outputs."""
    return 0.9 * scale * size**-0.2 if columns == 1 else scale * size ** (-1.0 / 6.0)


def sheather_jones(x: Floats, summary: Summary) -> float:
    """The two-stage direct plug-in bandwidth (Wand and Jones 1995, 3.6.1) of sorted x; NaN where there is none. Asymptotic."""
    n, sigma = x.size, summary.scale(1.349)
    if not SMALLEST <= sigma <= LARGEST:
        return float("nan")
    z = (x - summary.median) / sigma  # so that no power of sigma overflows
    psi8 = 105.0 / (32.0 * sqrt(pi))
    psi6 = mean_derivative(z, 6, (30.0 / (sqrt(2.0 * pi) * psi8 * n)) ** (1.0 / 9.0))
    if not psi6 < 0.0:
        return float("nan")
    psi4 = mean_derivative(z, 4, (-6.0 / (sqrt(2.0 * pi) * psi6 * n)) ** (1.0 / 7.0))
    return sigma * (2.0 * sqrt(pi) * psi4 * n) ** -0.2 if psi4 > 0.0 else float("nan")


def mean_derivative(z: Floats, order: int, pilot: float) -> float:
    """n⁻² Σᵢ Σⱼ of the order-th (4, 6) derivative of a normal density at zᵢ − zⱼ, of sorted z; NaN: too many bins."""
    spacing, pad = pilot / _NODES, round(_PILOT_REACH * _NODES)
    bins = bin_line(z, 0.0, spacing, pad, _MOST_BINS)
    if bins is None:
        return float("nan")
    sums = np.zeros(bins.counts.size)
    kernels.spread(bins.counts, _derivative_taps(order, pilot, spacing, pad), sums)
    return float(bins.counts @ sums) / z.size**2


def _derivative_taps(order: int, pilot: float, spacing: float, pad: int) -> Floats:
    """The derivative at −pad, …, pad spacings; its variance is less by what the binning of both points adds."""
    s = sqrt(pilot**2 - spacing**2 / 3.0)
    z = np.arange(-pad, pad + 1) * spacing / s
    hermite = z**4 - 6.0 * z**2 + 3.0 if order == 4 else z**6 - 15.0 * z**4 + 45.0 * z**2 - 15.0
    taps: Floats = hermite * np.exp(-0.5 * z * z) / (sqrt(2.0 * pi) * s ** (order + 1))
    return taps


def choose_bandwidths(
    sides: tuple[Floats, Floats], summaries: tuple[Summary, Summary], rule: Rule, columns: int = 1
) -> tuple[float, float]:
    """Bandwidths of both sides for one of so many columns of outputs, sorted where the rule is "sheather-jones"."""
    if not isinstance(rule, str):
        p, q = (_within_limits(float(rule), summary) for summary in summaries)
        return p, q
    scales = [summary.scale() for summary in summaries]
    apart = 4.0 * abs(0.25 * summaries[0].median - 0.25 * summaries[1].median)
    # outputs of a side that have no scale take the other's, or how far both are apart; of two columns Sheather–Jones is heuristic
    chosen = []
    for x, summary, own in zip(sides, summaries, scales, strict=True):
        h = silverman(own or max(scales) or apart, max(1, x.size), columns)
        if rule == "sheather-jones" and own > 0.0:
            plugged = sheather_jones(x, summary) * (1.0 if columns == 1 else x.size ** (1.0 / 5.0 - 1.0 / 6.0))
            h = plugged if isfinite(plugged) and plugged > 0.0 else h
        chosen.append(_within_limits(h, summary))
    return chosen[0], chosen[1]


def _within_limits(h: float, summary: Summary) -> float:
    """A bandwidth that floats near the outputs resolve, and whose square and reciprocal are finite."""
    resolved = _UNRESOLVED * float(np.spacing(abs(summary.median)))
    return float(min(max(h, resolved, SMALLEST), LARGEST))


@dataclass(frozen=True, eq=False)
class Bins:
    """Linearly binned numbers. Nodes are equally spaced within islands, which are farther apart than a kernel reaches."""

    nodes: Floats
    counts: Floats


def bin_line(x: Floats, centre: float, spacing: float, pad: int, most: int) -> Bins | None:
    """Bins at centre + whole multiples of the spacing, of sorted x: `most` nodes, of full islands; None where one has more."""
    per_unit = 1.0 / spacing
    places = np.floor((x - centre) * per_unit)
    places = places[np.abs(places) <= kernels.FARTHEST]
    if not places.size:
        return Bins(np.empty(0), np.empty(0))
    ends = np.append(np.flatnonzero(np.diff(places) > 2.0 * pad + 1.0), places.size - 1)  # of runs whose kernels meet
    held = np.diff(np.append(-1, ends))
    first, last = places[ends - held + 1], places[ends]
    sizes = last - first + 2.0 * pad + 2.0
    order = np.argsort(-held, kind="stable")
    if sizes[order[0]] > most:
        return None
    order = np.sort(order[np.cumsum(sizes[order]) <= most])
    ends = np.cumsum(sizes[order]).astype(np.int64)
    starts = ends - sizes[order].astype(np.int64)
    offsets = np.full(first.size, -1)
    offsets[order] = starts + pad
    counts = np.zeros(int(ends[-1]))
    kernels.bin_line(x, centre, per_unit, first, last, offsets, counts)
    within = np.arange(counts.size) - np.repeat(starts, ends - starts)
    numbers = np.repeat(first[order] - pad, ends - starts) + within
    return Bins(centre + numbers * spacing, counts)


REACH = 8.0
"""Bandwidths beyond which a kernel counts as 0: n outputs there add up to n · 1e-14 of one kernel's peak at most."""

_LINE_NODES = 8  # nodes in a bandwidth; see tests/test_kde_density.py for the error
_PLANE_NODES = 4
_MOST_ON_LINE = 1 << 20
_MOST_ON_PLANE = 1 << 22


def gaussian_taps(bandwidth: float, spacing: float, pad: int) -> Floats:
    """Density of the kernel at −pad, …, pad spacings, shape (2 · pad + 1,); 0 at both ends."""
    variance = bandwidth**2 - spacing**2 / 3.0
    z2 = (np.arange(-pad, pad + 1) * spacing) ** 2 / variance
    taps = np.exp(-0.5 * z2) / np.sqrt(2.0 * np.pi * variance)
    taps[0] = taps[-1] = 0.0
    return taps


@dataclass(frozen=True, eq=False)
class Line:
    """A density on the line: linear between nodes, 0 outside. floor: what a density below it is not told apart from."""

    nodes: Floats
    values: Floats
    floor: float
    bandwidth: float

    @classmethod
    def learn(cls, x: Floats, centre: float, draws: int, bandwidth: float, floor: float) -> Line:
        """The estimate from sorted outputs, at most 2²⁰ nodes: a bandwidth at which one island alone has more is doubled."""
        pad = round(REACH * _LINE_NODES)
        while (bins := bin_line(x, centre, bandwidth / _LINE_NODES, pad, _MOST_ON_LINE)) is None:
            bandwidth *= 2.0
        values = np.zeros(bins.counts.size)
        kernels.spread(bins.counts, gaussian_taps(bandwidth, bandwidth / _LINE_NODES, pad), values)
        draws = max(1, draws)
        return cls(bins.nodes, values / draws, floor / (draws * bandwidth), bandwidth)

    @classmethod
    def of_side(cls, side: Side, bandwidth: float, floor: float) -> Line:
        """The estimate from a side's scalar outputs; the last one is kept, because one D serves many pairs."""
        known = side.kept.get("line")
        if known is None or known[0] != (bandwidth, floor):
            line = cls.learn(side.ascending, Summary.of_side(side).median, side.draws, bandwidth, floor)
            known = side.kept["line"] = (bandwidth, floor), line
        kept: Line = known[1]
        return kept

    def density(self, x: Floats) -> Floats:
        """The estimate at x (size,), per unit of the outputs, shape (size,)."""
        if not self.nodes.size:
            return np.zeros(x.size)
        return np.interp(x, self.nodes, self.values, left=0.0, right=0.0)


@dataclass(frozen=True, eq=False)
class Plane:
    """A density on the plane: bilinear between nodes at centre + (first + (i, j)) · spacing, 0 outside. floor: as in `Line`."""

    centre: Floats
    spacing: Floats
    first: Floats
    values: Floats
    floor: float
    bandwidths: Floats

    @classmethod
    def learn(cls, rows: Floats, columns: Sequence[Summary], draws: int, bandwidths: Floats, floor: float) -> Plane:
        """The estimate from outputs (size, 2), at most 2²² nodes: a wider grid is cut to those around the medians."""
        spacing = bandwidths / _PLANE_NODES
        pad = round(REACH * _PLANE_NODES)
        centre = np.array([column.median for column in columns])
        low, high = np.array([(column.low, column.high) for column in columns]).T
        first, sizes = _window((low - centre) / spacing, (high - centre) / spacing, pad)
        bins = np.zeros((int(sizes[0]), int(sizes[1])))
        inner = bins[pad : bins.shape[0] - pad, pad : bins.shape[1] - pad]
        kernels.bin_plane(rows, centre, 1.0 / spacing, first + pad, inner)
        taps = np.stack([gaussian_taps(h, s, pad) for h, s in zip(bandwidths.tolist(), spacing.tolist(), strict=True)])
        values = np.zeros(bins.shape)
        kernels.spread_rows(bins, taps, values)
        draws = max(1, draws)
        values /= draws
        least = floor / (np.sqrt(2.0 * np.pi) * draws * float(np.prod(bandwidths)))  # as many kernels as in one column
        return cls(centre, spacing, first, values, least, bandwidths)

    def density(self, rows: Floats) -> Floats:
        """The estimate at rows (size, 2), per unit of area, shape (size,)."""
        out = np.empty(rows.shape[0])
        kernels.interpolate_plane(rows, self.centre, 1.0 / self.spacing, self.first, self.values, out)
        return out

    def axis(self, number: int) -> Floats:
        """Where the nodes lie on an axis, increasing, shape (nodes,)."""
        return self.centre[number] + (self.first[number] + np.arange(self.values.shape[number])) * self.spacing[number]


def _window(low: Floats, high: Floats, pad: int) -> tuple[Floats, Floats]:
    """Number of the first node and how many there are, on both axes, float64 (2,), of outputs from low to high spacings."""
    low, high = np.floor(low) - pad, np.floor(high) + pad + 1.0
    sizes = high - low + 1.0
    if sizes[0] * sizes[1] > _MOST_ON_PLANE:
        most = np.floor(np.maximum(np.sqrt(_MOST_ON_PLANE), _MOST_ON_PLANE / sizes[::-1]))
        half = np.floor(most / 2.0)
        low, high = np.maximum(low, -half), np.minimum(high, half - 1.0)
        sizes = high - low + 1.0
    return low, sizes
