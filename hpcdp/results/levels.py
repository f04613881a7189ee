"""What a result's arrays say at given levels: ε at a δ, Rényi divergences of an order, and ρ of zero-concentrated DP."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.asked import number_of, wrong
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.methods.sample_split.derive import several_losses
from hpcdp.notions.epsilon_at import (
    BELOW,
    BRACKETED,
    cell_corners,
    corner_epsilon,
    crossing,
    envelope_shares,
    prefer_split,
    promising,
    spectrum_epsilon,
)
from hpcdp.notions.pure import pure_lower
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
from hpcdp.results.resolution import Resolution
from hpcdp.store.results import Arrays

Floats = NDArray[np.float64]

_MOST_CELLS = 64  # whose regions are computed for one δ; the others are further from leading

NO_ESTIMATE = "no estimate"

EVERY, ALONE, OF_DELTA = "epsilon", "delta 0", "delta"
"""Families of limits: of all δ together; of δ = 0 alone; that of the bounds on δ, from which they follow."""


INTEGRAL, VARIATIONAL = "integral", "donsker-varadhan"
"""The bounds there are: of the bounds on δ, and of a score of classes with two bets."""

FAMILY = "estimate.renyi"
"""What its bounds are called: they hold together at the study's confidence, and with no others."""


@dataclass(frozen=True)
class Level:
    """ε at one δ.

    estimate: the ε from which on the largest δ̂ is at most δ, but at least `lower`; None unless `found` is "bracketed".
    estimate_low: what the sets of the ε on both sides show by themselves, at most `estimate` and at least `lower`: interpolation
    adds at most the difference, regret may lower both; a **point estimate** as it is. found:
    how (see `hpcdp.notions.epsilon_at.crossing`), or "no estimate" at δ = 0. reach: where not bracketed, the ε that it is
    beyond, or of "below the grid" at most; None where nothing is known. upper: the same of the approximate upper limits of
    the learned sets, None where they stay above δ, at least `lower` too; **heuristic**, it ignores the regret.
    lower: certified: the pair of laws is (ε, δ)-private for no smaller ε. **Finite-sample**, at the study's confidence, for
    every δ at once. pair, direction, epsilon: the cell whose set shows it; None where the limit is 0. family: with what `lower`
    holds together at that confidence: "epsilon", the limits at every δ; "delta 0", no other limit or bound (see `level_at`);
    "delta", the bounds on δ.
    up_to_leftover: of a random tape, the same of the bounds up to the leftover: by itself **no limit**. At any smaller ε, δ(ε) is
    certified to be above δ − e^ε·r, r being the leftover; None of other results.
    """

    delta: float
    estimate: float | None
    found: str
    reach: float | None
    upper: float | None
    lower: float
    pair: int | None
    direction: str | None
    epsilon: float | None
    family: str = EVERY
    up_to_leftover: float | None = None
    estimate_low: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON and CSV have it."""
        entry = {name: value for name, value in vars(self).items() if name != "up_to_leftover"}
        return entry if self.up_to_leftover is None else entry | {"lower_up_to_leftover": self.up_to_leftover}


def level_at(arrays: Arrays, resolution: Resolution, delta: float, alone: bool = False) -> Level:
    """ε at one δ, see `Result.epsilon_at`. alone: at δ = 0 by the exact test of a <= c·b, a family of its own."""
    accepted = "a number from 0 to below 1"
    if not 0.0 <= number_of("delta", delta, accepted) < 1.0:
        raise wrong("delta", delta, accepted)
    low, estimate, kind, reach, upper = _estimate(arrays, resolution, delta)
    has_no_sets = any(
        name in arrays for name in ("errors", "block_exceed", "lower_up_to_leftover")
    )  # with counts of their own
    family = OF_DELTA if has_no_sets else ALONE if alone and delta == 0.0 else EVERY
    lower, cell = _certified(arrays, delta, family)
    if kind == BELOW and reach is not None and reach < lower:  # sets of larger ε show more than δ̂ at the smallest
        low, estimate, kind, reach = lower, lower, BRACKETED, None
    low, estimate, upper = (None if v is None else max(v, lower) for v in (low, estimate, upper))
    within = None
    if "lower_up_to_leftover" in arrays:  # the limit that these bounds would give if nothing were left over
        bounds = arrays["lower_up_to_leftover"][1]
        known, epsilons = ~np.isnan(bounds), np.broadcast_to(arrays["epsilon"][1], bounds.shape)
        within = float(spectrum_epsilon(epsilons[known], bounds[known], delta).max(initial=0.0))
    pair = named = at = None
    if lower > 0.0 and cell is not None:
        pair, named, at = cell[0], DIRECTIONS[cell[1]], float(arrays["epsilon"][1][cell[2]])
    return Level(delta, estimate, kind, reach, upper, lower, pair, named, at, family, within, low)


def _estimate(
    arrays: Arrays, resolution: Resolution, delta: float
) -> tuple[float | None, float | None, str, float | None, float | None]:
    """Both ends of the estimate, how it was found, how far it reaches, and the upper end of the upper limits."""
    known = ~np.isnan(arrays["spectrum_delta"][1])
    columns = np.flatnonzero(known)[np.argsort(arrays["epsilon"][1][known])]
    if delta == 0.0 or not columns.size:  # δ̂ = 0 is no knowledge, so that nothing brackets δ = 0
        return None, None, NO_ESTIMATE, None, None
    epsilons, rows, limits = arrays["epsilon"][1][columns], resolution.rows[columns], resolution.limits[columns]
    values = np.where(rows, arrays["spectrum_delta"][1][columns], limits)
    place, kind = crossing(epsilons, values, rows, delta)
    optimistic = np.where(rows, arrays["spectrum_upper"][1][columns], limits)
    top, how = crossing(epsilons, optimistic, np.ones(columns.size, np.bool_), delta)
    upper = top if how == BRACKETED else None
    if kind == BRACKETED:
        over = np.flatnonzero(rows & (values > delta))[-1:]
        ends = columns[over[0] : over[0] + 2] if over.size else over
        return min(place, float(_shown(arrays, ends, delta).max(initial=0.0))), place, kind, None, upper
    return None, None, kind, None if np.isnan(place) else place, upper


def _shown(arrays: Arrays, columns: NDArray[np.intp], delta: float) -> Floats:
    """ε that the largest δ̂ at some ε show for δ: by the rates of their own sets, where these have counts, else by δ̂ alone."""
    if "exceed" not in arrays:
        return spectrum_epsilon(arrays["epsilon"][1][columns], arrays["spectrum_delta"][1][columns], delta)
    place = arrays["spectrum_pair"][1][columns], arrays["spectrum_direction"][1][columns], columns
    share = arrays["exceed"][1][place] / arrays["test"][1][place]
    return corner_epsilon(share[:, :1], share[:, 1:], delta)


def _certified(arrays: Arrays, delta: float, family: str) -> tuple[float, tuple[int, int, int] | None]:
    """The largest lower limit over cells, and the cell; None where no cell is known."""
    known = ~np.isnan(arrays["delta"][1])
    if family != OF_DELTA:
        known &= arrays["level"][1] > 0.0
    if not known.any():
        return 0.0, None
    cells = np.argwhere(known)
    epsilons = arrays["epsilon"][1]
    if family == OF_DELTA:
        lower = spectrum_epsilon(epsilons[cells[:, 2]], arrays["lower"][1][known], delta)
    else:
        x, n, level = (arrays[name][1][known] for name in ("exceed", "test", "level"))
        chosen = promising(x, n, level, delta, _MOST_CELLS)
        share = envelope_shares(arrays["training_delta"][1], epsilons)[known][chosen]
        cells = cells[chosen]
        if family == ALONE:
            lower = pure_lower(x[chosen, 0], n[chosen, 0], x[chosen, 1], n[chosen, 1], level[chosen])
        else:
            inflation = np.exp(epsilons[cells[:, 2]])
            split = prefer_split(share, n[chosen], inflation, level[chosen])
            corners = cell_corners(x[chosen], n[chosen], inflation, level[chosen], split)
            lower = corner_epsilon(*corners, delta)
    best = int(lower.argmax())
    pair, direction, column = (int(v) for v in cells[best])
    return float(lower[best]), (pair, direction, column)


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
    family: str = OF_DELTA
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
    family: str = OF_DELTA


def renyi_levels(arrays: Arrays, orders: Sequence[float]) -> list[RenyiLevel]:
    """D of some orders; StudyError of one that is refused."""
    if isinstance(orders, str) or not isinstance(orders, Iterable):
        raise wrong("orders", orders, f"a list of numbers of {ORDER}")
    accepted, checked = f"orders of {ORDER}; for the infinite order: Result.pure", [*orders]
    for order in checked:
        if not 1.0 <= number_of("orders", order, accepted) <= LARGEST_ORDER:
            raise wrong("orders", order, accepted)
    pieces = make_pieces(arrays["epsilon"][1], arrays["lower"][1])  # what the bounds on δ say between the study's ε
    classes = _told_classes(arrays)
    return [_renyi_level(pieces, classes, float(order), _variational(arrays, order)) for order in checked]


def zcdp_level(arrays: Arrays) -> ZcdpLevel:
    """ρ, certified."""
    concentration = zcdp_lower(make_pieces(arrays["epsilon"][1], arrays["lower"][1]))
    pair, direction = concentration.place
    named = (concentration.order, DIRECTIONS[direction], pair) if concentration.lower else (None, None, None)
    return ZcdpLevel(concentration.lower, *named)


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


def _renyi_level(
    pieces: Pieces, classes: NDArray[np.int64] | None, order: float, variational: VariationalLevel | None
) -> RenyiLevel:
    bounds = renyi_lower(pieces, order)
    pair, direction = (int(i) for i in np.unravel_index(int(bounds.argmax()), bounds.shape))
    lower = float(bounds[pair, direction])
    estimate = math.inf if classes is None else float(renyi_plugin(classes, order).max())
    most = lower if variational is None else max(lower, variational.lower)
    shown = max(estimate, most) if math.isfinite(estimate) else None
    named = DIRECTIONS[direction] if lower else None
    return RenyiLevel(order, named, pair if lower else None, shown, lower, variational=variational)
