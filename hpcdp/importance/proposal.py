"""Proposals: what a random tape is drawn from instead of the mechanism's own noise, and the weights that make up for it.

A proposal is a mixture of components; the first is plain, the mechanism's own law. One component is drawn for an output and
kept for its whole tape, so that a weight is f over the sum of all components' densities of the tape, each with its share
(the balance heuristic; Veach and Guibas 1995). Shares of a chunk are numbers of its rows: strata of fixed sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TABLE = "table."


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

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that `restore` needs."""
        return {"shares": self.shares, **{_TABLE + kind: table for kind, table in self.tables.items()}}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Proposal:
        """The proposal whose `state` this is."""
        tables = {name.removeprefix(_TABLE): state[name] for name in state if name.startswith(_TABLE)}
        return cls(np.asarray(state["shares"], np.float64), tables)


def join(components: list[Mapping[str, Floats]], shares: Floats, plain: Mapping[str, Floats]) -> Proposal:
    """A mixture of the plain component and these, each with tables (K, P) of its own length.

    shares: of the plain one, then of each. plain: parameters of a plain entry by kind, (P,); a longer one (as of orders) is
    cut to what the components have; a shorter one, of kinds with chains, goes on with zeros.
    """
    tables = {}
    for kind in sorted({name for one in components for name in one}):
        own = [one[kind] for one in components if kind in one]
        places, width = max(t.shape[0] for t in own), max(t.shape[1] for t in own)
        table = np.zeros((len(components) + 1, places, width))
        table[:, :, : plain[kind].size] = plain[kind][:width]
        for number, one in enumerate(components, 1):
            if kind in one:
                table[number, : one[kind].shape[0], : one[kind].shape[1]] = one[kind]
        tables[kind] = table
    return Proposal(np.asarray(shares, np.float64), tables)
