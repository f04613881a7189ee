"""Figure 1 of Lu et al. (2024) to the letter: each (pair, direction, ε) draws, trains and tests for itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcdp._base.doing import drawing
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.accuracy import Statement, state_accuracy
from hpcdp.engine.context import Context
from hpcdp.engine.derived import CELL, Bools, Entry, Floats, Ints, Records, cells_of, fewest, maximum_of, points_of
from hpcdp.engine.index import Index
from hpcdp.engine.method import NO_ETA, Run, SeriesBySeries, memory
from hpcdp.engine.outcomes import Report
from hpcdp.engine.series import Effort, Phase, Series
from hpcdp.engine.task import Amounts, Costs
from hpcdp.keys import digest_json, stream
from hpcdp.losses.knn.literal import count_rejections, testing_risk
from hpcdp.losses.parameters import LiteralKnnParameters
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.notions.accuracy import risk_radius, worst_risk_error
from hpcdp.notions.bounds import binomial_lower, binomial_upper
from hpcdp.notions.resolution import Entries, share_level
from hpcdp.notions.tradeoff import make_point_cells, make_risk_cells
from hpcdp.store.arrays import fingerprint
from hpcdp.store.results import Arrays
from hpcdp.store.stages import Stage
from hpcdp.study.combinations import PLAIN
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem

_ONCE = Stage("literal", 1, 1, 1)
_POINT = "tradeoff"


def _cells(problem: Problem, levels: Sequence[tuple[str, float]]) -> list[Series]:
    """What draws and trains for itself, pair by pair: a direction at an ε, or a trade-off point ("tradeoff") at an η."""
    test, laws = problem.study.estimate.test, problem.pair_laws
    return [  # each draws for itself, so its key is its stream
        Series("literal", digest_json(["cell", problem.model_key(n), test, *level]), laws[n], _ONCE, n, item=level)
        for n in range(len(problem.pairs))
        for level in levels
    ]


def risk_cells(problem: Problem) -> list[Series]:
    """Those of the spectrum, forward before reverse, ε ascending."""
    epsilons = problem.study.estimate.epsilons
    return _cells(problem, [(direction, epsilon) for direction in DIRECTIONS for epsilon in epsilons])


def point_cells(problem: Problem) -> list[Series]:
    """Those of the trade-off points, η ascending."""
    return _cells(problem, [(_POINT, eta) for eta in problem.study.estimate.etas])


class Figure1(SeriesBySeries):
    """See `Method`. Each series is counted at once."""

    asked = 'estimate.loss = "literal-knn"'
    takes = PLAIN - {"reader"} | {"etas"}
    accepted = "δ by ε and points by η, which each draw anew; knn and frequency for stored outputs"
    unaudited = NO_ETA.format("literal-knn")
    counts = ("errors", "tests")
    ranking = "delta"
    draws_apart = True
    upper_kind = "heuristic"  # a limit of the risk of its own classifier
    learned_for = "this ε"
    no_classes = "each entry has draws and a classifier of its own, so that there are no classes to compare"

    def kept_stages(self, problem: Problem) -> tuple[Stage, ...]:
        return ()

    def phases(self, problem: Problem, index: Index) -> list[Phase]:
        return [Phase([*risk_cells(problem), *point_cells(problem)], counted="cells", unit="")]

    def effort(self, problem: Problem, costs: Costs, phase: Phase) -> Effort:
        e = problem.study.estimate
        draw = 2 * (costs.drawing(e.train, problem.train.chunks) + costs.drawing(e.test, problem.test.chunks))
        return Effort(draw + 2 * (e.train * costs.learn + e.test * costs.count), draw)

    def amounts(self, problem: Problem) -> Amounts:
        e, points = problem.study.estimate, len(point_cells(problem))
        sides = 2 * (len(risk_cells(problem)) + points)
        draws, calls = sides * (e.train + e.test), sides * (problem.train.chunks + problem.test.chunks)
        return Amounts(draws, calls, memory(problem), e.train, points)

    def worst_errors(self, problem: Problem, epsilon: float) -> tuple[float, float]:
        test = 2 * problem.study.estimate.test
        return worst_risk_error(epsilon, test), worst_risk_error(epsilon, test, is_sound=False)

    def state_accuracy(self, study: Study, columns: int | None, pairs: int, test: int | None = None) -> list[Statement]:
        size = study.estimate.test if test is None else test
        return state_accuracy(study, columns, pairs, size, lambda level, share: risk_radius(level, 2 * size, share))

    def describe_series(self, problem: Problem, series: Sequence[Series]) -> str:
        (direction, level), more = series[0].item, f" and {len(series) - 1} more" if len(series) > 1 else ""
        which = f"eta {level}" if direction == _POINT else f"{direction}, epsilon {level}"
        return f"cell of pair {series[0].pair}, {which}{more}"

    def count_series(self, context: Context, series: Series, chunks: range, report: Report) -> dict[str, Any]:
        return _count(context, series)

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        shape = (len(problem.pairs), 2, epsilons.size)
        errors = _sums(index, risk_cells(problem), "errors", -1).reshape(shape)
        tests, confidence = np.full(shape, 2 * problem.test.total), problem.study.estimate.confidence
        level = share_level(None, shape, 1.0 - confidence)
        cells = make_risk_cells(errors, tests, epsilons, level, confidence)
        counts: Arrays = {"errors": (CELL, errors), "tests": (CELL, tests), "level": (CELL, level)}
        arrays = cells_of(cells) | counts | maximum_of(cells)
        return arrays | _tradeoff(problem, index) if problem.study.estimate.etas else arrays

    def careful_error(self, arrays: Arrays) -> Floats:
        errors, tests = (arrays[name][1] for name in self.counts)
        inflation = np.broadcast_to(np.exp(arrays["epsilon"][1]), errors.shape)
        risk = (np.maximum(errors, 0) + 1.0) / (tests + 2.0)
        error = 2.0 * inflation * np.sqrt(risk * (1.0 - risk) / (tests + 2.0))
        return np.where(errors >= 0, error, np.nan)

    def needed_to_pass(self, arrays: Arrays, entry: Entry, claimed: float) -> int | None:
        errors, tests = (int(arrays[name][1][entry]) for name in self.counts)
        level, inflation = float(arrays["level"][1][entry]), math.exp(float(arrays["epsilon"][1][entry[2]]))
        return _passing(errors / tests, inflation, level, claimed, self.tests_at(arrays, entry))

    def tests_at(self, arrays: Arrays, entry: Entry) -> int:
        """Half of the test samples are of each database."""
        return int(arrays[self.counts[1]][1][entry]) // 2

    def resample(
        self, arrays: Arrays, records: Records, entry: Entry, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        errors, tests = (int(arrays[name][1][entry]) for name in self.counts)
        risk = rng.binomial(tests, errors / tests, size=replicates) / tests
        return "errors", np.asarray(1.0 - 2.0 * np.exp(arrays["epsilon"][1][entry[2]]) * risk)

    def rejects(self, arrays: Arrays, entries: Entries, level: float) -> Bools:
        """By the exact upper limit of the risk."""
        errors, tests = (arrays[name][1][entries] for name in self.counts)
        return 2.0 * np.exp(arrays["epsilon"][1][entries[2]]) * binomial_upper(errors, tests, level) < 1.0

    def set_limits(self, arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
        return np.array([_risk_limit(arrays, known[..., column], int(column), confidence) for column in columns])

    def needed(self, arrays: Arrays, entry: Entry, level: float) -> tuple[int | None, int]:
        now, inflation = self.tests_at(arrays, entry), math.exp(arrays["epsilon"][1][entry[2]])
        return _passing(0.5 * (1.0 - float(arrays["delta"][1][entry])) / inflation, inflation, level, 0.0, now), now

    def tested(self, arrays: Arrays, estimate: Estimate) -> int:
        return estimate.test


METHOD = Figure1()


def _sums(index: Index, cells: Sequence[Series], name: str, unknown: Any) -> Ints:
    """One of the recorded sums of each."""
    sums = [index.done(cell.key, (), _ONCE) for cell in cells]
    return np.array([spans[0][name] if spans else unknown for spans in sums], np.int64)


def _count(context: Context, series: Series) -> dict[str, Any]:
    """Testing errors and tests, or outputs of both sides that are rejected."""
    problem, key, laws, (direction, level) = context.problem, series.key, series.laws, series.item
    estimate = problem.study.estimate
    coins = stream(problem.study.seed, key, "train", 0)
    parameters = LiteralKnnParameters.model_validate(estimate.parameters)
    settings = (coins, level, estimate.train, estimate.test, parameters, estimate.chunk)
    prints: list[tuple[str, str]] = []  # law and fingerprint of each chunk
    if direction == _POINT:
        p, q = (_redraw(context, law, key, side, prints) for law, side in zip(laws, ("d", "d_prime"), strict=True))
        rejected = list(count_rejections(p, q, *settings))
        return {"rejected": rejected, "test": [estimate.test, estimate.test], "draws": prints}
    first, second = laws if direction == "forward" else laws[::-1]
    thinned, whole = (_redraw(context, law, key, s, prints) for law, s in ((first, "thinned"), (second, "whole")))
    errors, tests = testing_risk(thinned, whole, *settings)
    return {"errors": errors, "tests": tests, "draws": prints}


def _redraw(
    context: Context, law: str, cell: str, side: str, prints: list[tuple[str, str]]
) -> Callable[[str, int], Outputs]:
    """Draws of a law that belong to one series alone; each call is the next chunk of its stage."""
    key = digest_json([cell, law, side])
    calls = {"train": 0, "test": 0}
    problem = context.problem

    def draw(stage: str, size: int) -> Outputs:
        chunk = calls[stage]
        calls[stage] += 1

        def where() -> str:
            return f"{stage} chunk {chunk} of {problem.describe_law(law)}"

        with drawing(where, problem.sampler.timeout):
            outputs = problem.sampler.draw_from(problem.laws[law], key, stage, chunk, size, problem.schema)
        prints.append((law, fingerprint(outputs)))
        return outputs

    return draw


def _passing(risk: float, inflation: float, level: float, claimed: float, now: int) -> int | None:
    """Samples per database, now or more, after which the bound itself passes a claim at this risk."""

    def passes(n: int) -> bool:
        return 1.0 - 2.0 * inflation * float(binomial_upper(round(risk * 2 * n), 2 * n, level)) > claimed

    return fewest(passes, now)


def _risk_limit(arrays: Arrays, known: Bools, column: int, confidence: float) -> float:
    errors, tests = (arrays[name][1][..., column][known] for name in ("errors", "tests"))
    optimistic = 1.0 - 2.0 * np.exp(arrays["epsilon"][1][column]) * binomial_lower(errors, tests, 1.0 - confidence)
    return float(np.clip(optimistic, binomial_upper(0, tests, 1.0 - confidence), 1.0).max())


def _tradeoff(problem: Problem, index: Index) -> Arrays:
    shape = (len(problem.pairs), len(problem.study.estimate.etas), 2)
    rejected = _sums(index, point_cells(problem), "rejected", (-1, -1)).reshape(shape)
    test = np.full(shape, problem.test.total)
    points = points_of(problem, rejected, make_point_cells(rejected, test, problem.study.estimate.confidence))
    return points | {"rejected_test": (("pair", "side"), test[:, 0])}
