"""Peak memory of each worker process at growing numbers of test samples: it must not grow with them."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.processes import peak_megabytes
from benchmarks.studies import laplace_study
from hpcdp.clusters.scheduler import open_local
from hpcdp.driver.driver import run


def main(small: bool = False) -> dict[int, float]:
    """Print a table; returns the largest worker's peak MB by log₂ of the test samples in all."""
    peaks = {}
    print("memory: peak of the largest worker process, 2^20 training samples per database, keep = none, 2 workers")
    print(f"{'test samples':>13} {'MB':>7} {'s':>7}")
    for power in (18, 20) if small else (22, 24, 26, 28):
        with tempfile.TemporaryDirectory(prefix="hpcdp-memory-") as folder, open_local(2) as place:
            begin = time.perf_counter()
            study = laplace_study("memory", 1 << (16 if small else 20), (1 << power) // 2, "none")
            run(study, Path(folder) / "m.zarr", client=place.client, workers=2)
            peaks[power] = max(place.client.run(peak_megabytes).values())
            print(f"2^{power:<11} {peaks[power]:7.0f} {time.perf_counter() - begin:7.1f}", flush=True)
    return peaks


if __name__ == "__main__":
    main()
