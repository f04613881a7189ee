"""The set {L̂ > c} ∩ C that promises the largest certified limit on pure ε, chosen by training outputs alone. **Heuristic.**

Whatever is chosen, the limit stays certified: fresh outputs that decided nothing are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.counts import above, below, classes_of
from hpcdp.losses.frequency.distinct import tally
from hpcdp.losses.local import Within, counter_inside, in_region, inside
from hpcdp.losses.protocol import Counter, Model, Outputs, Side
from hpcdp.notions.pure import promised_after

Ints = NDArray[np.int64]

_SEEN = 1 << 12  # outputs of a law whose L̂ are candidates for c
_MOST = 1 << 9  # candidates


@dataclass(frozen=True)
class Region:
    """A set of outputs of one direction: {L̂ > above} ∩ C forward, {−L̂ > above} ∩ C reverse.

    promised: the limit that training promises; a score, no bound.
    """

    direction: int
    above: float
    promised: float

    @property
    def threshold(self) -> float:
        """Of L̂ itself."""
        return (self.above if self.direction == 0 else -self.above) + 0.0

    def count(self, counter: Counter, outputs: Outputs, within: Within) -> int:
        """How many outputs lie in it. counter: of L̂ at its threshold alone."""
        inside = outputs if within is None else outputs[in_region(outputs, within)]
        return int(counter.count(inside)[2 if self.direction == 0 else 0])


def choose_regions(model: Model, p: Side, q: Side, within: Within, tests: int, level: float) -> tuple[Region, Region]:
    """The best set of each direction, forward first.

    Args:
        model: L̂, learned from p and q.
        p, q: training outputs of D and of D', from the same number of draws.
        within: C.
        tests: how many outputs of each law will be counted.
        level: failure probability of the limit.
    """
    told = tally(p), tally(q)
    points, histograms = (
        _of_outputs(model, [inside(side, within) for side in (p, q)], within)
        if told[0] is None or told[1] is None
        else _of_values(model, (told[0], told[1]), within)
    )
    # (side, direction, c), the side that is not inflated first
    counts = np.stack([above(histograms), below(histograms)[::-1]], axis=1)
    sets = [np.unique(each).size for each in counts.sum(axis=0)]
    promises = promised_after(counts[0], counts[1], p.draws, tests, level, np.array(sets)[:, None])
    return _best(0, points, promises[0]), _best(1, -points[::-1], promises[1][::-1])


def _candidates(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    points = np.sort(np.append(scores[np.isfinite(scores)], 0.0) + 0.0)
    points = points[np.append(True, points[1:] != points[:-1])]
    return points[np.unique(np.linspace(0, points.size - 1, min(points.size, _MOST)).round().astype(np.int64))]


def _of_outputs(model: Model, sides: Sequence[Outputs], within: Within) -> tuple[NDArray[np.float64], Ints]:
    """Candidates for c, and the histogram of each side's outputs by L̂ among them."""
    seen = [outputs[:: max(1, -(-outputs.shape[0] // _SEEN))] for outputs in sides]
    points = _candidates(np.concatenate([model.score(x) for x in seen if x.shape[0]] or [np.empty(0)]))
    counter = counter_inside(model, points, within)
    return points, np.stack(
        [counter.count(x) if x.shape[0] else np.zeros(2 * points.size + 1, np.int64) for x in sides]
    )


def _of_values(model: Model, sides: Sequence[tuple[Outputs, Ints]], within: Within) -> tuple[NDArray[np.float64], Ints]:
    """The same of distinct outputs and how often each is there."""
    kept = [in_region(values, within) for values, _ in sides]
    distinct = [(values[own], counts[own]) for (values, counts), own in zip(sides, kept, strict=True)]
    scores = [model.score(values) if values.shape[0] else np.empty(0) for values, _ in distinct]
    points = _candidates(np.concatenate(scores))
    return points, np.stack(
        [
            np.bincount(classes_of(score, points), counts, 2 * points.size + 1).astype(np.int64)
            for score, (_, counts) in zip(scores, distinct, strict=True)
        ]
    )


def _best(direction: int, above: NDArray[np.float64], promises: NDArray[np.float64]) -> Region:
    """Of equal promises the one with the smallest c, which is the largest set."""
    place = int(np.argmax(promises))
    return Region(direction, float(above[place]) + 0.0, float(promises[place]))
