"""Arrays by (pair, direction, ε), and what is derived from them: errors, what would decide, what an entry rests on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.index import Index, read_index
from hpcdp.notions.bounds import joint_lower, joint_rejects, standard_error
from hpcdp.notions.resolution import Entries, largest_upper
from hpcdp.notions.spectrum import Cells, maximum
from hpcdp.notions.tradeoff import TradeOff
from hpcdp.store.layout import Layout
from hpcdp.store.results import Arrays
from hpcdp.store.root import latest_version
from hpcdp.study.estimate import Estimate
from hpcdp.study.problem import Problem
from hpcdp.study.versions import read_problem

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CELL = ("pair", "direction", "epsilon")
"""Dimensions of arrays by entry."""

_SPECTRUM = ("delta", "pair", "direction", "lower", "lower_pair", "lower_direction", "upper")


def cells_of(cells: Any) -> Arrays:
    """What every method tells of an entry."""
    return {name: (CELL, getattr(cells, name)) for name in ("delta", "standard_error", "lower", "upper")}


def counted_cells(cells: Cells, level: Floats, ranked: Floats) -> Arrays:
    """Entries with the counts they rest on, their share of the failure probability, and what ranked them for it."""
    counts: Arrays = {name: ((*CELL, "side"), getattr(cells, name)) for name in ("exceed", "test")}
    return cells_of(cells) | counts | {"level": (CELL, level), "training_delta": (CELL, ranked)}


def maximum_of(cells: Any, resolved: Bools | None = None) -> Arrays:
    """The largest over pairs and directions at each ε."""
    best = maximum(cells, resolved)
    return {f"spectrum_{name}": (("epsilon",), getattr(best, name)) for name in _SPECTRUM}


def no_cells(pairs: int) -> Arrays:
    """Arrays of no ε."""
    empty = np.empty((pairs, 2, 0))
    names = ("delta", "standard_error", "lower", "upper", "level", "training_delta")
    cells: Arrays = dict.fromkeys(names, (CELL, empty))
    counts: Arrays = {name: ((*CELL, "side"), np.empty((*empty.shape, 2), np.int64)) for name in ("exceed", "test")}
    types = {name: np.int64 if "pair" in name or "direction" in name else np.float64 for name in _SPECTRUM}
    return cells | counts | {f"spectrum_{name}": (("epsilon",), np.empty(0, kind)) for name, kind in types.items()}


def points_of(problem: Problem, rejected: Ints, points: TradeOff) -> Arrays:
    """Trade-off points, and the counts they rest on."""
    etas = np.asarray(problem.study.estimate.etas)
    names = ("alpha", "beta", "radius", "alpha_upper", "beta_upper")
    arrays: Arrays = {name: (("pair", "eta"), getattr(points, name)) for name in names}
    return arrays | {"eta": (("eta",), etas), "rejected": (("pair", "eta", "side"), rejected)}


Entry = tuple[int, int, int]
"""Of an array by (pair, direction, ε)."""

_MOST = 2**50  # beyond this many nobody can draw; counts stay exact in float64


@dataclass(frozen=True)
class Records:
    """The records that a result rests on, read when they are asked for."""

    store: Path

    @cached_property
    def problem(self) -> Problem:
        """The problem that the store holds."""
        layout = Layout(self.store)
        return read_problem(layout, latest_version(layout))

    @cached_property
    def index(self) -> Index:
        """All its records."""
        return read_index(Layout(self.store))


class Derived:
    """What is derived from the arrays of a method.

    counts: arrays by entry that say what δ̂ rests on. pools: whether every sample teaches and tests. notions: what is read off a
    result by default, names of `hpcdp.report.notions`. further_bounds: arrays by entry that a spectrum lists beside `lower`.
    limit_kind, upper_kind: what the test of δ > 0 with its limits is, and what `upper` is. basis: what certified bounds rest on.
    sets: whose δ the δ̂ estimates; learned_for: for which ε each was learned. no_classes: why no classes of L̂ can be compared.
    """

    counts: ClassVar[tuple[str, ...]] = ("exceed", "test")
    pools: ClassVar[bool] = False

    notions: ClassVar[tuple[str, ...]] = ("spectrum", "tradeoff")
    further_bounds: ClassVar[tuple[str, ...]] = ()
    limit_kind: ClassVar[str] = "finite-sample"
    upper_kind: ClassVar[str] = "asymptotic"
    basis: ClassVar[str] = "assumes only that draws are independent"
    sets: ClassVar[str] = "the learned sets"
    learned_for: ClassVar[str] = "any ε of the study"
    no_classes: ClassVar[str] = ""

    def careful_error(self, arrays: Arrays) -> Floats:
        """Standard error of each δ̂ with (x + 1)/(n + 2) put in; NaN where counts are missing. Asymptotic."""
        exceed, test, delta = (arrays[name][1] for name in ("exceed", "test", "delta"))
        inflation = np.broadcast_to(np.exp(arrays["epsilon"][1]), delta.shape)
        x, n = np.maximum(exceed, 0) + 1, test + 2
        error = standard_error(x[..., 0], n[..., 0], x[..., 1], n[..., 1], inflation)
        return np.where(exceed.min(axis=-1) >= 0, error, np.nan)

    def needed_to_pass(self, arrays: Arrays, entry: Entry, claimed: float) -> int | None:
        """Samples per database after which an entry's bound would pass a claim at its rates and level; None beyond 2⁵⁰."""
        return self.passing(*rates_of(arrays, entry), claimed, self.tests_at(arrays, entry))

    def passing(self, a: float, b: float, inflation: float, level: float, claimed: float, now: int) -> int | None:
        """Samples per database, now or more, after which the joint bound passes a claim at these rates. Asymptotic."""

        def passes(n: int) -> bool:
            return bool(joint_lower(round(a * n), n, round(b * n), n, inflation, level, floor=claimed) > claimed)

        return fewest(passes, now) if a - inflation * b > claimed else None

    def resample(
        self, arrays: Arrays, records: Records, entry: Entry, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        """How one entry was resampled, and its estimates before they are cut at 0, shape (replicates,)."""
        exceed, test = (arrays[name][1][entry] for name in ("exceed", "test"))
        share = rng.binomial(test, exceed / test, size=(replicates, 2)) / test
        return "classes", np.asarray(share[:, 0] - np.exp(arrays["epsilon"][1][entry[2]]) * share[:, 1])

    def rejects(self, arrays: Arrays, entries: Entries, level: float) -> Bools:
        """Whether the exact joint test of a <= e^ε·b rejects δ(ε) = 0 at this level, of entries of one ε. Finite-sample."""
        (x0, x1), (n0, n1) = (arrays[name][1][entries].T for name in ("exceed", "test"))
        return joint_rejects(x0, n0, x1, n1, math.exp(arrays["epsilon"][1][entries[2]]), level)

    def set_limits(self, arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
        """Upper limits of the learned sets at some ε, shape (columns,), one at a time. Finite-sample."""
        exceed, test = (arrays[name][1][known] for name in ("exceed", "test"))
        return largest_upper(exceed, test, np.exp(arrays["epsilon"][1][columns]), confidence)

    def needed(self, arrays: Arrays, entry: Entry, level: float) -> tuple[int | None, int]:
        """Samples a database at which `rejects` would tell δ̂ of an entry from 0 at its rates; and how many there are."""
        (a, b), now = arrays["exceed"][1][entry] / arrays["test"][1][entry], self.tests_at(arrays, entry)
        return self.passing(float(a), float(b), math.exp(arrays["epsilon"][1][entry[2]]), level, 0.0, now), now

    def counts_of(self, arrays: Arrays, entry: Entry) -> dict[str, Any]:
        """What an entry rests on, as JSON has it."""
        return {name: arrays[name][1][entry].tolist() for name in self.counts}

    def all_counts(self, arrays: Arrays, entries: Any) -> dict[str, list[Any]]:
        """The same of many, a list a name. entries: an index of each axis."""
        return {name: arrays[name][1][entries].tolist() for name in self.counts}

    def columns_of(self, counts: dict[str, Any]) -> dict[str, Any]:
        """The same as CSV has it: a number a column."""
        columns: dict[str, Any] = {}
        for name, value in counts.items():
            sides = {f"{name}_{side}": v for side, v in enumerate(value)} if isinstance(value, list) else {name: value}
            columns |= sides
        return columns

    def trained(self, estimate: Estimate) -> int:
        """Samples per database that each L̂ learned from."""
        return estimate.train

    def warnings(self, arrays: Arrays) -> tuple[str, ...]:
        """What speaks against a result, besides what is not resolved, in words."""
        return ()

    def tests_at(self, arrays: Arrays, entry: Entry) -> int:
        """Test samples a database that an entry rests on."""
        return int(arrays["test"][1][entry].min())

    def leftover_needed(self, arrays: Arrays, entry: Entry, claimed: float) -> int | None:
        """Of a random tape, plain draws after which a bound would pass a claim; None of others, and where none would."""
        return None

    def tested(self, arrays: Arrays, estimate: Estimate) -> int:
        """Test samples a database."""
        return int(arrays["test"][1].max())

    @property
    def tests_words(self) -> str:
        """What is counted, as messages say it."""
        return "samples" if self.pools else "test samples"

    # What reports say of results (`hpcdp.results.result.Result`), in whole sentences.

    def describe_columns(self, result: Any, sure: str) -> list[str]:
        """What the columns of a spectrum are. sure: the confidence level, in words."""
        return [
            f"certified ≥: δ is at least this, for all pairs, directions and ε together with confidence {sure} (finite-sample). "
            f"The bound {self.basis}, whatever the classifier.",
            "approx ≤: a normal approximation at one ε alone, which ignores what the classifier misses. No number here is a "
            "guaranteed upper bound on δ.",
        ]

    def describe_limits(self, sure: str) -> str:
        """What "<" and "*" of an estimate mean."""
        return (
            f"* δ̂ is not significantly above 0. Each δ̂ without a star is, all together with confidence {sure} (finite-sample, "
            f'a separate test). "< x" means that no set of outputs that was learned for {self.learned_for} shows x or more at '
            f"this ε, with confidence {sure} at this ε alone (finite-sample). Another set may show more, so δ may be larger."
        )

    def describe_needed(self, samples: int, now: int, leftover: int | None) -> str:
        """What would separate an estimate from a claim. leftover: plain draws beside the samples, of random tapes."""
        return (
            f"If it is real, the bound would pass the claim with about {samples:,} {self.tests_words} per database (now "
            f"{now:,})."
        )

    def describe_basis(self, result: Any) -> list[str]:
        """What numbers rest on besides independent draws, and what speaks against them."""
        return []


def fewest(passes: Callable[[int], bool], now: int) -> int | None:
    """The fewest samples, now or more, that pass, within 0.1 %; None beyond 2⁵⁰. passes: false up to some number, then true."""
    few = many = now
    while not passes(many):
        few, many = many, 2 * many
        if many > _MOST:
            return None
    while many > few * 1.001 and many > few + 1:
        middle = round(math.sqrt(few * many))
        few, many = (few, middle) if passes(middle) else (middle, many)
    return many


def rates_of(arrays: Arrays, entry: Entry) -> tuple[float, float, float, float]:
    """Of an entry: shares of both sides, e^ε, and its level; without one, the mean of its pair and direction's."""
    exceed, test = (arrays[name][1][entry].tolist() for name in ("exceed", "test"))
    inflation = math.exp(float(arrays["epsilon"][1][entry[2]]))
    levels = arrays["level"][1][entry[:2]]
    level = float(levels[entry[2]]) or float(levels.sum() / np.count_nonzero(levels))
    return exceed[0] / test[0], exceed[1] / test[1], inflation, level
