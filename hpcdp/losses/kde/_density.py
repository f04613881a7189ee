"""Gaussian kernel density estimates of one side's outputs, frozen on nodes and interpolated linearly between them.

Outputs are binned linearly at spacing Δ = bandwidth/nodes and the bins are summed with a kernel of variance h² − Δ²/3:
binning adds Δ²/6 to the variance, interpolation another Δ²/6 (both on average over a cell), so h² is what remains. Nodes
are tied to the outputs' median and to the bandwidth, so the estimate moves and scales with the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.kde import _density_kernels as kernels
from hpcdp.losses.kde._bandwidth import Summary, bin_line
from hpcdp.losses.protocol import Side

Floats = NDArray[np.float64]

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
    """A density on the line: linear between nodes (increasing) with these values, (nodes,) each, 0 outside.

    floor: what a density below it is not told apart from. bandwidth: the one that was used.
    """

    nodes: Floats
    values: Floats
    floor: float
    bandwidth: float

    @classmethod
    def learn(cls, x: Floats, centre: float, draws: int, bandwidth: float, floor: float) -> Line:
        """The estimate from sorted finite outputs (size,) of so many draws; the floor is floor/(draws · bandwidth).

        Nodes are tied to the centre. They are at most 2²⁰: islands of fewest outputs are left out, and a bandwidth at
        which one island alone has more is doubled until it has not.
        """
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
    """A density on the plane: bilinear between nodes with these values (nodes₀, nodes₁), 0 outside.

    Node (i, j) lies at centre + (first + (i, j)) · spacing. floor, bandwidths: as in `Line`, per axis.
    """

    centre: Floats
    spacing: Floats
    first: Floats
    values: Floats
    floor: float
    bandwidths: Floats

    @classmethod
    def learn(cls, rows: Floats, columns: Sequence[Summary], draws: int, bandwidths: Floats, floor: float) -> Plane:
        """The estimate from finite outputs (size, 2) of so many draws; the floor is floor/(√(2π) · draws · h₀ · h₁).

        At most 2²² nodes: a wider grid is cut to those around the medians, and outputs outside are left out.
        """
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
