"""Certified bounds of refined losses: in how many small runs do all of them hold at once, in both directions at 21 ε?

Each run learns a pilot, refines and chooses by tallies, and certifies on fresh outputs, with the functions that tasks use but
without a store. Planted faults must fail: few test outputs that teach L̂ of each cell and then certify it (many would teach the
60 values of the geometric sum too well), and bounds whose level is not shared by the cells, at confidence .5.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tiny import CASES, LONG, Case, grid_of
from hpcdp.engine.index import Index, Span
from hpcdp.losses import make_loss
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.counts import above, below
from hpcdp.losses.protocol import Side
from hpcdp.losses.refined import CellTally, Pilot, by_class, join_sets, refine
from hpcdp.notions.bounds import joint_lower
from hpcdp.notions.spectrum import exceedances
from hpcdp.results.load import assemble
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve
from hpcdp.study.sampler import Sampler

SIZES = {"train": 1 << 12, "refine": 1 << 15, "validation": 1 << 14, "test": 1 << 15}
CONFIDENCE, UNSHARED = 0.95, 0.5
RUNS_SMALL = 16
FAULTS = ("reused", "unshared")
FEW = 1 << 6


def problem_of(case: Case, test: int) -> Problem:
    """The case at the small setting's ε, of fixed sizes."""
    estimate: dict[str, Any] = {
        "loss": case.loss,
        "epsilons": grid_of(case, small=True),
        "keep": "none",
        **SIZES,
        "test": test,
    }
    data = {
        "study": {"name": "coverage", "seed": 0},
        "mechanism": {"call": case.call, "parameters": case.parameters},
        "pairs": {"given": [{"d": case.pair[0], "d_prime": case.pair[1]}]},
        "estimate": {**estimate, "chunk": 1 << 15, "confidence": CONFIDENCE},
    }
    study = Study.from_dict(data)
    return replace(resolve(study)[0], sampler=Sampler.of(study))  # which draws in this process


def certified(problem: Problem, seed: int, fault: str | None = None) -> NDArray[np.float64]:
    """Lower bounds (2, epsilons) of one run. fault: "reused", "unshared" or none."""
    sampler, sizes = replace(problem.sampler, seed=seed), SIZES | {"test": problem.test.total}

    def draw(stage: str) -> list[Any]:
        laws = zip(problem.pair_laws[0], (problem.pairs[0].d, problem.pairs[0].d_prime), strict=True)
        return [sampler.draw_from(d, law, stage, 0, sizes[stage], problem.schema) for law, d in laws]

    e, thresholds = problem.study.estimate, problem.thresholds
    pilot = Pilot.learn(make_loss(e.loss, e.parameters), *(Side(x, sizes["train"]) for x in draw("train")))
    tallies = {stage: np.stack([pilot.tally(x) for x in draw(stage)]) for stage in ("refine", "validation", "test")}
    learned, validation = (CellTally(*tallies[s], sizes[s], sizes[s]) for s in ("refine", "validation"))
    found = refine(pilot, learned, validation, thresholds)
    if fault == "reused":
        losses = log_ratios(*tallies["test"], sizes["test"], sizes["test"])
        found = replace(found, classes=join_sets(losses > thresholds[:, None], thresholds))
    counts = by_class(found.classes, CellTally(*tallies["test"], sizes["test"], sizes["test"]), thresholds)
    if fault == "unshared":
        above_, below_ = above(counts), below(counts)
        exceed = exceedances(above_, below_, thresholds, np.asarray(e.epsilons))
        inflation, test = np.exp(e.epsilons), np.full(exceed.shape[:2], sizes["test"])
        return joint_lower(exceed[..., 0], test, exceed[..., 1], test, inflation, np.asarray(UNSHARED))
    index, key, wanted = Index(), problem.model_key(0), tuple(thresholds.tolist())
    index.learned[key] = {wanted: {"training": found.judged}}
    index.spans[key] = {wanted: [Span(0, problem.test.chunks, problem.test.total, {"counts": counts})]}
    return np.asarray(assemble(problem, index)["lower"][1][0])


def share_that_hold(case: Case, runs: int, fault: str | None = None) -> float:
    """The share of runs all of whose bounds are at most the exact δ."""
    problem = problem_of(case, FEW if fault == "reused" else SIZES["test"])
    grid = problem.study.estimate.epsilons
    exact = np.array([[case.exact(e, way) for e in grid] for way in ("forward", "reverse")])
    held = [(certified(problem, 1000 + run, fault) <= exact + 1e-12).all() for run in range(runs)]
    return float(np.mean(held))


def least(confidence: float, runs: int) -> float:
    """The smallest share that so many runs may show, four binomial standard deviations below the confidence."""
    return confidence - 4.0 * math.sqrt(confidence * (1.0 - confidence) / runs)


def main(small: bool = False, names: tuple[str, ...] = ()) -> dict[str, dict[str, float]]:
    """Print the shares; returns them by case: "held", and those of the faults."""
    runs = RUNS_SMALL if small else 200
    print(
        f"tiny_coverage: {runs} runs each; bounds are to hold together in {CONFIDENCE:g} of them (at least "
        f"{least(CONFIDENCE, runs):.3f} here), unshared ones at {UNSHARED:g} would in {UNSHARED:g}"
    )
    figures = {}
    for case in CASES:
        if case.name in LONG or (names and case.name not in names):
            continue
        found = {"held": share_that_hold(case, runs)} | {
            fault: share_that_hold(case, runs // 2, fault) for fault in FAULTS
        }
        figures[case.name] = found
        print(f"{case.name:20} " + ", ".join(f"{name} {share:.3f}" for name, share in found.items()), flush=True)
    return figures


if __name__ == "__main__":
    main()
