"""The standard error of δ̂ by resampling the recorded counts, beside the binomial one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import StoreError
from hpcdp.losses.counts import above, below
from hpcdp.notions.accuracy import resample_chunks, resample_classes
from hpcdp.planning.index import Index, Span, read_index
from hpcdp.results.result import DIRECTIONS, Result
from hpcdp.store.layout import Layout
from hpcdp.store.root import latest_version
from hpcdp.study.problem import Problem
from hpcdp.study.reuse import FOLDS
from hpcdp.study.versions import read_problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FEWEST_CHUNKS = 30  # with fewer, the spread over chunks is itself too uncertain


@dataclass(frozen=True)
class Error:
    """The largest estimate at one level, and two standard errors of it; both asymptotic.

    method: "chunks" where every chunk of test outputs has a record of its own and there are at least 30 (bootstrap over
    chunks, which also shows outputs that are not independent), "classes" else (multinomial over the classes of L̂, the
    binomial error by simulation), "folds" where every sample teaches and tests (the same, fold by fold: what the sets change
    from run to run it does not show), "errors" of `literal-knn` (binomial over testing errors).
    """

    epsilon: float
    delta: float
    pair: int
    direction: str
    standard_error: float
    resampled: float
    method: str


def bootstrap(result: Result, replicates: int = 400) -> list[Error]:
    """Resample the counts of the cell with the largest estimate at each level; equal stores give equal numbers.

    Stores with equal records, that is: how chunks are put together in records may differ between runs, and with it the
    method.

    Args:
        result: of a store whose records are there.
        replicates: how many, at least 2.

    Raises:
        StoreError: counts that the result rests on are no longer in the store.
    """
    rng = np.random.default_rng(result.study.seed)
    records = None if result.is_literal else _Records(result)
    found = []
    for column in np.flatnonzero(~np.isnan(result["spectrum_delta"])):
        place = (int(result["spectrum_pair"][column]), int(result["spectrum_direction"][column]), int(column))
        level = float(result["epsilon"][column])
        if records is None:
            method, values = "errors", _resample_errors(result, place, level, replicates, rng)
        else:
            method, values = records.resample(place[0], place[1], level, replicates, rng)
        found.append(
            Error(
                epsilon=level,
                delta=float(result["delta"][place]),
                pair=place[0],
                direction=DIRECTIONS[place[1]],
                standard_error=float(result["standard_error"][place]),
                resampled=float(values.std(ddof=1)),
                method=method,
            )
        )
    return found


def _resample_errors(
    result: Result, place: tuple[int, int, int], epsilon: float, replicates: int, rng: np.random.Generator
) -> Floats:
    errors, tests = int(result["errors"][place]), int(result["tests"][place])
    risk = rng.binomial(tests, errors / tests, size=replicates) / tests
    return np.asarray(1.0 - 2.0 * np.exp(epsilon) * risk)


class _Records:
    """The recorded counts of a result."""

    def __init__(self, result: Result) -> None:
        layout = Layout(result.store)
        self.problem: Problem = read_problem(layout, latest_version(layout))
        self.index: Index = read_index(layout)

    def resample(
        self, pair: int, direction: int, epsilon: float, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        """How one cell was resampled, and its estimates before they are cut at 0, shape (replicates,)."""
        threshold = (epsilon if direction == 0 else -epsilon) + 0.0
        if self.problem.is_reused:
            thresholds, folds = self._folds(pair, threshold)
            drawn = np.sum([resample_classes(fold, replicates, rng)[0] for fold in folds], axis=0)
            return "folds", self._estimates(drawn, thresholds.index(threshold), direction, epsilon)
        thresholds, spans = self._spans(pair, threshold)
        histograms = np.stack([span.histogram for span in spans])
        if len(spans) >= _FEWEST_CHUNKS and all(span.stop - span.start == 1 for span in spans):
            method, samples = "chunks", np.array([span.samples for span in spans])
            drawn, _ = resample_chunks(histograms, samples, replicates, rng)
        else:
            method = "classes"
            drawn, _ = resample_classes(histograms.sum(axis=0), replicates, rng)
        return method, self._estimates(drawn, thresholds.index(threshold), direction, epsilon)

    @staticmethod
    def _estimates(drawn: Ints, column: int, direction: int, epsilon: float) -> Floats:
        """Estimates of one cell from resampled histograms (replicates, 2, classes)."""
        sides = above(drawn)[..., column] if direction == 0 else below(drawn)[:, ::-1, column]
        totals = drawn.sum(axis=2)  # of D, then of D', which may differ
        share: Any = sides / (totals if direction == 0 else totals[:, ::-1])
        return np.asarray(share[:, 0] - np.exp(epsilon) * share[:, 1])

    def _folds(self, pair: int, threshold: float) -> tuple[tuple[float, ...], list[Ints]]:
        """Histograms of all folds at a set of thresholds with this one, and these."""
        for thresholds, parts in sorted(self.index.reused.get(self.problem.pool_keys[pair], {}).items()):
            if threshold in thresholds and all(part in parts for part in range(FOLDS)):
                return thresholds, [parts[part] for part in range(FOLDS)]
        raise StoreError(f"the counts of pair {pair} are not in the store any more")

    def _spans(self, pair: int, threshold: float) -> tuple[tuple[float, ...], list[Span]]:
        """A set of thresholds with this one that has counts of all test chunks, and these."""
        model, stage = self.problem.model_keys[pair], self.problem.stage_of("test", pair)
        for thresholds in self.index.threshold_sets(model, self.problem.thresholds.tolist(), stage):
            if threshold in thresholds and not self.index.missing(model, thresholds, stage):
                return thresholds, self.index.done(model, thresholds, stage)
        raise StoreError(f"the counts of pair {pair} are not in the store any more")
