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
    """(1 + 2/√(2 − √3))^d − 1, an upper limit of c_d of the theorem on nearest neighbours; 3.8637 for d = 1; inf on overflow."""
    return math.expm1(min(700.0, integer("columns", columns, 1) * math.log1p(2.0 / math.sqrt(2.0 - math.sqrt(3.0)))))


def corollary2(columns: int, epsilon: float, samples: float, failure: float, runs: int = 1) -> float:
    """Corollaries 2 to 4, corrected: α = (24·c_d + 2)·e^ε·√(ln(4/β)/n) of nearest neighbours with k = √n. **Heuristic.**

    Printed with ln(4β), negative for β < 1/4. runs: ordered pairs that share β, as in Theorem 5: 2·t·m of t
    databases with m rows, or m·t·|U|² of t distributions of m rows with values in U.
    """
    shared = float(open_unit("failure", failure)) / integer("runs", runs, 1)
    constant = 24.0 * neighbour_constant(columns) + 2.0
    return constant * math.exp(epsilon) * math.sqrt(math.log(4.0 / shared) / samples)


def risk_radius(epsilon: ArrayLike, tests: ArrayLike, failure: float) -> Floats:
    """2e^ε·√(ln(2/β)/(2n₂)) around 1 − 2e^ε·R(h), h learned, n₂ labelled samples, a cell at a time. Finite-sample (Hoeffding)."""
    spread = math.log(2.0 / float(open_unit("failure", failure))) / (2.0 * np.asarray(tests, np.float64))
    return np.asarray(2.0 * np.exp(np.asarray(epsilon, np.float64)) * np.sqrt(spread))


def share_radius(epsilon: ArrayLike, test: ArrayLike, failure: float) -> Floats:
    """√((1 + e^2ε)·ln(2/β)/(2n)) for x₀/n − e^ε·x₁/n; never above `risk_radius` with n₂ = 2n. Finite-sample (Hoeffding)."""
    spread = (1.0 + np.exp(2.0 * np.asarray(epsilon, np.float64))) / np.asarray(test, np.float64)
    return np.asarray(np.sqrt(0.5 * math.log(2.0 / float(open_unit("failure", failure))) * spread))


def worst_share_error(epsilon: float, test: int, is_sound: bool = True) -> float:
    """The largest standard error of x₀/n − e^ε·x₁/n for any set S, n outputs of each side. Exact.

    The variance is [P(1 − P) + c²Q(1 − Q)]/n. is_sound: with P >= c·Q largest on that line, (1 + c)²/8 at P = (1 + c)/4 for c <=
    3, beyond that c − 1 at P = 1. Over all sets it is (1 + c²)/4, at P = Q = 1/2.
    """
    c = math.exp(epsilon)
    sound = (1.0 + c) ** 2 / 8.0 if c <= 3.0 else c - 1.0
    return math.sqrt((sound if is_sound else (1.0 + c * c) / 4.0) / test)


def worst_risk_error(epsilon: float, tests: int, is_sound: bool = True) -> float:
    """The same of 1 − 2e^ε·r of n₂ labelled samples: 4c²·R(1 − R)/n₂, at R = 1/2, or where is_sound at R = 1/(2c). Exact."""
    c = math.exp(epsilon)
    risk = 0.5 / c if is_sound else 0.5
    return 2.0 * c * math.sqrt(risk * (1.0 - risk) / tests)


def bayes_error(epsilon: ArrayLike, delta: ArrayLike, tests: ArrayLike) -> Floats:
    """2e^ε·√(R*(1 − R*)/n₂), R* = e^−ε(1 − δ)/2: error of Figure 1 with the Bayes classifier. Asymptotic."""
    level = np.asarray(epsilon, np.float64)
    risk = 0.5 * np.exp(-level) * (1.0 - np.asarray(delta, np.float64))
    return np.asarray(2.0 * np.exp(level) * np.sqrt(risk * (1.0 - risk) / np.asarray(tests, np.float64)))


def resample_chunks(histograms: Ints, samples: Ints, replicates: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Counts (replicates, 2, classes) and outputs of chunks drawn with replacement. Asymptotic, in their number."""
    chunks = samples.size
    weights = rng.multinomial(chunks, np.full(chunks, 1.0 / chunks), size=replicates)
    return np.tensordot(weights, histograms, axes=1), weights @ samples


def resample_classes(histogram: Ints, replicates: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """The same of test outputs of a histogram (2, classes) drawn with replacement."""
    totals = histogram.sum(axis=1)
    sides = [rng.multinomial(n, side / n, size=replicates) for n, side in zip(totals, histogram, strict=True)]
    return np.stack(sides, axis=1), np.full(replicates, totals[0])
