"""Train, audit and judge: python workflows/dpsgd_digits/make.py

Exit code 1: a verdict is not what it should be. 2: a wrong command or study.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results.json"
PAGE = FOLDER / "README.md"
START, END = "<!-- computed by make.py -->\n", "<!-- end -->\n"


@dataclass(frozen=True)
class Case:
    """A study and what its audit must find."""

    study: str
    violates: bool
    needs_torch: bool = False

    @property
    def file(self) -> Path:
        """The study's file."""
        return FOLDER / f"{self.study}.toml"


CASES = (
    Case("correct", violates=False),
    Case("half_noise", violates=True),
    Case("opacus", violates=False, needs_torch=True),
    Case("opacus_half_noise", violates=True, needs_torch=True),
)


def run_case(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Audit a study as `hpcdp audit` does: what it found, the models' accuracy, and how far the curve is from the exact one."""
    from accountant import gaussian_mu

    from hpcdp import Study, load_result
    from hpcdp.analytic import GaussianShift
    from hpcdp.cli.command import main as hpcdp

    store = options.store / f"dpsgd_digits-{case.study}.zarr"
    picture = options.out / f"{case.study}.png"
    place = ["--cluster", options.cluster, *(["--workers", str(options.workers)] if options.workers else [])]
    printed, begin = io.StringIO(), time.perf_counter()
    was_there = store.exists()
    with redirect_stdout(printed):
        code = hpcdp(["audit", str(case.file), "--store", str(store), "-o", str(picture), "--format", "json", *place])
    if code not in (0, 3):
        raise SystemExit(code)
    seconds = time.perf_counter() - begin
    study, result = Study.from_toml(case.file), load_result(store)
    noise, steps = (study.mechanism.parameters[name] for name in ("noise", "steps"))
    exact = GaussianShift(gaussian_mu(noise, steps))
    alpha, beta = (result[name][0] for name in ("alpha", "beta"))
    return {
        "study": case.study,
        "noise": noise,
        "steps": steps,
        "mu": exact.mu,
        "models": 2 * (study.estimate.train + study.estimate.test),
        "test": study.estimate.test,
        "accuracy": mean_accuracy(case, study),
        "seconds": None if was_there else round(seconds),
        "distance": float(np.abs(diagonal_distances(exact.tradeoff, alpha, beta)).max()),
        "audit": json.loads(printed.getvalue()),
    }


def diagonal_distances(tradeoff: Callable[[Floats], Floats], alpha: Floats, beta: Floats) -> Floats:
    """How far both errors of each point are above the curve: s with T(α − s) = β − s (α and β differ where T is steep)."""
    low, high = np.full(alpha.shape, -1.0), np.full(alpha.shape, 1.0)
    for _ in range(50):
        middle = (low + high) / 2
        is_above = tradeoff(np.clip(alpha - middle, 0.0, 1.0)) < beta - middle
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
    return low


def mean_accuracy(case: Case, study: Any, models: int = 20) -> float:
    """Mean accuracy, on the digits that nothing was trained on, of models that are trained without the canary."""
    import training

    rows, others = training.load()
    rng, parameters = np.random.default_rng(study.seed), study.mechanism.parameters
    if not case.needs_torch:
        return float(training.accuracy(training.train(rows, models, rng, **parameters), others).mean())
    import opacus_training

    found = [opacus_training.train(rows, rng, **parameters) for _ in range(models)]
    return float(np.mean([opacus_training.accuracy(model, others) for model in found]))


def table(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was found as lines of a table: one a study."""
    lines = [
        "| study | true μ | models | accuracy | verdict | certified μ ≥ | distance from the exact curve | time |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for one in found:
        mu = one["audit"]["bounds"]["mu"]["all"]
        seconds = "" if one["seconds"] is None else f"{one['seconds']} s"
        lines.append(
            f"| `{one['study']}.toml` | {one['mu']:g} | {one['models']:,} | {one['accuracy']:.1%} | {one['audit']['verdict']} "
            f"| {mu:.2f} | {one['distance']:.3f} | {seconds} |"
        )
    return lines


def judge(case: Case, one: Mapping[str, Any]) -> bool:
    """Whether the audit found a violation exactly where there is one."""
    return (one["audit"]["verdict"] == "violation") == case.violates


def computed_block(found: Sequence[Mapping[str, Any]]) -> str:
    """The part of the page that this script writes."""
    return START + "\n" + "\n".join(table(found)) + "\n\n" + END


def update(found: Sequence[Mapping[str, Any]]) -> None:
    """Keep what was found, and write it into the page."""
    RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    PAGE.write_text(before + computed_block(found) + rest.partition(END)[2], encoding="utf-8")


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="make.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--opacus", action="store_true", help="the networks too, which need PyTorch and Opacus")
    parser.add_argument("--store", type=Path, default=Path("runs"), metavar="FOLDER", help="of stores (default: runs)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/dpsgd_digits"), metavar="FOLDER", help="of pictures and results"
    )
    parser.add_argument("--cluster", default="local", metavar="WHERE", help="as of hpcdp run (default: local)")
    parser.add_argument("--workers", type=int, metavar="N", help="worker processes (default: one a core)")
    parser.add_argument("--update", action="store_true", help="keep what is found and write it into README.md")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the studies; returns the exit code."""
    options = read_options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    cases = [case for case in CASES if options.opacus or not case.needs_torch]
    found = []
    for case in cases:
        print(f"{case.study}: training and audit", file=sys.stderr, flush=True)
        found.append(run_case(case, options))
    (options.out / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.update:
        update(found)
    print("\n".join(table(found)))
    wrong = [case.study for case, one in zip(cases, found, strict=True) if not judge(case, one)]
    for name in wrong:
        print(f"make.py: the verdict on {name} is not what it should be", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":  # worker processes import this file
    sys.exit(main(sys.argv[1:]))
