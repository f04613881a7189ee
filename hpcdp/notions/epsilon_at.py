"""ε at a given δ: an estimate from the largest δ̂, and a certified lower limit from the counts of every cell.

For a fixed set with probabilities a and b, (ε, δ)-privacy needs a − e^ε·b <= δ, so ε >= ln((a − δ)/b). The counts of a cell
give a **region** of (a, b) that holds the truth with the cell's confidence; the smallest ln((a − δ)/b) of the region is a
lower limit. A region does not depend on δ, so its limits hold **for every δ at once**. Finite-sample: `cell_corners`,
`corner_epsilon`, `spectrum_epsilon`. Heuristic: `envelope_shares`, `promising`. Point estimate: `crossing`.
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


def crossing(epsilons: Floats, values: Floats, resolved: Bools, delta: float) -> tuple[float, str]:
    """The smallest ε from which on a curve through values of δ is at most `delta`, and how it was found.

    δ is convex and non-increasing in e^ε, so it is taken as linear in e^ε between neighbours; a chord lies on or above a
    convex curve, so the crossing is on the large side. Nothing is extrapolated.

    Args:
        epsilons, values: shape (n,), n >= 1, ε >= 0 ascending, δ from 0 to 1.
        resolved: shape (n,); where not, the value is an upper limit, which can show that δ is below `delta`, not above.
        delta: from 0 to 1.

    Returns:
        (ε, BRACKETED). (the largest ε, BEYOND) where the last value is above delta: ε is larger still. (the smallest ε,
        BELOW) where no value is: ε is at most that; at smallest ε = 0 this is BRACKETED. (ε, UNRESOLVED) where beyond that ε,
        the last one with a resolved value above delta, values do not tell; NaN where there is no such ε.
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
    """Corners (a, b) of each cell's region, in which ln((a − δ)/b) is smallest whatever δ is. Finite-sample.

    The region of the split bound is a >= lower limit, b <= upper limit, both at level/2: one corner (given twice). That of
    the joint bound (Berger and Boos 1994) is a − c·b >= `joint_lower` with b in the two-sided interval that the bound's
    own level already pays for; along its edge ln((a − δ)/b) is monotone in b, so that it is smallest at an end. Either
    region misses the truth with probability at most its level.

    Args:
        x, test: counts in the set and in all, shape (cells, 2), the side that is not inflated first.
        inflation: c of each joint bound, shape (cells,): whatever was fixed before the counts were seen, such as e^ε.
        level: failure probabilities, shape (cells,).
        split: which cells use the split region, shape (cells,); to be chosen without the counts.

    Returns:
        a and b, shape (cells, 2). a of a joint corner may be negative or above 1; b may be 0.
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
    """Lower limits on ε from lower bounds on δ alone: ε' + ln((1 − δ)/(1 − lower)) where lower(ε') > δ, else 0.

    1 − δ(ε) <= e^(ε − ε')·(1 − δ(ε')) for ε >= ε', since 1 − δ(ε) is the smallest P(not S) + e^ε·Q(S). As sure as `lower`
    is, and for every δ at once. lower: above 0 or NaN, below 1 or equal, its last axis is that of epsilons.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log1p(-delta) - np.log1p(-lower)
    return np.where(lower > delta, epsilons + gain, 0.0)


def envelope_shares(training_delta: Floats, epsilons: Floats) -> Floats:
    """Shares (a, b) to expect in each cell's set, from the curve of δ̂ on training samples alone. **Heuristic.**

    With t = e^ε, the slope of δ in t is −b of the best set, and a = δ + t·b. Differences of neighbours stand for slopes.

    Args:
        training_delta: shape (…, E), NaN where unknown. epsilons: shape (E,).

    Returns:
        shape (…, E, 2), from 0 to 1; NaN where unknown, or with fewer than two ε.
    """
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
    """Cells whose split region is expected to tell more at δ = 0, from shares that no test output decided.

    The joint region is the narrower one near ε = ln c, the split one far beyond, as where b is next to nothing. share:
    shape (cells, 2), NaN where unknown: then joint.
    """
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
    """Places of the cells whose limits are likely to be the largest at δ, at most `most`, best first. **Heuristic.**

    Cells may be picked by their counts: all regions hold together, so those that are looked at do. Normal approximation
    of ln((a − δ)/b) with (x + 1)/(n + 2) for shares.
    """
    share = (x + 1.0) / (test + 2.0)
    a, b = share[:, 0], share[:, 1]
    inside = a > delta
    room = np.where(inside, a - delta, 1.0)
    spread = np.sqrt(a * (1.0 - a) / test[:, 0] / room**2 + (1.0 - b) / (b * test[:, 1]))
    rough = np.where(inside, np.log(room / b) + ndtri(level) * spread, -np.inf)
    return np.asarray(np.argsort(-rough, kind="stable")[:most], np.int64)
