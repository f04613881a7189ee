"""Racing: who leaks most of many pairs, by a target, against equal shares of draws for all.

The quickstart's patients, training included. The winner is the pair with the largest certified bound; it is right if its exact
δ is within 1 % of the largest. Equal shares would give every pair what the winner got.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import hpcdp
from benchmarks.tiny import WORKERS
from hpcdp.clusters import open_local
from hpcdp.result import DIRECTIONS
from hpcdp.store.studies import open_layout, read_problem
from hpcdp.study import Study
from hpcdp.truth import exact_curve

ROOT = Path(__file__).parent.parent
EPSILON = 0.3


def race_study(seed: int, rows: Any, train: int, error: float) -> Study:
    """The quickstart's patients with a target at ε = 0.3 in place of sizes."""
    return Study.from_dict(
        {
            "study": {"name": "race", "seed": seed},
            "mechanism": {
                "call": "bounded_mean",
                "parameters": {"lower": 40.0, "upper": 300.0, "count": 442, "epsilon": 1.0, "noise": "laplace"},
            },
            "pairs": {"relative": {"call": "diabetes:s2", "rows": rows, "relation": "remove"}},
            "estimate": {
                "loss": "smooth",
                "epsilons": [EPSILON],
                "train": train,
                "chunk": train,
                "keep": "none",
                "target": {"epsilon": EPSILON, "relative_error": error},
            },
        },
        ROOT / "workflows",
    )


def race(seed: int, rows: Any, train: int, error: float, client: Any) -> dict[str, float]:
    """One run's figures."""
    with tempfile.TemporaryDirectory() as folder:
        store, begin = Path(folder) / "race.zarr", time.perf_counter()
        result = hpcdp.run(race_study(seed, rows, train, error), store, client=client)
        seconds = time.perf_counter() - begin
        problem = read_problem(open_layout(store), 1)
        curves = [exact_curve(result, number) for number in range(len(result.pairs))]
        exact = np.array(
            [max(curve.delta(EPSILON, way) for way in DIRECTIONS) for curve in curves if curve is not None]
        )
        sizes = [problem.sizes_of(number) for number in range(len(result.pairs))]
        given = np.array([train + s.refine + s.validation + max(s.tests) for s in sizes])
    winner = int(result["spectrum_lower_pair"][0])
    return {
        "pairs": float(len(result.pairs)),
        "right": float(exact[winner] >= 0.99 * exact.max()),
        "certified": float(result["spectrum_lower"][0] / exact.max()),
        "fewer": float(given[winner] * given.size / given.sum()),
        "tested": float((given > 0.5 * given[winner]).sum()),
        "seconds": seconds,
    }


def main(small: bool = False) -> dict[str, float]:
    """Print a line a run; returns the means."""
    rows, train, error, runs = (list(range(0, 442, 40)), 2048, 0.02, 1) if small else ("all", 4096, 0.008, 10)
    found = []
    with open_local(WORKERS) as place:
        for seed in range(runs):
            found.append(race(seed, rows, train, error, place.client))
            print(f"racing, seed {seed}: " + ", ".join(f"{k} {v:.4g}" for k, v in found[-1].items()), flush=True)
    return {key: float(np.mean([run[key] for run in found])) for key in found[0]}


if __name__ == "__main__":
    main()
