"""Rényi divergences, Kullback–Leibler and ρ of zero-concentrated DP, from bounds on δ and from counts by class and bets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.asked import number_of, wrong
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.methods.sample_split.derive import several_losses
from hpcdp.notions.renyi import (
    LARGEST_ORDER,
    ORDER,
    Pieces,
    class_counts,
    make_pieces,
    renyi_lower,
    renyi_plugin,
    zcdp_lower,
)
from hpcdp.notions.spectrum import told_pairs
from hpcdp.store.results import Arrays

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

INTEGRAL, VARIATIONAL = "integral", "donsker-varadhan"
"""The bounds there are: of the bounds on δ, and of a score of classes with two bets."""

DELTA = "delta"
"""The family of the bounds on δ, and of all that follows from them."""

FAMILY = "estimate.renyi"
"""What its bounds are called: they hold together at the study's confidence, and with no others."""


@dataclass(frozen=True)
class VariationalLevel:
    """A second bound of an order that the study named in `estimate.renyi`, the largest over pairs and directions.

    lower: certified. **Finite-sample**, at the study's confidence together with those of the other orders that it named. A
    family of its own: with the bounds on δ, and what follows from them, it holds at no stated confidence. direction, pair:
    whose bound it is; None where it is 0.
    """

    lower: float
    direction: str | None
    pair: int | None
    bound: str = VARIATIONAL
    family: str = FAMILY


@dataclass(frozen=True)
class RenyiLevel:
    """D of one order, the largest over pairs and directions, in nats; order 1 is that of Kullback and Leibler.

    lower: certified. **Finite-sample**, at the study's confidence, together with the bounds on δ and for all orders at once.
    direction, pair: whose bound that is; "forward" is D of (D, D'); None where it is 0. estimate: the plug-in over classes
    of L̂, at least what is certified; **asymptotic**; None where it is not resolved, since a class has no output of one side, or
    where there are no classes. bound, family: what `lower` is, and with what it holds together. variational: the other bound,
    None of an order that the study did not name, while no pair has all its counts, and where ε were added to a study with
    `auto` or refine, whose classes are then of several L̂; so is `estimate`.
    """

    order: float
    direction: str | None
    pair: int | None
    estimate: float | None
    lower: float
    bound: str = INTEGRAL
    family: str = DELTA
    variational: VariationalLevel | None = None


@dataclass(frozen=True)
class ZcdpLevel:
    """ρ of zero-concentrated DP (Bun and Steinke 2016), the largest D_a/a.

    lower: certified, as in `RenyiLevel`. order, direction, pair: whose bound it is; None where it is 0.
    """

    lower: float
    order: float | None
    direction: str | None
    pair: int | None
    bound: str = INTEGRAL
    family: str = DELTA


def make_lower_pieces(arrays: Arrays) -> Pieces:
    """What the certified bounds on δ say between the study's ε."""
    return make_pieces(arrays["epsilon"][1], arrays["lower"][1])


def check_order(order: float) -> float:
    """The order.

    Raises:
        StudyError: an order below 1, above 1e100 or no number.
    """
    accepted = f"{ORDER}; infinite: Result.pure"
    if not 1.0 <= number_of("orders", order, accepted) <= LARGEST_ORDER:
        raise wrong("orders", order, accepted)
    return float(order)


def renyi_levels(arrays: Arrays, orders: Sequence[float]) -> list[RenyiLevel]:
    """D of some orders.

    Raises:
        StudyError: an order that is refused.
    """
    if isinstance(orders, str) or not isinstance(orders, Iterable):
        raise wrong("orders", orders, f"a list of numbers {ORDER}")
    checked = [check_order(order) for order in orders]
    pieces, classes = make_lower_pieces(arrays), _told_classes(arrays)
    return [_level(pieces, classes, order, _variational(arrays, order)) for order in checked]


def zcdp_level(arrays: Arrays) -> ZcdpLevel:
    """ρ, certified."""
    concentration = zcdp_lower(make_lower_pieces(arrays))
    if concentration.lower == 0.0:
        return ZcdpLevel(0.0, None, None, None)
    pair, direction = concentration.place
    return ZcdpLevel(concentration.lower, concentration.order, DIRECTIONS[direction], pair)


def _told_classes(arrays: Arrays) -> NDArray[np.int64] | None:
    """Counts by class of the pairs that are told and known; None where there are none."""
    if "exceed" not in arrays:
        return None
    exceed, test = (arrays[name][1] for name in ("exceed", "test"))
    classes = class_counts(exceed, arrays["epsilon"][1], test)[told_pairs(test) & ~several_losses(arrays)]
    known = classes[(classes >= 0).all(axis=(1, 2))]
    return known if known.size else None


def _variational(arrays: Arrays, order: float) -> VariationalLevel | None:
    """Of an order that the study named."""
    if "variational_lower" not in arrays or order not in arrays["order"][1]:
        return None
    lower = arrays["variational_lower"][1][..., int(np.flatnonzero(arrays["order"][1] == order)[0])]
    if np.isnan(lower).all():
        return None
    pair, direction = (int(i) for i in np.unravel_index(int(np.nanargmax(lower)), lower.shape))
    most = float(lower[pair, direction])
    return VariationalLevel(most, DIRECTIONS[direction], pair) if most > 0.0 else VariationalLevel(0.0, None, None)


def _level(
    pieces: Pieces, classes: NDArray[np.int64] | None, order: float, variational: VariationalLevel | None
) -> RenyiLevel:
    bounds = renyi_lower(pieces, order)
    pair, direction = (int(i) for i in np.unravel_index(int(bounds.argmax()), bounds.shape))
    lower = float(bounds[pair, direction])
    estimate = math.inf if classes is None else float(renyi_plugin(classes, order).max())
    most = lower if variational is None else max(lower, variational.lower)
    shown = max(estimate, most) if math.isfinite(estimate) else None
    if lower == 0.0:
        return RenyiLevel(order, None, None, shown, 0.0, variational=variational)
    return RenyiLevel(order, DIRECTIONS[direction], pair, shown, lower, variational=variational)
