"""Textbook kNN (Fig. 1 of Lu et al. with scikit-learn, one ε) against hpcdp's whole 21-point spectrum.

In process, warm, drawing included, one core for both, alternating in one run; N samples in all for both. With `--command`
whole processes: `hpcdp run` of a study, with its store, bounds and table, and a script that imports scikit-learn for the
textbook.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hpcdp.losses import make_loss
from hpcdp.losses.counts import above, below, merge_thresholds
from hpcdp.losses.protocol import Side
from hpcdp.notions.bounds import standard_error
from hpcdp.notions.spectrum import estimate, exceedances

EPSILONS = np.linspace(0.0, 2.0, 21)
EPSILON = 0.5

_STUDY = """
[study]
name = "textbook"
seed = 7
[mechanism]
call = "laplace"
parameters = { epsilon = 1.0 }
[pairs]
given = [{ d = [0.0], d_prime = [1.0] }]
[estimate]
train = SIZE
test = SIZE
epsilons = { start = 0.0, stop = 2.0, count = 21 }
"""
_SCRIPT = """
import sys
import numpy as np
from benchmarks.textbook import textbook
print(textbook(int(sys.argv[1]), np.random.default_rng(7)))
"""


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


def process_seconds(folder: Path, *arguments: str) -> tuple[float, float]:
    """Seconds of the clock, and of the processor, of a Python process with these arguments."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent), "OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments} ended with code {process.returncode}")
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime


def compare_commands(small: bool) -> dict[int, float]:
    """Print a table; returns how many times cheaper the whole command is, in seconds of the processor, by log₂ of the samples."""
    ratios = {}
    print(
        "textbook --command: whole processes, a script with scikit-learn for one ε against `hpcdp run` for 21 and both"
    )
    print("  directions; medians, seconds of the processor (of the clock)")
    print(f"{'samples':>9} {'script s':>18} {'hpcdp run s':>18} {'times cheaper':>14}")
    with tempfile.TemporaryDirectory(prefix="hpcdp-textbook-") as name:
        folder = Path(name)
        for power in (12,) if small else (12, 14, 16, 18, 20):
            study = folder / "study.toml"
            study.write_text(_STUDY.replace("SIZE", str((1 << power) // 4)))
            found: list[list[tuple[float, float]]] = [[], []]
            for repeat in range(2 if small else 2 if power > 18 else 6):  # the first warms up
                store = f"{power}-{repeat}.zarr"
                run = process_seconds(folder, "-m", "hpcdp", "run", study.name, "--store", store)
                script = process_seconds(folder, "-c", _SCRIPT, str(1 << power))
                if repeat:
                    found[0].append(script)
                    found[1].append(run)
            (slow, clock), (fast, shown) = (
                [statistics.median(x) for x in zip(*side, strict=True)][::-1] for side in found
            )
            ratios[power] = slow / fast
            print(f"2^{power:<7} {slow:9.3f} ({clock:6.2f}) {fast:9.3f} ({shown:6.2f}) {slow / fast:14.1f}", flush=True)
    return ratios


def main(small: bool = False, command: bool = False) -> dict[int, float]:
    """Print a table; returns how many times faster hpcdp is, by log₂ of the samples in all."""
    from threadpoolctl import threadpool_limits

    if command:
        return compare_commands(small)
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
