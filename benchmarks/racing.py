"""Racing: who leaks most of many pairs, by a target, against equal shares of draws for all.

Two cases, training included: the quickstart's patients, and a sum over 10⁴ rows of which one is much larger than the others.
The winner is the pair with the largest certified bound; it is right if its exact δ is within 1 % of the largest. Equal
shares would give every pair what the winner got.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hpcdp
from benchmarks.tiny import WORKERS
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.clusters.scheduler import open_local
from hpcdp.results.comparison import exact_curve
from hpcdp.store.root import open_layout
from hpcdp.study.file import Study
from hpcdp.study.versions import read_problem

ROOT = Path(__file__).parent.parent
EPSILON = 0.3


def many_rows(rows: int = 10_000) -> np.ndarray[Any, Any]:
    """Row i is i/rows of 0.02, but for one in the middle, which is 1."""
    values = 0.02 * np.arange(rows) / rows
    values[rows // 2] = 1.0
    return values


few_rows = partial(many_rows, 500)


@dataclass(frozen=True)
class Race:
    """A mechanism and its pairs, how many training draws a database, and the relative error of the target."""

    name: str
    mechanism: dict[str, Any]
    relative: dict[str, Any]
    loss: str
    train: int
    error: float


_MEAN = {
    "call": "bounded_mean",
    "parameters": {"lower": 40.0, "upper": 300.0, "count": 442, "epsilon": 1.0, "noise": "laplace"},
}
_SUM = {"call": "noisy_sum", "parameters": {"sigma": 1.0}}
_PATIENTS = {"call": "diabetes:s2", "rows": "all"}
RACES = (
    Race("patients", _MEAN, _PATIENTS, "knn", 4096, 0.006),
    Race("rows", _SUM, {"call": "benchmarks.racing:many_rows", "rows": "all"}, "knn", 4096, 0.006),
)
SMALL = (
    Race("patients", _MEAN, {**_PATIENTS, "rows": list(range(0, 442, 10))}, "knn", 2048, 0.02),
    Race("rows", _SUM, {"call": "benchmarks.racing:few_rows", "rows": "all"}, "knn", 2048, 0.02),
)


def race_study(race: Race, seed: int) -> Study:
    """The study of a race: a target at ε = 0.3 in place of sizes."""
    return Study.from_dict(
        {
            "study": {"name": "race", "seed": seed},
            "mechanism": race.mechanism,
            "pairs": {"relative": {**race.relative, "relation": "remove"}},
            "estimate": {
                "loss": race.loss,
                "epsilons": [EPSILON],
                "train": race.train,
                "chunk": race.train,
                "keep": "none",
                "target": {"epsilon": EPSILON, "relative_error": race.error},
            },
        },
        ROOT / "workflows",
    )


def run_race(race: Race, seed: int, client: Any) -> dict[str, float]:
    """One run's figures."""
    with tempfile.TemporaryDirectory() as folder:
        store, begin = Path(folder) / "race.zarr", time.perf_counter()
        result = hpcdp.run(race_study(race, seed), store, client=client)
        seconds = time.perf_counter() - begin
        problem = read_problem(open_layout(store), 1)
        curves = [exact_curve(result, number) for number in range(len(result.pairs))]
        exact = np.array([max(c.delta(EPSILON, way) for way in DIRECTIONS) for c in curves if c is not None])
        sizes = [problem.sizes_of(number) for number in range(len(result.pairs))]
        given = np.array([race.train + s.screen + sum(map(max, *s.tallies)) + max(s.tests) for s in sizes])
    winner = int(result["spectrum_lower_pair"][0])
    return {
        "pairs": float(len(result.pairs)),
        "right": float(exact[winner] >= 0.99 * exact.max()),
        "certified": float(result["spectrum_lower"][0] / exact.max()),
        "fewer": float(given[winner] * given.size / given.sum()),
        "refined": float(sum(s.refine > 0 for s in sizes)),
        "winner": float(given[winner]),
        "seconds": seconds,
    }


def main(small: bool = False, names: Sequence[str] = (), runs: int = 10) -> dict[str, dict[str, float]]:
    """Print a line a run; returns the means by race."""
    found: dict[str, list[dict[str, float]]] = {}
    with open_local(WORKERS) as place:
        for race in SMALL if small else RACES:
            for seed in range(1 if small else runs) if not names or race.name in names else ():
                figures = run_race(race, seed, place.client)
                found.setdefault(race.name, []).append(figures)
                words = ", ".join(f"{key} {value:.4g}" for key, value in figures.items())
                print(f"racing, {race.name}, seed {seed}: {words}", flush=True)
    return {name: {key: float(np.mean([run[key] for run in some])) for key in some[0]} for name, some in found.items()}


if __name__ == "__main__":
    import sys

    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main("--small" in sys.argv, [word for word in sys.argv[1:] if word.isalpha()], *numbers)
