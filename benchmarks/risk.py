"""Privacy at risk: `hpcdp risk` on one and on two workers against the bare queries, and inversions of the published model.

The query is a ridge regression; the bare queries draw the same numbers of rows and answer them in this process, on one thread.
"""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hpcdp import Study, at_risk
from hpcdp.clusters.scheduler import open_local
from hpcdp.driver.driver import run

_QUERY = """
import numpy as np

ROWS = np.random.default_rng(0).random((20_000, 41))


def rows(size, rng):
    return ROWS[rng.integers(len(ROWS), size=size)]


def ridge(database):
    x, y = database[:, :-1], database[:, -1]
    return np.linalg.solve(x.T @ x + 0.01 * len(x) * np.eye(x.shape[1]), x.T @ y)
"""
_ROWS = 10_000


def bare(module: Any, pairs: int) -> float:
    """Seconds of the rows and of both queries of so many pairs."""
    rng, begin = np.random.default_rng(1), time.perf_counter()
    for _ in range(pairs):
        drawn = module.rows(_ROWS + 1, rng)
        other = np.concatenate([drawn[:-2], drawn[-1:]])
        np.abs(module.ridge(drawn[:-1]) - module.ridge(other)).sum()
    return time.perf_counter() - begin


def main(small: bool = False) -> dict[str, float]:
    """Print seconds of each, in turn, and their ratios; returns them by name."""
    pairs, repeats = (60, 1) if small else (6000, 3)
    found: dict[str, list[float]] = {"bare": [], "one worker": [], "two workers": []}
    with tempfile.TemporaryDirectory(prefix="hpcdp-risk-") as name, threadpool_limits(1):
        folder = Path(name)
        (folder / "benchmark_ridge.py").write_text(_QUERY)
        specification = importlib.util.spec_from_file_location("bare_ridge", folder / "benchmark_ridge.py")
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        section = {
            "query": "benchmark_ridge:ridge",
            "population": {"call": "benchmark_ridge:rows"},
            "rows": _ROWS,
            "pairs": pairs,
            "scale": 0.01,
            "cover": [0.5],
        }
        study = Study.from_dict({"study": {"name": "risk", "seed": 1}, "at_risk": section}, folder)
        warm = Study.from_dict({"study": {"name": "risk", "seed": 1}, "at_risk": {**section, "pairs": 50}}, folder)
        with open_local(1) as one, open_local(2) as two:
            for repeat in range(repeats + 1):  # the first warms up
                times = {"bare": bare(module, pairs if repeat else 50)}
                for key, place, workers in (("one worker", one, 1), ("two workers", two, 2)):
                    begin = time.perf_counter()
                    run(study if repeat else warm, folder / "s.zarr", client=place.client, workers=workers)
                    times[key] = time.perf_counter() - begin
                    shutil.rmtree(folder / "s.zarr")
                for key, seconds in times.items() if repeat else ():
                    found[key].append(seconds)
    figures = {key: statistics.median(times) for key, times in found.items()}
    figures["two over one"] = figures["one worker"] / figures["two workers"]
    figures["one over bare"] = figures["one worker"] / figures["bare"]
    figures["inversions"] = inversions()
    print(f"risk: {pairs:,} pairs of {_ROWS:,} rows, ridge regression of 40 predictors, median of {repeats}")
    for key, value in figures.items():
        print(f"  {key:<14} {value:8.3f}{' s' if key in (*found, 'inversions') else ' times'}")
    return figures


def inversions() -> float:
    """Seconds of 10,000 inversions of γ₁ with k = 6."""
    rng = np.random.default_rng(0)
    share, level0 = rng.random(10_000), np.exp(rng.uniform(-4.0, 3.0, 10_000))
    begin = time.process_time()
    at_risk.model_epsilon(share, level0, 6)
    return time.process_time() - begin
