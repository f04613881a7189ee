"""P[|L| > ε] of a store's pairs, with what the certified δ implies of it; and δ̂'s standard error by resampling the counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.derived import Records
from hpcdp.errors import StudyError
from hpcdp.notions.epsilon_at import implied_lower
from hpcdp.results.result import Result

_ESTIMATED = ("estimate", "standard_error", "pair", "side")
_SAFE = 1.0 - 4e-16  # of a quotient, rounded to the nearest


def risk_levels(result: Result, epsilons: Sequence[float], epsilon0: float | None = None) -> list[dict[str, Any]]:
    """The risk at some levels, each at least 0, the largest over pairs and both laws of a pair, as JSON has it.

    estimate: P̂[|L̂| > ε], of `pair` and of the outputs of D or of D′ (`side`), with its standard error (asymptotic); None
    where it is not counted. lower: P[L > ε] is at least this in some pair and direction, certified (finite-sample).
    claimed: the same if the mechanism is ε₀-DP as the study claims, above 1 where that is refuted; None without such a claim.
    StudyError on any other level, and where no cell has its counts.
    """
    for epsilon in epsilons:
        if not (epsilon >= 0.0 and math.isfinite(epsilon)):
            raise StudyError(f"risk: a finite level, at least 0; given: {epsilon}")
    known = ~np.isnan(result["spectrum_lower"])
    if not known.any():
        raise StudyError("risk: no entry has all its counts yet")
    bounds = implied_lower(result["epsilon"][known], result["spectrum_lower"][known], np.array(epsilons, np.float64))
    levels = []
    for epsilon, lower in zip(epsilons, bounds.tolist(), strict=True):
        below = epsilon0 is not None and epsilon < epsilon0
        claimed = _SAFE * lower / -math.expm1(epsilon - epsilon0) if below and epsilon0 is not None else None
        bound = {"lower": lower, "epsilon0": epsilon0, "claimed": claimed}
        levels.append({"epsilon": epsilon, **dict(zip(_ESTIMATED, _estimate(result, epsilon), strict=True)), **bound})
    return levels


def _estimate(result: Result, epsilon: float) -> tuple[float | None, float | None, int | None, str | None]:
    """Of the outputs of a law, those with L̂ > ε and those with L̂ < −ε, which the reverse direction counts."""
    e, columns = result.study.estimate, np.flatnonzero(result["epsilon"] == epsilon)
    is_plain = result.method.counts == ("exceed", "test") and not (e.refine or e.has_budget or result.method.pools)
    if not is_plain or not columns.size:  # else the sets are others than {L̂ > ε}
        return None, None, None, None
    exceed, test = (result[name][:, :, columns[0]] for name in ("exceed", "test"))
    beyond = exceed[:, 0] + exceed[:, 1, ::-1]
    whole = exceed.min(axis=(1, 2)) >= 0
    if not whole.any():
        return None, None, None, None
    shares = np.where(whole[:, None], beyond / np.maximum(test[:, 0], 1), -1.0)
    pair, side = (int(i) for i in np.unravel_index(shares.argmax(), shares.shape))
    share = float(shares[pair, side])
    error = math.sqrt(share * (1.0 - share) / float(test[pair, 0, side]))
    return share, error, pair, ("d", "d_prime")[side]


def bootstrap(result: Result, replicates: int = 400) -> list[dict[str, Any]]:
    """The largest estimate at each level, and two standard errors of it, both asymptotic; equal records give equal numbers.

    method: how the counts of its cell are resampled: "chunks" where every chunk of test outputs has a record of its own and there
    are at least 30 (bootstrap over chunks, which also shows outputs that are not independent), "classes" else (multinomial over
    the classes of L̂, the binomial error by simulation), "folds" where every sample teaches and tests (the same, fold by fold; it
    does not show what the sets change from run to run), "errors" of `literal-knn` (binomial over testing errors); of random
    tapes "weights" (bootstrap over chunks of draws from proposals) where there are at least 30, else "normal" (the standard
    error itself). Runs may put chunks together in other records, and so have another method. replicates: at least 2.
    StoreError: counts that the result rests on are no longer in the store.
    """
    rng = np.random.default_rng(result.study.seed)
    records = Records(result.layout.root)
    errors = []
    for column in np.flatnonzero(~np.isnan(result["spectrum_delta"])):
        place = (int(result["spectrum_pair"][column]), int(result["spectrum_direction"][column]), int(column))
        method, values = result.method.resample(result.arrays, records, place, replicates, rng)
        errors.append(
            {
                "epsilon": float(result["epsilon"][column]),
                "delta": float(result["delta"][place]),
                "pair": place[0],
                "direction": DIRECTIONS[place[1]],
                "standard_error": float(result["standard_error"][place]),
                "resampled": float(values.std(ddof=1)),
                "method": method,
            }
        )
    return errors
