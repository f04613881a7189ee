"""The neural network on 50 dimensions: whole studies of the Gaussian and Laplace pairs against their exact spectra.

The pairs are those of Lu et al., Figures 5b and 5c: Gaussian noise for (1, 1e-5) and D' at distance 1, in one column or
spread over all; Laplace noise of scale 1 and D' at 1-distance 1, in one column or spread over all. All with the default
settings of `learned`, in two studies of two pairs, one worker process a pair. The time is that of both studies, cluster start
apart.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from distributed import Client

from benchmarks.processes import processor_seconds
from hpcdp.analytic import Curve, GaussianShift, LaplaceShift, gaussian_sigma
from hpcdp.analytic.laplace import LaplaceVector
from hpcdp.clusters.scheduler import open_local
from hpcdp.driver.driver import run
from hpcdp.study.file import Study

_COLUMNS = 50
_SIGMA = gaussian_sigma(1.0, 1e-5)
_ONE = [1.0] + [0.0] * (_COLUMNS - 1)
_EPSILONS = [0.0, 0.01, *(round(0.05 * i, 2) for i in range(1, 20))]
_SEED = 501

_CASES: dict[str, tuple[dict[str, float], list[tuple[str, list[float], Curve]]]] = {
    "gaussian": (
        {"sigma": _SIGMA},
        [
            ("one column", _ONE, GaussianShift(1 / _SIGMA)),
            ("spread", [_COLUMNS**-0.5] * _COLUMNS, GaussianShift(1 / _SIGMA)),
        ],
    ),
    "laplace": (
        {"scale": 1.0},
        [
            ("one column", _ONE, LaplaceShift(1.0)),
            ("spread", [1 / _COLUMNS] * _COLUMNS, LaplaceVector(np.full(_COLUMNS, 1 / _COLUMNS))),
        ],
    ),
}


def _study(call: str, size: int, seed: int) -> Study:
    parameters, pairs = _CASES[call]
    return Study.from_dict(
        {
            "study": {"name": f"fifty-{call}", "seed": seed},
            "mechanism": {"call": call, "parameters": parameters},
            "pairs": {"given": [{"d": [0.0] * _COLUMNS, "d_prime": shift} for _, shift, _ in pairs]},
            "estimate": {
                "loss": "learned",
                "train": size,
                "test": size,
                "chunk": min(1 << 18, size),
                "epsilons": _EPSILONS,
                "keep": "none",
            },
        }
    )


def _busy(client: Client) -> float:
    """Seconds of the processor that the workers and their child processes have taken so far."""
    return float(sum(client.run(processor_seconds).values()))


def main(small: bool = False, seed: int = _SEED) -> dict[str, float]:
    """Print δ̂(0), the largest misses and the time; returns |δ̂(0) − δ(0)| by pair, and the seconds."""
    size = 1 << 15 if small else 1 << 20
    missed: dict[str, float] = {}
    print(
        f"learned: the ready network, {_COLUMNS} columns, {size} training and as many test outputs a database, 2 processes"
    )
    with tempfile.TemporaryDirectory(prefix="hpcdp-learned-") as folder, open_local(2) as place:
        begin, busy = time.perf_counter(), _busy(place.client)
        results = {
            call: run(_study(call, size, seed), Path(folder) / f"{call}.zarr", client=place.client, workers=2)
            for call in _CASES
        }
        seconds, busy = time.perf_counter() - begin, _busy(place.client) - busy
    for call, result in results.items():
        for number, (name, _, curve) in enumerate(_CASES[call][1]):
            exact = curve.delta(result["epsilon"], "forward")  # the pairs are symmetric
            miss = result["delta"][number] - exact
            beyond = miss / result["standard_error"][number].clip(1e-9)
            missed[f"{call}, {name}"] = float(np.abs(miss[:, 0]).max())
            print(
                f"  {call + ', ' + name:<22} δ(0) {exact[0]:.5f}, estimated {result['delta'][number, 0, 0]:.5f}; over all ε "
                f"{miss.min():+.4f} to {miss.max():+.4f}, at most {beyond.max():+.1f} standard errors high"
            )
    print(f"  {seconds:.0f} s, in which both processes used {busy:.0f} s of their cores")
    return missed | {"seconds": seconds}


if __name__ == "__main__":
    main()
