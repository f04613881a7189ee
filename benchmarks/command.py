"""Through the command: `hpcdp run` with 10⁷ training and 10⁷ test samples per database, 21 ε, 2 workers; `plan` and `--help`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUDY = """
[study]
name = "{keep}"
seed = 20240520
[mechanism]
call = "laplace"
parameters = {{ epsilon = 1.0 }}
[pairs]
given = [ {{ d = [0.0], d_prime = [1.0] }} ]
[estimate]
loss = "knn"
train = {size}
test = {size}
epsilons = {{ start = 0.0, stop = 2.0, count = 21 }}
keep = "{keep}"
"""


def command_seconds(folder: Path, *arguments: str) -> float:
    """Seconds of one hpcdp command, from start to exit."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "hpcdp", *arguments], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - begin


def main(small: bool = False) -> dict[str, float]:
    """Print seconds of each command; returns them by name."""
    size = 10**5 if small else 10**7
    found = {}
    with tempfile.TemporaryDirectory(prefix="hpcdp-command-") as name:
        folder = Path(name)
        for keep in ("all", "none"):
            (folder / f"{keep}.toml").write_text(STUDY.format(size=size, keep=keep))
        repeats = 1 if small else 3
        if not small:  # the first run compiles kernels
            command_seconds(folder, "run", "all.toml", "--store", "warm.zarr", "--workers", "2")
        found["--help"] = min(command_seconds(folder, "--help") for _ in range(repeats))
        found["plan"] = min(command_seconds(folder, "plan", "all.toml") for _ in range(repeats))
        for keep in ("all", "none"):
            found[f"run, keep = {keep}"] = command_seconds(folder, "run", f"{keep}.toml", "--workers", "2")
    print(f"command: {size:,} training and {size:,} test samples per database, 21 ε, 2 workers, whole commands")
    for key, value in found.items():
        print(f"  {key:<18} {value:6.2f} s")
    return found


if __name__ == "__main__":
    main()
