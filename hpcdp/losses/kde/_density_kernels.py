"""Kernels of density estimates: linear binning, sums of a kernel over bins, interpolation; in one and two dimensions.

Sums are direct, not by FFT: kernels are narrow, bins are few, nothing is lost to rounding where densities are small, and
the order of additions is fixed, so results have the same bits on every processor.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel

FARTHEST = 2.0**48
"""Bins farther than this from the centre are not used: there floats cannot tell neighbouring nodes apart."""


@kernel()
def bin_line(x, centre, per_unit, first, last, offsets, bins):  # type: ignore[no-untyped-def]
    """Add each sorted x to the bins left and right of it, in shares by distance (linear binning).

    first, last: (islands,) their first and last bins, whole numbers. offsets: index of an island's first bin in `bins`; −1: it
    is left out.
    """
    island = 0
    for i in range(x.size):
        position = (x[i] - centre) * per_unit
        bin_ = np.floor(position)
        if not -FARTHEST <= bin_ <= FARTHEST:
            continue
        while bin_ > last[island]:
            island += 1
        if offsets[island] < 0:
            continue
        at = offsets[island] + np.int64(bin_ - first[island])
        share = position - bin_
        bins[at] += 1.0 - share
        bins[at + 1] += share


@kernel()
def spread(bins, taps, out):  # type: ignore[no-untyped-def]
    """out[i] += Σ_j bins[i + pad − j] · taps[j] for 2 · pad + 1 taps; bins nearer to an end than pad are empty."""
    pad = taps.size // 2
    for i in range(pad, bins.size - pad):
        weight = bins[i]
        if weight != 0.0:
            row = out[i - pad : i + pad + 1]
            for j in range(taps.size):
                row[j] += weight * taps[j]


@kernel()
def bin_plane(rows, centre, per_unit, first, bins):  # type: ignore[no-untyped-def]
    """Add each of the rows (size, 2) to the four bins around it (bilinear binning); those outside are left out.

    first: number of the bins' first row and column, float64 (2,), counted from the centre.
    """
    for i in range(rows.shape[0]):
        u = (rows[i, 0] - centre[0]) * per_unit[0] - first[0]
        v = (rows[i, 1] - centre[1]) * per_unit[1] - first[1]
        if 0.0 <= u < bins.shape[0] - 1 and 0.0 <= v < bins.shape[1] - 1:
            a, b = int(u), int(v)
            s, t = u - a, v - b
            bins[a, b] += (1.0 - s) * (1.0 - t)
            bins[a, b + 1] += (1.0 - s) * t
            bins[a + 1, b] += s * (1.0 - t)
            bins[a + 1, b + 1] += s * t


@kernel()
def spread_rows(bins, taps, out):  # type: ignore[no-untyped-def]
    """`spread` of each row, then along the columns: out = taps₀ ⊗ taps₁ over bins; taps: (2, 2 · pad + 1)."""
    pad = taps.shape[1] // 2
    across = np.empty(bins.shape[1])
    for i in range(pad, bins.shape[0] - pad):
        across[:] = 0.0
        spread(bins[i], taps[1], across)
        left, right = 0, across.size  # most rows are empty near their ends
        while left < right and across[left] == 0.0:
            left += 1
        while left < right and across[right - 1] == 0.0:
            right -= 1
        for j in range(taps.shape[1]):
            weight = taps[0, j]
            row = out[i - pad + j]
            for c in range(left, right):
                row[c] += weight * across[c]


@kernel()
def interpolate_plane(rows, centre, per_unit, first, values, out):  # type: ignore[no-untyped-def]
    """Bilinear interpolation of values at rows (size, 2); 0 outside."""
    for i in range(rows.shape[0]):
        u = (rows[i, 0] - centre[0]) * per_unit[0] - first[0]
        v = (rows[i, 1] - centre[1]) * per_unit[1] - first[1]
        out[i] = 0.0
        if 0.0 <= u < values.shape[0] - 1 and 0.0 <= v < values.shape[1] - 1:
            a, b = int(u), int(v)
            s, t = u - a, v - b
            low = (1.0 - t) * values[a, b] + t * values[a, b + 1]
            high = (1.0 - t) * values[a + 1, b] + t * values[a + 1, b + 1]
            out[i] = (1.0 - s) * low + s * high
