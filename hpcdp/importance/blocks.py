"""Entries of all outputs of a call at once: of each kind a block (size, m), drawn and tilted by component."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance import _chain_kernels as chains
from hpcdp.importance import _tape_kernels as kernels
from hpcdp.importance.kinds import PLAIN, draw_choices, draw_order, is_chained
from hpcdp.importance.proposal import Proposal
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, LAPLACE, NORMAL, UNIFORM
from hpcdp.mechanisms.streams import Bits, Floats

Ints = NDArray[np.int64]

NAMES = {NORMAL: "normal", LAPLACE: "laplace", EXPONENTIAL: "exponential", UNIFORM: "uniform"}
CODES = {name: code for code, name in NAMES.items()} | {"coin": UNIFORM}
_LEAST_HELD, _MOST_HELD, _MOST_SPARE = 1 << 14, 1 << 20, 4
_spare: dict[int, list[Floats]] = {}  # by size, of tapes that are gone


class Memory:
    """Memory of numbers, from tapes that are gone: new memory costs a page fault each 4 KiB, as much as what is drawn into it."""

    def __init__(self) -> None:
        self._held: list[Floats] = []

    def take(self, size: int) -> Floats:
        """An array (size,) of any numbers."""
        if not _LEAST_HELD <= size <= _MOST_HELD:
            return np.empty(size)
        try:
            found = _spare[size].pop()
        except (KeyError, IndexError):
            found = np.empty(size)
        self._held.append(found)
        return found

    def give_back(self) -> None:
        """What nobody else holds."""
        while self._held:
            held = self._held.pop()
            if sys.getrefcount(held) == _ALONE and len(spare := _spare.setdefault(held.size, [])) < _MOST_SPARE:
                spare.append(held)


def _references() -> int:
    """What is counted of an object that nothing but one local variable holds."""
    made = object()
    return sys.getrefcount(made)


_ALONE = _references()


class Blocks:
    """Draws blocks of `size` outputs from a proposal.

    bits: what they come from. rows: the outputs of each component, of the plain one too; none where all are plain.
    """

    def __init__(self, proposal: Proposal, size: int, rows: list[Ints], bits: Bits, memory: Memory) -> None:
        self._tables, self._size, self._bits, self._memory = proposal.tables, size, bits, memory
        self._parts = [(c, own) for c, own in enumerate(rows) if c and own.size]
        self._plain = np.random.Generator(bits)
        self._scores: dict[str, Floats] = {}  # of chained kinds

    def of(self, seed: np.random.SeedSequence) -> Blocks:
        """These, which draw from another seed from now on."""
        self._bits = Bits(seed)
        return self

    def standard(self, kind: str, m: int, first: int) -> Floats:
        """Standard variates of each output's places `first` to first + m."""
        block = self._memory.take(self._size * m).reshape(self._size, m)
        self._bits.take(CODES[kind], block.reshape(-1))
        table = self._tables.get(kind)
        if table is None or first >= table.shape[1]:
            return block
        for c, rows in self._parts:
            part = block[rows]
            if kind == "normal":
                kernels.tilt_normals(part, table[c], first)
            elif kind == "exponential":
                kernels.tilt_exponentials(part, table[c], first)
            else:
                # of as many columns as are tilted
                coins = np.empty((2, part.shape[0], min(m, table.shape[1] - first)))
                self._bits.take(UNIFORM, coins[: 1 + (kind == "uniform")].reshape(-1))
                if kind == "laplace":
                    kernels.tilt_laplaces(part, coins[0], table[c], first)
                else:
                    kernels.tilt_uniforms(part, coins[0], coins[1], table[c], first)
            if is_chained(kind, table):
                self._chain(kind, part, c, rows, first)
            block[rows] = part
        return block

    def _chain(self, kind: str, part: Floats, c: int, rows: Ints, first: int) -> None:
        """Let places depend on those before them, in place: part (rows, m), tilted, of component c."""
        table, base = self._tables[kind][c], PLAIN[kind].size
        if kind not in self._scores:
            self._scores[kind] = np.zeros(self._size)
        scores = self._scores[kind]
        own = scores[rows]
        if kind == "laplace":
            chains.chain_laplaces(part, table, first, own, base)
        else:
            more = np.empty(part.shape)
            self._bits.take(UNIFORM if kind == "exponential" else EXPONENTIAL, more.reshape(-1))
            chain = chains.chain_exponentials if kind == "exponential" else chains.chain_normals
            chain(part, more, table, first, own, base)
        scores[rows] = own

    def based(self, kind: str, m: int, base: tuple[Any, ...], first: int) -> NDArray[Any]:
        """Variates whose law the mechanism names."""
        table = self._tables.get(kind)
        if table is None or first >= table.shape[1]:
            return draw_based(kind, base, None, self._plain, (self._size, m))
        tilt = np.full((self._size, m), 1.0 if kind == "gamma" else 0.0)
        for c, rows in self._parts:
            own = table[c, first : first + m, 0]
            tilt[rows, : own.size] = own
        return draw_based(kind, base, tilt, self._plain, (self._size, m))

    def choices(self, masses: Floats, m: int, first: int) -> Ints:
        """Numbers 0 to n − 1 with these probabilities (n,)."""
        coins = np.empty((self._size, m))
        self._bits.take(UNIFORM, coins.reshape(-1))
        block, table = draw_choices(masses, None, coins), self._tables.get("choice")
        if table is not None and first < table.shape[1]:
            for c, rows in self._parts:
                for j in range(min(m, table.shape[1] - first)):
                    block[rows, j] = draw_choices(masses, table[c, first + j], coins[rows, j])
        return block

    def orders(self, items: int, first: int) -> Ints:
        """A random order of so many items for each output, (size, items)."""
        times = np.empty((self._size, items))
        self._bits.take(EXPONENTIAL, times.reshape(-1))
        table = self._tables.get("order")
        if table is not None and first < table.shape[1]:
            for c, rows in self._parts:
                part = times[rows]
                draw_order(part, 0, table[c, first])  # which tilts them
                times[rows] = part
        return draw_order(times, items, None)


def draw_based(kind: str, base: Any, tilt: Any, source: np.random.Generator, shape: Any) -> Any:
    """Variates of the law that a mechanism names, tilted; tilt: an array of this shape, a number, or None."""
    plain = np.random.Generator
    if kind == "gamma":
        found = plain.standard_gamma(source, base[0], shape)
        return found if tilt is None else found * tilt
    if kind == "poisson":
        return plain.poisson(source, base[0] if tilt is None else base[0] * np.exp(tilt), shape)
    trials, chance = base
    if isinstance(trials, float):
        trials = int(trials)
    else:
        trials = np.asarray(trials).astype(np.int64)
        trials = trials if trials.ndim else trials.item()
    if tilt is not None:
        odds = chance * np.exp(tilt)
        chance = np.minimum(1.0, odds / (1.0 - chance + odds))
    return plain.binomial(source, trials, chance, shape)
