"""Compiled kernels that invert the exact test of ``theta = a - c b``: the sup over b, and the search for theta.

Along the line ``a = theta + c b`` the logarithm of every term ``P(X0 = x0, X1 = x1)`` is concave in ``b``. The tangents
at the middle of an interval of ``b`` turn the sum into a sum over tilted binomials that is convex in ``b``, so that its two
end values bound it on the whole interval. Probabilities of events come from `hpcdp.notions._event_kernels`, from above.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions._binomial_kernels import _jit, _reach, lower_tail, upper_limit
from hpcdp.notions._event_kernels import _SHARE, _TIE, _TIE_SHARE, EventTable, _edge, event_probability, tabulate

Floats = NDArray[np.float64]

# log of the share of the target probability that a cut-off region may hold (it is added back as mass).
_CUT = math.log(1e-4)
# A whole n p is a median of a binomial, so that P(T >= t) is at least 1/4 at the observed rates: no target below rejects there.
_LOG_MEDIANS = math.log(0.25)
# Block width of the two tails that may settle a cell (see `hpcdp.notions._binomial_kernels.lower_tail`): loose by 2e-4.
_SINGLE_SHARE = 1.0 / 16.0
# Stands for log 0.
_LOG_ZERO = -690.0


class Cell(NamedTuple):
    """Two binomials, the inflation c, the range of b, and the largest x1 that any x0 can outweigh."""

    n0: float
    n1: float
    c: float
    b_low: float
    b_high: float
    x1_most: float


@_jit
def _tilted(n: float, p: float, q: float, s: float) -> tuple[float, float, float]:
    """Bin(n, p) tilted by exp(s X): its two probabilities, and log E exp(s (X - n p))."""
    change = p * math.expm1(s)
    if p < q:
        log_mean = n * (math.log1p(change) - s * p)
    else:
        log_mean = n * (math.log1p(q * math.expm1(-s)) + s * q)
    return p * math.exp(s) / (1.0 + change), q / (1.0 + change), log_mean


@_jit
def log_probability(table: EventTable, swapped: bool, a: float, qa: float, b: float, qb: float, z: float) -> float:
    """log of an upper bound on P(T >= t) under X0 ~ Bin(n0, a), X1 ~ Bin(n1, b); qa = 1 - a, qb = 1 - b."""
    if swapped:
        probability = event_probability(table, qa, a, qb, b, z)
    else:
        probability = event_probability(table, b, qb, a, qa, z)
    return math.log(max(probability, 1e-300))


@_jit
def _partner(theta: float, c: float, b: float) -> tuple[float, float]:
    """a = theta + c b, rounded up (P(T >= t) grows with a), and 1 - a; both kept above 0."""
    a = theta + c * b + 4e-16 * (abs(theta) + c * b)
    return max(a, 1e-300), max(1.0 - a, 1e-17)


@_jit
def _variances(cell: Cell, theta: float, b: float, loss: float) -> tuple[float, float]:
    """Variances of X0/n0 and X1/n1 near b, kept above what less than one expected count would give."""
    a, qa = _partner(theta, cell.c, b)
    var_a = a * min(1.0, qa) / cell.n0 + 0.5 * loss / (cell.n0 * cell.n0)
    var_b = b * (1.0 - b) / cell.n1 + 0.5 * loss / (cell.n1 * cell.n1)
    return var_a, var_b


@_jit
def _tangent_width(cell: Cell, theta: float, b: float, allowed: float, loss: float) -> float:
    """Half the width of an interval of b near b for which the tangents lose about a factor e^allowed."""
    var_a, var_b = _variances(cell, theta, b, loss)
    return math.sqrt(2.0 * allowed / (cell.c * cell.c / var_a + 1.0 / var_b))


@_jit
def largest_log_probability(
    table: EventTable, swapped: bool, cell: Cell, theta: float, log_target: float, z: float, loss: float, strict: bool
) -> tuple[float, bool]:
    """log of an upper bound on sup P(T >= t) over b of the cell, a = min(1, theta + c b), a >= 0.

    Intervals of b are bounded by tangents or a box, whichever suits; either loses about e^loss. They are wider where P is below
    the target; with `strict` one counts only where it lies below by as much as it may lose. Stops once the target is exceeded.
    """
    c = cell.c
    # Beyond a = 1 the probability only falls as b grows.
    left, right = max(cell.b_low, -theta / c), min(cell.b_high, (1.0 - theta) / c)
    if left >= cell.b_high:
        return _LOG_ZERO, False  # no b of the range belongs to theta
    if right <= left:
        return 0.0, False
    worst = _LOG_ZERO
    widened = False
    allowed = loss
    b = left
    while b < right:
        tangent = _tangent_width(cell, theta, b, allowed, loss)
        tangent = min(tangent, _tangent_width(cell, theta, min(b + tangent, right), allowed, loss))
        var_a, var_b = _variances(cell, theta, b, loss)
        box = allowed * math.sqrt(var_a / (c * c) + var_b) / max(1.0, z)
        if box > tangent:  # a box takes one evaluation, the tangents take two
            end = min(b + box, right)
            bound = _box_log_probability(table, swapped, cell, theta, b, end, z)
        else:
            end = b + 2.0 * tangent
            end = right if end + 0.5 * tangent >= right else max(end, np.nextafter(b, 2.0))
            bound = _tangent_log_probability(table, swapped, cell, theta, b, end, z)
        if allowed > loss and bound > log_target - (allowed if strict else 0.0):
            allowed = max(loss, 0.25 * allowed) if strict else loss
            continue
        if bound > worst:
            worst, widened = bound, allowed > loss
        if worst > log_target + 0.7:
            return worst, widened
        b = end
        allowed = min(1.0, max(loss, 0.5 * (log_target - bound + allowed)))
    return worst, widened


@_jit
def _box_log_probability(
    table: EventTable, swapped: bool, cell: Cell, theta: float, start: float, end: float, z: float
) -> float:
    """log of an upper bound on P(T >= t) for b from start to end: P grows with a and falls with b."""
    b = max(start, 1e-300)
    if theta + cell.c * end >= 1.0 - 1e-12:
        return math.log(max(lower_tail(cell.x1_most, cell.n1, b, 1.0 - b, _SHARE), 1e-300))
    a, qa = _partner(theta, cell.c, end)
    return log_probability(table, swapped, a, qa, b, 1.0 - b, z)


@_jit
def _tangent_log_probability(
    table: EventTable, swapped: bool, cell: Cell, theta: float, start: float, end: float, z: float
) -> float:
    """log of an upper bound on P(T >= t) for b from start to end, from the tangents at the middle."""
    b = 0.5 * (start + end)
    half = 0.5 * (end - start) * (1.0 + 1e-9) + 2e-16 * b
    a, qa = _partner(theta, cell.c, b)
    bound = _LOG_ZERO
    for side in (-half, half):
        a_to, qa_to, log_a = _tilted(cell.n0, a, qa, side * cell.c / (a * qa))
        b_to, qb_to, log_b = _tilted(cell.n1, b, 1.0 - b, side / (b * (1.0 - b)))
        bound = max(bound, log_probability(table, swapped, a_to, qa_to, b_to, qb_to, z) + log_a + log_b)
    return bound


@_jit
def _coarse_log_probability(table: EventTable, swapped: bool, cell: Cell, theta: float, z: float) -> float:
    """log P(T >= t) at the largest of three points of b: where to start the search, no bound."""
    left, right = max(cell.b_low, -theta / cell.c), min(cell.b_high, (1.0 - theta) / cell.c)
    if left >= cell.b_high:
        return _LOG_ZERO
    if right <= left:
        return 0.0
    worst = _LOG_ZERO
    for share in (0.01, 0.5, 0.99):
        b = left + share * (right - left)
        a, qa = _partner(theta, cell.c, b)
        worst = max(worst, log_probability(table, swapped, a, qa, b, 1.0 - b, z))
    return worst


@_jit
def cell_table(
    x0: float, n0: float, x1: float, n1: float, c: float, b_range: tuple[float, float], z: float
) -> tuple[EventTable, bool]:  # fmt: skip
    """Blocks of a cell's event, and whether X0 is outer (failures for successes), as where T has coarser steps in it."""
    estimate = x0 / n0 - c * x1 / n1
    a_hat, b_hat = (x0 + 1.0) / (n0 + 2.0), (x1 + 1.0) / (n1 + 2.0)
    se = math.sqrt(a_hat * (1.0 - a_hat) / n0 + c * c * b_hat * (1.0 - b_hat) / n1)
    a_lo = min(max(estimate - 2.0 * z * se + c * b_range[0], 0.0), 1.0)
    a_hi = min(max(estimate + z * se + c * b_range[1], 0.0), 1.0)
    slope = c * n0 / n1
    swapped = slope < 1.0
    if swapped:
        r, u_obs, nu, pu, v_obs, nv, pv = 1.0 / slope, n0 - x0, n0, 1.0 - a_hat, n1 - x1, n1, 1.0 - b_hat
        u_lo, u_hi, v_lo, v_hi = 1.0 - a_hi, 1.0 - a_lo, 1.0 - b_range[1], 1.0 - b_range[0]
    else:
        r, u_obs, nu, pu, v_obs, nv, pv = slope, x1, n1, b_hat, x0, n0, a_hat
        u_lo, u_hi, v_lo, v_hi = b_range[0], b_range[1], a_lo, a_hi
    r = min(r, 1e17)  # above nv, a larger step makes the same event
    v_top = nv * v_hi + _reach(z, nv, v_hi, 1.0 - v_hi)
    first = max(0.0, nu * u_lo - _reach(z, nu, u_lo, 1.0 - u_lo))
    first = max(first, u_obs + (nv * v_lo - _reach(4.0, nv, v_lo, 1.0 - v_lo) - v_obs) / r)
    first = np.floor(max(first, u_obs + (1.0 - v_obs) / r - 1.0))
    while first < 0.0 or v_obs + _edge(first - u_obs, r)[0] < 1.0:
        first += 1.0
    last = min(nu * u_hi + _reach(z, nu, u_hi, 1.0 - u_hi), u_obs + (v_top - v_obs) / r + 1.0)
    last = max(first, min(nu, np.ceil(last)))
    return tabulate(u_obs, nu, pu, (first, last), v_obs, nv, pv, np.ceil(v_top), r), swapped


@_jit
def _prepared(
    x0: float, n0: float, x1: float, n1: float, c: float, b_range: tuple[float, float], z: float
) -> tuple[Cell, EventTable, bool, float]:  # fmt: skip
    """A cell, its blocks as `cell_table` has them, and the reach of the cut-offs."""
    z_cut = math.sqrt(max(z, 0.0) ** 2 - 2.0 * _CUT)
    table, swapped = cell_table(x0, n0, x1, n1, c, b_range, z_cut)
    most = x1 + np.floor((n0 - x0 + _TIE) * (n1 / n0 / c) * (1.0 + 2.0 * _TIE_SHARE))
    return Cell(n0, n1, c, b_range[0], b_range[1], min(most, n1)), table, swapped, z_cut


@_jit
def joint_lower_cell(
    x0: float, n0: float, x1: float, n1: float, c: float, b_range: tuple[float, float],
    log_target: float, z: float, loss: float, floor: float
) -> float:  # fmt: skip
    """Largest theta found with sup P(T >= t) <= the target, as of all smaller ones; no search if surely <= floor."""
    lo, hi = -c * b_range[1], 1.0 - c * b_range[0]
    if c > 100.0 * n1:
        return lo  # one x1 outweighs any x0, and even no x1 leaves b above 1/c: the bound is negative anyway
    estimate = x0 / n0 - c * x1 / n1
    if estimate <= floor and log_target < _LOG_MEDIANS:
        return lo
    if estimate <= 0.0:
        loss = max(loss, 0.5)  # a negative bound tells little: spend less time on it
    cell, table, swapped, z_cut = _prepared(x0, n0, x1, n1, c, b_range, z)
    a_hat, b_hat = (x0 + 1.0) / (n0 + 2.0), (x1 + 1.0) / (n1 + 2.0)
    se = math.sqrt(a_hat * (1.0 - a_hat) / n0 + c * c * b_hat * (1.0 - b_hat) / n1)

    if floor > lo and _coarse_log_probability(table, swapped, cell, floor, z_cut) > log_target + loss:
        return lo

    # A coarse search gives the start, low enough for the tangents' loss; only what the bound over all of
    # b_range accepts is returned.
    low, high = lo, hi
    coarse_target = log_target - 1.35 * loss
    aim = math.sqrt(-2.0 * coarse_target)
    theta = min(max(estimate - z * se, low + 1e-3 * (high - low)), high - 1e-3 * (high - low))
    rate = -1.0 / se
    last_theta, last_root = math.nan, math.nan
    for _ in range(12):
        bound = _coarse_log_probability(table, swapped, cell, theta, z_cut)
        root = math.sqrt(-2.0 * min(bound, 0.0))
        if bound > coarse_target:
            high = min(high, theta)
        else:
            low = max(low, theta)
        if abs(root - aim) * aim < 0.1 * loss:
            break
        if root != last_root and (root - last_root) * (theta - last_theta) < 0.0:
            rate = (root - last_root) / (theta - last_theta)
        last_theta, last_root = theta, root
        theta += (aim - root) / rate
        if not low < theta < high:
            theta = 0.5 * (low + high)

    low, high = lo, hi
    aim = math.sqrt(-2.0 * (log_target - 0.3 * loss))
    for step in range(50):
        bound, widened = largest_log_probability(table, swapped, cell, theta, log_target, z_cut, loss, False)
        if bound <= log_target:
            low = max(low, theta)
            if widened and bound > log_target - 0.75 * loss:  # near the target only because it is loose
                bound, _ = largest_log_probability(table, swapped, cell, theta, log_target, z_cut, loss, True)
            if bound > log_target - 0.75 * loss:
                break
        else:
            high = min(high, theta)
        if high - low < 0.25 * loss * (estimate - low) / max(1.0, z * z):
            break
        root = math.sqrt(-2.0 * min(bound, 0.0))
        theta += (aim - root) / rate
        if not low < theta < high or step > 8:
            theta = 0.5 * (low + high)
    return low


@_jit
def _is_settled(
    x0: float, n0: float, x1: float, n1: float, c: float, log_target: float, loss: float, floor: float
) -> bool:
    """Whether the counts alone show that no theta above `floor` is rejected, so that the search would end at or below it.

    P(T >= t) is at least P(X0 >= x0) P(X1 <= x1), here where a = floor + c b suits both shares best. That b is no less than
    x1/n1, so that it lies in the range of b if P(X1 <= x1) is not below the level of the range's end, which the target is above.
    """
    a_hat, b_hat = x0 / n0 - floor, x1 / n1
    if a_hat <= c * b_hat:
        return log_target < _LOG_MEDIANS
    a_shrunk, b_shrunk = (x0 + 1.0) / (n0 + 2.0), (x1 + 1.0) / (n1 + 2.0)
    weight = c * c * n0 / (a_shrunk * (1.0 - a_shrunk))
    other = n1 / (b_shrunk * (1.0 - b_shrunk))
    b = (weight * (a_hat / c) + other * b_hat) / (weight + other)
    a = floor + c * b
    if not (0.0 < b < 1.0 and 0.0 < a < 1.0):
        return False
    least = math.exp(log_target + loss)
    below = lower_tail(x1, n1, b, 1.0 - b, _SINGLE_SHARE)
    return below > least and below * lower_tail(n0 - x0, n0, 1.0 - a, a, _SINGLE_SHARE) > least


@_jit
def joint_lower_cells(
    x0: Floats,
    n0: Floats,
    x1: Floats,
    n1: Floats,
    c: Floats,
    side_level: Floats,
    target: Floats,
    z: Floats,
    loss: float,
    floor: float,
) -> Floats:
    """joint_lower_cell of every cell; side_level: of each end of the range of b; target: of the test, z its normal quantile."""
    lower = np.empty(x0.size)
    for i in range(x0.size):
        log_target = math.log(target[i])
        if floor > -np.inf and _is_settled(x0[i], n0[i], x1[i], n1[i], c[i], log_target, loss, floor):
            lower[i] = -c[i]
            continue
        b_low = upper_limit(n1[i] - x1[i], n1[i], side_level[i])[1]
        b_high = upper_limit(x1[i], n1[i], side_level[i])[0]
        b_range = (b_low, b_high)
        lower[i] = joint_lower_cell(x0[i], n0[i], x1[i], n1[i], c[i], b_range, log_target, z[i], loss, floor)
    return lower


@_jit
def rejects_ratio(
    x0: float, n0: float, x1: float, n1: float, c: float, b_range: tuple[float, float], theta: float,
    log_target: float, z: float, loss: float
) -> bool:  # fmt: skip
    """Whether the test of `joint_lower_cell` rejects a <= theta + c b; c at least 1."""
    if x0 < 1.0 or c > 100.0 * n1:
        return False
    cell, table, swapped, z_cut = _prepared(x0, n0, x1, n1, c, b_range, z)
    return largest_log_probability(table, swapped, cell, theta, log_target, z_cut, loss, False)[0] <= log_target
