"""Kernels of density estimates: linear binning, sums of a kernel over bins, interpolation, log-ratios; in one and two dimensions.

Sums are direct, not by FFT: kernels are narrow, bins are few, nothing is lost to rounding where densities are small, and the
order of additions is fixed, so results have the same bits on every processor. Of the log-ratio of two densities with floors:
one point, and the step function of its classes on the line. A density that is at least its floor counts as known. Below it,
all that is known is that it lies between 0 and the floor. L̂ is the value nearest to 0 that log p − log q can then have: 0,
no evidence, where neither is known.
"""

from __future__ import annotations

import math

import numpy as np

from hpcdp._base.kernels import kernel
from hpcdp.losses._votes import class_of

FARTHEST = 2.0**48
"""Bins farther than this from the centre are not used: there floats cannot tell neighbouring nodes apart."""


@kernel()
def bin_line(x, centre, per_unit, first, last, offsets, bins):  # type: ignore[no-untyped-def]
    """Add each sorted x to the bins beside it, by distance. offsets: an island's first bin, −1 of one that is left out."""
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
    """Add each of the rows (size, 2) to the four bins around it, from the bin `first` on; those outside are left out."""
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


@kernel(inline="always")
def _terms(p, q, floor_p, floor_q):  # type: ignore[no-untyped-def]
    """Whether L̂ is log n − log d with a floor in place of an unknown density, else 0; and whether each is its floor."""
    low_p, low_q = p < floor_p, q < floor_q
    differ = not ((low_p and low_q) or (low_q and p <= floor_q) or (low_p and q <= floor_p))
    return differ, low_p, low_q


@kernel()
def _breaks(p0, p1, q0, q1, floor_p, floor_q, shares):  # type: ignore[no-untyped-def]
    """Shares of a cell, ascending from 0 to 1, between which neither density crosses a floor; returns how many pieces."""
    shares[0] = 0.0
    pieces = 1
    for left, right in ((p0, p1), (q0, q1)):
        for floor in (floor_p, floor_q):
            if (left < floor) != (right < floor):
                share = (floor - left) / (right - left)
                at = pieces
                while at > 1 and shares[at - 1] > share:
                    shares[at] = shares[at - 1]
                    at -= 1
                shares[at] = share
                pieces += 1
    shares[pieces] = 1.0
    return pieces


@kernel(inline="always")
def _crossing(threshold, n0, dn, d0, dd, earliest):  # type: ignore[no-untyped-def]
    """Share of a cell at which log(n0 + s·dn) − log(d0 + s·dd) is the threshold, between `earliest` and 1."""
    by_n = math.exp(-max(threshold, 0.0))  # of e^t and e^-t the one that cannot overflow
    by_d = math.exp(min(threshold, 0.0))
    slope = by_n * dn - by_d * dd
    share = (by_d * d0 - by_n * n0) / slope if slope != 0.0 else earliest
    return min(max(share, earliest), 1.0)


@kernel()
def _append(runs, starts, codes, start, code):  # type: ignore[no-untyped-def]
    """Append a run unless its code is the last one's; of runs that start at one float the last one stands."""
    if code == codes[runs - 1]:
        return runs, starts, codes
    if start <= starts[runs - 1]:
        runs -= 1
        start = starts[runs]
        if runs and codes[runs - 1] == code:
            return runs, starts, codes
    if runs == codes.size:
        starts = np.concatenate((starts, np.empty(runs)))
        codes = np.concatenate((codes, np.empty(runs, np.int32)))
    starts[runs] = start
    codes[runs] = code
    return runs + 1, starts, codes


@kernel()
def step_function(nodes, p, q, floor_p, floor_q, thresholds):  # type: ignore[no-untyped-def]
    """Starts, from −inf, and codes (runs,) of one class of L̂ each, of densities that are linear between nodes, 0 outside."""
    starts, codes = np.empty(1024), np.empty(1024, np.int32)
    nothing = class_of(0.0, thresholds)
    starts[0], codes[0] = -np.inf, nothing
    runs = 1
    shares = np.empty(6)
    for i in range(nodes.size):
        differ, low_p, low_q = _terms(p[i], q[i], floor_p, floor_q)
        here = math.log(floor_p if low_p else p[i]) - math.log(floor_q if low_q else q[i]) if differ else 0.0
        code = class_of(here, thresholds)
        runs, starts, codes = _append(runs, starts, codes, nodes[i], code)
        after = np.nextafter(nodes[i], np.inf)
        if i + 1 == nodes.size:
            runs, starts, codes = _append(runs, starts, codes, after, nothing)
            break
        width = nodes[i + 1] - nodes[i]
        dp, dq = p[i + 1] - p[i], q[i + 1] - q[i]
        pieces = _breaks(p[i], p[i + 1], q[i], q[i + 1], floor_p, floor_q, shares)
        for k in range(pieces):
            low, high = shares[k], shares[k + 1]
            start = max(after, nodes[i] + low * width)
            middle = 0.5 * (low + high)
            differ, low_p, low_q = _terms(p[i] + middle * dp, q[i] + middle * dq, floor_p, floor_q)
            if not differ:
                runs, starts, codes = _append(runs, starts, codes, start, nothing)
                continue
            n0, dn = (floor_p, 0.0) if low_p else (p[i], dp)
            d0, dd = (floor_q, 0.0) if low_q else (q[i], dq)
            first = math.log(n0 + low * dn) - math.log(d0 + low * dd)
            last = math.log(n0 + high * dn) - math.log(d0 + high * dd)
            code = class_of(first, thresholds)
            if last > first:
                j = (code + 1) // 2  # thresholds up to `first`
                runs, starts, codes = _append(runs, starts, codes, start, 2 * j)
                while j < thresholds.size and thresholds[j] < last:
                    low = _crossing(thresholds[j], n0, dn, d0, dd, low)
                    j += 1
                    start = max(start, nodes[i] + low * width)
                    runs, starts, codes = _append(runs, starts, codes, start, 2 * j)
            elif last < first:
                j = code // 2  # thresholds below `first`
                runs, starts, codes = _append(runs, starts, codes, start, 2 * j)
                while j > 0 and thresholds[j - 1] > last:
                    j -= 1
                    low = _crossing(thresholds[j], n0, dn, d0, dd, low)
                    start = max(start, nodes[i] + low * width)
                    runs, starts, codes = _append(runs, starts, codes, start, 2 * j)
            else:
                runs, starts, codes = _append(runs, starts, codes, start, code)
    return starts[:runs].copy(), codes[:runs].copy()
