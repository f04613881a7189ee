"""Standard variates of all outputs of a call at once: of each kind a block (size, m), drawn and tilted by component."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance import _chain_kernels as chains
from hpcdp.importance import _kernels as kernels
from hpcdp.importance.kinds import CODES, PLAIN, Proposal, is_chained
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, UNIFORM
from hpcdp.mechanisms.streams import Bits, Floats

Ints = NDArray[np.int64]


class Source:
    """Draws blocks of `size` outputs from a proposal.

    bits: what they come from. rows: the outputs of each component, of the plain one too; none where all are plain.
    """

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
