"""The kinds of variates that have proposals: how each is drawn from a component, and its log-ratio to the mechanism's own law.

Continuous kinds are standard variates, which the mechanism's own location and scale follow. Discrete kinds have the law that
the mechanism asked for as their base, and an exponential tilt of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance import _chain_kernels as chains
from hpcdp.importance import _tape_kernels as kernels
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, LAPLACE, NORMAL

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINS = 16
MOST_VALUES = 64
"""Values of a choice that have tilted masses; of more, places on a line of uniforms have."""
MOST_ORDERED = 256
"""Items of a permutation that have tilted masses."""

_EVEN = np.arange(1, BINS) / BINS

PLAIN: dict[str, Floats] = {
    "normal": np.array([0.0, 1.0]),
    "exponential": np.array([1.0]),
    "laplace": np.array([0.5, 1.0, 1.0]),
    "uniform": np.concatenate([np.full(BINS, 1.0 / BINS), _EVEN]),
    "gamma": np.array([1.0]),
    "poisson": np.array([0.0]),
    "binomial": np.array([0.0]),
    "choice": np.zeros(MOST_VALUES),
    "order": np.zeros(MOST_ORDERED),
}
"""Parameters of a plain entry by kind."""

CHAINED = {"normal": NORMAL, "laplace": LAPLACE, "exponential": EXPONENTIAL}
"""Kinds whose places may depend on those before them; their tables are then wider by those of `_chain_kernels`."""


def is_chained(kind: str, table: Floats) -> bool:
    """Whether a table (…, P) has places that depend on those before them."""
    return kind in CHAINED and table.shape[-1] > PLAIN[kind].size


def whole(entries: Iterable[Entry], tables: Mapping[str, Floats]) -> list[Entry]:
    """The entries, those of chained kinds as one from the first place on."""
    found, parts = list[Entry](), dict[str, list[Entry]]()
    for entry in entries:
        is_part = entry.kind in tables and is_chained(entry.kind, tables[entry.kind])
        (parts.setdefault(entry.kind, []) if is_part else found).append(entry)
    for kind, some in parts.items():
        some.sort(key=lambda entry: entry.first)
        values = some[0].values if len(some) == 1 else np.hstack([entry.values for entry in some])
        found.append(Entry(kind, 0, values, np.sum([entry.used for entry in some], axis=0)))
    return found


@dataclass(frozen=True, eq=False)
class Entry:
    """Variates of one kind on the tape of a batch of outputs.

    first: the place of the first column among the kind's. values: (rows, m), of orders (rows, items); used: columns that each
    output asked for, (rows,). base: the law asked for, by kind: a gamma's shape, a Poisson's mean, of a binomial (trials,
    chance), which broadcast to values; masses of a choice. rows: which outputs the rows belong to; None: each one its own.
    """

    kind: str
    first: int
    values: NDArray[Any]
    used: Ints
    base: Any = None
    rows: Ints | None = None

    def add_log_ratios(self, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
        """Add log g_c − log f of these outputs' entries: table (C, K, P), out (selected, C), magnitudes (selected,)."""
        if self.rows is None:
            _ADD[self.kind](self, which, table, out, magnitudes)
            return
        if not which.size or self.first >= table.shape[1]:
            return
        place = np.full(int(which.max()) + 1, -1)
        place[which] = np.arange(which.size)
        inside = np.flatnonzero((self.rows < place.size) & (place[np.minimum(self.rows, place.size - 1)] >= 0))
        if inside.size:
            at = place[self.rows[inside]]
            part, size = np.zeros((inside.size, table.shape[0])), np.zeros(inside.size)
            _ADD[self.kind](self, inside, table, part, size)
            np.add.at(out, at, part)
            np.add.at(magnitudes, at, size)


def _by_kernel(function: Any) -> Any:
    def add(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
        function(entry.values, which, entry.used, table, entry.first, out, magnitudes)
        if is_chained(entry.kind, table):
            base = PLAIN[entry.kind].size
            chains.add_chained(CHAINED[entry.kind], entry.values, which, entry.used, table, base, out, magnitudes)

    return add


def _parts(entry: Entry, which: Ints, table: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Values (selected, m) within the table, the parameters (C, m) there, and which were asked for."""
    m = max(0, min(entry.values.shape[1], table.shape[1] - entry.first))
    inside = np.arange(m) < entry.used[which, None]
    return entry.values[which, :m], table[:, entry.first : entry.first + m, 0], inside


def _base(entry: Entry, base: Any, which: Ints, m: int) -> Floats:
    return np.asarray(np.broadcast_to(base, entry.values.shape)[which, :m], np.float64)


def _sum(terms: Floats, inside: NDArray[np.bool_], out: Floats, magnitudes: Floats, also: Any = 0.0) -> None:
    """also: sizes of what cancels inside a term, which tell more of its error than its own."""
    terms = np.where(inside[:, None, :], terms, 0.0)  # (selected, C, m)
    out += terms.sum(axis=2)
    sizes = np.where(inside[:, None, :] & np.isfinite(terms), 4.0 * np.abs(terms) + also, 0.0)
    magnitudes += sizes.sum(axis=2).max(axis=1, initial=0.0)


def _add_gammas(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
    values, scale, inside = _parts(entry, which, table)
    shape = _base(entry, entry.base, which, values.shape[1])
    for term in (values[:, None] * ((scale - 1.0) / scale), -shape[:, None] * np.log(scale)):
        _sum(term, inside, out, magnitudes)


def _add_poissons(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
    values, tilt, inside = _parts(entry, which, table)
    mean = _base(entry, entry.base, which, values.shape[1])
    for term in (values[:, None] * tilt, -mean[:, None] * np.expm1(tilt)):
        _sum(term, inside, out, magnitudes)


def _add_binomials(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
    values, tilt, inside = _parts(entry, which, table)
    trials, chance = (_base(entry, part, which, values.shape[1]) for part in entry.base)
    _sum(values[:, None] * tilt, inside, out, magnitudes)
    grown = chance[:, None] * np.expm1(tilt)
    # log(1 + grown), where that is small as a sum of two positive terms, which loses no digits
    direct = np.log(np.where(grown > -0.5, 1.0, 1.0 - chance[:, None] + chance[:, None] * np.exp(tilt)))
    term = -trials[:, None] * np.where(grown > -0.5, np.log1p(np.maximum(grown, -0.5)), direct)
    _sum(term, inside, out, magnitudes, np.where(grown > -0.5, 0.0, trials[:, None]))


def _add_choices(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
    masses = entry.base
    m = max(0, min(entry.values.shape[1], table.shape[1] - entry.first))
    tilt = table[:, entry.first : entry.first + m, : masses.size]
    terms = tilt - np.log((np.exp(tilt) * masses).sum(axis=2, keepdims=True))  # (C, m, values)
    found = terms[:, np.arange(m), entry.values[which, :m].astype(np.int64)]  # (C, selected, m)
    _sum(np.moveaxis(found, 0, 1), np.arange(m) < entry.used[which, None], out, magnitudes, 1.0 + masses.size / 8)


def _add_orders(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
    """Plackett and Luce: items one after another, each with a chance proportional to its mass among those that are left."""
    if entry.first >= table.shape[1]:
        return
    items, picked = int(entry.base), entry.values[which].astype(np.int64)
    tilt = np.zeros((table.shape[0], items))
    known = min(items, table.shape[2])
    tilt[:, :known] = table[:, entry.first, :known]
    masses = np.exp(tilt - tilt.max(axis=1, keepdims=True))
    is_left = np.ones((which.size, items))
    np.put_along_axis(is_left, picked, 0.0, axis=1)
    plain = np.log(items - np.arange(picked.shape[1]))
    sizes = np.zeros(which.size)
    for c in range(table.shape[0]):
        taken, rest = masses[c][picked], is_left @ masses[c]
        left = (
            rest[:, None] + np.cumsum(taken[:, ::-1], axis=1)[:, ::-1]
        )  # of positive terms, whose sums lose no digits
        terms = np.log(taken) + plain - np.log(left)
        out[:, c] += terms.sum(axis=1)
        # of each term a sum of up to `items` is rounded
        np.maximum(sizes, items * picked.shape[1] / 8 + 4.0 * np.abs(terms).sum(axis=1), out=sizes)
    magnitudes += sizes


_ADD: dict[str, Any] = {
    "normal": _by_kernel(kernels.add_normals),
    "exponential": _by_kernel(kernels.add_exponentials),
    "laplace": _by_kernel(kernels.add_laplaces),
    "uniform": _by_kernel(kernels.add_uniforms),
    "gamma": _add_gammas,
    "poisson": _add_poissons,
    "binomial": _add_binomials,
    "choice": _add_choices,
    "order": _add_orders,
}


def draw_choices(masses: Floats, tilt: Floats | None, coins: Floats) -> Ints:
    """Values 0 to n − 1 by inversion: coins uniform, of any shape; tilt: a log-factor of each mass, None for none."""
    own = masses if tilt is None else masses * np.exp(tilt[: masses.size])
    edges = np.cumsum(own)
    last = int(np.flatnonzero(own > 0.0)[-1])
    if coins.size > MOST_VALUES >= masses.size:
        out = np.empty(coins.shape, np.int64)
        kernels.choose(np.ascontiguousarray(coins).reshape(-1), edges, last, out.reshape(-1))
        return out
    return np.minimum(np.searchsorted(edges, coins * edges[-1], side="right"), last)


def draw_order(times: Floats, size: int, tilt: Floats | None) -> Ints:
    """The first `size` items in an order of Plackett and Luce: the least of exponentials with these rates.

    times: standard exponentials (…, items), which change.
    """
    if tilt is not None:
        known = min(times.shape[-1], tilt.size)
        times[..., :known] *= np.exp(-tilt[:known])
    return np.argsort(times, axis=-1, kind="stable")[..., :size]
