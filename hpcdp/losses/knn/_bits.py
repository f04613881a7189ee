"""Votes of bit vectors, kept packed: 64 bits a word, where the general way takes 64 bits a bit.

The votes are those of the general way under the Hamming, Euclidean and Manhattan metrics, whose balls are the same: the
Manhattan distance of bits, and the square of the Euclidean one, count the bits that differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._plain import PlainCounter
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.frequency._hashes import pack_bits
from hpcdp.losses.frequency.distinct import Rows
from hpcdp.losses.knn._hamming import BitSearch
from hpcdp.losses.knn._tree import BallVotes
from hpcdp.losses.knn.parameters import Metric
from hpcdp.losses.protocol import Outputs

Floats = NDArray[np.float64]


def are_bits(outputs: Outputs, points: int, k: int, metric: Metric) -> bool:
    """Whether `points` training outputs like these are vectors of bits whose columns all count as few-valued."""
    is_table = outputs.dtype == np.bool_ and outputs.ndim == 2 and outputs.shape[1] > 1
    return is_table and metric != "chebyshev" and points >= 2 * max(k, isqrt(points), 1)


@dataclass(frozen=True, eq=False)
class BitModel:
    """L̂ of bit vectors from their votes, of n0 and n1 draws."""

    source: BallVotes
    n0: int
    n1: int

    @classmethod
    def learn(cls, p: NDArray[np.bool_], q: NDArray[np.bool_], k: int, common: int, n0: int, n1: int) -> BitModel:
        """From training bits (size, d) of both sides; atoms are rows of `common` points, or of k where most are rarer."""
        rows, codes = Rows.learn(np.concatenate([pack_bits(p), pack_bits(q)]))
        c0 = np.bincount(codes[: p.shape[0]], minlength=rows.size)
        c1 = np.bincount(codes[p.shape[0] :], minlength=rows.size)
        held = c0 + c1
        least = k if 2 * held[held < common].sum() > codes.size else common
        atom = held >= least
        search = BitSearch.of_bits(rows.rows[~atom], p.shape[1], c0[~atom], c1[~atom], k)
        return cls(BallVotes(rows, np.append(c0, 0), np.append(c1, 0), np.append(atom, False), search), n0, n1)

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output (size, d) of booleans, shape (size,), natural log."""
        packed: NDArray[Any] = pack_bits(outputs)
        return log_ratios(*self.source.votes(packed), self.n0, self.n1)

    def counter(self, thresholds: Floats) -> PlainCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return PlainCounter(self, thresholds)
