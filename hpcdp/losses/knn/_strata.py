"""Strata of vector outputs: rows that agree in all columns with few distinct values are learned on their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.frequency.distinct import Distinct, learn_distinct
from hpcdp.losses.protocol import Outputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class VoteSource(Protocol):
    """Something that knows the votes of every output."""

    def votes(self, outputs: Outputs) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64, shape (size,) each."""
        ...


def few_valued(rows: Floats, k: int) -> NDArray[np.bool_]:
    """Which columns of pooled training rows (points, d) have few distinct values, shape (d,).

    Their values are held by max(k, √points) points each on average. With fewer than k points a value's stratum would
    be all one ball, and the other columns would not count. A small given k must not make strata of rounded numbers.
    Bits, small indexes and integers of moderate spread have few values; numbers rounded to a small part of their
    spread do not, because their distinct values are many.
    """
    points = rows.shape[0]
    most = points // max(k, isqrt(points), 1)
    return np.array([np.unique(column).size <= most for column in rows.T], np.bool_)


@dataclass(frozen=True, eq=False)
class Strata:
    """One vote source per stratum; `few` are the columns that make the strata, `rest` those that the sources see."""

    keys: Distinct
    sources: list[VoteSource]
    few: Ints
    rest: Ints

    @classmethod
    def learn(
        cls, a: Floats, b: Floats, few: NDArray[np.bool_], learn: Callable[[Floats, Floats], VoteSource], least: int
    ) -> Strata | None:
        """Strata of training rows a (size, d) and b (size, d), or None when they are too thin to be of use.

        Too thin: more than half of all points are in strata of fewer than `least` points.
        """
        columns, rest = np.flatnonzero(few), np.flatnonzero(~few)
        keys, codes = learn_distinct(np.concatenate([a[:, columns], b[:, columns]]))
        sizes = np.bincount(codes, minlength=keys.size)
        if 2 * sizes[sizes < least].sum() > codes.size:
            return None
        sources = [
            learn(a[in_a][:, rest], b[in_b][:, rest])
            for in_a, in_b in zip(
                group(codes[: a.shape[0]], keys.size), group(codes[a.shape[0] :], keys.size), strict=True
            )
        ]
        return cls(keys, sources, columns, rest)

    def votes(self, outputs: Outputs) -> tuple[Ints, Ints]:
        """Votes of both sides for each output (size, d), int64; nobody votes in a stratum that training never saw."""
        outputs = np.asarray(outputs, np.float64)
        v0, v1 = np.zeros(outputs.shape[0], np.int64), np.zeros(outputs.shape[0], np.int64)
        members = group(self.keys.find(outputs[:, self.few]), self.keys.size)
        for source, places in zip(self.sources, members, strict=True):
            if places.size:
                v0[places], v1[places] = source.votes(outputs[places][:, self.rest])
        return v0, v1


def group(codes: Ints, size: int) -> list[Ints]:
    """Places of each code 0 … size - 1, in order; negative codes belong nowhere."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(size + 1))
    return [order[start:stop] for start, stop in pairwise(bounds)]
