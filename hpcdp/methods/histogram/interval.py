"""The interval of pure ε that histograms certify, and what the published estimates say of the same counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.derived import Floats, Ints
from hpcdp.methods.histogram.decisions import given, promised_sizes
from hpcdp.notions.bins import (
    Bins,
    change_refuted_at,
    largest_ratio,
    limits,
    lower_ends,
    refuted_at,
    renyi_ratio,
    upper_ends,
)
from hpcdp.store.results import Arrays
from hpcdp.study.file import Study

_BLOCK = 1 << 22  # limits of pairs that are compared at a time


def describe_interval(study: Study, arrays: Arrays, pairs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What `show --pure --format json` prints below "pure" of the largest pure level; None while counts are missing."""
    counts = arrays["bin_counts"][1]
    if counts.min() < 0:
        return None
    e, parameters, domain = study.estimate, given(study), study.pairs.domain
    laws, number, outputs = *counts.shape, int(counts[0].sum())
    bins = Bins.of(parameters.range, number, parameters.lipschitz, domain.change if domain else 0.0)
    low, high = limits(counts, outputs, 1.0 - e.confidence, laws)
    refuted, changes = refuted_at(low, high, bins), change_refuted_at(low, high, bins) if domain else None
    edges = np.linspace(*parameters.range, number + 1)
    where = _Where(study, edges, bins, low, high, counts, bool(refuted or changes))
    largest = where.of_domain() if domain else where.of_pairs(arrays["pair_laws"][1], pairs)
    return {
        **largest,
        "bins": number,
        "test": outputs,
        "lipschitz": parameters.lipschitz,
        "atom": float(arrays["bin_atom"][1].max()) if "bin_atom" in arrays else 1.0,
        "sizes": sizes_entry(study, outputs),
        "refuted": _refutation(where, refuted, changes, arrays["pair_laws"][1]),
    }


class _Where:
    """Limits of bins, and what they say of pairs of laws."""

    def __init__(
        self, study: Study, edges: Floats, bins: Bins, low: Floats, high: Floats, counts: Ints, refuted: bool
    ) -> None:
        self.edges, self.bins, self.low, self.high, self.counts, self.refuted = edges, bins, low, high, counts, refuted
        self.midpoints = study.pairs.domain.midpoints if study.pairs.domain else []

    def bin(self, number: int) -> list[float]:
        """Both ends of a bin."""
        return self.edges[number : number + 2].tolist()

    def _upper(self, value: float) -> float | None:
        return None if self.refuted or not math.isfinite(value) else max(0.0, value)

    def of_pairs(self, laws: Ints, pairs: list[dict[str, Any]]) -> dict[str, Any]:
        """The largest of the pairs, and each of them."""
        ends = [self._ends(laws[:, [a, b]]) for a, b in ((0, 1), (1, 0))]
        rows = []
        for pair in range(len(laws)):
            counts = self.counts[laws[pair]]
            sides = [self._side(counts[[a, 1 - a]], *(part[pair] for part in ends[a])) for a in (0, 1)]
            first, last = _best(sides, "certified"), _best(sides, "upper")
            rows.append(
                {
                    **pairs[pair],
                    "certified": sides[first]["certified"],
                    "direction": DIRECTIONS[first],
                    "bin": sides[first]["bin"],
                    "upper": sides[last]["upper"],
                    "upper_direction": DIRECTIONS[last],
                    "upper_bin": sides[last]["upper_bin"],
                    "published": _both(sides),
                    **dict(zip(DIRECTIONS, sides, strict=True)),
                }
            )
        best, most = _best(rows, "certified"), _best(rows, "upper")
        names = ("upper", "upper_direction", "upper_bin")
        top = {**rows[best], **{name: rows[most][name] for name in names}, "upper_pair": rows[most]["pair"]}
        return {**top, "rows": rows if len(rows) > 1 else []}

    def _ends(self, laws: Ints) -> tuple[Any, ...]:
        parts = max(1, -(-laws.shape[0] * self.low.shape[1] // _BLOCK))
        ends = []
        for block in np.array_split(laws, parts):
            first, second = block.T
            lower, upper = (
                lower_ends(self.low[first], self.high[second]),
                upper_ends(self.high[first], self.low[second], self.bins),
            )
            ends.append((*lower, *upper))
        return tuple(np.concatenate(values) for values in zip(*ends, strict=True))

    def _side(self, counts: Any, lower: Any, at: Any, upper: Any, upper_at: Any) -> dict[str, Any]:
        """Of counts of two laws, and both ends with their bins."""
        ratio = largest_ratio(*counts)
        return {
            "certified": max(0.0, float(lower)),
            "bin": self.bin(int(at)),
            "upper": self._upper(float(upper)),
            "upper_bin": self.bin(int(upper_at)),
            "published": None if ratio is None else ratio[0],
        }

    def of_domain(self) -> dict[str, Any]:
        """The largest over all ordered pairs of midpoints, and, with the upper limit, of the domain: none is enumerated."""
        lower, at = lower_ends(self.low.max(axis=0), self.high.min(axis=0))
        upper, upper_at = upper_ends(self.high.max(axis=0), self.low.min(axis=0), self.bins)

        def points(tops: Floats, bottoms: Floats, column: int) -> list[float]:
            return [self.midpoints[int(tops[:, column].argmax())], self.midpoints[int(bottoms[:, column].argmin())]]

        return {
            "points": points(self.low, self.high, int(at)),
            **self._side((self.counts.max(axis=0), self.counts.min(axis=0)), lower, at, upper, upper_at),
            "upper_points": points(self.high, self.low, int(upper_at)),
            "rows": [],
        }


def _best(entries: list[dict[str, Any]], name: str) -> int:
    """Where the largest is; None, which is no limit, is larger than all."""
    values = [math.inf if entry[name] is None else entry[name] for entry in entries]
    return max(range(len(values)), key=lambda place: (values[place], -place))


def _both(sides: list[dict[str, Any]]) -> float | None:
    published = [side["published"] for side in sides]
    return None if None in published else max(published)


def _refutation(
    where: _Where, refuted: tuple[int, int, int] | None, changes: tuple[int, int, int] | None, laws: Ints
) -> dict[str, Any] | None:
    """Which density changes too fast, and between which bins; or in which bin, and between which midpoints of a domain."""
    width = where.bins.width
    if refuted is None:
        if changes is None:
            return None
        column, one, other = changes
        densities = [float(where.low[one, column]) / width, float(where.high[other, column]) / width]
        return {
            "points": [where.midpoints[one], where.midpoints[other]],
            "bin": where.bin(column),
            "densities": densities,
        }
    law, one, other = refuted
    of: dict[str, Any] = {"point": where.midpoints[law]} if where.midpoints else {}
    if not of:
        pair, side = (int(i) for i in np.argwhere(laws == law)[0])
        of = {"pair": pair, "side": ("d", "d_prime")[side]}
    densities = [float(where.low[law, one]) / width, float(where.high[law, other]) / width]
    return {**of, "bins": [where.bin(one), where.bin(other)], "densities": densities}


def renyi_entries(study: Study, arrays: Arrays, orders: list[float]) -> list[dict[str, Any]]:
    """Rényi divergences of some orders as Gorla et al. (2023) estimate them; "estimate" is None, a failure, with an empty bin."""
    counts, laws = arrays["bin_counts"][1], arrays["pair_laws"][1]
    entries = []
    for order in orders:
        best: tuple[float, int, int] | None = (-math.inf, -1, -1)
        for pair, sides in enumerate(laws):
            for direction, (one, other) in enumerate((sides, sides[::-1])):
                value = renyi_ratio(counts[one], counts[other], order)
                best = None if value is None or best is None else max(best, (value, -pair, -direction))
        entry: dict[str, Any] = {"order": order, "estimate": None, "pair": None, "direction": None}
        if best is not None and best[1] <= 0:
            entry |= {"estimate": max(0.0, best[0]), "pair": -best[1], "direction": DIRECTIONS[-best[2]]}
        entries.append(entry | {"sizes": sizes_entry(study, int(counts[0].sum()), order)})
    return entries


def sizes_entry(study: Study, outputs: int, order: float | None = None) -> dict[str, Any] | None:
    """`promised_sizes` as JSON has them."""
    sizes = promised_sizes(study, outputs, order)
    names = ("precision", "bins", "test")
    return None if sizes is None else {key: dict(zip(names, values, strict=True)) for key, values in sizes.items()}
