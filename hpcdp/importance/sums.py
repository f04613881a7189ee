"""Sums over weighted draws, chunk by chunk, that the bounds of `hpcdp.importance.bounds` need: exact whole numbers of 2^-40.

Whole numbers add up exactly, in any order and however chunks are cut. Each logarithm is rounded to the side on which the bound
holds, and so are doubts about a weight: a computed log w is given with the most that it may be off. Where w may be on either
side of the cut-off M, the lower mean leaves the draw out, the upper mean counts it with at most M, and the leftover counts it
too. So does a weight of exactly M: a cut-off at an atom of the weights should be a little above it, by a part in 10^9 or so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import refusal
from hpcdp.importance import _bet_kernels as kernels
from hpcdp.importance.bounds import LARGEST_SHARE

__all__ = ["Cells", "Sums", "Totals", "add_sums", "count_leftover", "estimate_mean", "sum_lower", "sum_upper"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGEST_LOG, _LARGEST_CLASS = 700.0, 2**20


@dataclass(frozen=True, eq=False)
class Cells:
    """What is summed of a law's draws, fixed before they are drawn; the set of cell j is {class >= least[j]}.

    Classes are whole numbers >= 0 that grow with L̂ (or with −L̂, for the sets of the other direction). least: int64 (cells,), in
    any order, at most 2^20. rates: λ, or κ, float64 (cells,), > 0. cutoffs: M, float64 (cells,), > 0; an infinite one is for
    lower bounds alone, which hold with any.

    Raises:
        ValueError: shapes differ, or a value is out of its range.
    """

    least: Integers
    rates: Floats
    cutoffs: Floats

    def __post_init__(self) -> None:
        if self.least.ndim != 1 or not self.least.shape == self.rates.shape == self.cutoffs.shape:
            shapes = self.least.shape, self.rates.shape, self.cutoffs.shape
            raise refusal("least, rates, cutoffs", shapes, "shapes (cells,), the same")
        if not ((self.rates > 0.0) & (self.rates < math.inf)).all() or not (self.cutoffs > 0.0).all():
            raise refusal("rates, cutoffs", (self.rates.tolist(), self.cutoffs.tolist()), "numbers > 0, finite rates")
        if not ((self.least >= 0) & (self.least <= _LARGEST_CLASS)).all():
            raise refusal("least", self.least.tolist(), f"whole numbers from 0 to {_LARGEST_CLASS}")


class Sums(NamedTuple):
    """Of one chunk. logs: int64 (cells,), of log(1 + λX) rounded down or of −log(1 − κX) rounded up, in units of 2^-40.

    weights, squares: Σ w and Σ w² of all draws in the set, float64 (cells,), without a cut-off. draws: of the chunk, in a set
    or not. spreads: see `spread`; of `sum_lower` and `sum_upper` as of draws that are one stratum.
    """

    logs: Integers
    weights: Floats
    squares: Floats
    draws: int
    spreads: Floats


class Totals(NamedTuple):
    """Of all chunks. logs: Python ints, which do not overflow; the others as in `Sums`."""

    logs: tuple[int, ...]
    weights: Floats
    squares: Floats
    draws: int
    spreads: Floats


def spread(weights: Floats, squares: Floats, sizes: ArrayLike) -> Floats:
    """An estimate without bias of the variance of Σ w, (cells,), from Σ w and Σ w² of strata of so many draws each.

    Strata have fixed sizes, so that what their means differ by is no part of it. Of a stratum of one draw, whose variance
    cannot be told, w² is taken, which is more in the mean. weights, squares: (strata, cells). sizes: (strata,), at least 1.
    """
    n = np.asarray(sizes, np.float64)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):  # of weights whose squares are no floats nothing is known
        left = np.nan_to_num(squares - weights * weights / n, nan=np.inf)
        within = np.maximum(0.0, left) * n / np.maximum(1.0, n - 1.0)
    return np.asarray(np.where(n > 1.0, within, squares).sum(axis=0))


def sum_lower(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike, cells: Cells) -> Sums:
    """Sums of a chunk for lower bounds on the means, X = w 1_S 1{w <= M}; a draw counts with the least weight it may have.

    A draw that may be above the cut-off is left out. The sums do not depend on the draws' order, nor, added up, on how
    chunks are cut (`logs`; the others up to rounding).

    Args:
        log_weights: computed log w, float64 (n,), at most 700; −inf is a weight of 0. n <= 2^20, 0 is fine.
        errors: how far each may be from the true one, (n,), >= 0; inf where nothing is known.
        classes: of the outputs, integers (n,), >= 0.

    Raises:
        ValueError: an argument is out of its range.
    """
    return _sum(log_weights, errors, classes, cells, False)


def sum_upper(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike, cells: Cells) -> Sums:
    """Sums of a chunk for upper bounds: a draw that may be at most M counts with the largest weight it may have, at most M.

    Args, and what sums do not depend on: as `sum_lower`.

    Raises:
        ValueError: an argument is out of its range; rate times cut-off of a cell is above 0.999.
    """
    if not (cells.rates * cells.cutoffs <= LARGEST_SHARE).all():
        raise refusal("rates * cutoffs", float((cells.rates * cells.cutoffs).max()), "at most 0.999 for upper bounds")
    return _sum(log_weights, errors, classes, cells, True)


def _sum(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike, cells: Cells, is_upper: bool) -> Sums:
    order = np.argsort(cells.least, kind="stable")
    draws = _draws(log_weights, errors, classes)
    if draws[2].size > kernels.LARGEST_CHUNK:
        raise refusal("log_weights", draws[2].shape, f"at most {kernels.LARGEST_CHUNK} draws a chunk")
    found = kernels.sum_bets(*draws, _reach(cells.least), cells.rates[order], cells.cutoffs[order], is_upper)
    logs, weights, squares = (values[np.argsort(order)] for values in found)
    size = int(draws[2].size)
    return Sums(logs, weights, squares, size, spread(weights[None], squares[None], [max(1, size)]))


def count_leftover(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike, cells: Cells) -> tuple[Integers, int]:
    """How many plain draws of Q are in S with a weight that may be above M: of each cell, int64 (cells,), and in any of these.

    What `sum_upper` leaves out is a hit here, whatever the rounding: each draw in S counts there, here, or in both.

    Args:
        log_weights, errors, classes: of plain draws, as in `sum_lower`, of any number. Where no proposal reaches an
            output, so that w = ∞: any log w with the error inf.

    Raises:
        ValueError: an argument is out of its range; a cut-off is infinite.
    """
    if not np.isfinite(cells.cutoffs).all():
        raise refusal("cutoffs", "inf", "finite numbers")
    order = np.argsort(cells.least, kind="stable")
    draws = _draws(log_weights, errors, classes)
    hits, union = kernels.count_hits(*draws, _reach(cells.least), cells.cutoffs[order])
    return hits[np.argsort(order)], int(union)


def _reach(least: Integers) -> Integers:
    """How many cells, by their least class, hold each class from 0 to the largest that tells one from another."""
    return np.cumsum(np.bincount(least, minlength=1))


def _draws(log_weights: ArrayLike, errors: ArrayLike, classes: ArrayLike) -> tuple[Floats, Floats, NDArray[np.integer]]:
    logs, off = (np.ascontiguousarray(values, np.float64) for values in (log_weights, errors))
    kept = np.ascontiguousarray(classes)
    if logs.ndim != 1 or not logs.shape == off.shape == kept.shape:
        raise refusal("log_weights, errors, classes", (logs.shape, off.shape, kept.shape), "shapes (n,), the same")
    if kept.size and kept.dtype.kind not in "iu":
        raise refusal("classes", kept.dtype.name, "whole numbers")
    if kept.size and kept.min() < 0:
        raise refusal("classes", int(kept.min()), "whole numbers >= 0")
    if not (logs <= _LARGEST_LOG).all():
        raise refusal("log_weights", "one that is not", f"numbers of at most {_LARGEST_LOG:g}")
    if not (off >= 0.0).all():
        raise refusal("errors", "one that is not", "numbers >= 0")
    return logs, off, kept if kept.size else kept.astype(np.int64)


def add_sums(chunks: Iterable[Sums]) -> Totals:
    """The sums of all chunks, one or more, the same in any order: whole numbers are exact, floats rounded once (`math.fsum`).

    Raises:
        ValueError: no chunks, or chunks of unequal numbers of cells.
    """
    found = list(chunks)
    if not found:
        raise refusal("chunks", "none", "one or more")
    logs = tuple(sum(column) for column in zip(*(one.logs.tolist() for one in found), strict=True))
    weights, squares, spreads = (
        np.array([math.fsum(column) for column in zip(*(getattr(one, name) for one in found), strict=True)])
        for name in ("weights", "squares", "spreads")
    )
    return Totals(logs, weights, squares, sum(one.draws for one in found), spreads)


def estimate_mean(totals: Totals) -> tuple[Floats, Floats]:
    """The estimate of P(S), or of Q(S), and its standard error, (cells,) each; without a cut-off.

    The estimate has no bias. Its error is asymptotic, that of the strata's means (`spread`).
    """
    return totals.weights / totals.draws, np.sqrt(totals.spreads) / totals.draws
