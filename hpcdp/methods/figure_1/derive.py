"""Results of the literal way: each cell's own testing errors (Fig. 1 to the letter)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.derived import (
    CELL,
    Bools,
    Derived,
    Floats,
    Ints,
    Place,
    Records,
    Run,
    cells_of,
    fewest,
    maximum_of,
    points_of,
)
from hpcdp.engine.index import Index
from hpcdp.notions.bounds import binomial_lower, binomial_upper
from hpcdp.notions.levels import share_level
from hpcdp.notions.resolution import Entries
from hpcdp.notions.tradeoff import make_point_cells, make_risk_cells
from hpcdp.store.results import Arrays
from hpcdp.study.estimate import Estimate
from hpcdp.study.problem import Problem


class Literal(Derived):
    """See `hpcdp.engine.derived.Derived`."""

    counts = ("errors", "tests")
    ranking = "delta"
    draws_apart = True

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        found = _literal(problem, index, epsilons)
        return found | _literal_tradeoff(problem, index) if problem.study.estimate.etas else found

    def careful_error(self, arrays: Arrays) -> Floats:
        errors, tests = (arrays[name][1] for name in self.counts)
        inflation = np.broadcast_to(np.exp(arrays["epsilon"][1]), errors.shape)
        risk = (np.maximum(errors, 0) + 1.0) / (tests + 2.0)
        found = 2.0 * inflation * np.sqrt(risk * (1.0 - risk) / (tests + 2.0))
        return np.where(errors >= 0, found, np.nan)

    def needed_to_pass(self, arrays: Arrays, place: Place, claimed: float) -> int | None:
        errors, tests = (int(arrays[name][1][place]) for name in self.counts)
        level, inflation = float(arrays["level"][1][place]), math.exp(float(arrays["epsilon"][1][place[2]]))
        return _passing(errors / tests, inflation, level, claimed, self.tests_at(arrays, place))

    def tests_at(self, arrays: Arrays, place: Place) -> int:
        """Half of the test samples are of each database."""
        return int(arrays[self.counts[1]][1][place]) // 2

    def resample(
        self, arrays: Arrays, records: Records, place: Place, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        errors, tests = (int(arrays[name][1][place]) for name in self.counts)
        risk = rng.binomial(tests, errors / tests, size=replicates) / tests
        return "errors", np.asarray(1.0 - 2.0 * np.exp(arrays["epsilon"][1][place[2]]) * risk)

    def rejects(self, arrays: Arrays, place: Entries, level: float) -> Bools:
        """By the exact upper limit of the risk."""
        errors, tests = (arrays[name][1][place] for name in self.counts)
        return 2.0 * np.exp(arrays["epsilon"][1][place[2]]) * binomial_upper(errors, tests, level) < 1.0

    def set_limits(self, arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
        return np.array([_risk_limit(arrays, known[..., column], int(column), confidence) for column in columns])

    def needed(
        self, arrays: Arrays, place: Place, measured: float, delta: float, inflation: float, level: float
    ) -> tuple[int | None, int]:
        now = self.tests_at(arrays, place)
        return _passing(0.5 * (1.0 - delta) / inflation, inflation, level, 0.0, now), now

    def tested(self, arrays: Arrays, estimate: Estimate) -> int:
        return estimate.test


DERIVED = Literal()


def _passing(risk: float, inflation: float, level: float, claimed: float, now: int) -> int | None:
    """Samples per database, now or more, after which the bound itself passes a claim at this risk."""

    def passes(n: int) -> bool:
        return 1.0 - 2.0 * inflation * float(binomial_upper(round(risk * 2 * n), 2 * n, level)) > claimed

    return fewest(passes, now)


def _risk_limit(arrays: Arrays, known: Bools, column: int, confidence: float) -> float:
    errors, tests = (arrays[name][1][..., column][known] for name in ("errors", "tests"))
    optimistic = 1.0 - 2.0 * np.exp(arrays["epsilon"][1][column]) * binomial_lower(errors, tests, 1.0 - confidence)
    return float(np.clip(optimistic, binomial_upper(0, tests, 1.0 - confidence), 1.0).max())


def _literal(problem: Problem, index: Index, epsilons: NDArray[np.float64]) -> Arrays:
    shape = (len(problem.pairs), 2, epsilons.size)
    found = [index.cells.get(problem.cell_key(cell)) for cell in problem.risk_cells]
    errors = np.array([-1 if cell is None else cell["errors"] for cell in found], np.int64).reshape(shape)
    tests = np.full(shape, 2 * problem.test.total)
    confidence = problem.study.estimate.confidence
    level = share_level(None, shape, 1.0 - confidence)
    cells = make_risk_cells(errors, tests, epsilons, level, confidence)
    arrays = cells_of(cells) | {
        "errors": (CELL, cells.errors),
        "tests": (CELL, cells.tests),
        "level": (CELL, level),
    }
    return arrays | maximum_of(cells)


def _literal_tradeoff(problem: Problem, index: Index) -> Arrays:
    shape = (len(problem.pairs), len(problem.study.estimate.etas), 2)
    found = [index.cells.get(problem.cell_key(cell)) for cell in problem.point_cells]
    rejected = np.array([(-1, -1) if cell is None else cell["rejected"] for cell in found], np.int64).reshape(shape)
    test = np.full(shape, problem.test.total)
    points = points_of(problem, rejected, make_point_cells(rejected, test, problem.study.estimate.confidence))
    return points | {"rejected_test": (("pair", "side"), test[:, 0])}
