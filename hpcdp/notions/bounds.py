"""Bounds on binomial proportions a, b and on θ = a − c·b, from independent X0 ~ Bin(n0, a) and X1 ~ Bin(n1, b).

c = e^ε ≥ 0 is the inflation. All functions take arrays that broadcast, and return float64 arrays of the common shape.
Finite-sample: `binomial_lower`, `binomial_upper`, `split_lower`, `joint_lower`, `joint_rejects`, `hoeffding_radius`. Heuristic,
asymptotic: `standard_error`, `normal_upper`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from hpcdp._check import binomial_counts, inflation_factor, open_unit

BOUNDS_VERSION = 5
"""Raised whenever bounds of the same counts change. Results' heads carry it (none: 1); `resume` writes those of another
version anew.
"""

# Share of the level spent on the range of b (Berger and Boos). A larger share costs the test more of its level, a
# smaller one widens the range. From 1/10 to 1/40 the margin falls by 0.3–2 % where n1·b is above a few hundred (levels
# .05 to 2.7e-6) and grows by 2–4 % where n1·b is about 10.
BERGER_BOOS_SHARE = 1.0 / 20.0

# The computed bound on the sup over b exceeds the sup by about a factor e^0.02. Against e^0.003 this costs 0.7 % of the
# margin at level .05, 0.25 % at .05/42 and 0.1 % at .05/18564, and saves most of the time.
_LOSS = 0.02

_THREADED = 256  # cells from which on a thread is worth it

Floats = NDArray[np.float64]


def _flat(*arrays: Floats) -> tuple[tuple[int, ...], list[Floats]]:
    """The common shape, and every array broadcast to it and flattened."""
    spread = np.broadcast_arrays(*arrays)
    return spread[0].shape, [np.array(a, order="C").ravel() for a in spread]


def binomial_upper(successes: ArrayLike, trials: ArrayLike, level: ArrayLike) -> Floats:
    """One-sided Clopper–Pearson (1934) upper limit on a proportion. Finite-sample: it fails with probability <= level.

    Returns p, from 0 to 1, with P(X <= successes) <= level at p; n successes give 1, none give 1 − level^(1/n). The sum
    behind it is an upper bound, loose by at most 0.02 % of the level (exact below a thousand successes or failures).
    scipy's inverse incomplete beta function is not used: its version 1.17 is wrong at large n (for 1000 of 10⁹ it
    gives 1.9e-6 as the lower limit at any level).

    Args:
        successes, trials: whole numbers, 0 <= successes <= trials, 1 <= trials <= 2^53.
        level: failure probability, above 0 and below 1.
    """
    x, n = binomial_counts(successes, trials, ("successes", "trials"))
    from hpcdp.notions import _binomial_kernels as kernels

    shape, arrays = _flat(x, n, open_unit("level", level))
    return np.asarray(kernels.upper_limits(*arrays)[:, 0]).reshape(shape)


def binomial_lower(successes: ArrayLike, trials: ArrayLike, level: ArrayLike) -> Floats:
    """One-sided Clopper–Pearson (1934) lower limit on a proportion: 1 − `binomial_upper` of the failures.

    Finite-sample: it fails with probability <= level. No successes give 0, n of n give level^(1/n).
    """
    x, n = binomial_counts(successes, trials, ("successes", "trials"))
    from hpcdp.notions import _binomial_kernels as kernels

    shape, arrays = _flat(n - x, n, open_unit("level", level))
    return np.asarray(kernels.upper_limits(*arrays)[:, 1]).reshape(shape)


def split_lower(
    x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, inflation: ArrayLike, level: ArrayLike
) -> Floats:
    """Lower bound on a − c·b from two limits at half the level each. Finite-sample: it fails with probability <= level.

    The two limits do not depend on c: at level/2 each, `split_lower` holds for every inflation at once.

    Args:
        x0, n0: successes and trials of the side that is not inflated.
        x1, n1: successes and trials of the inflated side.
        inflation: c = e^ε, from 0 to 1e100.
        level: failure probability, above 0 and below 1.
    """
    binomial_counts(x0, n0, ("x0", "n0"))
    binomial_counts(x1, n1, ("x1", "n1"))
    half = 0.5 * open_unit("level", level)
    return binomial_lower(x0, n0, half) - inflation_factor(inflation) * binomial_upper(x1, n1, half)


def joint_lower(
    x0: ArrayLike,
    n0: ArrayLike,
    x1: ArrayLike,
    n1: ArrayLike,
    inflation: ArrayLike,
    level: ArrayLike,
    *,
    floor: float = -np.inf,
) -> Floats:
    """Lower bound on θ = a − c·b by inverting one exact test. Finite-sample: it fails with probability <= level.

    The test of "θ <= θ0" rejects for large T = X0/n0 − c·X1/n1. Its p-value is γ + sup P(T >= t) over b in a two-sided
    Clopper–Pearson interval of level γ = level/20, with a = θ0 + c·b (Berger and Boos 1994). The bound is a θ0 that the
    test rejects, so it errs to the safe side only. Of the margin of the largest such θ0 it loses 0.06, 0.15, 0.5 % (median
    of random cells at level .05/18564, .05/42, .05), and at most 0.25, 0.46, 1.1 % in 5,500 of them. The sup is bounded on
    whole intervals of b, not on a grid, and every probability from above (see `hpcdp.notions._joint_kernels`).

    Margins are 0.67 (level .05/42, equal standard errors) to 0.94 (one side dominates) of those of `split_lower`. The
    split bound is the better one in two corners: few x1 (up to about 10) whose single steps c/n1 are several standard
    errors of X0/n0, from c·n0/n1 of about 50 on (by up to 13 % of the margin at .05/42, 23 % at .05), and x0 near n0.
    Choose before looking at the counts: the better of the two bounds is no bound at that level.

    Args:
        x0, n0: successes and trials of the side that is not inflated.
        x1, n1: successes and trials of the inflated side.
        inflation: c = e^ε, from 0 to 1e100; at 0 the bound is `binomial_lower(x0, n0, level)`.
        level: failure probability, above 0 and below 1.
        floor: bounds that are no larger need not be told apart: they may come back smaller, which takes no search.

    Returns:
        Bounds from −c to 1. Where x0/n0 <= c·x1/n1 the search is coarse: a valid bound, its margin some 10 % wider.
    """
    from hpcdp.notions import _binomial_kernels as kernels
    from hpcdp.notions import _joint_kernels

    s0, t0 = binomial_counts(x0, n0, ("x0", "n0"))
    s1, t1 = binomial_counts(x1, n1, ("x1", "n1"))
    shape, arrays = _flat(s0, t0, s1, t1, inflation_factor(inflation), open_unit("level", level))
    plain = arrays[4] == 0.0
    lower = np.empty(plain.size)
    lower[plain] = kernels.upper_limits(*(v[plain] for v in (arrays[1] - arrays[0], arrays[1], arrays[5])))[:, 1]
    *cells, levels = (v[~plain] for v in arrays)
    gamma = BERGER_BOOS_SHARE * levels
    target = levels - gamma

    def bounds(*flat: Floats) -> Floats:
        return np.asarray(_joint_kernels.joint_lower_cells(*flat, _LOSS, floor))

    lower[~plain] = _threaded(bounds, *cells, 0.5 * gamma, target, -ndtri(target))
    return lower.reshape(shape)


def _threaded(function: Callable[..., NDArray[Any]], *cells: NDArray[Any]) -> NDArray[Any]:
    """A function of arrays of cells, in as many threads as numba may use where there are many."""
    from numba import config

    threads = min(config.NUMBA_NUM_THREADS, len(cells[0]) // _THREADED)  # type: ignore[attr-defined]
    if threads < 2:
        return function(*cells)
    parts = zip(*(np.array_split(values, 4 * threads) for values in cells), strict=True)
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(lambda part: function(*part), parts)))


def joint_rejects(x0: Floats, n0: Floats, x1: Floats, n1: Floats, inflation: float, level: float) -> NDArray[np.bool_]:
    """Whether the exact test behind `joint_lower` rejects a <= c·b. Finite-sample: where that is true with probability <= level.

    As `joint_lower(…) > 0`, in a quarter of the time. x0, n0, x1, n1: whole numbers, shape (cells,). inflation: c, at least 1.
    """
    from hpcdp.notions import _joint_kernels
    from hpcdp.notions._binomial_kernels import upper_limit

    target, side = (1.0 - BERGER_BOOS_SHARE) * level, 0.5 * BERGER_BOOS_SHARE * level
    log_target, z = math.log(target), -float(ndtri(target))

    def rejects(x: float, n: float, y: float, m: float) -> bool:
        b_range = upper_limit(m - y, m, side)[1], upper_limit(y, m, side)[0]
        return bool(_joint_kernels.rejects_ratio(x, n, y, m, inflation, b_range, 0.0, log_target, z, _LOSS))

    def of_some(cells: Floats) -> NDArray[np.bool_]:
        return np.array([rejects(*cell) for cell in cells.tolist()], np.bool_)

    return _threaded(of_some, np.stack([x0, n0, x1, n1], axis=1).astype(np.float64))


def hoeffding_radius(trials: ArrayLike, gamma: ArrayLike) -> Floats:
    """w(γ) = sqrt(ln(4/γ)/(2n)) of Askin et al. (2025), Theorem 5.1(1): how far both error rates may be off.

    Finite-sample: with probability at least 1 − γ both empirical rates, each from n = trials test outputs, are within w
    of their means (Hoeffding). The rejection sets {L̂ < −ln η} of one L̂ are nested, so the two rates are empirical
    distribution functions, and by the Dvoretzky–Kiefer–Wolfowitz inequality with Massart's constant the same w covers
    every η at once: 2·exp(−2nw²) = γ/2 per side. With unequal sides, give the smaller n.

    Args:
        trials: test outputs per side, whole numbers from 1 to 2^53.
        gamma: failure probability, above 0 and below 1.
    """
    _, n = binomial_counts(np.zeros((), np.int64), trials, ("successes", "trials"))
    return np.asarray(np.sqrt(np.log(4.0 / open_unit("gamma", gamma)) / (2.0 * n)))


def standard_error(x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, inflation: ArrayLike) -> Floats:
    """Standard error of x0/n0 − c·x1/n1 with the observed proportions put in; 0 where both are 0 or 1.

    Asymptotic; the lower variance form of Lu et al. (2024), Theorem 4.
    """
    s0, t0 = binomial_counts(x0, n0, ("x0", "n0"))
    s1, t1 = binomial_counts(x1, n1, ("x1", "n1"))
    return _error(s0 / t0, t0, s1 / t1, t1, inflation_factor(inflation))


def _error(a: Floats, n0: Floats, b: Floats, n1: Floats, c: Floats) -> Floats:
    """sqrt(a(1 − a)/n0 + c²·b(1 − b)/n1)."""
    return np.asarray(np.sqrt(a * (1.0 - a) / n0 + c * c * (b * (1.0 - b) / n1)))


def normal_upper(
    x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, inflation: ArrayLike, confidence: ArrayLike
) -> Floats:
    """Approximate upper limit of x0/n0 − c·x1/n1, clipped to [0, 1]: the estimate plus z standard errors.

    Heuristic: normal, for one cell, and it ignores the regret of the classifier, so that δ itself may be larger. The
    standard error uses (x + 1)/(n + 2), which is never 0 or 1; z is the normal quantile of `confidence`.

    Args:
        x0, n0, x1, n1, inflation: as in `joint_lower`.
        confidence: above 0 and below 1.
    """
    s0, t0 = binomial_counts(x0, n0, ("x0", "n0"))
    s1, t1 = binomial_counts(x1, n1, ("x1", "n1"))
    c = inflation_factor(inflation)
    error = _error((s0 + 1.0) / (t0 + 2.0), t0, (s1 + 1.0) / (t1 + 2.0), t1, c)
    estimate = s0 / t0 - c * (s1 / t1)
    return np.clip(estimate + ndtri(open_unit("confidence", confidence)) * error, 0.0, 1.0)
