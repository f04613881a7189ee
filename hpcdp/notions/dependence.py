"""Whether independent draws explain the order in which outputs fell into tested sets; bounds rest on their independence.

Draws that are independent and of one distribution may come in any order, however often they hit a set. So, given how often they
do, the hits of a chunk are hypergeometric. So is the number of pairs of neighbours that both hit, given how many first and how
many second ones do; and so are the hits in the earlier half of those pairs, given the hits in all. **Finite-sample**, of rare
sets too. No alarm proves no independence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from hpcdp.losses.counts import above, classes_by
from hpcdp.losses.protocol import Counter, Outputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALARM = 1e-4
"""Below it draws are said to depend on each other; at most the chance of that where they do not, all tests together."""

COLUMNS = 7
"""Of an order: pairs of neighbours, hits of the first, of the second and of both, hits in the earlier half of each chunk's pairs,
most hits and most misses of a whole chunk."""

_LOOKED = (
    1 << 11
)  # first outputs of a chunk that are looked at in pairs from an even place, and last ones from an odd place
_SETS = 5
_LEAST = 1e-300  # of what is told


def looked_thresholds(thresholds: int) -> Ints:
    """Which thresholds t make the sets {L̂ > t} that are looked at: at most five of them, evenly spread, shape (sets,)."""
    many = min(thresholds, _SETS)
    return np.arange(many) * (thresholds - 1) // max(1, many - 1)


def count_in_order(counter: Counter, outputs: Outputs, chunk: int, histogram: Ints, order: Ints) -> None:
    """Add a chunk's outputs to the histogram (2T + 1,) and their order to (sets, COLUMNS)."""
    sets, last = looked_thresholds(histogram.size // 2), outputs.shape[0] - outputs.shape[0] % 2 - 1
    half = min(_LOOKED, last // 4 * 2)  # even, and last is odd: so is the place of the first late pair
    middle = outputs[half : last - half]
    classes = classes_by(counter, np.concatenate([outputs[:half], outputs[last - half :], middle[:3]]))
    if classes is None:
        counts, classes = counter.count(outputs), np.zeros(0, np.int64)
    else:
        counts = np.bincount(classes, minlength=histogram.size)
        counts += counter.count(middle[3:]) if len(middle) > 3 else 0
    pairs = classes[: 2 * half].reshape(-1, 2)
    early = pairs[: half // 2].ravel()
    sides = pairs[:, 0], pairs[:, 1], np.minimum(pairs[:, 0], pairs[:, 1]), early
    order[:, 0] += len(pairs)
    order[:, 1:5] += np.transpose([above(np.bincount(side, minlength=histogram.size))[sets] for side in sides])
    if outputs.shape[0] == chunk:
        hits = above(counts)[sets]
        order[:, 5:] = np.maximum(order[:, 5:], np.transpose([hits, chunk - hits]))
    histogram += counts


def merge_orders(orders: Sequence[Ints], histograms: Sequence[Ints]) -> Ints:
    """What `dependence` asks of both sides' sets, (2·sets, COLUMNS + 2): orders, hits and draws of parts of a stage."""
    histogram = np.sum(histograms, axis=0)
    hits = above(histogram)[:, looked_thresholds(histogram.shape[1] // 2)]
    draws = np.broadcast_to(histogram.sum(axis=1, keepdims=True), hits.shape)
    merged = [np.sum(orders, axis=0)[..., :5], np.max(orders, axis=0)[..., 5:], np.stack([hits, draws], axis=-1)]
    return np.concatenate(merged, axis=-1).reshape(-1, COLUMNS + 2)


def dependence(rows: Ints, chunk: Ints) -> Floats:
    """p-values (sets,) of neighbours, halves and chunks together. Finite-sample."""
    pairs, first, second, both, early, most, misses, hits, draws = rows.T.astype(np.float64)
    looked = first + second
    halves = np.minimum(*(_above(part, 2.0 * pairs, looked, pairs) for part in (early, looked - early)))
    neighbours = np.minimum(_above(both, pairs, first, second), _above(first - both, pairs, pairs - second, first))
    size = np.maximum(1.0, np.minimum(chunk, draws))
    chunks = np.minimum(_above(most, draws, hits, size), _above(misses, draws, draws - hits, size))
    least = np.minimum(np.minimum(neighbours, halves), chunks + np.log(np.maximum(1.0, draws // size)))
    p = 6.0 * np.exp(least)  # the smallest of three tests, each the smaller of two tails
    return np.clip(p, _LEAST, 1.0)


def _above(x: Floats, total: Floats, marked: Floats, drawn: Floats) -> Floats:
    """ln of a bound on P[X >= x], X hypergeometric, `drawn` of `total` with `marked`: a geometric series."""
    ratio = (marked - x) * (drawn - x) / np.maximum(1.0, (x + 1.0) * (total - marked - drawn + x + 1.0))
    ways = _ways(marked, x) + _ways(total - marked, drawn - x) - _ways(total, drawn)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(ratio < 1.0, np.minimum(0.0, ways - np.log1p(-ratio)), 0.0)


def _ways(n: Floats, k: Floats) -> Floats:
    """ln of the binomial coefficient."""
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))
