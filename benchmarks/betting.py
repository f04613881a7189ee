"""Sequential audits by betting: false alarms over true claims, and how many samples per database a false claim costs.

A look after every batch, γ = .05; training is included in the samples. Shares of refuted true claims may be above γ by four
binomial standard deviations.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic import ApproximateDP, GaussianShift, LaplaceShift
from hpcdp.analytic.gaussian import toy_dpsgd_pair
from hpcdp.losses import make_loss
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.toy_dpsgd import toy_dpsgd
from hpcdp.notions.betting import Learner, Wealth, is_refuted, play
from hpcdp.notions.box import Lines, Orientation, lines_of

Outputs = NDArray[Any]
Draw = Callable[[np.random.Generator, int], tuple[Outputs, Outputs]]
Seed = int | Sequence[int]
GAMMA = 0.05
SMALL = (4, 1, 1)  # runs of a true claim, of a false one, of a false one with the loss that is slowest


def normals(mu: float) -> Draw:
    """Normal noise of deviation 1 on 0 and on mu."""
    return lambda rng, size: (rng.normal(size=size), mu + rng.normal(size=size))


def laplaces(mu: float) -> Draw:
    """Laplace noise of scale 1 on 0 and on mu."""
    return lambda rng, size: (rng.laplace(size=size), mu + rng.laplace(size=size))


def answers(epsilon: float) -> Draw:
    """Randomised response of databases 0 and 1."""
    lie = 1.0 / (math.exp(epsilon) + 1.0)
    return lambda rng, size: ((rng.random(size) < lie).astype(float), (rng.random(size) >= lie).astype(float))


def dpsgd(updates: int) -> Draw:
    """Toy DP-SGD on ten zeros, and with a one among them."""
    rows = np.zeros(10), np.append(1.0, np.zeros(9))
    return lambda rng, size: (
        toy_dpsgd(rows[0], size, rng, updates=updates),
        toy_dpsgd(rows[1], size, rng, updates=updates),
    )


def learner(name: str) -> Learner:
    """The scores of a loss; "bad" has nothing to do with what it learned from, but changes with it."""
    if name == "bad":
        return lambda p, q: lambda outputs: np.sin(50.0 * (p[0] - q[0]) * outputs)
    loss = make_loss(name, {"classifier": "logistic"} if name == "learned" else {})
    return lambda p, q: loss.fit(Side(p, p.shape[0]), Side(q, q.shape[0])).score


def samples_until_refuted(draw: Draw, lines: Lines, learn: Learner, batch: int, budget: int, seed: Seed) -> float:
    """Samples per database at the first look that refutes the claim; infinite when none does."""
    p, q = draw(np.random.default_rng(seed), budget)
    wealth = Wealth()
    for seen in range(0, budget, batch):
        now = slice(seen, seen + batch)
        (wealth,) = play([wealth], [lines], learn, (p[:seen], q[:seen]), (p[now], q[now]))
        if is_refuted(wealth, GAMMA):
            return wealth.samples
    return math.inf


def measure(
    name: str, draw: Draw, claim: Any, loss: str, sizes: tuple[int, int], runs: int, way: Orientation
) -> NDArray[Any]:
    """Audit `runs` times; prints a line."""
    begin, lines, learn = time.perf_counter(), lines_of(claim, way), learner(loss)
    found = np.array([samples_until_refuted(draw, lines, learn, *sizes, [2026, run]) for run in range(runs)])
    tenths = np.quantile(found, [0.1, 0.5, 0.9], method="higher")
    seconds = (time.perf_counter() - begin) / runs
    print(
        f"  {name:<34} {loss:<9} batches of {sizes[0]:>3}, {np.isfinite(found).sum():>3} of {runs} refuted by {sizes[1]:>4}; "
        f"median {tenths[1]:5.0f}, tenths {tenths[0]:5.0f} to {tenths[2]:5.0f}; {seconds:.2f} s each",
        flush=True,
    )
    return found


def main(small: bool = False) -> dict[str, float]:
    """Print the figures; returns shares of true claims that were refuted and medians of false ones, by name."""
    runs, some, few = SMALL if small else (400, 100, 20)
    both: Orientation = "both"
    figures = {}
    spread = 4.0 * math.sqrt(GAMMA * (1.0 - GAMMA) / runs)
    print(f"betting: true claims, a share of {GAMMA:g} + {spread:.3f} may be refuted")
    true = [
        ("gaussian 1, claimed 1", normals(1.0), GaussianShift(1.0), "knn", (100, 500), both),
        ("gaussian 1, claimed 1", normals(1.0), GaussianShift(1.0), "kde", (100, 500), both),
        ("gaussian 1, claimed 1", normals(1.0), GaussianShift(1.0), "bad", (100, 500), both),
        ("laplace 1, claimed 1", laplaces(1.0), LaplaceShift(1.0), "knn", (100, 500), both),
        ("answers 1, claimed 1", answers(1.0), ApproximateDP(1.0, 0.0), "frequency", (25, 500), both),
        ("dp-sgd 10, claimed 10 (forward)", dpsgd(10), toy_dpsgd_pair(updates=10), "knn", (100, 500), "forward"),
    ]
    for name, draw, claim, loss, sizes, way in true:
        found = measure(name, draw, claim, loss, sizes, runs, way)
        figures[f"alarms, {name}, {loss}"] = float(np.isfinite(found).mean())
    print("betting: false claims")
    false = [
        ("gaussian 1, claimed 0.5", normals(1.0), GaussianShift(0.5), "knn", (100, 1000), some, both),
        ("gaussian 1, claimed 0.5", normals(1.0), GaussianShift(0.5), "kde", (100, 1000), some, both),
        ("gaussian 1, claimed 0.5", normals(1.0), GaussianShift(0.5), "learned", (100, 1000), few, both),
        ("gaussian 1, claimed 0.8", normals(1.0), GaussianShift(0.8), "knn", (100, 3000), some, both),
        ("gaussian 1, claimed 0.8", normals(1.0), GaussianShift(0.8), "kde", (100, 3000), some, both),
        ("gaussian 2, claimed 1", normals(2.0), GaussianShift(1.0), "knn", (10, 150), some, both),
        ("gaussian 2, claimed 1", normals(2.0), GaussianShift(1.0), "knn", (20, 160), some, both),
        ("gaussian 2, claimed 1", normals(2.0), GaussianShift(1.0), "learned", (10, 150), few, both),
        ("laplace 1, claimed 0.5", laplaces(1.0), LaplaceShift(0.5), "knn", (100, 2000), some, both),
        ("answers 1, claimed 0.5", answers(1.0), ApproximateDP(0.5, 0.0), "frequency", (25, 1000), some, both),
        ("dp-sgd 10, claimed 5 (forward)", dpsgd(10), toy_dpsgd_pair(updates=5), "knn", (100, 2000), some, "forward"),
    ]
    for name, draw, claim, loss, sizes, runs, way in false:
        found = measure(name, draw, claim, loss, sizes, runs, way)
        figures[f"samples, {name}, {loss}, {sizes[0]}"] = float(np.median(found))
    return figures


if __name__ == "__main__":
    main()
