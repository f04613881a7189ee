"""Random tapes: tiny δ estimated and certified by whole runs, beside the exact ones.

Each law at δ = 10⁻⁷ and 10⁻¹⁰, 21 ε from 0 to the ε of that δ (of a threshold release, whose δ does not depend on ε, to 3): the
largest relative error of the estimate and the largest relative standard error of all ε, the largest error in standard errors
(of ε where that is not 0), seconds of the processor, and what counting takes for the same certificate.
`python -m benchmarks.tape NAME …` runs some of them; `--small` those of a few seconds,
`--long` one of a quarter of an hour too; `--all-epsilons` prints every ε.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hpcdp
from benchmarks.processes import processor_seconds
from hpcdp.analytic import (
    Direction,
    GaussianShift,
    NormalMixture,
    Subsampled,
    geometric_sum_pair,
    threshold_release_pair,
)
from hpcdp.analytic.gaussian import toy_dpsgd_pair
from hpcdp.study.file import Study

Floats = NDArray[np.float64]
SEED = 20261125
_RATE, _SIGMA, _UPDATES, _BATCH = 0.2, 0.2, 10, 5
_SAMPLED = 0.01
_TERMS = 3
_LAST = 3.0  # the largest ε where δ does not depend on it
_ASKED = 0.04  # of δ at the largest ε, as two standard errors asked for
_MOST = 10**7  # draws of each law where nothing is certified
_MOST_LOOP = 3 * 10**6  # the same, of a mechanism that is called for one output at a time
WITHIN = 0.05
"""The largest relative standard error that the goal allows."""


def two_sided(database: NDArray[Any], size: int, rng: np.random.Generator) -> Floats:
    """N(0, 1) for 0; N(−1, 1) or N(1, 1) for 1, a half each."""
    signs = 2.0 * rng.integers(0, 2, size) - 1.0
    return np.asarray(rng.normal(size=size) + database[0] * signs)


def descend(database: NDArray[Any], size: int, rng: np.random.Generator) -> Floats:
    """Toy DP-SGD on rows of which only the first may differ from 0: a coin says at each step whether the batch holds it."""
    at = np.zeros(size)
    chosen = rng.random((size, _UPDATES)) < _BATCH / len(database)
    noise = rng.normal(0.0, _SIGMA, (size, _UPDATES))
    for step in range(_UPDATES):
        at -= _RATE * (at - database[0] / _BATCH * chosen[:, step] + noise[:, step])
    return at


def descend_once(database: NDArray[Any], rng: np.random.Generator) -> float:
    """The same, an output a call."""
    at = 0.0
    for _ in range(_UPDATES):
        moved = database[0] / _BATCH if rng.random() < _BATCH / len(database) else 0.0
        at -= _RATE * (at - moved + rng.normal(0.0, _SIGMA))
    return at


def sampled(database: NDArray[Any], size: int, rng: np.random.Generator) -> Floats:
    """The sum of a Poisson sample of one row, with standard normal noise."""
    return np.asarray(database[0] * (rng.random(size) < _SAMPLED) + rng.normal(size=size))


def count(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A count with three one-sided geometric variates, each of ε₀ = 1."""
    return np.asarray(int(database[0]) + rng.geometric(-math.expm1(-1.0), (size, _TERMS)).sum(axis=1) - _TERMS)


def shifted(database: NDArray[Any], size: int, rng: np.random.Generator, sizes: str) -> Floats:
    """Standard normal noise; how many outputs a run draws to learn, to look, to test is a line each of the file `sizes`."""
    with open(sizes, "a") as file:  # it is called in child processes
        file.write(f"{size}\n")
    return np.asarray(database[0] + rng.normal(size=size))


def release(database: NDArray[Any], size: int, rng: np.random.Generator) -> Floats:
    """A group's noisy count where it is above a threshold and there is a group, else 0; database: count, threshold."""
    noisy = database[0] + rng.normal(size=size)
    return np.where((noisy > database[1]) & (database[0] > 0.0), noisy, 0.0)


@dataclass(frozen=True)
class Case:
    """A law: what is called, a pair by δ, the direction, and the exact pair by δ."""

    call: str
    pair: Callable[[float], tuple[list[float], list[float]]]
    direction: Direction
    exact: Callable[[float], Any]
    deltas: tuple[float, ...] = (1e-7, 1e-10)
    seconds: float = 60.0
    asked: float = _ASKED
    most: int = _MOST

    def last(self, delta: float) -> float:
        """The ε of this δ."""
        found = float(self.exact(delta).epsilon(delta * (1.0 - 1e-9), self.direction))
        return min(found, _LAST) if self.call.endswith(":release") else found


def _given(d: list[float], other: list[float]) -> Callable[[float], tuple[list[float], list[float]]]:
    return lambda _: (d, other)


def _always(curve: Any) -> Callable[[float], Any]:
    return lambda _: curve


def _threshold(delta: float) -> float:
    from scipy.special import ndtri

    return float(1.0 - ndtri(delta))


_ROWS = ([0.0] * 10, [1.0, *[0.0] * 9])
_QUARTER, _UNIT = GaussianShift(0.25), GaussianShift(1.0)


@cache
def _geometric() -> Any:
    return geometric_sum_pair(1, 0, epsilon=1.0, terms=_TERMS)


CASES = {
    "gaussian 1/4": Case("gaussian", _given([0.0], [0.25]), "forward", _always(_QUARTER), (1e-7, 1e-10, 1e-15), 10.0),
    "gaussian 1": Case("gaussian", _given([0.0], [1.0]), "forward", _always(_UNIT), (1e-7, 1e-10, 1e-15), 10.0),
    "mixture": Case(
        "benchmarks.tape:two_sided", _given([0.0], [1.0]), "reverse", _always(NormalMixture([-1.0, 1.0], [0.5, 0.5]))
    ),
    "dp-sgd, forward": Case("benchmarks.tape:descend", _given(*_ROWS), "forward", _always(toy_dpsgd_pair())),
    "dp-sgd, reverse": Case("benchmarks.tape:descend", _given(*_ROWS), "reverse", _always(toy_dpsgd_pair())),
    "subsampled": Case(
        "benchmarks.tape:sampled",
        _given([0.0], [1.0]),
        "reverse",
        _always(Subsampled(_UNIT, _SAMPLED)),
        asked=0.012,
        most=4 * _MOST,
    ),
    "geometric sum": Case(
        "benchmarks.tape:count",
        _given([1.0], [0.0]),
        "forward",
        lambda _: _geometric(),
        asked=0.025,
        most=4 * _MOST,
    ),
    "threshold": Case(
        "benchmarks.tape:release",
        lambda delta: ([1.0, _threshold(delta)], [0.0, _threshold(delta)]),
        "forward",
        lambda delta: threshold_release_pair(1.0, _threshold(delta), sigma=1.0),
    ),
    "dp-sgd, loop": Case(
        "benchmarks.tape:descend_once",
        _given(*_ROWS),
        "reverse",
        _always(toy_dpsgd_pair()),
        seconds=300.0,
        most=_MOST_LOOP,
    ),
    "dp-sgd, loop, forward": Case(
        "benchmarks.tape:descend_once",
        _given(*_ROWS),
        "forward",
        _always(toy_dpsgd_pair()),
        seconds=300.0,
        most=_MOST_LOOP,
    ),
}


def grid_of(case: Case, delta: float) -> list[float]:
    """21 ε from 0 to the one of this δ."""
    return [round(value, 9) for value in np.linspace(0.0, case.last(delta), 21)]


def study_of(
    case: Case,
    delta: float,
    seed: int = SEED,
    most: int | None = None,
    certify: bool = False,
    counted: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Study:
    """A study with nothing but a target at the largest ε; certify: that ε alone; counted: without tape, to this error."""
    grid = grid_of(case, delta)
    d, other = case.pair(delta)
    estimate: dict[str, Any] = {
        "tape": counted is None,
        "epsilons": grid,
        "target": {
            "epsilon": grid[-1],
            "direction": case.direction,
            "relative_error": case.asked if counted is None else counted,
            "most": most or case.most,
        },
    }
    return Study.from_dict(
        {
            "study": {"name": "tape", "seed": seed},
            "mechanism": {
                "call": case.call,
                "parameters": dict(parameters or ({"sigma": 1.0} if case.call == "gaussian" else {})),
            },
            "pairs": {"given": [{"d": d, "d_prime": other}]},
            "estimate": estimate | ({"certify": [grid[-1]]} if certify else {}),
        },
        Path(__file__).parent.parent,
    )


def run_study(study: Study) -> tuple[Any, float]:
    """Its result, and seconds of the processor, of child processes too."""
    with tempfile.TemporaryDirectory() as folder:
        begin = processor_seconds()
        result = hpcdp.run(study, Path(folder) / "tape.zarr", workers=0)
        return result, processor_seconds() - begin


def estimate(name: str, delta: float, seed: int = SEED, every: bool = False) -> dict[str, float]:
    """Estimate one law's δ at all ε, and print its line; returns its figures."""
    case = CASES[name]
    result, seconds = run_study(study_of(case, delta, seed))
    row = 0 if case.direction == "forward" else 1
    found, spread = (np.asarray(result[part])[0, row] for part in ("delta", "standard_error"))
    epsilons = np.asarray(result["epsilon"])
    exact = np.array([float(case.exact(delta).delta(e, case.direction)) for e in epsilons])
    figures = {
        "off": float((np.abs(found - exact) / exact).max()),
        "error": float((spread / exact).max()),
        "sigmas": float((np.abs(found - exact)[spread > 0.0] / spread[spread > 0.0]).max(initial=0.0)),
        "last off": float(found[-1] / exact[-1] - 1.0),
        "last error": float(spread[-1] / exact[-1]),
        "within": float((spread / exact <= WITHIN).sum()),
        "draws": float(np.asarray(result["draws"]).max()),
        "seconds": seconds,
    }
    print(
        f"{name:22} {delta:7.0e} {epsilons[-1]:9.6f} {found[-1]:10.3e} {figures['last off']:+8.3f} "
        f"{figures['last error']:7.3f} {figures['off']:8.3f} {figures['error']:8.3f} {figures['sigmas']:7.2f} "
        f"{figures['within']:4.0f} {figures['draws']:9.1e} {seconds:8.2f} {case.seconds:6.0f}",
        flush=True,
    )
    if every:
        for e, value, truth, error in zip(epsilons, found, exact, spread, strict=True):
            print(f"    {e:10.6f} {value:10.3e} {truth:10.3e} {value / truth - 1.0:+8.3f} {error / truth:8.3f}")
    return figures


CERTIFIED = (
    ("gaussian 1/4", 1e-7, 0.5, 20.0),
    ("gaussian 1/4", 1e-8, 0.5, 120.0),
    ("gaussian 1/4", 1e-9, 0.5, 900.0),
    ("gaussian 1", 1e-7, 0.5, 120.0),
)
"""Law, δ, the share of it to be certified, and in how many seconds."""
FORECAST = "gaussian 1/4", 1e-10
"""Law and δ of a certificate that need not run."""
_LONG = 500.0  # seconds from which on a case is run with `--long` alone


def certify(name: str, delta: float, share: float, seconds: float, seed: int = SEED) -> dict[str, float]:
    """Certify one law's δ at one ε, and print its line; returns its figures."""
    case = CASES[name]
    result, taken = run_study(study_of(case, delta, seed, 10**12, certify=True))
    place = 0, 0 if case.direction == "forward" else 1, -1
    exact = float(case.exact(delta).delta(float(result["epsilon"][-1]), case.direction))
    figures = {
        part: float(np.asarray(result[part])[place]) / exact for part in ("delta", "lower_up_to_leftover", "lower")
    }
    figures |= {"leftover": float(np.asarray(result["leftover_draws"])[place]), "seconds": taken}
    figures["draws"] = float(np.asarray(result["draws"])[place].max())
    print(
        f"{name:22} {delta:7.0e} {figures['delta']:9.3f} {figures['lower_up_to_leftover']:9.3f} {figures['lower']:9.3f} "
        f"{share:6.2f} {figures['draws']:9.1e} {figures['leftover']:9.1e} {taken:8.2f} {seconds:6.0f}",
        flush=True,
    )
    return figures


def forecast(name: str, delta: float, learned: bool = True, seed: int = SEED) -> dict[str, float]:
    """The plain draws that a certificate takes, as `hpcdp plan` tells before a run and levels after learning; beside the formula.

    Prints the line, and what the plan says; returns figures. Without `learned` nothing is drawn.
    """
    from hpcdp.driver.plan import plan
    from hpcdp.importance.training import KEPT_BACK

    case = CASES[name]
    study = study_of(case, delta, seed, _MOST, certify=True)
    epsilon, header = study.epsilons[-1], study.study.model_copy(update={"claim": "gaussian(mu=0.25)"})
    level = 0.9 * (1.0 - study.estimate.confidence)  # of the leftover, of the direction that is asked for
    figures = {"formula": -math.log(level) * math.exp(epsilon) / (KEPT_BACK * delta)}
    words = " ".join(str(plan(study.model_copy(update={"study": header}), 1)).split())  # its lines are wrapped
    said = re.search(r"a certificate takes about ([\d.e+]+) plain draws without a hit.*", words)
    figures["plan"] = float(said[1]) if said else math.nan
    if learned:
        needed = np.asarray(run_study(study)[0]["tape_needed"])[0]
        figures["learned"] = float(needed[0 if case.direction == "forward" else 1])
    print(
        f"{name:22} {delta:7.0e} {figures['formula']:9.2e} {figures['plan']:9.2e} {figures.get('learned', math.nan):9.2e}  "
        f"{said[0] if said else 'the plan does not tell'}",
        flush=True,
    )
    return figures


COMPARED = (("gaussian 1/4", 1e-5, 10.0), ("gaussian 1", 1e-5, 3.0))
"""Law, δ, and how many times fewer test draws a certificate takes with the tape than by counting."""


def compare(name: str, delta: float, fewer: float, seed: int = SEED) -> dict[str, float]:
    """The certificate of one ε with the tape and by counting, each as its own target takes it, and their line; returns figures.

    Counting asks for the error with which it is to keep what the tape kept; its draws are then scaled, as 1/error², to the same
    distance of the bound from δ̂. tests: of both laws, plain ones for the leftover too; draws: all that the mechanism was called
    for, to learn and to look as well, of which counting is not sparing. Counting shares its level between both directions, the
    tape's is that of the direction that is asked for: at confidence .95 that is worth (z₁/z₀)², 1.2 to 1.9, of the ratio.
    """
    from scipy.special import ndtri

    case = replace(CASES[name], call="benchmarks.tape:shifted")
    exact = float(case.exact(delta).delta(grid_of(case, delta)[-1], case.direction))
    place = 0, 0 if case.direction == "forward" else 1, -1
    figures, error = dict[str, float](), None
    for way in ("tape", "counting"):
        with tempfile.NamedTemporaryFile("r") as sizes:
            parameters = {"sizes": sizes.name}
            study = study_of(case, delta, seed, 10**12, certify=True, counted=error, parameters=parameters)
            result, seconds = run_study(study)
            draws = sum(map(int, sizes))
        found, lower = (float(np.asarray(result[part])[place]) / exact for part in ("delta", "lower"))
        tests = float(np.asarray(result["test" if way == "counting" else "draws"])[place].sum())
        if way == "tape":
            tests += float(np.asarray(result["leftover_draws"])[0, :, -1].sum())
            error = round((found - lower) / float(ndtri(study.estimate.confidence)), 3)
        own = {
            "draws": draws,
            "tests": tests,
            "kept": lower,
            "width": found - lower,
            "seconds": seconds,
        }
        figures |= {f"{way} {part}": float(value) for part, value in own.items()}
    same = (figures["counting width"] / figures["tape width"]) ** 2
    figures |= {f"{of} ratio": figures[f"counting {of}"] * same / figures[f"tape {of}"] for of in ("tests", "draws")}
    print(
        f"{name:22} {delta:7.0e} "
        + " ".join(
            f"{figures[f'{way} kept']:6.3f} {figures[f'{way} tests']:8.2e} {figures[f'{way} draws']:8.2e} "
            f"{figures[f'{way} seconds']:7.2f}"
            for way in ("tape", "counting")
        )
        + f" {figures['tests ratio']:7.1f} {figures['draws ratio']:7.1f} {fewer:5.0f}",
        flush=True,
    )
    return figures


def main(
    small: bool = False, names: tuple[str, ...] = (), long: bool = False, every: bool = False
) -> dict[str, dict[str, float]]:
    """Print a line for each law and δ, and for each certificate; returns figures by both."""
    found = {}
    print(
        "tape: largest errors over 21 ε, of them how many have a standard error within .05, and seconds of the processor"
    )
    print(
        f"{'law':22} {'δ':>7} {'ε':>9} {'estimate':>10} {'off':>8} {'se':>7} {'most off':>8} {'most se':>8} {'sigmas':>7} "
        f"{'in':>4} {'draws':>9} {'seconds':>8} {'goal':>6}"
    )
    for name, case in CASES.items():
        if name in names or not (names or (small and case.seconds > 10.0)):
            for delta in case.deltas[:1] if small else case.deltas:
                found[f"{name}, {delta:.0e}"] = estimate(name, delta, every=every)
    print(
        f"{'certified':22} {'δ':>7} {'estimate':>9} {'within':>9} {'certified':>9} {'goal':>6} {'draws':>9} {'leftover':>9} "
        f"{'seconds':>8} {'goal':>6}"
    )
    for name, delta, share, seconds in CERTIFIED:
        if (name in names or not names) and (long or seconds < _LONG) and not (small and seconds > 20.0):
            found[f"certified, {name}, {delta:.0e}"] = certify(name, delta, share, seconds)
    print(f"{'to certify':22} {'δ':>7} {'formula':>9} {'plan':>9} {'levels':>9}  what the plan says")
    if FORECAST[0] in names or not names:
        found[f"forecast, {FORECAST[0]}, {FORECAST[1]:.0e}"] = forecast(*FORECAST, learned=not small)
    heads = " ".join(f"{way:>6} {'tests':>8} {'draws':>8} {'seconds':>7}" for way in ("tape", "counted"))
    print(f"{'kept both ways':22} {'δ':>7} {heads} {'tests/':>7} {'draws/':>7} {'goal':>5}")
    for name, delta, fewer in COMPARED[:1] if small else COMPARED:
        if name in names or not names:
            found[f"compared, {name}, {delta:.0e}"] = compare(name, delta, fewer)
    return found


if __name__ == "__main__":
    import sys

    chosen = tuple(name for name in sys.argv[1:] if not name.startswith("--"))
    main("--small" in sys.argv, chosen, "--long" in sys.argv, "--all-epsilons" in sys.argv)
