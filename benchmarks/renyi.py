"""Rényi divergences: `hpcdp show --renyi 2 --renyi 8 --zcdp` against a `hpcdp show` that makes its table, on 441 pairs."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.command import command_seconds

_STUDY = """
[study]
name = "patients"
seed = 20261122
[mechanism]
call = "bounded_mean"
parameters = {{ epsilon = 1.0, lower = 0.0, upper = 1.0, count = {rows} }}
[pairs]
relative = {{ databases = [{values}], rows = "all", relation = "remove" }}
[estimate]
train = 4096
test = 16384
chunk = 16384
epsilons = {{ start = 0.0, stop = 1.0, count = 21 }}
keep = "none"
"""


def main(small: bool = False) -> dict[str, float]:
    """Print seconds of both commands, and their ratio; returns them by name."""
    rows, repeats = (4, 2) if small else (441, 7)
    found: dict[str, list[float]] = {"show": [], "show --renyi": []}
    with tempfile.TemporaryDirectory(prefix="hpcdp-renyi-") as name:
        folder = Path(name)
        values = [[(37 * row % rows) / rows] for row in range(rows)]  # different rows, so that all pairs are kept
        (folder / "patients.toml").write_text(_STUDY.format(rows=rows, values=values))
        command_seconds(folder, "run", "patients.toml", "--store", "s.zarr", "--no-plot")
        for _ in range(repeats):
            found["show"].append(command_seconds(folder, "show", "s.zarr"))
            orders = ("--renyi", "2", "--renyi", "8", "--zcdp")
            found["show --renyi"].append(command_seconds(folder, "show", "s.zarr", *orders))
    seconds = {key: statistics.median(times) for key, times in found.items()}
    ratio = seconds["show --renyi"] / seconds["show"]
    print(f"renyi: {rows} pairs, 21 ε, whole commands, median of {repeats}")
    for key, value in seconds.items():
        print(f"  {key:<14} {value:6.2f} s")
    print(f"  {'ratio':<14} {ratio:6.2f}")
    return seconds | {"ratio": ratio}


if __name__ == "__main__":
    main()
