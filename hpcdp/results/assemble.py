"""From records to results: every array that `show` prints, from the integer counts alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.index import Index
from hpcdp.engine.method import Run, method_of
from hpcdp.store.results import Arrays

if TYPE_CHECKING:
    from hpcdp.study.problem import Problem

_CERTIFIED = ("level", "lower", "spectrum_lower", "variational_lower", "pure_certified")
_WORST = dict.fromkeys((*_CERTIFIED, "spectrum_lower_pair", "spectrum_lower_direction"), 0) | dict.fromkeys(
    ("radius", "alpha_upper", "beta_upper"), 1
)


def assemble(problem: Problem, index: Index, run: Run | None = None) -> Arrays:
    """All result arrays of a store's records; cells that lack counts hold NaN and −1. run: `bounds_of` elsewhere."""
    epsilons = np.asarray(problem.study.epsilons, np.float64)
    arrays: Arrays = {"epsilon": (("epsilon",), epsilons), "direction": (("direction",), np.array([0, 1], np.int8))}
    arrays |= method_of(problem).arrays(problem, index, epsilons, bounds_of(problem) if run is None else run)
    return arrays | (_withheld(arrays) if "dependence" in arrays else {})


def _withheld(arrays: Arrays) -> Arrays:
    """Bounds that certify nothing in the place of those that rest on independent draws."""
    places = [(name, arrays[name], worst) for name, worst in _WORST.items() if name in arrays]
    return {name: (dims, np.where(np.isnan(v), v, v.dtype.type(worst))) for name, (dims, v), worst in places}


def bounds_of(problem: Problem) -> Run:
    """What computes the certified bounds of a problem's cells from flat arrays."""
    return method_of(problem).bounds


def pair_entries(problem: Problem) -> list[dict[str, Any]]:
    """Where each pair comes from, as `show` prints it; none of a domain."""
    return (
        []
        if problem.study.pairs.domain is not None
        else [
            {"pair": pair.number, **pair.origin, **({"equal": True} if d == d_prime else {})}
            for pair, (d, d_prime) in zip(problem.pairs, problem.pair_laws, strict=True)
        ]
    )


def flat_batches(arrays: Sequence[NDArray[Any]], size: int) -> list[tuple[NDArray[Any], ...]]:
    """Flat arrays of one length cut into batches of at most `size`."""
    return [tuple(a[i : i + size] for a in arrays) for i in range(0, arrays[0].size, size)]
