"""Compiled kernels for the probability that two independent binomials lie in a half-plane ``V >= v_obs + r (U - u_obs)``.

Every probability that leaves this module is an upper bound. One fact makes the bounds cheap:

* A binomial pmf and its survival function are log-concave sequences, and so is their product along the edge of the
  half-plane. A tangent to the logarithm at the middle of a block of ``w`` values bounds the sum over the block by
  ``w * g(mid) * exp(slope^2 (w^2 - 1) / 24)``; the loss is of second order in the width of the block, and a block of
  one value is exact.

Near-ties count as ties, which covers the rounding of thresholds; `hpcdp.notions._binomial_kernels` says how that of
probabilities is covered. Counts are float64: whole numbers below 2^53 are exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions._binomial_kernels import _ROUNDING, _jit, _log_ratio, _middle, _reach, log_pmf, lower_tail

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# An outcome so little below the edge of the event counts as on it (absolute, and relative to the step).
_TIE, _TIE_SHARE = 1e-9, 2e-15
# Block width inside an event, and in the tail sums beside it, as a share of the standard deviation.
_SHARE = 0.25
# Below this standard deviation of the inner variable the edge is summed value by value.
_EXACT_DEVIATION = 40.0


class EventTable(NamedTuple):
    """What is fixed for an event V >= v_obs + r (U − u_obs): outer U in blocks upwards, inner V from the top."""

    nu: float
    pu: float
    nv: float
    pv: float
    u_obs: float
    v_obs: float
    r: float
    beyond: float  # the largest u with a threshold that V can reach
    sparse: bool  # one step of U moves the threshold so far that blocks do not pay: there are none
    u_low: Floats  # per node, and one more: smallest u of the block
    u_mid: Floats  # per node: middle u, a whole number
    u_square: Floats  # per node: (width^2 - 1) / 24
    threshold: Floats  # per node: smallest v in the event at the middle u
    excess: Floats  # per node: how far rounding up moved the threshold
    u_log: Floats  # per node: log(width * pmf of U at the middle)
    u_slope: Floats  # per node: slope of log pmf of U
    below_log: Floats  # per node: log pmf of V just below the threshold
    v_end: Ints  # per node: number of V blocks at or above the threshold
    v_low: Floats  # per V block: lowest value
    v_mid: Floats  # per V block: middle
    v_log: Floats  # per V block: log(length * pmf at the middle)
    v_slope: Floats  # per V block: slope of log pmf
    v_square: Floats  # per V block: (length^2 - 1) / 24
    v_bend: Floats  # per V block: v_square times the largest curvature of log pmf


@_jit
def _block_size(above: float, least: float, n: float) -> float:
    """Number of values of the next block below `above`, which must not pass `least`."""
    at = above - 1.0
    size = max(1.0, np.floor(_SHARE * math.sqrt(at * (1.0 - at / n))))
    pieces = np.ceil((above - least) / size)
    return np.ceil((above - least) / pieces) if pieces < 8.0 else size


@_jit
def _edge(shift: float, r: float) -> tuple[float, float]:
    """Smallest step of V in the event when U is `shift` above its observed value, and its rounding; near-ties count."""
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
def _tail_bounds(head: float, n: float, p: float, q: float) -> tuple[float, float]:
    """Limits of P(V >= head) from above and below, by geometric series: the ratio of a pmf value to the last one falls."""
    ratio = (n - head) * p / ((head + 1.0) * q)
    if ratio >= 1.0:
        return 1.0, 0.0
    first = math.exp(log_pmf(head, n, p, q))
    steps = min(np.floor(2.0 / (1.0 - ratio)), n - head)
    least = max(0.0, (n - head - steps) * p / ((head + steps + 1.0) * q))
    lower = first * (1.0 - least ** (steps + 1.0)) / (1.0 - least) * (1.0 - _ROUNDING)
    return min(1.0, first / (1.0 - ratio)), lower


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
    start = blocks - np.searchsorted(table.v_low[::-1], mean_v + _reach(z, nv, pv, qv), "right")
    if start == blocks:
        # The whole table lies above the cut-off: U is below it, or V is at least its first threshold.
        first = table.u_low[0]
        tail = lower_tail(first - 1.0, nu, pu, qu, _SHARE)
        if first <= table.beyond:
            k = table.v_obs + _edge(first - table.u_obs, r)[0]
            tail += lower_tail(nv - k, nv, qv, pv, _SHARE)
        return min(1.0, tail)
    head = table.v_low[start - 1] if start > 0 else 2.0 * table.v_mid[0] - table.v_low[0] + 1.0
    upper = least = 0.0
    if head <= nv:
        upper, least = _tail_bounds(head, nv, pv, qv)
    lower, head_tail = 0.0, upper

    # Nodes from j_high down to j_low: above, V (or U) is too rare; below, the event is taken as certain.
    sure_v = mean_v - _reach(4.0, nv, pv, qv)
    least_u = max(mean_u - rare_u, table.u_obs + (sure_v - table.v_obs) / r)
    j_low = max(0, np.searchsorted(table.u_low, least_u, "right") - 1)
    j_high = min(count - 1, np.searchsorted(table.u_low, mean_u + rare_u, "right"))
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
            if steep**2 * table.u_square[j] > 1.0:  # most of V may lie above the first block
                steep = abs(slope - r * hazard * (upper / max(lower + least, 1e-300)))
            exponent += hazard * table.excess[j] + max(flat, steep) ** 2 * table.u_square[j]
        total += math.exp(exponent) * upper
    total += lower_tail(table.u_low[j_low] - 1.0, nu, pu, qu, _SHARE)
    return min(1.0, total * (1.0 + _ROUNDING))
