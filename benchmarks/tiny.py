"""Tiny δ: whole spectra down to a small δ by a target alone, drawing, learning and certifying included, beside the exact ones.

Each case asks for one ε, the one where δ is the smallest of its range, with a relative standard error; 21 ε from 0 to it are
estimated and certified together in both directions. Drawing the same numbers with NumPy alone is timed in the same run,
on as many processes. Seconds are of the clock, and then of the processors: of the workers, and of NumPy alone. `--small` asks for
larger δ, which fewer draws tell; `--numpy` for NumPy's streams in the runs too, instead of hpcdp's.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from multiprocessing.pool import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

import hpcdp
from benchmarks.processes import processor_seconds
from hpcdp.analytic import Direction, Discrete, GaussianShift, LaplaceShift
from hpcdp.analytic.gaussian import toy_dpsgd_pair
from hpcdp.clusters.scheduler import open_local
from hpcdp.study.file import Study

if TYPE_CHECKING:
    from distributed import Client

Floats = NDArray[np.float64]
WORKERS = min(2, os.cpu_count() or 1)
SEED = 20261121
_GEOMETRIC, _SHIFT, _TERMS = 0.5, 1, 3
_FAR = 400  # values of the noise beyond it have less than 10⁻⁶⁰ of the mass


def mixture(database: NDArray[Any], size: int, rng: np.random.Generator) -> Floats:
    """N(0, 1) for 0, and ½ N(−¼, 1) + ½ N(¼, 1) for 1."""
    noise = rng.normal(size=size)
    return noise if database[0] == 0 else noise + np.where(rng.integers(0, 2, size, np.int8), 0.25, -0.25)


def plane(database: NDArray[Any], size: int, rng: np.random.Generator) -> Floats:
    """Two numbers with standard normal noise, (size, 2)."""
    return rng.normal(size=(size, 2)) + database


def geometric_sum(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A whole number with three two-sided geometric noises of ε₀ = 0.5, as two negative binomials."""
    p = -math.expm1(-_GEOMETRIC)
    return rng.negative_binomial(_TERMS, p, size) - rng.negative_binomial(_TERMS, p, size) + int(database[0])


@cache
def geometric_curve() -> Discrete:
    """The exact pair of `geometric_sum` on 0 and 1, by convolving the noise."""
    one = math.tanh(_GEOMETRIC / 2) * np.exp(-_GEOMETRIC * np.abs(np.arange(-_FAR, _FAR + 1.0)))
    noise = one
    for _ in range(_TERMS - 1):
        noise = np.convolve(noise, one)
    noise /= noise.sum()
    return Discrete(np.append(noise, np.zeros(_SHIFT)), np.append(np.zeros(_SHIFT), noise))


def mixture_delta(epsilon: float, direction: Direction) -> float:
    """Exact δ of N(0, 1) and the mixture, whose ratio is cosh(x/4) e^(−1/32): above e^ε in two tails, below e^−ε between."""
    reach = (1.0 if direction == "reverse" else -1.0) * epsilon + 1.0 / 32.0
    if reach < 0.0:
        return 0.0
    x = 4.0 * math.acosh(math.exp(reach))
    normal, moved = 2.0 * ndtr(-x), ndtr(0.25 - x) + ndtr(-0.25 - x)
    if direction == "reverse":
        return float(moved - math.exp(epsilon) * normal)
    return float((1.0 - normal) - math.exp(epsilon) * (1.0 - moved))


@dataclass(frozen=True)
class Case:
    """One benchmark: a pair, the direction whose δ is wanted, its exact spectrum, and the smallest δ of its range.

    within: relative error asked of the smallest δ's standard error. small: the smallest δ of the small setting. plain: what
    NumPy alone draws, the same numbers. most: test draws per database at most.
    """

    name: str
    call: str
    parameters: dict[str, Any]
    pair: tuple[list[float], list[float]]
    direction: Direction
    exact: Callable[[float, Direction], float]
    smallest: float
    within: float
    small: float
    plain: Callable[[np.random.Generator, int], object]
    loss: str = "knn"
    most: int = 10**11


def _normal(rng: np.random.Generator, size: int) -> object:
    return rng.normal(size=size)


def _of(curve: Any) -> Callable[[float, Direction], float]:
    return lambda epsilon, direction: float(curve.delta(epsilon, direction))


def _laplace(rng: np.random.Generator, size: int) -> object:
    return rng.laplace(size=size)


def _ten_normals(rng: np.random.Generator, size: int) -> object:
    return rng.normal(size=(size, 10))


def _two_normals(rng: np.random.Generator, size: int) -> object:
    return rng.normal(size=(size, 2))


def _two_binomials(rng: np.random.Generator, size: int) -> object:
    p = -math.expm1(-_GEOMETRIC)
    return rng.negative_binomial(_TERMS, p, size), rng.negative_binomial(_TERMS, p, size)


_GAUSSIAN, _ONE, _ZEROS = {"sigma": 1.0}, ([0.0], [1.0]), 10 * [0.0]
_QUARTER, _ROWS = ([0.0], [0.25]), (_ZEROS, [1.0, *_ZEROS[1:]])
_SMALL, _UNIT, _SGD = _of(GaussianShift(0.25)), _of(GaussianShift(1.0)), _of(toy_dpsgd_pair())
CASES = (
    Case("gaussian 1/4", "gaussian", _GAUSSIAN, _QUARTER, "forward", _SMALL, 1e-6, 0.05, 1e-3, _normal),
    Case("mixture", "benchmarks.tiny:mixture", {}, _ONE, "reverse", mixture_delta, 1e-6, 0.05, 1e-3, _normal),
    Case("gaussian 1", "gaussian", _GAUSSIAN, _ONE, "forward", _UNIT, 1e-5, 0.05, 1e-3, _normal),
    Case("laplace 1", "laplace", {"epsilon": 1.0}, _ONE, "forward", _of(LaplaceShift(1.0)), 3e-4, 0.05, 1e-2, _laplace),
    Case("dp-sgd, forward", "toy_dpsgd", {}, _ROWS, "forward", _SGD, 3e-4, 0.05, 1e-2, _ten_normals),
    Case("dp-sgd, reverse", "toy_dpsgd", {}, _ROWS, "reverse", _SGD, 3e-4, 0.05, 1e-2, _ten_normals),
    Case(
        "plane 1/2",
        "benchmarks.tiny:plane",
        {},
        ([0.0, 0.0], [0.3, 0.4]),
        "forward",
        _of(GaussianShift(0.5)),
        1e-5,
        0.07,
        2e-3,
        _two_normals,
        "smooth",
    ),
    Case(
        "geometric sum",
        "benchmarks.tiny:geometric_sum",
        {},
        _ONE,
        "forward",
        _of(geometric_curve()),
        1e-5,
        0.07,
        2e-3,
        _two_binomials,
    ),
    Case(
        "gaussian 1/4, 1e-7", "gaussian", _GAUSSIAN, _QUARTER, "forward", _SMALL, 1e-7, 0.1, 3e-4, _normal, most=10**12
    ),
    Case("gaussian 1, 1e-6", "gaussian", _GAUSSIAN, _ONE, "forward", _UNIT, 1e-6, 0.1, 3e-4, _normal, most=10**12),
)
LONG = ("gaussian 1/4, 1e-7", "gaussian 1, 1e-6")


def grid_of(case: Case, small: bool) -> list[float]:
    """21 ε from 0 to the one with the smallest δ of the range."""
    wanted = case.small if small else case.smallest
    last = brentq(lambda epsilon: math.log(max(case.exact(epsilon, case.direction), 1e-300) / wanted), 1e-6, 20.0)
    return [round(value, 9) for value in np.linspace(0.0, last, 21)]


def study_of(case: Case, small: bool, seed: int = SEED, stream: str = "philox") -> Study:
    """The study of a case: nothing but a target."""
    grid = grid_of(case, small)
    return Study.from_dict(
        {
            "study": {"name": "tiny", "seed": seed, "stream": stream},
            "mechanism": {"call": case.call, "parameters": case.parameters},
            "pairs": {"given": [{"d": case.pair[0], "d_prime": case.pair[1]}]},
            "estimate": {
                "loss": case.loss,
                "epsilons": grid,
                "train": 1 << (16 if small else 20),
                "keep": "none",
                "target": {
                    "epsilon": grid[-1],
                    "direction": case.direction,
                    "relative_error": 0.9 * case.within,
                    "most": case.most,
                },
            },
        },
        Path(__file__).parent.parent,
    )


def _draw_alone(name: str, chunks: int) -> tuple[float, float]:
    case = next(case for case in CASES if case.name == name)
    rng = np.random.default_rng(0)
    case.plain(rng, 1 << 18)
    begin = time.perf_counter(), time.process_time()
    for _ in range(chunks):
        case.plain(rng, 1 << 18)
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def drawing_seconds(case: Case, draws: int, chunks: int, pool: Pool) -> tuple[float, float]:
    """Seconds of the clock, and of all processors, that NumPy alone takes for so many draws: from a part of them."""
    clocks, processors = zip(*pool.starmap(_draw_alone, [(case.name, chunks)] * WORKERS, chunksize=1), strict=True)
    share = draws / (chunks * WORKERS << 18)
    return max(clocks) * share, sum(processors) * share


def _worked(client: Client) -> float:
    """Seconds of the processor that the workers and their child processes have taken so far."""
    return float(sum(client.run(processor_seconds).values()))


def run_case(
    case: Case, small: bool, client: Client, pool: Pool, seed: int = SEED, stream: str = "philox"
) -> dict[str, float]:
    """Run one case on workers that are there and print its line; returns its figures."""
    study = study_of(case, small, seed, stream)
    client.wait_for_workers(1)  # of as many threads
    with tempfile.TemporaryDirectory() as folder:
        begin, worked = time.perf_counter(), _worked(client)
        result = hpcdp.run(study, Path(folder) / "tiny.zarr", client=client, workers=WORKERS)
        seconds, worked = time.perf_counter() - begin, _worked(client) - worked
        draws = _draws(Path(folder) / "tiny.zarr", result)
    alone, own = drawing_seconds(case, draws, 10 if small else 100, pool)
    row = 0 if case.direction == "forward" else 1
    grid, delta, error = (np.asarray(result[name]) for name in ("epsilon", "delta", "standard_error"))
    exact = np.array([case.exact(e, case.direction) for e in grid])
    found, spread, lower = delta[0, row], error[0, row], result["lower"][0, row]
    apart = np.abs(found - exact) - 2.0 * spread
    figures = {
        "draws": float(draws),
        "test": float(result["test"][0, row, 0, 0]),
        "seconds": seconds,
        "drawing": alone,
        "worked": worked,
        "drawing worked": own,
        "outside": float((apart / exact).max()),
        "bias": float(((found - exact) / exact)[-1]),
        "error": float((spread / exact).max()),
        "certified": float(lower[-1] / exact[-1]),
        "above": float((lower > exact).sum()),
    }
    print(
        f"{case.name:20} {exact[-1]:8.2g} {grid[-1]:8.4f} {found[-1]:10.3e} {figures['bias']:+8.3f} {figures['error']:7.3f} "
        f"{figures['outside']:+8.3f} {figures['certified']:9.3f} {draws:9.2e} {seconds:8.1f} {alone:8.1f} {seconds / alone:6.2f} "
        f"{worked:8.1f} {own:8.1f} {worked / own:6.2f} {draws / seconds:9.2e}",
        flush=True,
    )
    return figures


def _draws(store: Path, result: Any) -> int:
    """All draws of both sides that the run took."""
    from hpcdp.store.root import open_layout
    from hpcdp.study.versions import read_problem

    problem = read_problem(open_layout(store), 1)
    return 2 * int(result.study.estimate.train) + problem.sizes_of(0).drawn


def main(small: bool = False, names: tuple[str, ...] = (), stream: str = "philox") -> dict[str, dict[str, float]]:
    """Print a line a case, all but the two of an hour by default; returns figures by case."""
    print("tiny: the smallest δ of each range; 21 ε in both directions estimated and certified together")
    print(
        f"{'case':20} {'exact':>8} {'ε':>8} {'estimate':>10} {'off':>8} {'se':>7} {'outside':>8} {'certified':>9} {'draws':>9} "
        f"{'seconds':>8} {'NumPy':>8} {'ratio':>6} {'worked':>8} {'NumPy':>8} {'ratio':>6} {'a second':>9}"
    )
    chosen = [case for case in CASES if (case.name in names if names else case.name not in LONG)]
    with open_local(WORKERS) as place, multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        return {case.name: run_case(case, small, place.client, pool, stream=stream) for case in chosen}


if __name__ == "__main__":
    import sys

    chosen = tuple(name for name in sys.argv[1:] if not name.startswith("--"))
    main("--small" in sys.argv, chosen, "numpy" if "--numpy" in sys.argv else "philox")
