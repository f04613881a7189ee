"""Against the limit: a whole study against merely drawing its samples and sorting the training half with NumPy.

Two processes for both, alternating in one run: the study's whole command, from start to exit, and its run alone, on workers
that were there before.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.command import STUDY, command_seconds
from benchmarks.studies import laplace_study
from hpcdp.clusters.scheduler import open_local
from hpcdp.driver.driver import run

_CHUNK = 1 << 18
_WORDS = ("run", "s.toml", "--store", "s.zarr", "--workers", "2", "--no-plot")


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
    """Print seconds and ratios; returns ratios to the baseline by what was run."""
    power, repeats = (20, 1) if small else (26, 5)
    side = (1 << power) // 4
    times: dict[str, list[float]] = {}

    def run_one(name: str, keep: str, folder: Path, work: Callable[[Path], object]) -> None:
        store = folder / "s.zarr"
        begin = time.perf_counter()
        work(store)
        times.setdefault(f"{name}, keep = {keep}", []).append(time.perf_counter() - begin)
        shutil.rmtree(store)

    with (
        tempfile.TemporaryDirectory(prefix="hpcdp-limit-") as name,
        ProcessPoolExecutor(2) as pool,
        open_local(2) as place,
    ):
        run(laplace_study("warm", 1 << 16, 1 << 16, "all"), Path(name) / "warm.zarr", client=place.client, workers=2)
        list(pool.map(draw_and_sort, (1, 2), (side, side), (side, side)))
        for repeat in range(repeats):
            begin = time.perf_counter()
            list(pool.map(draw_and_sort, (3, 4), (side, side), (side, side)))
            times.setdefault("NumPy", []).append(time.perf_counter() - begin)
            for keep in ("none", "all"):
                study, folder = laplace_study(keep, side, side, keep), Path(name) / f"{keep}-{repeat}"  # workers keep
                folder.mkdir()  # training samples of one at the same place
                (folder / "s.toml").write_text(STUDY.format(keep=keep, size=side))
                run_one("command", keep, folder, lambda _, at=folder: command_seconds(at, *_WORDS))
                run_one("run", keep, folder, lambda at, what=study: run(what, at, client=place.client, workers=2))
    print(f"limit: 2^{power} samples in all, half of them training, 2 processes, medians of {repeats}")
    print(f"  draw and sort with NumPy {statistics.median(times['NumPy']):7.2f} s; load {os.getloadavg()[0]:.1f}")
    ratios = {}
    for what in (key for key in times if key != "NumPy"):
        ratios[what] = statistics.median(a / b for a, b in zip(times[what], times["NumPy"], strict=True))
        print(f"  {what:<24} {statistics.median(times[what]):7.2f} s, {ratios[what]:.2f} times that")
    return ratios


if __name__ == "__main__":
    main()
