"""Pure ε at the settings of Figure 4 of Askin, Kutta and Dette (S&P 2022): certified limits beside MPL, from the same draws.

On arrays, without stores. (a) Laplace, (b) report noisy max, (c) continuous noisy max, (d) exponential mechanism, (e) to (h) the
sparse vector variants 2, 4 (rescaled), 5 and 6, each at ε₀ = 0.2, 0.7 and 1.5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic import exact
from hpcdp.losses import make_loss
from hpcdp.losses.local import UNIT, find_peak, weigh
from hpcdp.losses.protocol import Loss, Side, ascending
from hpcdp.mechanisms import load_builtin
from hpcdp.methods.pure import Choice
from hpcdp.notions.pure import LossAt, choose_regions, pure_lower
from hpcdp.patterns import Pairs, statdp

LEVELS = (0.2, 0.7, 1.5)
FAILURE = 0.05
ALGORITHMS = "abcdefgh"


@dataclass(frozen=True)
class Setting:
    """An algorithm of the figure: its pairs, its mechanism, the sizes n and N, the floor and C."""

    pairs: Pairs
    call: str
    parameters: dict[str, Any]
    train: int = 20_000
    test: int = 50_000
    floor: float = 1e-3
    within: tuple[tuple[float, float], ...] | None = None

    @classmethod
    def of(cls, algorithm: str, epsilon: float) -> Setting:
        """By the figure's letter."""
        steps = [0.1 * b for b in range(1, 11)]
        if algorithm == "a":
            return cls([([0.0], [s]) for s in steps], "laplace", {"epsilon": epsilon}, within=((-1.0, 1.0),))
        if algorithm == "b":
            return cls(statdp(6), "noisy_max", {"variant": "NM1", "epsilon": epsilon})
        if algorithm == "c":
            parameters = {"variant": "NM2", "scale": 3.0 / epsilon}
            return cls([([0.0] * 3, [s] * 3) for s in steps], "noisy_max", parameters, within=((-1.0, 1.0),))
        if algorithm == "d":
            pairs: Pairs = [([1.0], [min(2.0, 1.0 + s)]) for s in steps]
            return cls(pairs, "exponential_real", {"epsilon": epsilon}, within=((0.0, 2.0),))
        variant = {"e": 2, "f": 4, "g": 5, "h": 6}[algorithm]
        parameters = {"variant": variant, "epsilon": epsilon * (4 / 7 if variant == 4 else 1), "threshold": 1.0}
        return cls(statdp(10), "sparse_vector", parameters, 100_000, 500_000, 1e-4)

    def truth(self) -> float:
        """The largest exact pure level of the pairs."""
        found = (exact(self.call, self.parameters, np.array(d), np.array(e)) for d, e in self.pairs)
        return max(level for curve in found if curve is not None and (level := curve.pure()) is not None)


@dataclass(frozen=True)
class Outcome:
    """One run. drawing, rest: seconds."""

    certified: float
    lower: float
    literal: float
    estimate: float
    drawing: float
    rest: float


def run_once(setting: Setting, seed: int) -> Outcome:
    """Train, choose and test, as a study with test = "winner" does."""
    rng = np.random.default_rng(seed)
    drawing = 0.0
    draw = partial(load_builtin(setting.call), **setting.parameters)
    loss = make_loss("frequency" if setting.within is None else "kde", {})

    def drawn(database: list[float], size: int) -> NDArray[Any]:
        nonlocal drawing
        begin = time.perf_counter()
        found: NDArray[Any] = draw(np.array(database), size, rng)
        drawing += time.perf_counter() - begin
        return found

    begin = time.perf_counter()
    sides: dict[str, Side] = {}
    found = [_choose(setting, loss, *(_side(sides, drawn, d, setting.train) for d in pair)) for pair in setting.pairs]
    best = max(range(len(found)), key=lambda number: found[number].score)
    choice, pair = found[best], setting.pairs[best]
    region, peak = choice.region, choice.peak
    assert peak is not None
    model = loss.fit(*(sides[str(d)] for d in pair))
    counter = model.counter(np.array([region.threshold]))
    outputs = [drawn(d, setting.test) for d in pair]
    counts = [region.count(counter, x, setting.within) for x in outputs][:: 1 - 2 * region.direction]
    sums = [weigh(x, peak.at, peak.bandwidths) for x in outputs]
    told = LossAt.of(sums, (setting.test, setting.test), peak.bandwidths, setting.floor, UNIT)
    certified = float(pure_lower(counts[0], setting.test, counts[1], setting.test, FAILURE))
    sign = -1.0 if peak.loss < 0.0 else 1.0
    rest = time.perf_counter() - begin - drawing
    return Outcome(certified, told.lower(sign, FAILURE), told.literal(FAILURE), abs(peak.loss), drawing, rest)


def _side(sides: dict[str, Side], drawn: Callable[[list[float], int], NDArray[Any]], d: list[float], size: int) -> Side:
    if str(d) not in sides:
        outputs = drawn(d, size)
        is_real = outputs.dtype.kind == "f"
        sides[str(d)] = Side(ascending(outputs) if is_real else outputs, size, is_sorted=is_real)
    return sides[str(d)]


def _choose(setting: Setting, loss: Loss, p: Side, q: Side) -> Choice:
    model = loss.fit(p, q)
    peak = find_peak(p, q, setting.floor, setting.within, setting.test, model=model)
    regions = choose_regions(model, p, q, setting.within, setting.test, FAILURE)
    return Choice(max(regions, key=lambda region: region.promised), peak)


def main(small: bool = False) -> dict[str, list[Outcome]]:
    """Print means and shares above the truth; returns the runs by algorithm and level."""
    found: dict[str, list[Outcome]] = {}
    for algorithm in "abd" if small else ALGORITHMS:
        for level in LEVELS[1:2] if small else LEVELS:
            setting = Setting.of(algorithm, level)
            truth = setting.truth()
            run_once(setting, 10**6)  # kernels are compiled
            runs = found[f"{algorithm}, {level:g}"] = [run_once(setting, seed) for seed in range(12 if small else 400)]
            means = {key: np.mean([getattr(run, key) for run in runs]) for key in Outcome.__dataclass_fields__}
            above = {key: np.mean([getattr(run, key) > truth for run in runs]) for key in ("certified", "lower")}
            print(
                f"local: ({algorithm}) ε₀ = {level:g}, level {truth:.4f}, {len(runs)} runs: certified {means['certified']:.3f} "
                f"(above in {above['certified']:.3f}), LB {means['lower']:.3f} ({above['lower']:.3f}), literal "
                f"{means['literal']:.3f}, ε̂ {means['estimate']:.3f}; "
                f"drawing {means['drawing']:.3f} s, rest {means['rest']:.3f} s",
                flush=True,
            )
    return found
