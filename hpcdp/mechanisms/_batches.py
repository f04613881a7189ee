"""Random batches of rows: the kinds that there are with their probabilities, where they are few, and single batches.

A batch is either `batch` rows drawn without replacement, or every row by itself with probability `rate` (Poisson
sampling). It keeps the order of the rows. Draws come in blocks, so that the noise of many columns stays in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from hpcdp._check import integer, positive, refusal

NUMBERS = 1 << 16
"""Numbers in a block."""


def blocks(size: int, width: int) -> Iterator[slice]:
    """Slices of 0 … size - 1 in order, each of so many draws of `width` numbers as a block holds, at least one draw."""
    step = max(1, NUMBERS // max(1, width))
    for start in range(0, size, step):
        yield slice(start, min(size, start + step))


MOST_KINDS = 4096
"""Kinds of batches that are counted one by one."""

_MOST_NUMBERS = 1 << 18  # in the table of kinds

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Kinds(NamedTuple):
    """The kinds of batches of a database whose equal neighbouring rows form runs."""

    counts: Ints  # (kinds, runs), how many rows each run gives
    probabilities: Array  # (kinds,), of sum 1


def check_batch(rows: int, batch: int | None, rate: float | None) -> None:
    """Refuse all but exactly one of `batch`, from 1 to the number of rows, and `rate`, above 0 and at most 1."""
    if (batch is None) == (rate is None):
        raise refusal("batch, rate", (batch, rate), "exactly one of the two")
    if rate is not None and positive("rate", rate) > 1.0:
        raise refusal("rate", rate, "a number above 0, at most 1")
    if batch is not None and integer("batch", batch, 1) > rows:
        raise refusal("batch", batch, f"at most the {rows} rows of the database, without replacement")


def find_runs(rows: NDArray[Any]) -> tuple[Ints, tuple[int, ...]]:
    """Return where each run of equal neighbouring rows begins, and the lengths of the runs."""
    if not rows.shape[0]:
        return np.empty(0, np.int64), ()
    other = (rows[1:] != rows[:-1]).reshape(rows.shape[0] - 1, -1).any(axis=1)
    starts = np.concatenate(([0], np.flatnonzero(other) + 1))
    return starts, tuple(np.diff(np.append(starts, rows.shape[0])).tolist())


@lru_cache(maxsize=64)  # a database is drawn from many times
def enumerate_batches(lengths: tuple[int, ...], batch: int | None, rate: float | None) -> Kinds | None:
    """Every kind of batch from runs of these lengths with its probability; None where there are too many to count."""
    rows = sum(lengths)
    if len(lengths) > _MOST_NUMBERS:
        return None
    if batch == rows:
        return Kinds(np.array([lengths], np.int64).reshape(1, len(lengths)), np.ones(1))
    used, log_weight = np.zeros(1, np.int64), np.zeros(1)
    steps: list[tuple[NDArray[np.intp], Ints]] = []
    left = rows
    for length in lengths:
        left -= length
        least = np.zeros_like(used) if batch is None else np.maximum(0, batch - used - left)
        most = np.full_like(used, length) if batch is None else np.minimum(length, batch - used)
        options = most - least + 1
        total = int(options.sum())
        if total > MOST_KINDS or total * len(lengths) > _MOST_NUMBERS:
            return None
        before = np.repeat(np.arange(used.size), options)
        taken = least[before] + np.arange(total) - (np.cumsum(options) - options)[before]
        used = used[before] + taken
        log_weight = log_weight[before] - gammaln(taken + 1.0) - gammaln(length - taken + 1.0)
        if rate is not None:
            log_weight = log_weight + xlogy(taken, rate) + xlogy(length - taken, 1.0 - rate)
        steps.append((before, taken))
    counts = np.empty((used.size, len(lengths)), np.int64)
    chosen = np.arange(used.size)
    for run in range(len(lengths) - 1, -1, -1):
        before, taken = steps[run]
        counts[:, run] = taken[chosen]
        chosen = before[chosen]
    # A run's own factorial is the same in every kind, so it falls out here.
    weights = np.exp(log_weight - log_weight.max())
    return Kinds(counts, weights / weights.sum())


def draw_places(
    rows: int, draws: int, rng: np.random.Generator, *, batch: int | None = None, rate: float | None = None
) -> tuple[Ints, Ints]:
    """Batches of so many rows: int64 places (draws, width), rows in no order, -1 beyond a batch's size; and sizes (draws,)."""
    from hpcdp.mechanisms._kernels import fill_places

    if batch is not None:
        sizes = np.full(draws, batch, np.int64)
    else:
        sizes = np.asarray(rng.binomial(rows, rate or 0.0, draws), np.int64)  # given their number, all sets are alike
    places = np.full((draws, int(sizes.max(initial=0))), -1, np.int64)
    fill_places(rng.random(int(sizes.sum())), rows, sizes, places)
    return places, sizes
