"""Counting outputs in bins against numpy.bincount, and the peak memory of ten times as many outputs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import peak_megabytes
from hpcdp.driver.driver import run
from hpcdp.losses.histogram import count_bins
from hpcdp.study.file import Study

BINS, REPEATS = 28, 9


def _least_seconds(function: Callable[[], Any]) -> float:
    """Processor seconds of the fastest of some calls, after one that compiles."""
    function()
    found = []
    for _ in range(REPEATS):
        begin = time.process_time()
        function()
        found.append(time.process_time() - begin)
    return min(found)


def count(outputs: int) -> dict[str, float]:
    """Nanoseconds an output: `count_bins`, bincount of bins that are known, and of outputs whose bins are to be found."""
    x = np.random.default_rng(1).random(outputs)
    known, counts = (x * BINS).astype(np.int64), np.zeros(BINS, np.int64)
    found = {
        "count_bins": _least_seconds(lambda: count_bins(x, (0.0, 1.0), counts)),
        "bincount": _least_seconds(lambda: np.bincount(known, minlength=BINS)),
        "find, bincount": _least_seconds(lambda: np.bincount((x * BINS).astype(np.int64), minlength=BINS)),
    }
    return {name: 1e9 * seconds / outputs for name, seconds in found.items()}


def study(test: int, chunk: int = 1 << 18) -> Study:
    """Truncated Laplace noise of scale 1, one pair."""
    estimate = {"loss": "histogram", "train": chunk, "test": test, "chunk": chunk, "keep": "none"}
    return Study.from_dict(
        {
            "study": {"name": "bins", "seed": 20240520},
            "mechanism": {"call": "truncated", "parameters": {"scale": 1.0}},
            "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
            "estimate": {**estimate, "parameters": {"range": [0, 1], "lipschitz": 1.582}},
        }
    )


def main(small: bool = False) -> dict[str, float]:
    """Print figures; returns nanoseconds an output, their ratio to bincount, and how peak memory grows."""
    found = count(1 << (18 if small else 24))
    found["ratio"] = found["count_bins"] / found["bincount"]
    print(
        f"histogram: {found['count_bins']:.2f} ns an output, {found['ratio']:.2f} × numpy.bincount of known bins "
        f"({found['bincount']:.2f} ns; {found['find, bincount']:.2f} ns where it has to find them)"
    )
    few, peaks = (50_000 if small else 10**8), []
    for test in (few, 10 * few):  # in one process, whose peak never falls
        with tempfile.TemporaryDirectory(prefix="hpcdp-bins-") as folder:
            begin = time.perf_counter()
            result = run(study(test, 10_000 if small else 1 << 18), Path(folder) / "b.zarr", workers=0)
            peaks.append(peak_megabytes())
            assert result.pure is not None
            ends = result.pure["certified"], result.pure["upper"]
            print(
                f"{test:,} outputs a database: {ends[0]:.4f} ≤ ε, ε ≤ {ends[1]:.4f} if C holds, peak {peaks[-1]:.0f} MB, "
                f"{time.perf_counter() - begin:.1f} s"
            )
    return found | {"memory": peaks[1] / peaks[0]}


if __name__ == "__main__":
    main()
