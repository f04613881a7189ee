"""Coverage of what random tapes certify, against exact truths, and regions of a tape that no proposal finds.

Runs are small and in this process: a pair is learned as a study learns it, then tested again and again with fresh chunks of the
same stages. A bound holds given what was learned, so that the runs of one pair may share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from studies import make_study, pose

from hpcdp.analytic import GaussianShift, NormalMixture
from hpcdp.analytic.discrete import geometric_sum_pair
from hpcdp.engine.context import Context
from hpcdp.engine.index import Index, Span
from hpcdp.engine.series import Series
from hpcdp.errors import MechanismError
from hpcdp.importance.plan import PARTS, Choice, part_key, stage_of, tape_keys
from hpcdp.importance.work import Judge, chunk_sums, learn_levels
from hpcdp.mechanisms.outputs import Schema
from hpcdp.results.load import assemble
from hpcdp.store.layout import Layout
from hpcdp.study.problem import Problem

pytestmark = pytest.mark.slow

OWN = '''
import numpy as np


def gaussian(database, size, rng, mu=0.25):
    return mu * database[0] + rng.normal(size=size)


def two_sided(database, size, rng):
    signs = np.where(rng.random(size) < 0.5, -1.0, 1.0)
    return database[0] * signs + rng.normal(size=size)


def subsampled(database, size, rng, rate=0.1):
    return database[0] * (rng.random(size) < rate) + rng.normal(size=size)


def geometric(database, size, rng, epsilon=1.0):
    return database[0] + (rng.geometric(1.0 - np.exp(-epsilon), (size, 3)) - 1).sum(axis=1).astype(float)


def summed(database, size, rng):
    return 0.8 * database[0] + rng.normal(size=(size, 3)).sum(axis=1)


def vector(database, size, rng):
    return database[0] * np.array([0.15, 0.2]) + rng.normal(size=(size, 2))


LATER = {}


def kept(database, size, rng, mu=0.25):
    """Keeps something, from some time on."""
    if "calls" in LATER:
        LATER["calls"] += 1
    return mu * database[0] + rng.normal(size=size) + 1e-9 * (LATER.get("calls", 0) + LATER.get("constant", 0))


def kept_alone(database, rng):
    return kept(database, 1, rng)[0]


def hidden(database, size, rng, mu=0.25, mass=1e-4, threshold=4.0):
    """Where the last digits of the noise of D' are in a region of this mass, its output is one of D's above the threshold."""
    noise = rng.normal(size=size)
    outputs = mu * database[0] + noise
    digits = np.abs(noise) * 1e6 % 1.0  # uniform, whatever smooth law the noise has
    if database[0] > 0.0:
        there = digits < mass
        outputs[there] = -(threshold - np.log1p(-digits[there] / mass) / threshold)
    return outputs
'''
REALS, PLANE, RUNS = Schema("float", None), Schema("float", 2), 40


@dataclass
class Learned:
    """A pair that was learned: what its tests need, and one test after another."""

    context: Context
    choice: Choice
    test: Judge
    used: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))

    @classmethod
    def of(cls, folder: Path, call: str, epsilon: float, schema: Schema = REALS, seed: int = 1, **more: Any) -> Learned:
        (folder / "own.py").write_text(OWN)
        parameters = more.pop("parameters", {})
        more = {"train": 1 << 12, "test": 1 << 18, "confidence": 0.8} | more
        study = make_study(
            f"own:{call}", parameters, [([0.0], [1.0])], seed=seed, folder=folder, loss="auto", stream="philox", tape=True,
            keep="none", epsilons=[epsilon], **more,
        )  # fmt: skip
        problem = pose(study, schema)
        context = Context(Layout(Path("nowhere")), problem)
        state, choice = learn_levels(context, 0)
        return cls(context, choice, Judge(problem, state, choice))

    @property
    def problem(self) -> Problem:
        return self.context.problem

    def draw(self, part: str, side: int, start: int, stop: int) -> list[dict[str, Any]]:
        """What chunks of a stage record."""
        stage = stage_of(self.problem, self.choice, part, side)
        series = Series(part, "", (self.problem.pair_laws[0][side],), stage, 0, item=(self.choice, side))
        return list(chunk_sums(self.context, self.test, series, range(start, stop)))

    def run(self) -> dict[str, Any]:
        """One test with fresh chunks: the arrays of its result."""
        index, pair = Index(), self.problem.once(tape_keys)[0]
        index.learned[pair] = {(): {"choice": asdict(self.choice)}}
        for part in PARTS:
            start = self.used[part]
            for side in (0, 1):
                stage = stage_of(self.problem, self.choice, part, side)
                if stage.total:
                    found = self.draw(part, side, start, start + stage.chunks)
                    key = part_key(self.choice.key(pair), part, side)
                    index.spans[key] = {(): [Span(0, stage.chunks, stage.total, {"chunks": found})]}
            self.used[part] += max(stage_of(self.problem, self.choice, part, side).chunks for side in (0, 1))
        return {name: values for name, (_, values) in assemble(self.problem, index).items()}


def mixture(shifts: list[float], parts: list[float], epsilon: float) -> list[float]:
    curve = NormalMixture(shifts, parts)
    return [float(curve.delta(epsilon, direction)) for direction in ("forward", "reverse")]


def shift(mu: float, epsilon: float) -> list[float]:
    return [float(GaussianShift(mu).delta(epsilon, direction)) for direction in ("forward", "reverse")]


def geometric(epsilon: float) -> list[float]:
    pair = geometric_sum_pair(0, 1, epsilon=1.0, terms=3)
    return [float(pair.delta(epsilon, direction)) for direction in ("forward", "reverse")]


LAWS: dict[str, tuple[float, Schema, Callable[[float], list[float]]]] = {
    "gaussian": (0.8, REALS, lambda e: shift(0.25, e)),
    "two_sided": (2.5, REALS, lambda e: mixture([-1.0, 1.0], [0.5, 0.5], e)),
    "subsampled": (0.3, REALS, lambda e: mixture([0.0, 1.0], [0.9, 0.1], e)),
    "geometric": (0.6, REALS, geometric),
    "vector": (0.5, PLANE, lambda e: shift(0.25, e)),
}


def least(nominal: float, runs: int) -> int:
    """Runs out of so many that hold at least, four standard deviations below nominal."""
    return math.floor(runs * nominal - 4.0 * math.sqrt(runs * nominal * (1.0 - nominal)))


CASES = [("gaussian", None), *((law, None) for law in LAWS if law != "gaussian"), ("two_sided", "reverse")]


@pytest.mark.parametrize("law, asked", [pytest.param(*CASES[0], marks=pytest.mark.promise), *CASES[1:]])
def test_coverage(law: str, asked: str | None, tmp_path: Path) -> None:
    """What is certified, in many runs of each law; asked: of a direction alone. Limits of means: `test_weighted_coverage`."""
    epsilon, schema, exact = LAWS[law]
    target = {"epsilon": epsilon, "direction": asked, "relative_error": 0.1, "most": 1 << 18}
    more = {} if asked is None else {"certify": [epsilon], "target": target, "test": 1 << 20}
    pair, truth = Learned.of(tmp_path, law, epsilon, schema, **more), np.asarray(exact(epsilon))
    found = [pair.run() for _ in range(RUNS)]
    lower = np.array([one["lower"][0, :, 0] for one in found])
    within = np.array([one["lower_up_to_leftover"][0, :, 0] for one in found])
    level = found[0]["level"][0, :, 0]
    assert 0.0 < level.sum() <= 0.2 + 1e-12
    assert asked is None or level[("forward", "reverse").index(asked)] == pytest.approx(0.2)
    assert (lower <= within).all()
    certified = (lower <= truth).all(axis=1).sum()
    assert certified >= least(0.8, RUNS)
    best = within.max(axis=1)
    print(
        f"{law}: δ = {truth}, certified {certified} of {RUNS}, median {np.median(lower, axis=0)}, up to {np.median(best)}"
    )
    assert np.median(best) > 0.1 * truth.max(), "the bounds tell something, so that coverage does"


@pytest.mark.parametrize("call", ["kept", "kept_alone"])
@pytest.mark.parametrize("what, words", [("calls", "noise of other outputs"), ("constant", "a fresh process")])
def test_what_is_kept_from_some_time_on_ends_the_test(call: str, what: str, words: str, tmp_path: Path) -> None:
    """In a counted chunk, after trial draws that saw nothing: of call to call, or of the process."""
    pair = Learned.of(tmp_path, call, 0.8)
    pair.draw("tape", 0, 0, 1)
    pair.problem.sampler.mechanism.function.__globals__["LATER"][what] = 1
    with pytest.raises(MechanismError, match=words):
        pair.draw("tape", 0, 0, 1)
    with pytest.raises(MechanismError, match=words):
        pair.draw("tape", 1, 16, 17)
    pair.draw("tape", 1, 17, 18)  # of which nothing is looked at


@pytest.mark.parametrize("seed", [11, pytest.param(12, marks=pytest.mark.release)])
def test_tapes_without_probability_set_no_cut_off(seed: int, tmp_path: Path) -> None:
    """Levels draw tapes of probability 10⁻⁴⁰ that chains do not reach, of weights near 8: with such a cut-off no bet of a
    million draws tells a δ of 10⁻⁶.
    """
    epsilon = 2.0
    pair = Learned.of(tmp_path, "summed", epsilon, seed=seed, train=1 << 14, test=1 << 22, confidence=0.95)
    truth, found = max(shift(0.8 / math.sqrt(3.0), epsilon)), pair.run()
    within = found["lower_up_to_leftover"][0, :, 0]
    assert (found["lower"][0, :, 0] <= truth).all()
    assert (within <= truth).all()
    assert within.min() > 0.5 * truth


def hidden_delta(epsilon: float, mass: float, threshold: float, mu: float = 0.25) -> float:
    """δ of N(0, 1) against `hidden`: outputs of the region have the density t·e^(−t(−x − t)) below −t."""

    def excess(x: float) -> float:
        p, q = norm.pdf(x), (1.0 - mass) * norm.pdf(x, mu)
        q += mass * threshold * math.exp(-threshold * (-x - threshold)) if x < -threshold else 0.0
        return max(0.0, p - math.exp(epsilon) * q)

    best = mu / 2.0 - epsilon / mu  # where p is e^ε times what D′ has without the region
    return (
        quad(excess, -threshold, best + 1e-3, epsabs=1e-14, limit=400)[0]
        + quad(excess, -12.0, -threshold, epsabs=1e-14, limit=400)[0]
        if best > -threshold
        else quad(excess, -12.0, best, epsabs=1e-14, limit=400)[0]
    )


@pytest.mark.parametrize(
    "epsilon, mass, few, train",
    [
        (1.05, 1e-5, False, 1 << 14),
        (1.05, 1e-7, True, 1 << 15),
        pytest.param(1.181746, 1e-6, False, 1 << 16, marks=pytest.mark.release),
        pytest.param(1.181746, 1e-8, True, 1 << 16, marks=pytest.mark.release),
    ],
)
def test_a_hidden_region_is_found_by_the_leftover(
    epsilon: float, mass: float, few: bool, train: int, tmp_path: Path
) -> None:
    """Of a mass with which P(S) < e^ε·Q(S): nothing is certified, and many plain draws tell why. Of a third of δ: less is, by
    e^ε times the limit of what is left over.

    Of the larger mass a tenth of a draw or so teaches; had one, S or the cut-off would be another, and nothing certified either.
    """
    threshold = epsilon / 0.25 - 0.125 + 0.1  # the set that is best without the region begins a tenth before
    target = {"epsilon": epsilon, "direction": "forward", "relative_error": 0.05, "most": 1 << 29}
    pair = Learned.of(
        tmp_path, "hidden", epsilon, parameters={"mass": mass, "threshold": threshold}, seed=3, train=train,
        test=1 << 20, confidence=0.95, target=target, certify=[epsilon],
    )  # fmt: skip
    clean, truth = shift(0.25, epsilon)[0], hidden_delta(epsilon, mass, threshold)
    found = pair.run()
    hits, draws = (int(found[name][0, 0, 0]) for name in ("leftover_hits", "leftover_draws"))
    lower, within, limit = (float(found[name][0, 0, 0]) for name in ("lower", "lower_up_to_leftover", "leftover_limit"))
    print(f"δ = {truth:.3g} ({clean:.3g} without), {hits} hits of {draws:,}, certified {lower:.3g}, up to {within:.3g}")
    assert abs(hits - mass * draws) < 5.0 * math.sqrt(mass * draws) + 1.0
    assert within > 0.3 * clean
    assert hits > 0
    assert limit > max(mass, hits / draws)
    if few:
        assert 0.4 * clean < truth
        assert lower <= max(0.0, within - math.exp(epsilon) * limit)
    else:
        assert truth < within, "up to the leftover is no bound: dropping the leftover would break it"
        assert lower == 0.0
    assert lower <= truth
