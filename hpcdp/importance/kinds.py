"""The kinds of variates that have proposals, how each is drawn and weighed, and proposals: mixtures of tilts of them.

Continuous kinds are standard variates, which the mechanism's own location and scale follow. Discrete kinds and gammas have the
distribution that the mechanism asked for as their base, and an exponential tilt of it.

One component of a proposal is drawn for an output and kept for its whole tape; the first is plain, the mechanism's own
distribution. So a weight is f over the sum of all components' densities of the tape, each with its share (the balance heuristic;
Veach and Guibas 1995). Shares of a chunk are numbers of its rows: strata of fixed sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance import _chain_kernels as chains
from hpcdp.importance import _kernels as kernels
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, LAPLACE, NORMAL, UNIFORM

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Component = Mapping[str, Floats]
"""By kind of variate a table (K, P) of parameters by place on the tape; places beyond are plain."""

BINS = 16
MOST_VALUES = 64
"""Values of a choice that have tilted masses; of more, places on a line of uniforms have."""
MOST_ORDERED = 256
"""Items of a permutation that have tilted masses."""

PLAIN: dict[str, Floats] = {
    "normal": np.array([0.0, 1.0]),
    "exponential": np.array([1.0]),
    "laplace": np.array([0.5, 1.0, 1.0]),
    "uniform": np.concatenate([np.full(BINS, 1.0 / BINS), np.arange(1, BINS) / BINS]),
    "gamma": np.array([1.0]),
    "poisson": np.array([0.0]),
    "binomial": np.array([0.0]),
    "choice": np.zeros(MOST_VALUES),
    "order": np.zeros(MOST_ORDERED),
}
"""Parameters of a plain entry by kind (see `_kernels`); of gammas the scale, of counts the tilt, of masses their logarithms."""

STANDARD = {"normal": NORMAL, "laplace": LAPLACE, "exponential": EXPONENTIAL, "uniform": UNIFORM}
"""Kinds of standard variates, by the codes of streams."""
NAMES = {code: name for name, code in STANDARD.items()}
CODES = STANDARD | {"coin": UNIFORM}
"""The same with coins, uniforms that have no proposal of their own."""
CHAINED = ("normal", "laplace", "exponential")
"""Kinds whose places may depend on those before them; their tables are then wider by those of `_chain_kernels`."""


def is_chained(kind: str, table: Floats) -> bool:
    """Whether a table (…, P) has places that depend on those before them."""
    return kind in CHAINED and table.shape[-1] > PLAIN[kind].size


def is_chain(component: Component) -> bool:
    """Whether a component has a chain."""
    return any(is_chained(kind, table) for kind, table in component.items())


@dataclass(frozen=True, eq=False)
class Proposal:
    """A mixture of components.

    shares: of the draws, (C,), sum 1; the first component is plain, and its share is above 0. tables: by kind of variate the
    parameters of each component by its place on the tape, (C, K, P); places beyond are plain.
    """

    shares: Floats
    tables: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def plain(cls) -> Proposal:
        """The mechanism's own noise."""
        return cls(np.ones(1))

    @property
    def count(self) -> int:
        """How many components there are."""
        return int(self.shares.size)

    @property
    def largest(self) -> float:
        """No weight is larger than this."""
        return 1.0 / float(self.shares[0])

    def starts(self, size: int) -> Ints:
        """The first row of each component among so many outputs, and the end: (C + 1,), by the shares as they round."""
        cuts = np.floor(np.cumsum(self.shares) * size + 0.5).astype(np.int64)
        cuts[-1] = size
        return np.concatenate([[0], np.minimum(cuts, size)])

    def state(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays that `restore` needs."""
        return {
            f"{prefix}shares": self.shares,
            **{f"{prefix}table.{kind}": table for kind, table in self.tables.items()},
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], prefix: str) -> Proposal:
        """The proposal whose `state` is among these."""
        head = f"{prefix}table."
        tables = {name.removeprefix(head): table for name, table in state.items() if name.startswith(head)}
        return cls(np.asarray(state[f"{prefix}shares"], np.float64), tables)


def join(components: Sequence[Component], shares: Any) -> Proposal:
    """A mixture of the plain component and these, each with tables (K, P) of its own length.

    shares: of the plain one, then of each. Plain parameters are cut to what the components have (as of orders), or go on with
    zeros (as of kinds with chains).
    """
    tables = {}
    for kind in sorted({name for one in components for name in one}):
        own = [one[kind] for one in components if kind in one]
        places, width = max(t.shape[0] for t in own), max(t.shape[1] for t in own)
        table = np.zeros((len(components) + 1, places, width))
        table[:, :, : PLAIN[kind].size] = PLAIN[kind][:width]
        for number, one in enumerate(components, 1):
            if kind in one:
                table[number, : one[kind].shape[0], : one[kind].shape[1]] = one[kind]
        tables[kind] = table
    return Proposal(np.asarray(shares, np.float64), tables)


@dataclass(frozen=True, eq=False)
class Entry:
    """Variates of one kind on the tape of a batch of outputs.

    first: the place of the first column among the kind's. values: (rows, m), of orders (rows, items); used: columns that each
    output asked for, (rows,). base: what was asked for, by kind: a gamma's shape, a Poisson's mean, of a binomial (trials,
    chance), which broadcast to values; masses of a choice; items of an order. rows: which outputs the rows belong to; None: each
    one its own.
    """

    kind: str
    first: int
    values: NDArray[Any]
    used: Ints
    base: Any = None
    rows: Ints | None = None

    @property
    def places(self) -> int:
        """How many places any output asked for."""
        return 1 if self.kind == "order" else int(self.used.max(initial=0))

    def add_log_ratios(self, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
        """Add log g_c − log f of these outputs' entries: table (C, K, P), out (selected, C), magnitudes (selected,)."""
        if not which.size or self.first >= table.shape[1]:
            return
        add = _add_standards if self.kind in STANDARD else _ADD[self.kind]
        if self.rows is None:
            add(self, which, table, out, magnitudes)
            return
        place = np.full(int(which.max()) + 1, -1)
        place[which] = np.arange(which.size)
        inside = np.flatnonzero((self.rows < place.size) & (place[np.minimum(self.rows, place.size - 1)] >= 0))
        if inside.size:
            at = place[self.rows[inside]]
            part, size = np.zeros((inside.size, table.shape[0])), np.zeros(inside.size)
            add(self, inside, table, part, size)
            np.add.at(out, at, part)
            np.add.at(magnitudes, at, size)


def whole(entries: Iterable[Entry], tables: Mapping[str, Floats]) -> list[Entry]:
    """The entries of kinds with tables, those of chained kinds as one from the first place on."""
    found, parts = list[Entry](), dict[str, list[Entry]]()
    for entry in entries:
        if entry.kind in tables:
            (parts.setdefault(entry.kind, []) if is_chained(entry.kind, tables[entry.kind]) else found).append(entry)
    for kind, some in parts.items():
        some.sort(key=lambda entry: entry.first)
        values = some[0].values if len(some) == 1 else np.hstack([entry.values for entry in some])
        found.append(Entry(kind, 0, values, np.sum([entry.used for entry in some], axis=0)))
    return found


def _add_standards(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
    code, plain = STANDARD[entry.kind], PLAIN[entry.kind]
    given = entry.values, which, entry.used, table
    kernels.add_log_ratios(code, *given, entry.first, plain, out, magnitudes)
    if is_chained(entry.kind, table):
        chains.add_chained(code, *given, plain.size, out, magnitudes)


def _sum(terms: Floats, inside: Bools, out: Floats, magnitudes: Floats, also: Any = 0.0) -> None:
    """also: sizes of what cancels inside a term, which tell more of its error than its own."""
    terms = np.where(inside[:, None, :], terms, 0.0)  # (selected, C, m)
    out += terms.sum(axis=2)
    sizes = np.where(inside[:, None, :] & np.isfinite(terms), 4.0 * np.abs(terms) + also, 0.0)
    magnitudes += sizes.sum(axis=2).max(axis=1, initial=0.0)


def _add_tilted(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
    """Of an exponential family: tilt · value, and the logarithm of what normalises it."""
    m = min(entry.values.shape[1], table.shape[1] - entry.first)
    tilt, inside = table[:, entry.first : entry.first + m, 0], np.arange(m) < entry.used[which, None]
    bases = entry.base if isinstance(entry.base, tuple) else (entry.base,)
    values, *given = (
        np.asarray(np.broadcast_to(part, entry.values.shape)[which, :m], np.float64)[:, None]
        for part in (entry.values, *bases)
    )
    also: Any = 0.0
    if entry.kind == "gamma":
        terms = values * ((tilt - 1.0) / tilt), -given[0] * np.log(tilt)
    elif entry.kind == "poisson":
        terms = values * tilt, -given[0] * np.expm1(tilt)
    else:
        trials, chance = given
        grown = chance * np.expm1(tilt)
        # log(1 + grown), where that is small as a sum of two positive terms, which loses no digits
        direct = np.log(np.where(grown > -0.5, 1.0, 1.0 - chance + chance * np.exp(tilt)))
        terms = values * tilt, -trials * np.where(grown > -0.5, np.log1p(np.maximum(grown, -0.5)), direct)
        also = np.where(grown > -0.5, 0.0, trials)
    _sum(terms[0], inside, out, magnitudes)
    _sum(terms[1], inside, out, magnitudes, also)


def _add_choices(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
    masses = entry.base
    m = min(entry.values.shape[1], table.shape[1] - entry.first)
    tilt = table[:, entry.first : entry.first + m, : masses.size]
    terms = tilt - np.log((np.exp(tilt) * masses).sum(axis=2, keepdims=True))  # (C, m, values)
    found = terms[:, np.arange(m), entry.values[which, :m].astype(np.int64)]  # (C, selected, m)
    _sum(np.moveaxis(found, 0, 1), np.arange(m) < entry.used[which, None], out, magnitudes, 1.0 + masses.size / 8)


def _add_orders(entry: Entry, which: Ints, table: Floats, out: Floats, magnitudes: Floats) -> None:
    """Plackett and Luce: items one after another, each with a chance proportional to its mass among those that are left."""
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
        # of positive terms, whose sums lose no digits
        left = rest[:, None] + np.cumsum(taken[:, ::-1], axis=1)[:, ::-1]
        terms = np.log(taken) + plain - np.log(left)
        out[:, c] += terms.sum(axis=1)
        # of each term a sum of up to `items` is rounded
        np.maximum(sizes, items * picked.shape[1] / 8 + 4.0 * np.abs(terms).sum(axis=1), out=sizes)
    magnitudes += sizes


_ADD: dict[str, Any] = dict.fromkeys(("gamma", "poisson", "binomial"), _add_tilted)
_ADD |= {"choice": _add_choices, "order": _add_orders}


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


def draw_tilted(kind: str, base: tuple[Any, ...], tilt: Any, source: np.random.Generator, shape: Any) -> Any:
    """Variates of the distribution that a mechanism names, tilted; tilt: an array of this shape, a number, or None."""
    plain = np.random.Generator
    if kind == "gamma":
        found = plain.standard_gamma(source, base[0], shape)
        return found if tilt is None else found * tilt
    if kind == "poisson":
        return plain.poisson(source, base[0] if tilt is None else base[0] * np.exp(tilt), shape)
    trials, chance = np.asarray(base[0]).astype(np.int64), base[1]
    if tilt is not None:
        odds = chance * np.exp(tilt)
        chance = np.minimum(1.0, odds / (1.0 - chance + odds))
    return plain.binomial(source, trials if trials.ndim else trials.item(), chance, shape)
