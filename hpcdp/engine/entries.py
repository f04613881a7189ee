"""Arrays by (pair, direction, ε), which all methods derive, and the largest of them at each ε."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.notions.spectrum import Cells, maximum
from hpcdp.notions.tradeoff import TradeOff
from hpcdp.store.results import Arrays

if TYPE_CHECKING:
    from hpcdp.study.problem import Problem

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
