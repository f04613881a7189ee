"""Samples a database, of all stages, until the median certified bound of several seeds reaches a share of δ.

They are told as multiples of what an oracle needs: one that knows L, so that nothing trains, and certifies one cell by the
normal law. Sizes are found by bisection of a geometric grid. Beside them the part of δ that learned sets keep, exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hpcdp.engine.index import Index, Span
from hpcdp.losses import kind_of, make_loss
from hpcdp.losses.line.step import StepCounter
from hpcdp.losses.protocol import Side, decided
from hpcdp.results.load import assemble
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve

Floats = NDArray[np.float64]

LOSSES = ("knn", "smooth", "auto")
STEPS = 12  # sizes of the grid from one power of two to the next
FRESH = 1000  # seeds from here on are those of fixed sizes
TRAINED = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


@dataclass(frozen=True)
class Case:
    """A law on 0 against itself on 1, and what is to be reached. most: of the grid of 21 ε from 0. goals: multiples of the
    oracle's samples that are to be enough for `auto`, with all cells and with one ε.
    """

    name: str
    law: Any
    epsilon: float
    share: float
    most: float
    goals: tuple[float, float]

    @property
    def probabilities(self) -> tuple[float, float]:
        """Of {L > ε}, under D and D'."""
        end = 0.5 - self.epsilon if self.law is stats.norm else 0.5 * (1.0 - self.epsilon)
        return float(self.law.cdf(end)), float(self.law.cdf(end - 1.0))

    @property
    def delta(self) -> float:
        """At ε, of both directions."""
        p, q = self.probabilities
        return p - math.exp(self.epsilon) * q

    @property
    def oracle(self) -> float:
        """Samples a database that reach the share with confidence .95 in the median."""
        p, q = self.probabilities
        variance = p * (1.0 - p) + math.exp(2.0 * self.epsilon) * q * (1.0 - q)
        return float(stats.norm.ppf(0.95)) ** 2 * variance / ((1.0 - self.share) * self.delta) ** 2


CASES = (
    Case("gaussian", stats.norm, 0.9, 0.9, 1.0, (3.7, 1.8)),
    Case("laplace", stats.laplace, 0.5, 0.9, 1.0, (2.7, 1.8)),
    Case("gaussian, tail", stats.norm, 3.0, 0.5, 4.0, (3.7, 1.8)),
)


def problem_of(case: Case, loss: str, certify: bool) -> Problem:
    """The case's study; its sizes are those of no run here."""
    call, parameters = ("gaussian", {"sigma": 1.0}) if case.law is stats.norm else ("laplace", {"scale": 1.0})
    estimate = {
        "loss": loss,
        "epsilons": {"start": 0.0, "stop": case.most, "count": 21},
        "keep": "none",
        **({"certify": [case.epsilon]} if certify else {}),
    }
    data = {
        "study": {"name": "samples", "seed": 0},
        "mechanism": {"call": call, "parameters": parameters},
        "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
        "estimate": estimate,
    }
    return resolve(Study.from_dict(data))[0]


def sized(problem: Problem, train: int, test: int) -> Problem:
    """The same problem with other sizes, each of one chunk."""
    sizes = {"train": train, "test": test, "chunk": max(train, test)}
    estimate = problem.study.estimate.model_copy(update=sizes)
    return replace(problem, study=problem.study.model_copy(update={"estimate": estimate}))


def draw(problem: Problem, seed: int, stage: str, size: int) -> list[Any]:
    """Outputs of both laws."""
    sampler, pair = replace(problem.sampler, seed=seed), problem.pairs[0]
    laws = zip(problem.pair_laws[0], (pair.d, pair.d_prime), strict=True)
    return [sampler.draw_from(d, law, stage, 0, size, problem.schema) for law, d in laws]


def learn(problem: Problem, seed: int) -> tuple[Any, NDArray[np.int64]]:
    """The counter that training samples teach, and what they show of it by class, as tasks do it."""
    e = problem.study.estimate
    p, q = (Side(x, e.train) for x in draw(problem, seed, "train", e.train))
    model = make_loss(e.default_loss, e.parameters).fit(p, q)
    counter, decision = decided(model, problem.thresholds)
    if decision is not None:
        return counter, decision.judged
    return counter, np.stack([counter.count(side.outputs) for side in (p, q)])


def certified(problem: Problem, seed: int) -> Floats:
    """Lower bounds (2, epsilons) of one run, with the functions that tasks use but without a store."""
    counter, seen = learn(problem, seed)
    test = problem.study.estimate.test
    counts = np.stack([counter.count(x) for x in draw(problem, seed, "test", test)])
    index, key, wanted = Index(), problem.model_key(0), tuple(problem.thresholds.tolist())
    index.learned[key] = {wanted: {"training": seen}}
    index.spans[key] = {wanted: [Span(0, 1, test, {"counts": counts})]}
    return np.asarray(assemble(problem, index)["lower"][1][0])


def shares(case: Case, problem: Problem, seeds: Sequence[int]) -> Floats:
    """The larger direction's bound at ε by seed, as a share of δ."""
    column = problem.study.estimate.epsilons.index(case.epsilon)
    return np.array([certified(problem, seed)[:, column].max() for seed in seeds]) / case.delta


def reached(case: Case, problem: Problem, seeds: int) -> float:
    """The median over seeds of these shares."""
    return float(np.median(shares(case, problem, range(seeds))))


def least(is_enough: Callable[[int], bool], start: float) -> int:
    """The smallest size of the grid of 2^(i/STEPS) that is enough, by bisection upwards from about `start`."""
    low = math.floor(STEPS * math.log2(start))
    high = low + STEPS
    while not is_enough(round(2.0 ** (high / STEPS))):
        low, high = high, high + STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(round(2.0 ** (middle / STEPS))) else (middle, high)
    return round(2.0 ** (high / STEPS))


def divided(loss: str, total: int) -> tuple[int, int]:
    """Training and test samples of so many in all, in the proportion of a study that names neither."""
    train, test = kind_of(loss).sizes or (1, 1)
    learned = max(1, round(total * train / (train + test)))
    return learned, total - learned


def samples(case: Case, loss: str, certify: bool, seeds: int, share: float | None = None) -> int:
    """Samples a database until the bound is reached. share: of them that train; None: as `divided`."""
    problem = problem_of(case, loss, certify)

    def is_enough(total: int) -> bool:
        learned = divided(loss, total) if share is None else (round(share * total), total - round(share * total))
        return reached(case, sized(problem, *learned), seeds) >= case.share

    return least(is_enough, case.oracle)


def kept(counter: StepCounter, thresholds: Floats, case: Case) -> float:
    """P(S) − e^ε Q(S) of the learned sets as a share of δ, exact, the mean of both directions."""
    starts, codes = np.append(counter.lookup.starts, np.inf), counter.codes
    p, q = np.diff(case.law.cdf(starts)), np.diff(case.law.cdf(starts - 1.0))
    above = codes > 2 * int(np.searchsorted(thresholds, case.epsilon)) + 1
    below = codes < 2 * int(np.searchsorted(thresholds, -case.epsilon)) + 1
    gains = ((p - math.exp(case.epsilon) * q)[above].sum(), (q - math.exp(case.epsilon) * p)[below].sum())
    return float(np.mean(gains)) / case.delta


def shares_kept(case: Case, loss: str, sizes: Sequence[int], seeds: int) -> list[float]:
    """The median share of δ that the learned sets keep, by training samples."""
    problem, found = problem_of(case, loss, False), []
    for size in sizes:
        counters = (learn(sized(problem, size, 1), seed)[0] for seed in range(seeds))
        found.append(float(np.median([kept(counter, problem.thresholds, case) for counter in counters])))
    return found


def main(small: bool = False) -> dict[str, float]:
    """Print multiples of the oracle's samples, and shares of δ; returns them by "case, loss, cells" and "case, loss, train"."""
    seeds, cases = (4, CASES[:1]) if small else (20, CASES)
    figures = {}
    for case in cases:
        print(f"samples: {case.name}, {case.share:g} δ at ε = {case.epsilon:g}; an oracle needs {case.oracle:,.0f}")
        for loss in LOSSES:
            sizes = TRAINED[1:3] if small else TRAINED
            parts = shares_kept(case, loss, sizes, seeds)
            figures |= {f"{case.name}, {loss}, {size}": part for size, part in zip(sizes, parts, strict=True)}
            told = ", ".join(f"{size:,}: {part:.3f}" for size, part in zip(sizes, parts, strict=True))
            print(f"  {loss:7} share of δ kept by training samples: {told}", flush=True)
        for loss in LOSSES:
            for certify in (True,) if small else (True, False):
                found = samples(case, loss, certify, seeds)
                name = f"{case.name}, {loss}, {'one ε' if certify else 'all cells'}"
                figures[name] = found / case.oracle
                print(
                    f"  {loss:7} {'one ε' if certify else 'all cells':9} {found:,}, {figures[name]:.2f} times",
                    flush=True,
                )
        for certify, goal in zip((False, True), case.goals, strict=True):
            problem, cells = problem_of(case, "auto", certify), "one ε" if certify else "all cells"
            fixed = sized(problem, *divided("auto", int(goal * case.oracle)))
            found = shares(case, fixed, range(FRESH, FRESH + 10 * seeds))
            parts = [float(np.median(part)) for part in found.reshape(10, -1)]
            figures[f"{case.name}, at the goal, {cells}"] = float(np.median(found))
            print(
                f"  auto    {cells:9} {goal} times: median share of {10 * seeds} seeds {np.median(found):.3f}, of ten times "
                f"{seeds} {min(parts):.3f} to {max(parts):.3f}",
                flush=True,
            )
    return figures


if __name__ == "__main__":
    main()
