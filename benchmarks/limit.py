"""Against the limit: a whole study against merely drawing its samples and sorting the training half with NumPy.

Two processes for both, cluster start and compilation apart, alternating in one run.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.studies import laplace_study
from hpcdp.clusters import open_local
from hpcdp.engine.driver import run

_CHUNK = 1 << 18


def draw_and_sort(seed: int, train: int, test: int) -> float:
    """What each of two processes does at least: draw a side's samples in chunks, sort its training half."""
    rng = np.random.default_rng(seed)
    kept = np.empty(train)
    for start in range(0, train, _CHUNK):
        part = kept[start : start + _CHUNK]
        part[:] = rng.laplace(size=part.size)
    for start in range(0, test, _CHUNK):
        rng.laplace(size=min(_CHUNK, test - start))
    kept.sort()
    return float(kept[0])


def main(small: bool = False) -> dict[str, float]:
    """Print seconds and ratios; returns ratios to the baseline by `keep`."""
    power, repeats = (20, 1) if small else (26, 3)
    side = (1 << power) // 4
    times: dict[str, list[float]] = {"baseline": [], "none": [], "all": []}
    with (
        tempfile.TemporaryDirectory(prefix="hpcdp-limit-") as folder,
        ProcessPoolExecutor(2) as pool,
        open_local(2) as place,
    ):
        run(laplace_study("warm", 1 << 16, 1 << 16, "all"), Path(folder) / "warm.zarr", client=place.client, workers=2)
        list(pool.map(draw_and_sort, (1, 2), (side, side), (side, side)))
        for repeat in range(repeats):
            begin = time.perf_counter()
            list(pool.map(draw_and_sort, (3, 4), (side, side), (side, side)))
            times["baseline"].append(time.perf_counter() - begin)
            for keep in ("none", "all"):
                store = Path(folder) / f"{keep}-{repeat}.zarr"  # workers keep training samples of one at the same place
                begin = time.perf_counter()
                run(laplace_study(keep, side, side, keep), store, client=place.client, workers=2)
                times[keep].append(time.perf_counter() - begin)
                shutil.rmtree(store)
    print(f"limit: 2^{power} samples in all, half of them training, 2 processes, median of {repeats}")
    base = statistics.median(times["baseline"])
    print(f"  draw and sort with NumPy  {base:7.2f} s")
    ratios = {}
    for keep in ("none", "all"):
        ratios[keep] = statistics.median(a / b for a, b in zip(times[keep], times["baseline"], strict=True))
        print(f"  study, keep = {keep:<11} {statistics.median(times[keep]):7.2f} s, {ratios[keep]:.2f} times that")
    return ratios


if __name__ == "__main__":
    main()
