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

    Of n successes 1, of none 1 − level^(1/n). Loose by at most 0.02 % of the level (exact below a thousand successes or
    failures). scipy's inverse incomplete beta is not used: 1.17 is wrong at large n (1.9e-6 for 1000 of 10⁹ at any level).
    """
    x, n = binomial_counts(successes, trials, ("successes", "trials"))
    from hpcdp.notions import _binomial_kernels as kernels

    shape, arrays = _flat(x, n, open_unit("level", level))
    return np.asarray(kernels.upper_limits(*arrays)[:, 0]).reshape(shape)


def binomial_lower(successes: ArrayLike, trials: ArrayLike, level: ArrayLike) -> Floats:
    """Clopper–Pearson (1934) lower limit, 1 − `binomial_upper` of the failures; 0 of none. Finite-sample."""
    x, n = binomial_counts(successes, trials, ("successes", "trials"))
    from hpcdp.notions import _binomial_kernels as kernels

    shape, arrays = _flat(n - x, n, open_unit("level", level))
    return np.asarray(kernels.upper_limits(*arrays)[:, 1]).reshape(shape)


def split_lower(
    x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, inflation: ArrayLike, level: ArrayLike
) -> Floats:
    """Lower bound on a − c·b from two limits at level/2 each, which hold for every inflation at once. Finite-sample."""
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
    """Lower bound on θ = a − c·b by inverting one exact test, from −c to 1. Finite-sample: it fails with probability <= level.

    The test of "θ <= θ0" rejects for large T = X0/n0 − c·X1/n1. Its p-value is γ + sup P(T >= t) over b in a two-sided
    Clopper–Pearson interval of level γ = level/20, with a = θ0 + c·b (Berger and Boos 1994). The bound is a θ0 that the test
    rejects, so it errs to the safe side only, by some 0.06 to 1.1 % of the margin. The sup is bounded on whole intervals of b,
    not on a grid, and every probability from above (see `hpcdp.notions._joint_kernels`).

    Margins are 0.67 to 0.94 of those of `split_lower`, which is better in two corners: few x1 whose single steps c/n1 are several
    standard errors of X0/n0, and x0 near n0. Choose before looking at the counts: the better of both is no bound. inflation: 0 to
    1e100. floor: bounds that are no larger need not be told apart, which takes no search.
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
    """Whether the test behind `joint_lower` rejects a <= c·b, c >= 1, of counts (cells,). Finite-sample."""
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
    """w(γ) = sqrt(ln(4/γ)/(2n)) of Askin et al. (2025), Theorem 5.1(1): how far both error rates may be off. Finite-sample.

    The rejection sets {L̂ < −ln η} of one L̂ are nested, so the rates are empirical distribution functions, and by the
    Dvoretzky–Kiefer–Wolfowitz inequality with Massart's constant w covers every η at once. trials: a side, the smaller n.
    """
    _, n = binomial_counts(np.zeros((), np.int64), trials, ("successes", "trials"))
    return np.asarray(np.sqrt(np.log(4.0 / open_unit("gamma", gamma)) / (2.0 * n)))


def standard_error(x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, inflation: ArrayLike) -> Floats:
    """Standard error of x0/n0 − c·x1/n1 with the proportions put in, 0 at 0 or 1; Lu et al. (2024), Theorem 4. Asymptotic."""
    s0, t0 = binomial_counts(x0, n0, ("x0", "n0"))
    s1, t1 = binomial_counts(x1, n1, ("x1", "n1"))
    return _error(s0 / t0, t0, s1 / t1, t1, inflation_factor(inflation))


def _error(a: Floats, n0: Floats, b: Floats, n1: Floats, c: Floats) -> Floats:
    """sqrt(a(1 − a)/n0 + c²·b(1 − b)/n1)."""
    return np.asarray(np.sqrt(a * (1.0 - a) / n0 + c * c * (b * (1.0 - b) / n1)))


def normal_upper(
    x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, inflation: ArrayLike, confidence: ArrayLike
) -> Floats:
    """The estimate plus z errors of (x + 1)/(n + 2), in [0, 1]; δ may be larger, by regret. Heuristic, for one cell."""
    s0, t0 = binomial_counts(x0, n0, ("x0", "n0"))
    s1, t1 = binomial_counts(x1, n1, ("x1", "n1"))
    c = inflation_factor(inflation)
    error = _error((s0 + 1.0) / (t0 + 2.0), t0, (s1 + 1.0) / (t1 + 2.0), t1, c)
    estimate = s0 / t0 - c * (s1 / t1)
    return np.clip(estimate + ndtri(open_unit("confidence", confidence)) * error, 0.0, 1.0)
