"""The set {L̂ > c} ∩ C that promises the largest certified limit on pure ε, chosen by training outputs alone. **Heuristic.**

Whatever is chosen, the limit stays certified: fresh outputs that decided nothing are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.counts import above, below
from hpcdp.losses.local import Within, in_region
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
    inside = [side.outputs[in_region(side.outputs, within)] for side in (p, q)]
    seen = [outputs[:: max(1, -(-outputs.shape[0] // _SEEN))] for outputs in inside]
    scores = np.concatenate([model.score(outputs) for outputs in seen if outputs.shape[0]] or [np.empty(0)])
    points = np.unique(np.append(scores[np.isfinite(scores)], 0.0) + 0.0)
    points = points[np.unique(np.linspace(0, points.size - 1, min(points.size, _MOST)).round().astype(np.int64))]
    counter = model.counter(points)
    found = np.stack([_histogram(counter, outputs, points.size) for outputs in inside])
    counts = np.stack(
        [above(found), below(found)[::-1]], axis=1
    )  # (side, direction, c), the side that is not inflated first
    sets = [np.unique(each).size for each in counts.sum(axis=0)]
    promises = promised_after(counts[0], counts[1], p.draws, tests, level, np.array(sets)[:, None])
    return _best(0, points, promises[0]), _best(1, -points[::-1], promises[1][::-1])


def _histogram(counter: Counter, outputs: Outputs, points: int) -> Ints:
    return counter.count(outputs) if outputs.shape[0] else np.zeros(2 * points + 1, np.int64)


def _best(direction: int, above: NDArray[np.float64], promises: NDArray[np.float64]) -> Region:
    """Of equal promises the one with the smallest c, which is the largest set."""
    place = int(np.argmax(promises))
    return Region(direction, float(above[place]) + 0.0, float(promises[place]))
