"""Very many pairs of little each: the whole command on two workers, and `show`, in seconds a pair.

Every pair is two laws of three outcomes with 500 training and 500 test samples each and 21 ε in both directions, so that what
is measured is what a pair costs beside its draws: files, records, planning, bounds. Seconds of the processor are of the command
and all its processes; memory is that of the largest of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_STUDY = """
[study]
name = "p{pairs}"
seed = 20240520
[mechanism]
call = "pmf"
parameters = {{ outcomes = [0, 1, 2], table = {table} }}
[pairs]
given = [{given}]
[estimate]
train = 500
test = 500
epsilons = {{ start = 0.0, stop = 2.0, count = 21 }}
"""


def write_study(folder: Path, pairs: int) -> Path:
    """A study of so many pairs of random laws; no database serves two of them."""
    rng = np.random.default_rng(pairs)
    laws = rng.dirichlet((4.0, 4.0, 4.0), pairs)
    others = laws * np.exp(rng.uniform(-0.5, 0.5, laws.shape))
    table = np.stack([laws, others / others.sum(axis=1, keepdims=True)], axis=1).reshape(-1, 3).tolist()
    given = ", ".join(f"{{ d = [{2 * n}], d_prime = [{2 * n + 1}] }}" for n in range(pairs))
    path = folder / f"p{pairs}.toml"
    path.write_text(_STUDY.format(pairs=pairs, table=table, given=given))
    return path


def command_costs(folder: Path, *arguments: str) -> tuple[float, float, float]:
    """Seconds of the clock and of the processor, and the largest process in MB, of one hpcdp command."""
    begin = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "hpcdp", *arguments], cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"hpcdp {arguments[0]} ended with code {process.returncode}")
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main(small: bool = False) -> dict[str, float]:
    """Print a table; returns seconds and MB by name and number of pairs."""
    print("pairs: 500 + 500 samples of three outcomes a law, 21 ε, two workers, whole commands")
    print(
        f"{'pairs':>8} {'run: clock':>12} {'processor':>10} {'MB':>6} {'ms a pair':>10} {'show: clock':>12} {'MB':>6}"
    )
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="hpcdp-pairs-") as name:
        folder = Path(name)
        warm = write_study(folder, 20)
        command_costs(folder, "run", warm.name, "--workers", "2", "--no-plot")  # compiles kernels
        for pairs in (100, 400) if small else (1_000, 10_000, 100_000):
            study = write_study(folder, pairs)
            clock, processor, megabytes = command_costs(folder, "run", study.name, "--workers", "2", "--no-plot")
            shown, _, most = command_costs(folder, "show", f"runs/p{pairs}.zarr")
            found |= {
                f"run, {pairs}": clock,
                f"run, processor, {pairs}": processor,
                f"run, MB, {pairs}": megabytes,
                f"show, {pairs}": shown,
            }
            cost = 1e3 * processor / pairs
            print(f"{pairs:8,} {clock:12.1f} {processor:10.1f} {megabytes:6.0f} {cost:10.1f} {shown:12.2f} {most:6.0f}")
    return found


if __name__ == "__main__":
    main()
