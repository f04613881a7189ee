"""The kinds of variates that have proposals, how they are weighed, and proposals: mixtures of tilts, which blocks are drawn from.

All are standard variates. The mechanism's own location and scale follow, or the inverse of the distribution that it asks for.

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
from hpcdp.mechanisms.streams import Bits

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Component = Mapping[str, Floats]
"""By kind of variate a table (K, P) of parameters by place on the tape; places beyond are plain."""

BINS = 16

PLAIN: dict[str, Floats] = {
    "normal": np.array([0.0, 1.0]),
    "exponential": np.array([1.0]),
    "laplace": np.array([0.5, 1.0, 1.0]),
    "uniform": np.concatenate([np.full(BINS, 1.0 / BINS), np.arange(1, BINS) / BINS]),
}
"""Parameters of a plain entry by kind; see `_kernels`."""

CODES = {"normal": NORMAL, "laplace": LAPLACE, "exponential": EXPONENTIAL, "uniform": UNIFORM}
"""Kinds by the codes of streams."""
NAMES = {code: name for name, code in CODES.items()}
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
    """A mixture of the plain component, whose share comes first, and these, whose tables (K, P) have lengths of their own."""
    tables = {}
    for kind in sorted({name for component in components for name in component}):
        own = [component[kind] for component in components if kind in component]
        places, width = max(t.shape[0] for t in own), max(t.shape[1] for t in own)
        table = np.zeros((len(components) + 1, places, width))
        table[:, :, : PLAIN[kind].size] = PLAIN[kind]
        for number, component in enumerate(components, 1):
            if kind in component:
                table[number, : component[kind].shape[0], : component[kind].shape[1]] = component[kind]
        tables[kind] = table
    return Proposal(np.asarray(shares, np.float64), tables)


@dataclass(frozen=True, eq=False)
class Entry:
    """Variates of a kind on the tape of a batch of outputs, values (outputs, places). used: places that each output asked for."""

    kind: str
    values: Floats
    used: Ints

    @property
    def places(self) -> int:
        """How many places any output asked for."""
        return int(self.used.max(initial=0))


def log_ratios(entries: Iterable[Entry], proposal: Proposal, which: Ints) -> tuple[Floats, Floats]:
    """log g_c − log f of these outputs under each component, (selected, C), and how far these may be off, in units of 2⁻⁵²."""
    ratios, magnitudes, terms = np.zeros((which.size, proposal.count)), np.zeros(which.size), np.zeros(which.size)
    for entry in entries:
        if which.size and (table := proposal.tables.get(entry.kind)) is not None:
            code, plain = CODES[entry.kind], PLAIN[entry.kind]
            given = entry.values, which, entry.used, table
            kernels.add_log_ratios(code, *given, plain, ratios, magnitudes)
            if is_chained(entry.kind, table):
                chains.add_chained(code, *given, plain.size, ratios, magnitudes)
            terms += np.minimum(entry.used, entry.values.shape[1])[which]
    # sums of n terms are n roundings of no more than the sum of their sizes, a term itself a few of its own
    return ratios, (terms + 12.0) * magnitudes


class Source:
    """Draws blocks of `size` outputs from a proposal; rows: the outputs of each component, none where all are plain."""

    def __init__(self, proposal: Proposal, size: int, rows: list[Ints], bits: Bits) -> None:
        self._tables, self._size, self._bits = proposal.tables, size, bits
        self._parts = [(c, own) for c, own in enumerate(rows) if c and own.size]
        self._scores: dict[str, Floats] = {}  # of chained kinds

    def of(self, seed: np.random.SeedSequence) -> Source:
        """This one, which draws from another seed from now on."""
        self._bits = Bits(seed)
        return self

    def draw(self, kind: str, m: int, first: int) -> Floats:
        """Each output's entries of a kind from place `first` on, (size, m)."""
        code, table = CODES[kind], self._tables.get(kind)
        block = self._taken(code, self._size, m)
        for c, rows in self._parts if table is not None and first < table.shape[1] else ():
            own, part, coins = table[c, first:], block[rows], np.empty((0, 0, 0))  # type: ignore[index]
            if kind in ("laplace", "uniform"):  # coins of as many columns as are tilted
                coins = self._taken(UNIFORM, 1 + (kind == "uniform"), rows.size, min(m, own.shape[0]))
            kernels.tilt(code, part, coins, own)
            if is_chained(kind, own):
                more = np.empty((0, 0))
                if kind != "laplace":
                    more = self._taken(UNIFORM if kind == "exponential" else EXPONENTIAL, *part.shape)
                scores = self._scores.setdefault(kind, np.zeros(self._size))
                before = scores[rows]
                chains.draw_chained(code, part, more, own, before, PLAIN[kind].size)
                scores[rows] = before
            block[rows] = part
        return block

    def _taken(self, code: int, *shape: int) -> Floats:
        variates = np.empty(shape)
        self._bits.take(code, variates.reshape(-1))
        return variates
