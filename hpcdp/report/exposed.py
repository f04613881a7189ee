"""Which pair is the most exposed, which others cannot be told from it, and in words whose rows these are.

Only resolved cells take part (see `hpcdp.results.resolution`), so that no pair leads by noise. **Approximate.**
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.rounding import shorter
from hpcdp._base.terminal import plain
from hpcdp.notions.spectrum import told_pairs
from hpcdp.results.result import Result
from hpcdp.results.verdict import careful_error
from hpcdp.study.pair_words import describe_pair

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NOISE = 2.0
"""Pairs whose δ̂ differ by at most so many standard errors of the difference are within noise of each other."""

_NAMED = 6  # rows or pairs that a line lists


@dataclass(frozen=True, eq=False)
class Exposure:
    """The most exposed pair: the one whose resolved δ̂ is the largest at the most ε (ties: the lowest pair).

    column: where it is compared with others, the middle one of the ε at which it leads. leads, of: at how many ε it leads,
    and how many have a resolved δ̂. delta, error: shape (pairs,), the largest resolved δ̂ of each pair at that ε and its
    standard error (asymptotic), NaN without one. direction: of these, shape (pairs,). order: the pairs with one, the
    largest first. close: the others whose δ̂ is within noise of the largest, in that order: by at most `NOISE` standard
    errors of the difference, √(se² + se²), pairs taken as independent (approximate, one pair at a time).
    """

    pair: int
    column: int
    leads: int
    of: int
    delta: Floats
    error: Floats
    direction: Ints
    order: Ints
    close: Ints


def find_exposure(result: Result) -> Exposure | None:
    """The most exposed pair of a result; None where the largest δ̂ is resolved at no ε."""
    if not result["delta"].size:
        return None
    delta = np.where(result.resolution.cells, result["delta"], -np.inf)
    if "test" in result.arrays:
        delta[~told_pairs(result["test"])] = -np.inf
    best = delta.max(axis=1)
    known = (best.max(axis=0) > -np.inf) & (best.max(axis=0) >= result["spectrum_lower"])
    led = known & result.resolution.rows  # where tables name the leading pair, so that this never contradicts them
    seen = np.flatnonzero(led)
    if not seen.size:
        return None
    seen = seen[np.argsort(result["epsilon"][seen])]
    leaders = best[:, seen].argmax(axis=0)
    pair = int(np.bincount(leaders).argmax())
    own = seen[leaders == pair]
    column = int(own[own.size // 2])
    direction = delta[:, :, column].argmax(axis=1)
    there = np.where(best[:, column] > -np.inf, best[:, column], np.nan)
    error = np.where(np.isnan(there), np.nan, careful_error(result, column)[np.arange(there.size), direction, 0])
    order = np.argsort(-there, kind="stable")[: int((~np.isnan(there)).sum())]
    order = np.concatenate([[pair], order[order != pair]])
    near = there[pair] - there <= NOISE * np.hypot(error[pair], error)  # of NaN false
    close = order[1:][near[order[1:]]]
    return Exposure(pair, column, int(own.size), int(seen.size), there, error, direction, order, close)


def exposed_lines(result: Result) -> list[str]:
    """The most exposed pair and who is within noise of it, in words; none of a single pair, or where nothing is resolved."""
    found = find_exposure(result) if len(result.pairs) > 1 else None
    if found is None:
        return []
    at = f"at ε = {result['epsilon'][found.column]:g}"
    lines = [
        f"most exposed: {pair_words(result, found.pair)}, leads at {found.leads} of {found.of} ε where δ̂ is resolved; "
        f"{at} δ̂ = {shorter(found.delta[found.pair])}"
    ]
    if found.close.size:
        lines.append(
            f"within noise {at} ({NOISE:g} standard errors of the difference, approximate): "
            f"{_listed(result, found.pair, found.close)}"
        )
    elif found.order.size > 1:
        second = int(found.order[1])
        lines.append(f"next {at}: {pair_words(result, second)}, δ̂ = {shorter(found.delta[second])}")
    else:
        lines.append(f"no other pair is resolved {at}")
    return lines


def pair_words(result: Result, pair: int) -> str:
    """Which pair, and where it comes from; never what is in a row."""
    origin = {k: v for k, v in result.pairs[pair].items() if k != "pair"}
    if "rows" not in origin:
        return f"pair {pair}"
    return plain(f"pair {pair} ({describe_pair(pair, origin)})")  # pictures hold it too


def _listed(result: Result, leader: int, pairs: Ints) -> str:
    """The rows of some pairs, or the pairs where rows do not name them."""
    entries = [result.pairs[int(pair)] for pair in pairs]
    everywhere = [*entries, result.pairs[leader]]
    own = set(result.pairs[leader].get("rows", ()))
    rows = [row for entry in entries for row in entry.get("rows", ()) if row not in own]
    one_database = len({entry.get("database") for entry in everywhere}) == 1
    named = one_database and all(own.isdisjoint(entry.get("rows", (-1,))) and "rows" in entry for entry in entries)
    items = list(dict.fromkeys(rows)) if named else [int(pair) for pair in pairs]
    word = "row" if named else "pair"
    shown = ", ".join(map(str, items[:_NAMED]))
    more = f" and {len(items) - _NAMED:,} more" if len(items) > _NAMED else ""
    return f"{word}{'s' if len(items) > 1 else ''} {shown}{more}"
