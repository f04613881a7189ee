"""ε at a given δ: an estimate from the largest δ̂, and a certified lower limit from the counts of every cell.

For a fixed set with probabilities a and b, (ε, δ)-privacy needs a − e^ε·b <= δ, so ε >= ln((a − δ)/b). The counts of a cell
give a **region** of (a, b) that holds the truth with the cell's confidence; the smallest ln((a − δ)/b) of the region is a
lower limit. A region does not depend on δ, so its limits hold **for every δ at once**. Finite-sample: `cell_corners`,
`corner_epsilon`, `spectrum_epsilon`. Heuristic: `envelope_shares`, `promising`. Point estimate: `crossing`.

What lower bounds on δ at some ε imply at all others (`implied_lower`), and that curve as a polygon which is nowhere above it:
δ does not rise with ε. Nor does (1 − δ)/e^ε, as 1 − δ(ε) is the smallest P(not S) + e^ε·Q(S). So a bound l at ε' says
δ >= l up to ε', and δ >= 1 − e^(ε − ε')·(1 − l) from there on. Both are as sure as the bound is: no confidence is spent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hpcdp.notions.bounds import BERGER_BOOS_SHARE, binomial_lower, binomial_upper, joint_lower

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BRACKETED, BEYOND, BELOW, UNRESOLVED = "bracketed", "beyond the grid", "below the grid", "not resolved"

_LARGEST_EXPONENT = 700.0  # e to this is finite
_STEPS = 1 << 10  # chords of an outline at least


def crossing(epsilons: Floats, values: Floats, resolved: Bools, delta: float) -> tuple[float, str]:
    """The smallest ε from which on a curve through values of δ (n,) is at most `delta`, and how it was found.

    δ is convex and non-increasing in e^ε, so it is taken as linear there: the crossing is on the large side, and nothing is
    extrapolated. An unresolved value is an upper limit. (the largest ε, BEYOND) where the last value is above delta, (the
    smallest, BELOW) where none is, (ε, UNRESOLVED) where beyond ε, the last resolved above delta or NaN, values do not tell.
    """
    over = np.flatnonzero(resolved & (values > delta))
    rest = values[over[-1] + 1 :] if over.size else values
    if rest.size == 0:
        return float(epsilons[-1]), BEYOND
    if (rest > delta).any():
        return (float(epsilons[over[-1]]) if over.size else float("nan")), UNRESOLVED
    if not over.size:
        return float(epsilons[0]), BELOW if epsilons[0] > 0.0 else BRACKETED
    low, high = np.exp(epsilons[over[-1] : over[-1] + 2])
    above = values[over[-1]]
    return float(np.log(low + (above - delta) / (above - rest[0]) * (high - low))), BRACKETED


def cell_corners(x: Ints, test: Ints, inflation: Floats, level: Floats, split: Bools) -> tuple[Floats, Floats]:
    """Corners (a, b), (cells, 2), of each cell's region, where ln((a − δ)/b) is smallest whatever δ is. Finite-sample.

    The region of the split bound is a >= lower limit, b <= upper limit, both at level/2: one corner (given twice). That of the
    joint bound (Berger and Boos 1994) is a − c·b >= `joint_lower` with b in the two-sided interval that the bound's own level
    already pays for; along its edge ln((a − δ)/b) is monotone in b, so that it is smallest at an end. inflation, split: to be
    fixed without the counts x of test (cells, 2). a may be negative or above 1, b may be 0.
    """
    x0, x1, n0, n1 = x[:, 0], x[:, 1], test[:, 0], test[:, 1]
    a, b = np.empty((level.size, 2)), np.empty((level.size, 2))
    if split.any():
        half = 0.5 * level[split]
        a[split] = binomial_lower(x0[split], n0[split], half)[:, None]
        b[split] = binomial_upper(x1[split], n1[split], half)[:, None]
    joint = ~split
    if joint.any():
        s0, t0, s1, t1, c, own = (v[joint] for v in (x0, n0, x1, n1, inflation, level))
        side = 0.5 * BERGER_BOOS_SHARE * own
        ends = np.stack([binomial_lower(s1, t1, side), binomial_upper(s1, t1, side)], axis=1)
        b[joint] = ends
        a[joint] = joint_lower(s0, t0, s1, t1, c, own)[:, None] + c[:, None] * ends
    return a, b


def corner_epsilon(a: Floats, b: Floats, delta: float) -> Floats:
    """The smallest ln((a − δ)/b) over the corners on the last axis, at least 0; never infinite, as some b is above 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(a > delta, np.log(np.maximum(a - delta, 0.0) / b), -np.inf)
    return np.asarray(np.maximum(0.0, logs.min(axis=-1)))


def spectrum_epsilon(epsilons: Floats, lower: Floats, delta: float) -> Floats:
    """Lower limits on ε from lower bounds on δ alone: ε' + ln((1 − δ)/(1 − lower)) where lower(ε') > δ, else 0; as sure as these.

    1 − δ(ε) <= e^(ε − ε')·(1 − δ(ε')) for ε >= ε', since 1 − δ(ε) is the smallest P(not S) + e^ε·Q(S).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log1p(-delta) - np.log1p(-lower)
    return np.where(lower > delta, epsilons + gain, 0.0)


def envelope_shares(training_delta: Floats, epsilons: Floats) -> Floats:
    """Shares (a, b) to expect, (…, E, 2), from training's δ̂ (…, E): −b is δ's slope in e^ε, a = δ + e^ε·b. **Heuristic.**"""
    shares = np.full((*training_delta.shape, 2), np.nan)
    if epsilons.size < 2:
        return shares
    order = np.argsort(epsilons)
    t, d = np.exp(epsilons[order]), np.maximum(training_delta[..., order], 0.0)
    steps = np.maximum(-np.diff(d, axis=-1) / np.diff(t), 0.0)
    b = np.concatenate([steps, steps[..., -1:]], axis=-1)
    shares[..., order, 0] = np.clip(d + t * b, 0.0, 1.0)
    shares[..., order, 1] = np.clip(b, 0.0, 1.0)
    return shares


def prefer_split(share: Floats, test: Ints, inflation: Floats, level: Floats) -> Bools:
    """Cells whose split region should tell more at δ = 0, by shares (cells, 2) that no test output decided; NaN: joint."""
    chosen = np.zeros(level.size, np.bool_)
    known = ~np.isnan(share).any(axis=-1)
    if known.any():
        n, c, own = test[known], inflation[known], level[known]
        expected = np.rint(share[known] * n).astype(np.int64)
        no, yes = np.zeros(own.size, np.bool_), np.ones(own.size, np.bool_)
        split, joint = (corner_epsilon(*cell_corners(expected, n, c, own, which), 0.0) for which in (yes, no))
        chosen[known] = split > joint
    return chosen


def promising(x: Ints, test: Ints, level: Floats, delta: float, most: int) -> Ints:
    """Places of at most `most` cells with likely the largest limits at δ; all regions hold together. **Heuristic.**"""
    share = (x + 1.0) / (test + 2.0)
    a, b = share[:, 0], share[:, 1]
    inside = a > delta
    room = np.where(inside, a - delta, 1.0)
    spread = np.sqrt(a * (1.0 - a) / test[:, 0] / room**2 + (1.0 - b) / (b * test[:, 1]))
    rough = np.where(inside, np.log(room / b) + ndtri(level) * spread, -np.inf)
    return np.asarray(np.argsort(-rough, kind="stable")[:most], np.int64)


def implied_lower(known: Floats, lower: Floats, epsilon: Floats) -> Floats:
    """The largest lower bound on δ at each level (m,) that bounds (k,) at known levels (k,) imply, from 0 to 1."""
    rise = np.exp(np.minimum(epsilon[:, None] - known, _LARGEST_EXPONENT))
    lift = np.clip(1.0 - rise * (1.0 - lower), 0.0, 1.0)
    return np.asarray(np.where(known >= epsilon[:, None], lower, lift).max(axis=1))


def outline(known: Floats, lower: Floats, start: float, stop: float) -> tuple[Floats, Floats]:
    """Vertices (ε, δ) of a polygon that is nowhere above `implied_lower`, and on it at the vertices; from start to stop.

    The implied curve is flat or falls as 1 − r·e^ε, which is concave, so that chords of one piece lie below it. Where it turns
    from falling to flat a chord would lie above, so that each such corner is a vertex. known (k,) strictly increases.
    """
    ahead = np.append(
        np.maximum.accumulate(lower[::-1])[-2::-1], 0.0
    )  # flat from before the next level, and beyond the last
    with np.errstate(divide="ignore", invalid="ignore"):
        corners = np.log1p(-ahead) - np.minimum.accumulate(np.log1p(-lower) - known)  # NaN where both are 1
    turns = np.append(known, corners[np.isfinite(corners)])
    levels = np.union1d(np.linspace(start, stop, _STEPS + 1), np.clip(turns, start, stop))
    return levels, implied_lower(known, lower, levels)
