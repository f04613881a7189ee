"""Textbook kNN (Fig. 1 of Lu et al. with scikit-learn, one ε) against hpcdp's whole 21-point spectrum.

In process, warm, drawing included, one core for both, alternating in one run; N samples in all for both.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import numpy as np

from hpcdp.losses import make_loss
from hpcdp.losses.counts import above, below, merge_thresholds
from hpcdp.losses.protocol import Side
from hpcdp.notions.bounds import standard_error
from hpcdp.notions.spectrum import estimate, exceedances

EPSILONS = np.linspace(0.0, 2.0, 21)
EPSILON = 0.5


def textbook(samples: int, rng: np.random.Generator) -> float:
    """δ̂ at one ε: samples/2 labelled training and samples/2 labelled test draws, k = √(training), majority vote."""
    from sklearn.neighbors import KNeighborsClassifier

    n = samples // 2

    def labelled() -> tuple[np.ndarray, np.ndarray]:
        label = rng.integers(0, 2, n)
        outputs = rng.laplace(size=n) + label
        kept = (label == 1) | (rng.random(n) < math.exp(-EPSILON))  # the rest is ⊥, always classified rightly
        return outputs[kept, None], label[kept]

    x, y = labelled()
    model = KNeighborsClassifier(n_neighbors=math.isqrt(n) // 2 * 2 + 1, n_jobs=1).fit(x, y)
    x, y = labelled()
    risk = float(np.count_nonzero(model.predict(x) != y)) / n
    return max(0.0, 1.0 - 2.0 * math.exp(EPSILON) * risk)


def spectrum(samples: int, rng: np.random.Generator) -> np.ndarray:
    """δ̂ at 21 ε in both directions with standard errors, from samples/4 draws per database and stage; shape (2, 21)."""
    n = samples // 4
    thresholds = merge_thresholds(EPSILONS, ())
    model = make_loss("knn", {}).fit(Side(rng.laplace(size=n), n), Side(rng.laplace(size=n) + 1.0, n))
    counter = model.counter(thresholds)
    counts = np.stack([counter.count(rng.laplace(size=n) + shift) for shift in (0.0, 1.0)])
    exceed = exceedances(above(counts), below(counts), thresholds, EPSILONS)
    test = np.full_like(exceed, n)
    standard_error(exceed[..., 0], test[..., 0], exceed[..., 1], test[..., 1], np.exp(EPSILONS))
    return estimate(exceed, test, EPSILONS)


def seconds(function: Callable[[int, np.random.Generator], object], samples: int, repeats: int) -> float:
    """Median seconds of a call."""
    found = []
    for repeat in range(repeats):
        rng = np.random.default_rng([samples, repeat])
        begin = time.perf_counter()
        function(samples, rng)
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def main(small: bool = False) -> dict[int, float]:
    """Print a table; returns how many times faster hpcdp is, by log₂ of the samples in all."""
    from threadpoolctl import threadpool_limits

    ratios = {}
    print("textbook: scikit-learn, one ε, against hpcdp, 21 ε and both directions; one core, drawing included")
    print(
        f"{'samples':>9} {'scikit-learn s':>15} {'hpcdp s':>9} {'times faster':>13} {'textbook δ̂':>11} {'hpcdp δ̂':>9}"
    )
    with threadpool_limits(1):
        for power in (12, 14) if small else (14, 16, 18):
            samples = 1 << power
            spectrum(samples, np.random.default_rng(0))  # warm: kernels compiled, libraries loaded
            textbook(1 << 10, np.random.default_rng(0))
            slow = seconds(textbook, samples, 1 if power > 16 else 3)
            fast = seconds(spectrum, samples, 9)
            one, all_ = textbook(1 << 12, np.random.default_rng(1)), spectrum(samples, np.random.default_rng(1))
            ratios[power] = slow / fast
            print(f"2^{power:<7} {slow:15.3f} {fast:9.5f} {slow / fast:13.0f} {one:11.4f} {all_[0, 5]:9.4f}")
    return ratios


if __name__ == "__main__":
    main()
