"""Which δ̂ of a result are significantly above 0, limits where the largest is not, and warnings in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.method import Method
from hpcdp.losses import kind_of, validate_parameters
from hpcdp.notions.resolution import Entries, ascend
from hpcdp.store.results import Arrays
from hpcdp.study.estimate import Estimate

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SHOWN = 6  # ε that a warning lists


@dataclass(frozen=True, eq=False)
class Resolution:
    """Arrays by cell and by ε.

    cells: shape (pairs, 2, epsilons), whether δ̂ is significantly above 0, there and at all smaller ε of the pair
    and direction: all of them together at the study's confidence, a family apart from the bounds (`ascend`; **finite-sample**,
    of random tapes **asymptotic**). rows: shape (epsilons,), the same of the largest δ̂. No such δ̂ is below what is certified.
    limits: shape (epsilons,), NaN where the largest δ̂ is so or nothing is known: an upper limit, at this ε, of what each
    set holds that was learned for any ε of any pair and direction (where samples teach and test, those that the last block
    tests; where errors were counted, those learned for this ε), at least what is certified. Finite-sample at the study's
    confidence (of random tapes asymptotic), one ε at a time; not a limit of δ.
    warnings: which δ̂ are not significantly above 0, and what would make them so, in words (heuristic).
    """

    cells: Bools
    rows: Bools
    limits: Floats
    warnings: tuple[str, ...]

    def limit(self, column: int) -> float | None:
        """The limit of the learned sets at one ε; None where δ̂ is significantly above 0."""
        return None if self.rows[column] else float(self.limits[column])


def find_resolution(arrays: Arrays, estimate: Estimate, method: Method) -> Resolution:
    """From a result's arrays and the study's section [estimate]."""
    delta, lower = (arrays[name][1] for name in ("delta", "lower"))
    known = ~np.isnan(delta)
    if not delta.size:
        return Resolution(known, np.empty(0, np.bool_), np.empty(0), ())
    level = (1.0 - estimate.confidence) / (2 * len(delta))  # of each pair and direction

    def rejects(place: Entries) -> Bools:
        return method.rejects(arrays, place, level)

    cells = ascend(arrays["epsilon"][1], known, rejects) & (delta > 0.0) & (delta >= lower)
    largest, certified = (arrays[f"spectrum_{name}"][1] for name in ("delta", "lower"))
    seen = ~np.isnan(largest)
    pair, direction = (arrays[f"spectrum_{name}"][1] for name in ("pair", "direction"))
    rows = seen & cells[pair, direction, np.arange(largest.size)] & (largest >= certified)
    limits = np.full(largest.size, np.nan)
    unresolved = np.flatnonzero(seen & ~rows)
    if unresolved.size:
        limits[unresolved] = np.maximum(
            method.set_limits(arrays, known, unresolved, estimate.confidence), certified[unresolved]
        )
    return Resolution(cells, rows, limits, _warn(arrays, estimate, method, rows, seen, level))


def _warn(
    arrays: Arrays, estimate: Estimate, method: Method, rows: Bools, seen: Bools, level: float
) -> tuple[str, ...]:
    epsilons = arrays["epsilon"][1]
    unresolved = np.flatnonzero(seen & ~rows)
    unresolved = unresolved[np.argsort(epsilons[unresolved])]
    if not unresolved.size:
        return ()
    shown = ", ".join(f"{epsilons[i]:g}" for i in unresolved[:_SHOWN])
    more = f" and {unresolved.size - _SHOWN:,} more" if unresolved.size > _SHOWN else ""
    ends = dict.fromkeys((int(unresolved[0]), int(unresolved[-1])))
    positive = [i for i in ends if max(arrays[f"spectrum_{name}"][1][i] for name in ("delta", "lower")) > 0.0]
    zero = [f"{epsilons[i]:g}" for i in ends if i not in positive]
    words = []
    if positive:
        needed = "; ".join(_needed(arrays, method, i, level) for i in positive)
        words += [
            f"If δ is as large as this δ̂, about so many samples make it significant (heuristic): {needed}.",
            _training(estimate, method),
        ]
    if zero:
        words.append(f"At ε = {' and '.join(zero)} δ̂ is 0: more samples may not change that, since δ may be 0 too.")
    return f"δ̂ is not significantly above 0 at ε = {shown}{more}.", " ".join(words)


def _needed(arrays: Arrays, method: Method, column: int, level: float) -> str:
    """Test samples a database that would make δ̂ significant at one ε."""
    at = f"at ε = {arrays['epsilon'][1][column]:g}"
    if arrays["spectrum_delta"][1][column] < arrays["spectrum_lower"][1][column]:
        return f"{at} a better L̂, for another set certifies more than δ̂"
    what = method.tests_words
    cell = (int(arrays["spectrum_pair"][1][column]), int(arrays["spectrum_direction"][1][column]), column)
    samples, now = method.needed(arrays, cell, level)
    if samples is None:
        return f"{at} more {what} than can be drawn"
    if samples <= 1.03 * now:  # sizes are asymptotic, and 2 % on the large side
        return f"{at} the present {what}, if training has found the best sets"
    return f"{at} about {samples:.1e} {what} per database (now {now:.1e})"


def _training(estimate: Estimate, method: Method) -> str:
    words, train = "Training may need more too", method.trained(estimate)
    k = kind_of(estimate.default_loss).votes(validate_parameters(estimate.default_loss, estimate.parameters), train)
    if estimate.refine or estimate.has_budget or estimate.tape or k is None:
        return f"{words}."
    least = k / (2.0 * train)
    return f"{words}: k = {k:,} of {2 * train:,} training points tell nothing of sets of probability below {least:.1e}."
