"""Trade-off curves: a whole estimated curve and BayBox points, drawing included, on one thread; and the textbook ways.

A curve: density estimates of both sides and the perturbed likelihood-ratio test at 1000 η (Askin et al. 2025, Algorithm
3). A BayBox point (Algorithm 1): kNN learns from as many outputs per database as are then tested. The textbook ways are SciPy's
`gaussian_kde` with nested quadrature, for a few η, and scikit-learn's `KNeighborsClassifier`. All take their turns in one
run. Seconds are of the processor, in brackets those of the clock, which a shared machine makes longer.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.counts import below, eta_thresholds
from hpcdp.losses.kde.kde import Kde
from hpcdp.losses.knn.knn import Knn
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.additive import gaussian, laplace
from hpcdp.mechanisms.subsampled import subsampled
from hpcdp.mechanisms.toy_dpsgd import toy_dpsgd
from hpcdp.notions.perturbed import default_etas, perturbed_points

Floats = NDArray[np.float64]
Action = Callable[[np.random.Generator], object]
Estimate = Callable[[np.random.Generator], tuple[Floats, Floats]]

_ZEROS, _ODD = np.zeros(10), np.eye(10)[0]
_SUM = {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5}
_LAWS: dict[str, tuple[Callable[..., Floats], dict[str, object], tuple[Floats, Floats]]] = {
    "gaussian": (gaussian, {"sigma": 1.0}, (np.zeros(1), np.ones(1))),
    "laplace": (laplace, {"scale": 1.0}, (np.zeros(1), np.ones(1))),
    "dp-sgd": (toy_dpsgd, {}, (_ZEROS, _ODD)),
    "subsampled": (subsampled, _SUM, (_ZEROS, _ODD)),
}
WIDTH = 0.1
GRID = default_etas(1001)[1:]
"""1000 η up to 15; at η = 0 every test rejects."""
ONE = 1.0
"""The η of one point: no training output is thinned away."""


def draw(law: str, size: int, rng: np.random.Generator, stages: int = 1) -> list[Floats]:
    """Outputs of D and of D', (size,) each, of every stage."""
    function, parameters, databases = _LAWS[law]
    return [np.ravel(function(d, size, rng, **parameters)) for _ in range(stages) for d in databases]


def estimate_curve(law: str, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """alpha and beta at 1000 η from so many outputs per database."""
    p, q = (Side(x, size) for x in draw(law, size, rng))
    return perturbed_points(*Kde().fit(p, q).masses(), GRID, WIDTH)


def estimate_points(law: str, size: int, etas: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """alpha and beta of BayBox at each η: so many training and so many test outputs per database."""
    *train, d, d_prime = draw(law, size, rng, stages=2)
    thresholds = np.sort(eta_thresholds(etas))
    counter = Knn().fit(*(Side(x, size) for x in train)).counter(thresholds)
    rejected = [below(counter.count(x))[::-1] / size for x in (d, d_prime)]
    return rejected[0], 1.0 - rejected[1]


def textbook_curve(law: str, size: int, etas: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The same points by definition: densities on 1000 places, and for each η an integral over U of one over them."""
    from scipy.integrate import quad
    from scipy.stats import gaussian_kde, iqr

    sides = draw(law, size, rng)
    places = np.linspace(min(x.min() for x in sides), max(x.max() for x in sides), 1000)
    densities = []
    for x in sides:
        silverman = 0.9 * min(x.std(ddof=1), iqr(x) / 1.34) * size**-0.2
        densities.append(gaussian_kde(x, silverman / x.std(ddof=1))(places))
    p, q = densities
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = q / p

    def reject(u: float, eta: float, density: Floats) -> float:
        return float(np.trapezoid(np.where(ratio > eta + WIDTH * u, density, 0.0), places))

    # of a step function in U, so more than this takes long
    wanted = {"epsabs": 1e-3, "epsrel": 0.0, "limit": 500}
    shares = [[quad(reject, -0.5, 0.5, (eta, density), **wanted)[0] for eta in etas] for density in densities]
    return np.array(shares[0]), 1.0 - np.array(shares[1])


def textbook_point(law: str, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """alpha and beta of BayBox at η = 1, by the majority of as many neighbours as `knn` asks."""
    from sklearn.neighbors import KNeighborsClassifier

    *train, d, d_prime = draw(law, size, rng, stages=2)
    labels = np.repeat([0, 1], size)
    model = KNeighborsClassifier(n_neighbors=math.isqrt(2 * size) // 2 * 2 + 1, n_jobs=1)
    model.fit(np.concatenate(train)[:, None], labels)
    rejected = [model.predict(x[:, None]).mean(keepdims=True) for x in (d, d_prime)]
    return rejected[0], 1.0 - rejected[1]


def measure(actions: dict[str, Action], repeats: int, seed: int) -> dict[str, tuple[float, float]]:
    """Median seconds of the processor and of the clock, of actions that take turns after one run each to warm up."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for repeat in range(repeats + 1):
        for name, action in actions.items():
            rng = np.random.default_rng([seed, repeat])
            begin = time.process_time(), time.perf_counter()
            action(rng)
            if repeat:
                times[name].append((time.process_time() - begin[0], time.perf_counter() - begin[1]))
    medians = {name: [statistics.median(part) for part in zip(*found, strict=True)] for name, found in times.items()}
    return {name: (own, clock) for name, (own, clock) in medians.items()}


def _compare_laws(curve_size: int, point_size: int, repeats: int) -> dict[str, float]:
    print(
        f"tradeoff: a curve of {GRID.size} η from {curve_size:,} outputs per database; BayBox, kNN, from {point_size:,}"
    )
    print("  of training and of test outputs; one thread, drawing included; seconds of the processor (of the clock)")
    print(
        f"{'law':10} {'draw':>16} {'curve':>16} | {'draw':>16} {'one point':>16} {f'{GRID.size} points':>16} {'ratio':>6}"
    )
    figures: dict[str, float] = {}
    for law in _LAWS:
        actions: dict[str, Action] = {
            "curve draw": partial(draw, law, curve_size),
            "curve": partial(estimate_curve, law, curve_size),
            "point draw": partial(draw, law, point_size, stages=2),
            "one point": partial(estimate_points, law, point_size, np.array([ONE])),
            "all points": partial(estimate_points, law, point_size, GRID),
        }
        found = measure(actions, repeats, point_size)
        cells = [f"{own:9.4f} ({clock:.3f})" for own, clock in found.values()]
        ratio = found["all points"][0] / found["one point"][0]
        head, tail = (" ".join(f"{cell:>16}" for cell in part) for part in (cells[:2], cells[2:]))
        print(f"{law:10} {head} | {tail} {ratio:6.2f}", flush=True)
        figures |= {f"{name}, {law}": own for name, (own, _) in found.items()} | {f"ratio, {law}": ratio}
    return figures


def _compare_textbook(curve_size: int, etas: Floats, point_size: int) -> dict[str, float]:
    """The textbook ways once each: how many times faster hpcdp is, and how far the errors of both are apart."""
    law, one = "gaussian", np.array([ONE])
    ours: dict[str, Estimate] = {
        "curve": partial(estimate_curve, law, curve_size),
        "point": partial(estimate_points, law, point_size, one),
    }
    textbook: dict[str, Estimate] = {
        "curve": partial(textbook_curve, law, curve_size, etas),
        "point": partial(textbook_point, law, point_size),
    }
    fast = measure(dict(ours), 9, 1)
    textbook_point(law, 100, np.random.default_rng(0))  # libraries loaded
    textbook_curve(law, 100, one, np.random.default_rng(0))
    figures: dict[str, float] = {}
    for name, size, own_etas, others in (("curve", curve_size, GRID, etas), ("point", point_size, one, one)):
        begin = time.process_time()
        known = textbook[name](np.random.default_rng([1, 1]))
        slow = time.process_time() - begin
        found = [np.interp(others, own_etas, part) for part in ours[name](np.random.default_rng([1, 1]))]
        figures[f"times faster, {name}"] = slow / fast[name][0]
        figures[f"apart, {name}"] = float(np.abs(np.subtract(known, found)).max())
        print(
            f"  textbook {name}, {law}, {size:,} per database: {slow:.2f} s for {others.size} η, here {fast[name][0]:.4f} s for "
            f"{own_etas.size}: {slow / fast[name][0]:.0f} times faster; errors differ by {figures[f'apart, {name}']:.1g}"
        )
    return figures


def main(small: bool = False) -> dict[str, float]:
    """Print a table; returns seconds of the processor, ratios of all points to one, and how many times faster hpcdp is."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        if small:
            return _compare_laws(2000, 20_000, 3) | _compare_textbook(5000, np.array([0.3, 1.0, 3.0]), 4000)
        return _compare_laws(100_000, 1_000_000, 5) | _compare_textbook(100_000, np.linspace(0.3, 6.0, 20), 1 << 15)


if __name__ == "__main__":
    main()
