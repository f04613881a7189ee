"""A region of D′'s random tape in which it returns what D returns in the best set: what a certificate makes of it.

Normal noise, μ = ¼, δ = 10⁻⁷ without the region: of a mass of 10⁻⁶ P(S) < e^ε·Q(S), and of 10⁻⁸ a third of δ is gone. No proposal
finds it; the plain draws for the leftover do. Of the larger mass one draw or two that teach, or test, are in it by chance: then δ̂
is 0, and a warning tells of the former. Prints how many hit, the rows beside the exact δ, and how runs warn.
`python -m benchmarks.tape_hidden`: some 15 seconds of the processor for each of six runs; `--small`: the lesser mass at δ = 10⁻⁵;
training would find the other's there.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from benchmarks.tape import SEED, Floats, run_study
from hpcdp.analytic import GaussianShift
from hpcdp.study.file import Study

_MU = 0.25
MASSES, SEEDS = (10.0, 0.1), (1, 2, SEED)
"""Masses of regions, in δ; seeds of runs."""


def hidden(database: NDArray[Any], size: int, rng: np.random.Generator, *, mass: float, top: float) -> Floats:
    """N(0, 1), or N(μ, 1) but where the last digits of its noise are in a region of this mass: there D's outputs below `top`."""
    noise = rng.normal(size=size)
    if not database[0]:
        return noise
    digits = np.abs(noise) * 1e6 % 1.0  # uniform, whatever smooth law the noise has
    outputs, there = _MU + noise, np.flatnonzero(digits < mass)
    outputs[there] = [ndtri(max(u, 1e-12) * ndtr(top)) for u in digits[there] / mass]
    return outputs


def hidden_delta(epsilon: float, mass: float, top: float) -> float:
    """δ of this pair, forward: below `top`, where p ≥ e^ε·q without the region, q has mass·p/P(below top) more."""
    left = 1.0 - math.exp(epsilon) * mass / ndtr(top)  # of p, below
    if left <= 0.0:
        return 0.0  # but for what is between top and a point beside it, less than mass² of it
    c = math.exp(epsilon) * (1.0 - mass)
    best = min(top, _MU / 2.0 - math.log(c / left) / _MU)
    return left * float(ndtr(best)) - c * float(ndtr(best - _MU))


def find(delta: float, mass: float, seed: int = SEED) -> dict[str, float]:
    """A run, and its line; returns its figures, rows in units of the δ that there is without the region."""
    epsilon = round(float(GaussianShift(_MU).epsilon(delta, "forward")), 9)
    top = _MU / 2.0 - epsilon / _MU
    study = Study.from_dict(
        {
            "study": {"name": "hidden", "seed": seed},
            "mechanism": {
                "call": "benchmarks.tape_hidden:hidden",
                "parameters": {"mass": mass, "top": top},
            },
            "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
            "estimate": {
                "tape": True,
                "epsilons": [0.0, epsilon],
                "certify": [epsilon],
                "target": {"epsilon": epsilon, "direction": "forward", "relative_error": 0.04, "most": 10**12},
            },
        },
        Path(__file__).parent.parent,
    )
    result, seconds = run_study(study)
    place = 0, 0, -1
    figures = {
        part: float(np.asarray(result[part])[place]) / delta for part in ("delta", "lower_up_to_leftover", "lower")
    }
    figures |= {part: float(np.asarray(result[f"leftover_{part}"])[place]) for part in ("draws", "hits")}
    figures |= {"truth": hidden_delta(epsilon, mass, top) / delta, "seconds": seconds}
    warned = [
        words for words in result.warnings if "lie in the leftover" in words or "that taught lie in the set" in words
    ]
    figures["warned"] = sum("lie in the leftover" in words for words in warned)
    print(
        f"{mass:8.0e} {delta:7.0e} {figures['truth']:9.3f} {figures['delta']:9.3f} {figures['lower_up_to_leftover']:9.3f} "
        f"{figures['lower']:9.3f} {figures['draws']:9.2e} {figures['hits']:6.0f} {mass * figures['draws']:8.1f} {seconds:8.2f}",
        *warned, sep="\n    ", flush=True,
    )  # fmt: skip
    return figures


def main(small: bool = False) -> dict[tuple[float, int], dict[str, float]]:
    """Print a line for each mass and seed; returns figures by both, in δ."""
    delta = 1e-5 if small else 1e-7
    print("tape_hidden: rows in units of the δ that there is without the region")
    print(
        f"{'mass':>8} {'δ':>7} {'exact':>9} {'estimate':>9} {'within':>9} {'certified':>9} {'draws':>9} "
        f"{'hits':>6} {'expected':>8} {'seconds':>8}"
    )
    chosen = [(MASSES[1], SEEDS[0])] if small else [(mass, seed) for mass in MASSES for seed in SEEDS]
    return {(mass, seed): find(delta, mass * delta, seed) for mass, seed in chosen}


if __name__ == "__main__":
    import sys

    main("--small" in sys.argv)
