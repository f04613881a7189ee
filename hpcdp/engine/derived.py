"""What results ask a method of estimating, and the arrays that methods have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.index import Index, read_index
from hpcdp.notions.resolution import Entries
from hpcdp.notions.spectrum import Cells, lower_bounds, maximum
from hpcdp.notions.tradeoff import TradeOff
from hpcdp.store.layout import Layout
from hpcdp.store.results import Arrays
from hpcdp.store.root import latest_version
from hpcdp.study.estimate import Estimate
from hpcdp.study.versions import read_problem
from hpcdp.study.ways import Way

if TYPE_CHECKING:
    from hpcdp.study.problem import Problem

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Place = tuple[int, int, int]
"""Of a cell: pair, direction, ε."""

Run = Callable[..., Floats]
"""What computes certified bounds of cells from flat arrays: `Derived.bounds`, or the same elsewhere."""

_MOST = 2**50  # beyond this many nobody can draw; counts stay exact in float64

CELL = ("pair", "direction", "epsilon")
"""Dimensions of arrays by cell."""

_SPECTRUM = ("delta", "pair", "direction", "lower", "lower_pair", "lower_direction", "upper")


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


class Derived(ABC):
    """The part of a way that makes results of records, and says what they are.

    counts: arrays by cell that say what δ̂ rests on. ranking: the array by cell that tells pairs apart, before the test where
    there is one. draws_apart: whether each cell draws and learns for itself. pools: whether every sample teaches and tests.
    """

    counts: ClassVar[tuple[str, ...]] = ("exceed", "test")
    ranking: ClassVar[str] = "training_delta"
    draws_apart: ClassVar[bool] = False
    pools: ClassVar[bool] = False

    @abstractmethod
    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        """Arrays by name; cells that lack counts hold NaN and −1."""

    def bounds(self, *arrays: Any) -> Floats:
        """Certified bounds of cells from flat arrays."""
        return lower_bounds(*arrays)

    @abstractmethod
    def careful_error(self, arrays: Arrays) -> Floats:
        """Standard error of each δ̂ with (x + 1)/(n + 2) put in; NaN where counts are missing. Asymptotic."""

    @abstractmethod
    def needed_to_pass(self, arrays: Arrays, place: Place, claimed: float) -> int | None:
        """Samples per database after which a cell's bound would pass a claim at its rates and level; None beyond 2⁵⁰."""

    @abstractmethod
    def resample(
        self, arrays: Arrays, records: Records, place: Place, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        """How one cell was resampled, and its estimates before they are cut at 0, shape (replicates,)."""

    @abstractmethod
    def rejects(self, arrays: Arrays, place: Entries, level: float) -> Bools:
        """Whether a test at this level rejects δ(ε) = 0, of cells of one ε. Finite-sample, of tapes asymptotic."""

    @abstractmethod
    def set_limits(self, arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
        """Upper limits of the learned sets at some ε, shape (columns,), one at a time; finite-sample, of tapes asymptotic."""

    @abstractmethod
    def needed(
        self, arrays: Arrays, place: Place, measured: float, delta: float, inflation: float, level: float
    ) -> tuple[int | None, int]:
        """Samples a database at which `rejects` would tell one δ, a/δ being as measured in a cell; and how many there are."""

    def told(self, arrays: Arrays, place: Place) -> dict[str, Any]:
        """What a cell rests on, as JSON has it."""
        return {name: arrays[name][1][place].tolist() for name in self.counts}

    def told_all(self, arrays: Arrays, places: Any) -> Iterable[dict[str, Any]]:
        """The same of many cells. places: an index of each axis."""
        columns = [arrays[name][1][places].tolist() for name in self.counts]
        return (dict(zip(self.counts, row, strict=True)) for row in zip(*columns, strict=True))

    def flat(self, told: dict[str, Any]) -> dict[str, Any]:
        """The same as CSV has it: a number a column."""
        found: dict[str, Any] = {}
        for name, value in told.items():
            found |= (
                {f"{name}_{side}": one for side, one in enumerate(value)} if isinstance(value, list) else {name: value}
            )
        return found

    def trained(self, estimate: Estimate) -> int:
        """Samples per database that each L̂ learned from."""
        return estimate.train

    def warnings(self, arrays: Arrays) -> tuple[str, ...]:
        """What speaks against a result, besides what is not resolved, in words."""
        return ()

    def tests_at(self, arrays: Arrays, place: Place) -> int:
        """Test samples a database that a cell rests on."""
        return int(arrays["test"][1][place].min())

    def leftover_needed(self, arrays: Arrays, place: Place, claimed: float) -> int | None:
        """Of a random tape, plain draws after which a bound would pass a claim; None of others, and where none would."""
        return None

    def tested(self, arrays: Arrays, estimate: Estimate) -> int:
        """Test samples a database."""
        return int(arrays["test"][1].max())

    @property
    def tests_words(self) -> str:
        """What is counted, as messages say it."""
        return "samples" if self.pools else "test samples"


def derived(way: Way) -> Derived:
    """The part of a way."""
    found: Derived = import_module(way.results).DERIVED
    return found


def cells_of(cells: Any) -> Arrays:
    """What every way tells of a cell."""
    return {name: (CELL, getattr(cells, name)) for name in ("delta", "standard_error", "lower", "upper")}


def counted_cells(cells: Cells, level: NDArray[np.float64], ranked: NDArray[np.float64]) -> Arrays:
    """Cells with the counts they rest on, their share of the failure probability, and what ranked them for it."""
    counts: Arrays = {name: ((*CELL, "side"), getattr(cells, name)) for name in ("exceed", "test")}
    return cells_of(cells) | counts | {"level": (CELL, level), "training_delta": (CELL, ranked)}


def maximum_of(cells: Any, resolved: NDArray[np.bool_] | None = None) -> Arrays:
    """The largest over pairs and directions at each ε."""
    best = maximum(cells, resolved)
    return {f"spectrum_{name}": (("epsilon",), getattr(best, name)) for name in _SPECTRUM}


def no_cells(pairs: int) -> Arrays:
    """Arrays of no ε."""
    empty = np.empty((pairs, 2, 0))
    cells: Arrays = dict.fromkeys(
        ("delta", "standard_error", "lower", "upper", "level", "training_delta"), (CELL, empty)
    )
    counts: Arrays = {name: ((*CELL, "side"), np.empty((*empty.shape, 2), np.int64)) for name in ("exceed", "test")}
    return cells | counts | {
        f"spectrum_{name}": (("epsilon",), np.empty(0, np.int64 if "pair" in name or "direction" in name else np.float64))
        for name in _SPECTRUM
    }  # fmt: skip


def points_of(problem: Problem, rejected: NDArray[np.int64], points: TradeOff) -> Arrays:
    """Trade-off points, and the counts they rest on."""
    etas = np.asarray(problem.study.estimate.etas)
    names = ("alpha", "beta", "radius", "alpha_upper", "beta_upper")
    found: Arrays = {name: (("pair", "eta"), getattr(points, name)) for name in names}
    return found | {"eta": (("eta",), etas), "rejected": (("pair", "eta", "side"), rejected)}
