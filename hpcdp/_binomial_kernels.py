"""Compiled kernels for binomial limits, and for the probability that two binomials lie in a half-plane ``T >= t``.

Every probability that leaves this module is an upper bound. One fact makes the bounds cheap:

* A binomial pmf and its survival function are log-concave sequences, and so is their product along the
  edge of the half-plane ``T >= t``. A tangent to the logarithm at the middle of a block of ``w`` values
  bounds the sum over the block by ``w * g(mid) * exp(slope^2 (w^2 - 1) / 24)``; the loss is of second
  order in the width of the block, and a block of one value is exact.

Rounding is covered by ``_ROUNDING`` (relative, on probabilities) and by near-ties that count as ties.
Counts are float64: whole numbers below 2^53 are exact.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

_jit: Any = numba.njit(cache=True, nogil=True, error_model="numpy")

# Relative error allowed for rounding in one probability; log_pmf is off by at most 1.3e-10 up to n = 1e11.
_ROUNDING = 1e-7
# An outcome so little below the edge of the event counts as on it (absolute, and relative to the step).
_TIE, _TIE_SHARE = 1e-9, 2e-15
# log of the share of the target probability that a cut-off region may hold (it is added back as mass).
_CUT = math.log(1e-4)
# Block widths as a share of the standard deviation: inside an event, and in the tail sums of single limits.
_SHARE = 0.25
_FINE_SHARE = 1.0 / 16.0
# Below this standard deviation of the inner variable the edge is summed value by value.
_EXACT_DEVIATION = 40.0
# Stands for log 0.
_LOG_ZERO = -690.0

_STIRLING_TABLE = np.array(
    [
        0.0,
        *(math.lgamma(k + 1.0) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2.0 * math.pi) for k in range(1, 16)),
    ]
)


class EventTable(NamedTuple):
    """What is fixed for one event ``V >= v_obs + r (U - u_obs)`` whatever the two probabilities.

    ``U`` is the outer variable, cut into blocks ("nodes") listed upwards; ``V`` is the inner one, cut into
    blocks listed from the top down. Log weights refer to ``pu, pv``.
    """

    nu: float
    pu: float
    nv: float
    pv: float
    u_obs: float
    v_obs: float
    r: float
    beyond: float  # the largest u with a threshold that V can reach
    sparse: bool  # one step of U moves the threshold so far that blocks do not pay: there are none
    u_low: npt.NDArray[np.float64]  # per node, and one more: smallest u of the block
    u_mid: npt.NDArray[np.float64]  # per node: middle u, a whole number
    u_square: npt.NDArray[np.float64]  # per node: (width^2 - 1) / 24
    threshold: npt.NDArray[np.float64]  # per node: smallest v in the event at the middle u
    excess: npt.NDArray[np.float64]  # per node: how far rounding up moved the threshold
    u_log: npt.NDArray[np.float64]  # per node: log(width * pmf of U at the middle)
    u_slope: npt.NDArray[np.float64]  # per node: slope of log pmf of U
    below_log: npt.NDArray[np.float64]  # per node: log pmf of V just below the threshold
    v_end: npt.NDArray[np.int64]  # per node: number of V blocks at or above the threshold
    v_low: npt.NDArray[np.float64]  # per V block: lowest value
    v_mid: npt.NDArray[np.float64]  # per V block: middle
    v_log: npt.NDArray[np.float64]  # per V block: log(length * pmf at the middle)
    v_slope: npt.NDArray[np.float64]  # per V block: slope of log pmf
    v_square: npt.NDArray[np.float64]  # per V block: (length^2 - 1) / 24
    v_bend: npt.NDArray[np.float64]  # per V block: v_square times the largest curvature of log pmf


@_jit
def _stirling(k: float) -> float:
    """Error of Stirling's formula for log k! (Loader 2000)."""
    if k < 16.0:
        return _STIRLING_TABLE[int(k)]
    s = 1.0 / (k * k)
    return (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s / 1680.0))) / k


@_jit
def _log_ratio(gap: float, whole: float, part: float) -> float:
    """log(part / whole) where part = whole + gap and gap is the more exact of the two."""
    u = gap / whole
    return math.log1p(u) if abs(u) < 0.5 else math.log(part / whole)


@_jit
def log_pmf(k: float, n: float, p: float, q: float) -> float:
    """log P(X = k), X ~ Bin(n, p), q = 1 - p, in Loader's saddle-point form (2000).

    Both deviations come from the smaller of p and q: rounding in the larger one would cost n ulps.
    """
    if k <= 0.0:
        return n * (math.log1p(-p) if p < 0.5 else math.log(q))
    if k >= n:
        return n * (math.log(p) if p < 0.5 else math.log1p(-q))
    rest = n - k
    gap = k - n * p if p < q else n * q - rest
    divergence = k * _log_ratio(gap, n * p, k) + rest * _log_ratio(-gap, n * q, rest)
    scale = 0.5 * math.log(n / (2.0 * math.pi * k * rest))
    return _stirling(n) - _stirling(k) - _stirling(rest) + scale - divergence


@_jit
def _middle(low: float, high: float, n: float) -> tuple[float, float, float]:
    """Whole number at or just below the middle of a block, the middle, and the slope there.

    The slope belongs to the log-linear interpolation of the pmf and lacks the log odds of p.
    """
    mid = 0.5 * (low + high)
    base = np.floor(mid)
    if base < mid:
        return base, mid, math.log((n - base) / (base + 1.0))
    # Any slope between those of the two sides is a tangent; at an end only one side exists.
    up = (n - mid) / (mid + 1.0) if mid < n else (n - mid + 1.0) / mid
    down = (n - mid + 1.0) / mid if mid > 0.0 else up
    return base, mid, 0.5 * math.log(up * down)


@_jit
def _reach(z: float, n: float, p: float, q: float) -> float:
    """Distance from the mean beyond which a binomial tail is about exp(-z^2/2) (Bernstein's form)."""
    return z * math.sqrt(n * p * q) + 0.5 * z * z + 1.0


@_jit
def lower_tail(k: float, n: float, p: float, q: float, share: float) -> float:
    """Upper bound on P(X <= k), X ~ Bin(n, p), by blocks of `share` standard deviations from k down.

    The bound is loose by about share^2 / 24 of itself, and exact where a block is one value.
    """
    if k < 0.0:
        return 0.0
    if k >= n or k > n * p + _reach(6.0, n, p, q):
        return 1.0
    length = max(1.0, np.floor(share * math.sqrt(n * p * q)))
    odds = math.log(p) - math.log(q)
    total, top, edge = 0.0, k, 1.0
    while top >= 0.0:
        # edge bounds the pmf at top; the pmf falls at least geometrically from there.
        ratio = top * q / ((n - top + 1.0) * p)
        if ratio < 1.0 and edge <= 0.1 * share**3 * total * (1.0 - ratio):
            total += edge / (1.0 - ratio)
            break
        low = max(0.0, top - length + 1.0)
        size = top - low + 1.0
        base, mid, slope = _middle(low, top, n)
        slope += odds
        at_mid = log_pmf(base, n, p, q) + slope * (mid - base)
        total += size * math.exp(at_mid + slope * slope * (size * size - 1.0) / 24.0)
        if total > 1.0:
            return 1.0
        top = low - 1.0
        edge = math.exp(at_mid - max(0.0, slope) * (mid - top))
    return min(1.0, total * (1.0 + _ROUNDING))


@_jit
def upper_limit(k: float, n: float, level: float) -> tuple[float, float]:
    """Clopper-Pearson upper limit p on k of n, P(X <= k) <= level at p, and 1 - p, rounded the safe way.

    Newton's method in the log odds on sqrt(-2 log P), which is nearly straight, inside a bracket.
    """
    if k >= n:
        return 1.0, 0.0
    target = math.log(level)
    if k <= 0.0:
        return min(1.0, -math.expm1(target / n) * (1.0 + 1e-15)), math.exp(target / n) * (1.0 - 2e-16)
    low, high = -800.0, 800.0
    aim = math.sqrt(-2.0 * (target - 2e-7))
    guess = (k + 0.5 * aim * aim + aim * math.sqrt(k * (1.0 - k / n) + 0.25 * aim * aim)) / (n + aim * aim)
    odds = math.log(guess) - math.log1p(-guess)
    for _ in range(200):
        p, q = 1.0 / (1.0 + math.exp(-odds)), 1.0 / (1.0 + math.exp(odds))
        found = lower_tail(k, n, p, q, _FINE_SHARE)
        if found <= level:
            high = odds
            if found >= level * (1.0 - 4e-7):
                break
        else:
            low = odds
        step = math.nan
        if 1e-300 < found < 1.0:
            root = math.sqrt(-2.0 * math.log(found))
            step = (aim - root) * root * found / ((n - k) * p * math.exp(log_pmf(k, n, p, q)))
        odds = odds + step if low < odds + step < high else 0.5 * (low + high)
        if not low < odds < high:
            break
    p, q = 1.0 / (1.0 + math.exp(-high)), 1.0 / (1.0 + math.exp(high))
    # The smaller of the two is exact enough as it is; the other one is rounded away from the data.
    if p < q:
        return p, np.nextafter(q, 0.0)
    return min(1.0, np.nextafter(p, 2.0)), q


@_jit
def _block_size(above: float, least: float, n: float) -> float:
    """Number of values of the next block below `above`, which must not pass `least`."""
    at = above - 1.0
    size = max(1.0, np.floor(_SHARE * math.sqrt(at * (1.0 - at / n))))
    pieces = np.ceil((above - least) / size)
    return np.ceil((above - least) / pieces) if pieces < 8.0 else size


@_jit
def _edge(shift: float, r: float) -> tuple[float, float]:
    """Smallest step of V in the event when U is `shift` above its observed value, and by how much it is rounded.

    Near-ties count as ties: a larger event has a larger probability, which is the safe side.
    """
    exact = r * shift - _TIE - _TIE_SHARE * abs(r * shift)
    step = np.ceil(exact)
    return step, step - exact


@_jit
def _node_width(u: float, nu: float, v: float, nv: float, r: float) -> float:
    """Number of values (odd) of a block of U at u, where the threshold of V is about v."""
    var_u, var_v = u * (1.0 - u / nu), v * (1.0 - v / nv)
    if var_v < _EXACT_DEVIATION**2 or var_u < 1.0:
        return 1.0
    half = np.floor(0.5 * _SHARE / math.sqrt(1.0 / var_u + r * r / var_v) - 0.5)
    return 2.0 * max(0.0, half) + 1.0


@_jit
def tabulate(
    u_obs: float,
    nu: float,
    pu: float,
    u_range: tuple[float, float],
    v_obs: float,
    nv: float,
    pv: float,
    v_top: float,
    r: float,
) -> EventTable:
    """Cut the event into blocks between u_range[0] and u_range[1], and V up to v_top."""
    qu, qv = 1.0 - pu, 1.0 - pv
    odds_u, odds_v = math.log(pu) - math.log(qu), math.log(pv) - math.log(qv)
    first, last = u_range
    beyond = min(nu, np.floor(u_obs + (nv - v_obs + _TIE) / r * (1.0 + 2.0 * _TIE_SHARE)))

    # About how many deviations V spans between its lowest and highest threshold.
    v_high = min(nv, v_top)
    v_least = min(max(0.0, v_obs + r * (first - u_obs)), v_high)
    arcs = math.asin(math.sqrt(v_high / nv)) - math.asin(math.sqrt(v_least / nv))
    sparse = r > 0.5 * math.sqrt(nv) and arcs * math.sqrt(nv) > 500.0

    count = 0
    for filling in (False, True):
        if filling:
            u_low = np.empty(count + 1)
            u_mid = np.empty(count)
            u_square = np.empty(count)
            threshold = np.empty(count)
            excess = np.empty(count)
        count = 0
        u = first
        while u <= last and not sparse:
            v = v_obs + r * (u - u_obs)
            half = 0.5 * (_node_width(u, nu, v, nv, r) - 1.0)
            step, rounded = _edge(u + half - u_obs, r)
            if u + half + min(half, 1.0) > nu or v_obs + step > nv:
                break
            if filling:
                u_low[count] = u
                u_mid[count] = u + half
                u_square[count] = half * (half + 1.0) / 6.0
                threshold[count] = v_obs + step
                excess[count] = rounded
            count += 1
            u += 2.0 * half + 1.0
        if filling:
            u_low[count] = u
    u_log = np.empty(count)
    u_slope = np.empty(count)
    below_log = np.empty(count)
    v_end = np.zeros(count, np.int64)
    for j in range(count):
        width = u_low[j + 1] - u_low[j]
        u_log[j] = math.log(width) + log_pmf(u_mid[j], nu, pu, qu)
        u_slope[j] = _middle(u_low[j], u_low[j + 1] - 1.0, nu)[2] + odds_u
        below_log[j] = log_pmf(threshold[j] - 1.0, nv, pv, qv)

    # Blocks of V from the top down; they end at every threshold and widen with the local deviation.
    blocks = 0
    above = v_high + 1.0
    for i in range(count):
        j = count - 1 - i
        while above > threshold[j]:
            above -= _block_size(above, threshold[j], nv)
            blocks += 1
        v_end[j] = blocks
    v_low = np.empty(blocks)
    v_mid = np.empty(blocks)
    v_log = np.empty(blocks)
    v_slope = np.empty(blocks)
    v_square = np.empty(blocks)
    v_bend = np.empty(blocks)
    at = 0
    above = v_high + 1.0
    for i in range(count):
        j = count - 1 - i
        while above > threshold[j]:
            size = _block_size(above, threshold[j], nv)
            low, high = above - size, above - 1.0
            base, mid, slope = _middle(low, high, nv)
            v_low[at] = low
            v_mid[at] = mid
            v_slope[at] = slope + odds_v
            v_log[at] = math.log(size) + log_pmf(base, nv, pv, qv) + (mid - base) * (slope + odds_v)
            v_square[at] = (size * size - 1.0) / 24.0
            v_bend[at] = v_square[at] * (1.0 / max(low, 0.5) + 1.0 / max(nv - high, 0.5))
            above = low
            at += 1
    return EventTable(
        nu, pu, nv, pv, u_obs, v_obs, r, beyond, sparse, u_low, u_mid, u_square, threshold, excess,
        u_log, u_slope, below_log, v_end, v_low, v_mid, v_log, v_slope, v_square, v_bend,
    )  # fmt: skip


@_jit
def _change(n: float, p_ref: float, p: float, q: float) -> tuple[float, float]:
    """Change of the log odds from p_ref to p, and change of log pmf at the (real) count n p_ref."""
    gap = p_ref - p if p < q else q - (1.0 - p_ref)
    log_p = _log_ratio(gap, p, p_ref)
    log_q = _log_ratio(-gap, q, 1.0 - p_ref)
    at = n * p_ref
    return log_q - log_p, -(at * log_p + (n - at) * log_q)


@_jit
def _sparse_probability(table: EventTable, pu: float, qu: float, pv: float, qv: float, z: float) -> float:
    """event_probability of a sparse table: few values of U matter, each takes a tail sum of V."""
    nu, nv, r = table.nu, table.nv, table.r
    mean_u, mean_v = nu * pu, nv * pv
    u = np.floor(table.u_obs + (mean_v + _reach(z, nv, pv, qv) - table.v_obs) / r)
    u = max(-1.0, min(u, np.ceil(mean_u + _reach(z, nu, pu, qu)), table.beyond))
    total = 0.0
    if u + 1.0 <= table.beyond:
        total = lower_tail(nv - (table.v_obs + _edge(u + 1.0 - table.u_obs, r)[0]), nv, qv, pv, _SHARE)
        if u + 1.0 > mean_u:
            total *= lower_tail(nu - u - 1.0, nu, qu, pu, _SHARE)
    least = max(0.0, mean_u - _reach(z, nu, pu, qu))
    sure = mean_v - _reach(4.0, nv, pv, qv)
    while u >= least:
        k = table.v_obs + _edge(u - table.u_obs, r)[0]
        if k < sure:
            break
        total += math.exp(log_pmf(u, nu, pu, qu)) * lower_tail(nv - k, nv, qv, pv, _SHARE)
        u -= 1.0
    return min(1.0, (total + lower_tail(u, nu, pu, qu, _SHARE)) * (1.0 + _ROUNDING))


@_jit
def event_probability(table: EventTable, pu: float, qu: float, pv: float, qv: float, z: float) -> float:
    """Upper bound on P(V >= v_obs + r (U - u_obs)); z places the cut-offs (any z gives a bound)."""
    if table.sparse:
        return _sparse_probability(table, pu, qu, pv, qv, z)
    nu, nv, r = table.nu, table.nv, table.r
    count, blocks = table.u_mid.size, table.v_low.size
    mean_u, mean_v = nu * pu, nv * pv
    rare_u = _reach(z, nu, pu, qu)

    # Blocks of V start at the cut-off; all of V above them enters as one bounded tail.
    start = blocks - int(np.searchsorted(table.v_low[::-1], mean_v + _reach(z, nv, pv, qv), "right"))
    if start == blocks:
        # The whole table lies above the cut-off: U is below it, or V is at least its first threshold.
        first = table.u_low[0]
        tail = lower_tail(first - 1.0, nu, pu, qu, _SHARE)
        if first <= table.beyond:
            k = table.v_obs + _edge(first - table.u_obs, r)[0]
            tail += lower_tail(nv - k, nv, qv, pv, _SHARE)
        return min(1.0, tail)
    head = table.v_low[start - 1] if start > 0 else 2.0 * table.v_mid[0] - table.v_low[0] + 1.0
    upper = 0.0
    if head <= nv:
        ratio = (nv - head) * pv / ((head + 1.0) * qv)
        upper = 1.0
        if ratio < 1.0:
            upper = min(1.0, math.exp(log_pmf(head, nv, pv, qv)) / (1.0 - ratio))
    lower, head_tail = 0.0, upper

    # Nodes from j_high down to j_low: above, V (or U) is too rare; below, the event is taken as certain.
    sure_v = mean_v - _reach(4.0, nv, pv, qv)
    least_u = max(mean_u - rare_u, table.u_obs + (sure_v - table.v_obs) / r)
    j_low = max(0, int(np.searchsorted(table.u_low, least_u, "right")) - 1)
    j_high = min(count - 1, int(np.searchsorted(table.u_low, mean_u + rare_u, "right")))
    while j_high >= 0 and table.v_end[j_high] <= start:
        j_high -= 1
    j_low = min(j_low, j_high)

    odds_u, base_u = _change(nu, table.pu, pu, qu)
    odds_v, base_v = _change(nv, table.pv, pv, qv)
    ref_u, ref_v = nu * table.pu, nv * table.pv
    total = 0.0
    i = start
    for j in range(j_high, j_low - 1, -1):
        while i < table.v_end[j]:
            if table.v_low[i] < sure_v:
                upper = 1.0
                i = table.v_end[j]
                break
            slope = table.v_slope[i] + odds_v
            square = slope * slope * table.v_square[i]
            mass = math.exp(table.v_log[i] + (table.v_mid[i] - ref_v) * odds_v + base_v + square)
            upper += mass
            lower += mass * max(0.0, 1.0 - square - table.v_bend[i])
            i += 1
        upper = min(upper, 1.0)
        if j == j_high and table.u_low[j + 1] <= table.beyond:
            # Larger u: where the next block is one value, its threshold may lie above the cut-off of V.
            after = table.u_low[j + 1]
            known = j + 1 < count and table.v_end[j + 1] <= start and table.u_mid[j + 1] == after
            share = 1.0 if after < mean_u else lower_tail(nu - after, nu, qu, pu, _SHARE)
            total += share * (head_tail if known else upper)
        exponent = table.u_log[j] + (table.u_mid[j] - ref_u) * odds_u + base_u
        if table.u_square[j] > 0.0:
            below = math.exp(table.below_log[j] + (table.threshold[j] - 1.0 - ref_v) * odds_v + base_v)
            hazard = math.log1p(below / upper)
            slope = table.u_slope[j] + odds_u
            # The true hazard lies between the one of the upper and the one of the lower sum over V.
            flat = abs(slope - r * hazard)
            steep = abs(slope - r * hazard * (upper / max(lower, 1e-300)))
            exponent += hazard * table.excess[j] + max(flat, steep) ** 2 * table.u_square[j]
        total += math.exp(exponent) * upper
    total += lower_tail(table.u_low[j_low] - 1.0, nu, pu, qu, _SHARE)
    return min(1.0, total * (1.0 + _ROUNDING))


@_jit
def upper_limits(
    k: npt.NDArray[np.float64], n: npt.NDArray[np.float64], level: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """upper_limit of every element of equally long arrays: shape (size, 2), p and 1 - p."""
    limits = np.empty((k.size, 2))
    for i in range(k.size):
        limits[i, 0], limits[i, 1] = upper_limit(k[i], n[i], level[i])
    return limits
