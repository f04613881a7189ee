"""How accurate δ̂ is: what Lu et al. (2024) state, corrected, what is certain, and what resampling the counts shows.

- `corollary2`: **heuristic**. It puts an accuracy that shrinks with n into a theorem on nearest neighbours that holds from an
  unknown n on, which depends on that accuracy.
- `risk_radius`, `share_radius`: **finite-sample**, Hoeffding (1963), of the classifier that was learned.
- `worst_share_error`, `worst_risk_error`: **exact**, the largest over all laws of a set or of a classifier's errors.
- `bayes_error`, `resample_chunks`, `resample_classes`: **asymptotic**.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import integer, open_unit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def neighbour_constant(columns: int) -> float:
    """(1 + 2/√(2 − √3))^d − 1, an upper limit of the constant c_d of the theorem on nearest neighbours in d dimensions.

    3.8637 for d = 1; infinite where it overflows.
    """
    return math.expm1(min(700.0, integer("columns", columns, 1) * math.log1p(2.0 / math.sqrt(2.0 - math.sqrt(3.0)))))


def corollary2(columns: int, epsilon: float, samples: float, failure: float, runs: int = 1) -> float:
    """Corollaries 2 to 4, corrected: α = (24·c_d + 2)·e^ε·√(ln(4/β)/n) of nearest neighbours with k = √n. **Heuristic.**

    Printed with ln(4β), which is negative for β < 1/4. `runs` shares β, as in Theorem 5.

    Args:
        columns: d of the outputs.
        epsilon: the level. samples: n, training and test samples of both labels together. failure: β, above 0 and below 1.
        runs: ordered pairs that the statement is about together: 2·t·m of Corollary 3, of t databases in T with at most m rows;
            m·t·|U|² of Corollary 4, of t distributions of m rows with |U| values.
    """
    shared = float(open_unit("failure", failure)) / integer("runs", runs, 1)
    constant = 24.0 * neighbour_constant(columns) + 2.0
    return constant * math.exp(epsilon) * math.sqrt(math.log(4.0 / shared) / samples)


def risk_radius(epsilon: ArrayLike, tests: ArrayLike, failure: float) -> Floats:
    """2e^ε·√(ln(2/β)/(2n₂)): |1 − 2e^ε·r − (1 − 2e^ε·R(h))| is at most this, for Figure 1. Finite-sample (Hoeffding).

    With probability >= 1 − β, for the classifier h that was learned, one cell at a time. n₂ = `tests` labelled samples.
    """
    spread = math.log(2.0 / float(open_unit("failure", failure))) / (2.0 * np.asarray(tests, np.float64))
    return np.asarray(2.0 * np.exp(np.asarray(epsilon, np.float64)) * np.sqrt(spread))


def share_radius(epsilon: ArrayLike, test: ArrayLike, failure: float) -> Floats:
    """√((1 + e^2ε)·ln(2/β)/(2n)): the same radius for x₀/n − e^ε·x₁/n. Finite-sample (Hoeffding), one cell at a time.

    n = `test` outputs of each side. Never above `risk_radius` with n₂ = 2n, as 1 + e^2ε <= 2e^2ε.
    """
    spread = (1.0 + np.exp(2.0 * np.asarray(epsilon, np.float64))) / np.asarray(test, np.float64)
    return np.asarray(np.sqrt(0.5 * math.log(2.0 / float(open_unit("failure", failure))) * spread))


def worst_share_error(epsilon: float, test: int, is_sound: bool = True) -> float:
    """The largest standard error that x₀/n − e^ε·x₁/n has for any set S, n = `test` outputs of each side. Exact.

    The variance is [P(1 − P) + c²Q(1 − Q)]/n, c = e^ε >= 1. is_sound: over the sets with P(S) >= c·Q(S), which tell more
    than nothing: largest on the line P = c·Q, (1 + c)²/8 at P = (1 + c)/4 for c <= 3, beyond that c − 1 at P = 1. Over all
    sets it is (1 + c²)/4, at P = Q = 1/2.
    """
    c = math.exp(epsilon)
    sound = (1.0 + c) ** 2 / 8.0 if c <= 3.0 else c - 1.0
    return math.sqrt((sound if is_sound else (1.0 + c * c) / 4.0) / test)


def worst_risk_error(epsilon: float, tests: int, is_sound: bool = True) -> float:
    """The same of 1 − 2e^ε·r, r the error rate of n₂ = `tests` labelled samples: 4c²·R(1 − R)/n₂. Exact.

    is_sound: over the classifiers with 1 − 2c·R >= 0, at R = 1/(2c); over all of them, at R = 1/2.
    """
    c = math.exp(epsilon)
    risk = 0.5 / c if is_sound else 0.5
    return 2.0 * c * math.sqrt(risk * (1.0 - risk) / tests)


def bayes_error(epsilon: ArrayLike, delta: ArrayLike, tests: ArrayLike) -> Floats:
    """2e^ε·√(R*(1 − R*)/n₂), R* = e^−ε(1 − δ)/2: standard error of Figure 1 with the Bayes classifier. Asymptotic.

    n₂ = `tests` labelled samples: two for each test output of one side.
    """
    level = np.asarray(epsilon, np.float64)
    risk = 0.5 * np.exp(-level) * (1.0 - np.asarray(delta, np.float64))
    return np.asarray(2.0 * np.exp(level) * np.sqrt(risk * (1.0 - risk) / np.asarray(tests, np.float64)))


def resample_chunks(histograms: Ints, samples: Ints, replicates: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Counts of chunks of test outputs drawn with replacement, as many as there are (bootstrap over chunks).

    Args:
        histograms: counts of the classes of L̂ (see `hpcdp.losses.counts`) of each chunk, shape (chunks, 2, classes).
        samples: test outputs of each side in each chunk, shape (chunks,).
        replicates: how many.
        rng: where the draws come from.

    Returns:
        histograms (replicates, 2, classes) and test outputs of each side (replicates,). The spread of what is estimated
        from them estimates that of the estimate; asymptotic, in the number of chunks.
    """
    chunks = samples.size
    weights = rng.multinomial(chunks, np.full(chunks, 1.0 / chunks), size=replicates)
    return np.tensordot(weights, histograms, axes=1), weights @ samples


def resample_classes(histogram: Ints, replicates: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Counts of test outputs drawn with replacement: multinomial over the classes, histogram (2, classes).

    Of independent outputs, what `resample_chunks` tends to with many chunks. Returns as it does.
    """
    totals = histogram.sum(axis=1)
    sides = [rng.multinomial(n, side / n, size=replicates) for n, side in zip(totals, histogram, strict=True)]
    return np.stack(sides, axis=1), np.full(replicates, totals[0])
