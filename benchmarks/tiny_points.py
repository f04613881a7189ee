"""Two single figures: one certified cell far in the tail of plain samples, and certified pure ε.

The cell: Gaussian noise, μ = 1, δ at ε = 3 from 10⁶ test samples per database besides the training; the median of the certified
bound over seeds, as a share of the exact δ. Pure ε: Laplace noise, ε₀ = 1, certified at δ = 0, drawing and learning included.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import hpcdp
from benchmarks.tiny import WORKERS
from hpcdp.analytic import GaussianShift
from hpcdp.clusters.scheduler import open_local
from hpcdp.study.file import Study


def study_of(call: str, parameters: dict[str, Any], seed: int, **estimate: Any) -> Study:
    """One pair, 0 and 1, that keeps nothing."""
    return Study.from_dict(
        {
            "study": {"name": "points", "seed": seed},
            "mechanism": {"call": call, "parameters": parameters},
            "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
            "estimate": {"loss": "smooth", "keep": "none", **estimate},
        }
    )


def certify_cell(seeds: int, size: int) -> list[float]:
    """Certified over exact δ at ε = 3, a seed each."""
    exact, found = float(GaussianShift(1.0).delta(3.0)), []
    with open_local(WORKERS) as place, tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            study = study_of("gaussian", {"sigma": 1.0}, seed, epsilons=[3.0], train=size, test=size)
            result = hpcdp.run(study, Path(folder) / f"{seed}.zarr", client=place.client)
            found.append(float(result["spectrum_lower"][0]) / exact)
    return found


def certify_pure(size: int) -> tuple[float, float]:
    """Certified ε at δ = 0, and seconds."""
    study = study_of("laplace", {"epsilon": 1.0}, 1, epsilons=[0.9, 0.95, 0.98], train=1 << 20, test=size)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        result = hpcdp.run(study, Path(folder) / "pure.zarr", workers=WORKERS)
        level = result.epsilon_at(0.0)
        return level.lower, time.perf_counter() - begin


def main(small: bool = False) -> dict[str, float]:
    """Print both; returns the figures."""
    shares = certify_cell(3 if small else 20, 4 * 10**5 if small else 10**6)
    epsilon, seconds = certify_pure(4_000_000 if small else 250_000_000)
    print(
        f"tiny_points: gaussian, μ = 1, ε = 3: certified {statistics.median(shares):.3f} of δ, the median of {len(shares)} seeds"
    )
    print(f"tiny_points: laplace, ε₀ = 1, δ = 0: certified ε {epsilon:.5f} in {seconds:.1f} s")
    return {"cell": statistics.median(shares), "epsilon": epsilon, "seconds": seconds}


if __name__ == "__main__":
    main()
