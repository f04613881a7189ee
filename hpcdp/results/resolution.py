"""What a result's δ̂ can tell: which cells are resolved, limits where the largest is not, and warnings in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses import validate_parameters
from hpcdp.losses.parameters import KnnParameters, choose_k
from hpcdp.notions.bounds import binomial_lower, binomial_upper
from hpcdp.notions.resolution import extrapolate, is_resolved, largest_upper, needed_tests
from hpcdp.store.results import Arrays
from hpcdp.study.estimate import Estimate
from hpcdp.study.reuse import most_learned

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SHOWN = 6  # ε that a warning lists
_REUSED = "block_exceed"  # an array of results whose samples teach and test


@dataclass(frozen=True, eq=False)
class Resolution:
    """Arrays by cell and by ε.

    cells: shape (pairs, 2, epsilons), whether δ̂ tells something, there and at all smaller ε of the pair and direction but
    those that a bound covers (heuristic). rows: shape (epsilons,), the same of the largest δ̂. No resolved δ̂ is below what
    is certified, in its cell or in its row.
    limits: shape (epsilons,), NaN where the largest δ̂ is resolved or nothing is known: an upper limit, at this ε, of what each
    set holds that was learned for any ε of any pair and direction (where samples teach and test, those that the last block
    tests; where errors were counted, those learned for this ε), at least what is certified. Finite-sample at the study's
    confidence, one ε at a time; not a limit of δ.
    warnings: what is not resolved and what would resolve it, in words (heuristic).
    """

    cells: Bools
    rows: Bools
    limits: Floats
    warnings: tuple[str, ...]

    def limit(self, column: int) -> float | None:
        """The limit of the learned sets at one ε; None where the largest δ̂ is resolved."""
        return None if self.rows[column] else float(self.limits[column])


def find_resolution(arrays: Arrays, estimate: Estimate) -> Resolution:
    """From a result's arrays and the study's section [estimate]."""
    delta, lower = (arrays[name][1] for name in ("delta", "lower"))
    known = ~np.isnan(delta)
    if "errors" in arrays:
        cells = known & (delta > 0.0) & (delta >= lower)
    else:
        exceed, test = (arrays[name][1] for name in ("exceed", "test"))
        cells = known & is_resolved(delta, lower, exceed, test, _least_mass(estimate, _trained(arrays, estimate)))
    cells &= _gapless(
        cells | ~known | (lower > 0.0), arrays["epsilon"][1]
    )  # where δ > 0 is certified, no larger ε is chance
    largest, certified = (arrays[f"spectrum_{name}"][1] for name in ("delta", "lower"))
    seen = ~np.isnan(largest)
    pair, direction = (arrays[f"spectrum_{name}"][1] for name in ("pair", "direction"))
    rows = seen & cells[pair, direction, np.arange(largest.size)] & (largest >= certified)
    limits = np.full(largest.size, np.nan)
    unresolved = np.flatnonzero(seen & ~rows)
    if unresolved.size:
        limits[unresolved] = np.maximum(_limits(arrays, known, unresolved, estimate.confidence), certified[unresolved])
    return Resolution(cells, rows, limits, _warn(arrays, estimate, rows, seen))


def _gapless(cells: Bools, epsilons: Floats) -> Bools:
    """Cells (pairs, 2, epsilons) with none at a smaller ε of their pair and direction that is not among them.

    δ does not rise with ε, so where nothing tells of it at some ε, a larger δ̂ beyond is chance.
    """
    order = np.argsort(epsilons)
    found = np.empty_like(cells)
    found[..., order] = np.logical_and.accumulate(cells[..., order], axis=-1)
    return found


def _trained(arrays: Arrays, estimate: Estimate) -> int:
    """Samples a side that each L̂ of the estimate learned from."""
    return most_learned(estimate.pool) if _REUSED in arrays else estimate.train


def _least_mass(estimate: Estimate, train: int) -> float:
    """The smallest probability of a set of which the training samples tell anything; 0 where tallies decided the sizes."""
    if estimate.has_budget:
        return 0.0
    if estimate.refine:
        return 1.0 / estimate.refine
    parameters = validate_parameters(estimate.default_loss, estimate.parameters)
    k = choose_k(parameters.k, 2 * train) if isinstance(parameters, KnnParameters) else 2
    return k / (2.0 * train)


def _limits(arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
    """Limits of the learned sets at some ε, shape (columns,)."""
    epsilons = arrays["epsilon"][1]
    if "errors" in arrays:
        return np.array([_risk_limit(arrays, known[..., column], int(column), confidence) for column in columns])
    exceed, test = (arrays[name][1][known] for name in ("exceed", "test"))
    if _REUSED in arrays:  # one L̂ that saw nothing of what it counts: that of the last block
        exceed = arrays[_REUSED][1][:, :, :, -1][known]
        test = np.full_like(exceed, arrays["block_test"][1][-1])
    return largest_upper(exceed, test, np.exp(epsilons[columns]), confidence)


def _risk_limit(arrays: Arrays, known: Bools, column: int, confidence: float) -> float:
    errors, tests = (arrays[name][1][..., column][known] for name in ("errors", "tests"))
    optimistic = 1.0 - 2.0 * np.exp(arrays["epsilon"][1][column]) * binomial_lower(errors, tests, 1.0 - confidence)
    return float(np.clip(optimistic, binomial_upper(0, tests, 1.0 - confidence), 1.0).max())


def _warn(arrays: Arrays, estimate: Estimate, rows: Bools, seen: Bools) -> tuple[str, ...]:
    epsilons = arrays["epsilon"][1]
    unresolved = np.flatnonzero(seen & ~rows)
    unresolved = unresolved[np.argsort(epsilons[unresolved])]
    if not unresolved.size:
        return ()
    shown = ", ".join(f"{epsilons[i]:g}" for i in unresolved[:_SHOWN])
    more = f" and {unresolved.size - _SHOWN:,} more" if unresolved.size > _SHOWN else ""
    needed = [_needed(arrays, int(i), rows) for i in dict.fromkeys((unresolved[0], unresolved[-1]))]
    return (
        f"δ̂ is not resolved at ε = {shown}{more}: it is 0 or below what is certified, or rests on fewer than 10 test outputs "
        "or on a set that training hardly saw, or does so at a smaller ε.",
        f"What would resolve it (heuristic; 10 outputs in the set, standard error δ/2): {'; '.join(needed)}. "
        f"{_training(estimate, _trained(arrays, estimate))}",
    )


def _needed(arrays: Arrays, column: int, rows: Bools) -> str:
    """Test samples a database that would resolve one ε, and where the number comes from."""
    epsilons, largest = arrays["epsilon"][1], arrays["spectrum_delta"][1]
    epsilon = float(epsilons[column])
    at = f"at ε = {epsilon:g}"
    delta, source = float(largest[column]), "from its counts"
    if delta < arrays["spectrum_lower"][1][column]:
        return f"{at} a better L̂, for another set certifies more than δ̂"
    place = column
    if delta == 0.0:
        before = np.flatnonzero(rows & (epsilons < epsilon))
        before = before[np.argsort(epsilons[before])]
        delta, source = extrapolate(epsilons[before], largest[before], epsilon), "if ln δ̂ goes on as before"
        if np.isnan(delta):
            return f"{at} no number can be told from these ε"
        place = int(before[-1])
    what = "samples" if _REUSED in arrays else "test samples"
    samples, now = _tests(arrays, place, float(largest[place]), delta, float(np.exp(epsilon)))
    if samples is None:
        return f"{at} more {what} than can be drawn ({source})"
    if samples <= now:
        return f"{at} the present {what} ({source}), so training lacks, or δ falls faster"
    return f"{at} about {samples:.1e} {what} per database ({source}; now {now:.1e})"


def _tests(arrays: Arrays, place: int, measured: float, delta: float, inflation: float) -> tuple[int | None, int]:
    """Test samples a database for one δ, a/δ being as measured in the leading cell of one ε; and how many there are."""
    cell = (int(arrays["spectrum_pair"][1][place]), int(arrays["spectrum_direction"][1][place]), place)
    if "errors" in arrays:
        risk = 0.5 * (1.0 - delta) / inflation
        samples = 8.0 * inflation**2 * risk * (1.0 - risk) / delta**2 if delta > 0.0 else np.inf
        return (int(np.ceil(samples)) if samples <= 2.0**50 else None), int(arrays["tests"][1][cell]) // 2
    exceed, test = arrays["exceed"][1][cell], arrays["test"][1][cell]
    share = float(exceed[0] / test[0])
    return needed_tests(delta, min(1.0, share / measured * delta), inflation), int(test.min())


def _training(estimate: Estimate, train: int) -> str:
    words = "Training may need more too"
    if estimate.refine or estimate.has_budget or estimate.default_loss != "knn":
        return f"{words}."
    least = _least_mass(estimate, train)
    k = round(2 * train * least)
    return f"{words}: k = {k:,} of {2 * train:,} training points tell nothing of sets of probability below {least:.1e}."
