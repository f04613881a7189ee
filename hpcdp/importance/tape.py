"""What each output of a random tape was given, and what it weighs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError
from hpcdp.importance import _kernels as kernels
from hpcdp.importance.kinds import CODES, NAMES, Bools, Entry, Floats, Ints, Proposal, Source, log_ratios
from hpcdp.mechanisms.streams import Bits, Stream, _shape, broadcast_shape

Arranged = Callable[[NDArray[Any]], NDArray[Any]]
"""How entries (size, m) become an array that was asked for."""

_COLUMNS = 8  # of variates of a kind that are made ahead for all outputs, where they are drawn one by one
_AHEAD = 32  # of an output's variates that are made ready at once
_EXACT = 2.0**-52
_MOST_KEPT = 1 << 24  # variates of a kind that are kept
_SHEETS, _ALONE = 1 << 30, 1 << 31  # of spawn keys


class _Bits(Bits):
    """Bits without a state: what was drawn would come again, or elsewhere, and be weighed as if it were new."""

    def _refuse(self, *_: Any) -> Any:
        raise TypeError(
            "a random tape cannot be wound back or copied: the state of its bit_generator can be neither read nor set; "
            "accepted: rng.spawn(1), whose numbers nothing else gets"
        )

    state = property(_refuse, _refuse)


class Closed(np.random.Generator):
    """A generator whose outputs are there: whatever is asked of it ends the study, also where the mechanism catches that."""

    asked = 0  # how often, in this process
    __repr__ = __str__ = object.__repr__

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") and not name.startswith("__reduce"):
            return super().__getattribute__(name)
        Closed.asked += 1
        raise MechanismError(LATE)


LATE = (
    "estimate.tape: the mechanism used the rng of an earlier output, or of an earlier call, so that an output's own random tape "
    "does not tell its weight; accepted: mechanisms that use the rng of the call alone, or estimate.tape = false"
)


class Noted(Stream):
    """A `Stream` that draws outputs' entries from a proposal and keeps what each got; `Tape` adds NumPy's methods."""

    def __init__(
        self,
        seed: Any,
        proposal: Proposal,
        size: int,
        by_rows: bool,
        is_plain: bool = False,
        exchanged: tuple[Bools, Any] | None = None,
        flat: str = "rows",
    ) -> None:
        self._seed = _sequence(seed)
        self._own_bits = _Bits(self._seed)
        super().__init__(self._own_bits)
        self.shared = 0
        self.proposal, self.size, self.by_rows, self.flat = proposal, size, by_rows, flat
        self.starts = np.append(0, np.full(proposal.count, size)) if is_plain else proposal.starts(size)
        self._components, rows = self._mix()
        self._source = Source(proposal, size, rows, self._own_bits)
        self._exchanged: tuple[Bools, Stream, Source] | None = None
        if exchanged is not None:
            self._others = _sequence(exchanged[1])
            other = Stream(self._others)
            self._exchanged = exchanged[0], other, Source(proposal, size, rows, other.bit_generator)
        self._blocks: dict[str, list[Floats]] = {}  # by rows, (size, places) one after another
        # by rows the next of each kind; one by one, of the present output, after what is ready
        self._places: dict[str, int] = {}
        self._layout: list[tuple[str, int]] = []
        self._sheets: dict[str, Floats] = {}  # one by one, (size, places)
        self._used: dict[str, Ints] = {}
        self._ready: dict[str, list[float]] = {}  # one by one, those that come next, the last of them first
        self._mosts: dict[str, int] = {}
        # of exponentials whose place is made a whole number of steps; 0: not always the same
        self.steps: dict[int, float] = {}
        self._at = 0
        self._apart: Stream | None = None  # of the present output

    def _mix(self) -> tuple[Ints | None, list[Ints]]:
        """Each output's component, and the outputs of each, in an order by chance: a place among outputs tells no component.

        Components of consecutive outputs would be wrong for a mechanism whose outputs' distribution depends on their place.
        """
        spans = list(zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True))
        if spans[0][1] >= self.size:
            return None, []
        order = np.random.Generator(np.random.PCG64(self._seed.spawn(1)[0])).permutation(self.size)
        rows = [np.sort(order[start:stop]) for start, stop in spans]
        components = np.empty(self.size, np.int64)
        for c, own in enumerate(rows):
            components[own] = c
        return components, rows

    @property
    def bit_generator(self) -> Bits:  # type: ignore[override]  # it cannot be set in NumPy's either
        """As of NumPy. Whoever takes it, or spawns of it, draws plainly; by rows that may be for all outputs."""
        if not self.by_rows:
            return self._plain().bit_generator
        self.shared += 1
        return self._own_bits

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a random tape is its call's alone, and cannot be copied or pickled")

    def generator(self, number: int = -1) -> Noted:
        """What a mechanism gets: of a call for all outputs, or an object of this output's own, which no other output meets."""
        rng = type(self).__new__(type(self))
        np.random.Generator.__init__(rng, self._own_bits)
        alone = {"_at": number, "_places": {}, "_ready": {}, "_apart": None}
        rng.__dict__ = self.__dict__ if self.by_rows else self.__dict__ | alone
        return rng

    def close(self) -> None:
        """Of what `generator` gave: its outputs are there."""
        for kind in self._places:
            if kind in self._used:
                self._used[kind][self._at] = min(self._place(kind), self._most(kind))
        self.__dict__ = {}
        self.__class__ = Closed  # type: ignore[assignment]

    def _plain(self) -> Stream:
        """What draws without a proposal: by rows the tape itself, else a stream of the present output's own."""
        if self.by_rows:
            return self
        if self._apart is None:
            is_other = self._exchanged is not None and self._exchanged[0][self._at]
            self._apart = Stream(_Bits(_child(self._others if is_other else self._seed, _ALONE, self._at)))
        return self._apart

    # what was drawn

    def layout(self) -> list[tuple[str, int]]:
        """By rows: kinds and numbers of entries of each output, in the order in which they were asked for."""
        return [*self._layout]

    def entries(self) -> list[Entry]:
        """What outputs were given of each kind; as many places as are kept."""
        entries = []
        for kind, blocks in self._blocks.items():
            blocks[:] = [np.hstack(blocks)] if len(blocks) > 1 else blocks
            entries.append(Entry(kind, blocks[0], _full(*blocks[0].shape)))
        for kind, sheet in self._sheets.items():
            used = self._used[kind]
            kept = self._sheets[kind] = np.ascontiguousarray(sheet[:, : int(used.max(initial=0))])
            entries.append(Entry(kind, kept, used))
        return entries

    def lengths(self) -> dict[str, int]:
        """Places of each kind that any output asked for."""
        return {entry.kind: entry.places for entry in self.entries()}

    def log_weights(self, which: Ints) -> tuple[Floats, Floats]:
        """log w of these outputs, and how far the computed one may be from it, at most; (selected,) each."""
        count = self.proposal.count
        if count == 1 or not which.size:
            return np.zeros(which.size), np.zeros(which.size)
        ratios, off = log_ratios(self.entries(), self.proposal, which)
        weights = np.empty(which.size)
        with np.errstate(divide="ignore"):
            kernels.mix_log_weights(ratios, np.log(self.proposal.shares), weights)
        return weights, _EXACT * (off + count + 32.0)

    def strata(self, which: Ints) -> tuple[Ints, Ints]:
        """The stratum of these outputs, and how many outputs each stratum has: one for each component that any is of."""
        sizes = np.diff(self.starts)
        number = np.cumsum(sizes > 0) - 1
        own = np.zeros(which.size, np.int64) if self._components is None else number[self._components[which]]
        return own, sizes[sizes > 0]

    # how it is drawn: both ways

    def _most(self, kind: str) -> int:
        """Places of a kind that are kept, all that a proposal tilts among them; what is drawn beyond them is plain."""
        if kind not in self._mosts:
            table = self.proposal.tables.get(kind)
            self._mosts[kind] = max(_MOST_KEPT // max(1, self.size), 0 if table is None else table.shape[1])
        return self._mosts[kind]

    def _place(self, kind: str) -> int:
        """The next place of a kind, of the present output."""
        return self._places.get(kind, 0) - len(self._ready.get(kind, ()))

    def _stepped(self, before: int, rate: Any) -> None:
        """Exponentials from this place on are made whole numbers of steps of this length, ⌈v/rate⌉."""
        step = float(rate) if np.ndim(rate) == 0 else 0.0
        for place in range(before, self._place("exponential")):
            self.steps[place] = step if self.steps.get(place, step) == step else 0.0

    def _drawn(self, kind: str, m: int, first: int, *sheet: int) -> Floats:
        """The next m entries of each output, of exchanged ones of the other source; sheet: key of a seed for them alone."""
        block = (self._source.of(_child(self._seed, *sheet)) if sheet else self._source).draw(kind, m, first)
        if self._exchanged is not None:
            rows, _, other = self._exchanged
            again = (other.of(_child(self._others, *sheet)) if sheet else other).draw(kind, m, first)
            block = np.where(rows[:, None], again, block)
        return block

    def _standards(self, kind: str, shape: tuple[int, ...], scale: Any = 1.0, loc: Any = 0.0) -> Floats:
        """A new array of loc + scale · standard variates of this shape."""
        if self.by_rows:
            rows, out = self._from_rows(shape), np.empty(shape)  # first, as there may be no memory for it
            drawn = self._common(kind, shape) if rows is None else rows[1](self._block(kind, rows[0]))
            np.multiply(drawn, scale, out=out)
        else:
            out = self._next(kind, math.prod(shape)).reshape(shape)
            out *= scale
        out += loc
        return out

    def _variates(self, kind: int, loc: float | Floats, scale: float | Floats, size: Any) -> Any:
        if size is None and not self.by_rows and isinstance(loc, float) and isinstance(scale, float):
            return self._one(NAMES[kind]) * scale + loc
        if size is not None and isinstance(loc, float) and isinstance(scale, float):
            return self._standards(NAMES[kind], _shape(size), scale, loc)
        out = self._standards(NAMES[kind], broadcast_shape(size, loc, scale), scale, loc)
        return out if out.ndim or size is not None else out.item()

    def _standard(self, kind: int, size: Any, out: Any) -> Any:
        if out is None:
            return super()._standard(kind, size, out)
        if size is not None and np.empty(size).shape != out.shape:
            raise ValueError("size must match out.shape when used together")
        out[...] = self._standards(NAMES[kind], out.shape)
        return out

    def _passed(self, draw: Callable[[Stream], Any], is_shared: bool = False) -> Any:
        """What is drawn without a proposal, with weight 1; draw: of a stream; is_shared: by no rows, whatever its shape."""
        drawn = draw(self._plain())
        if not self.by_rows:
            return drawn
        rows = None if is_shared else self._from_rows(np.shape(drawn))
        if rows is None:
            self.shared += 1
        elif self._exchanged is not None:
            m, arranged = rows
            own, other = self._by_row(np.asarray(drawn), m), self._by_row(np.asarray(draw(self._exchanged[1])), m)
            drawn = np.array(arranged(np.where(self._exchanged[0][:, None], other, own)), order="C")
        return drawn

    # by rows

    def _common(self, kind: str, shape: tuple[int, ...]) -> Floats:
        """Standard variates that are shared by all outputs, which is counted."""
        self.shared += 1
        out = np.empty(shape)
        self._own_bits.take(CODES[kind], out.reshape(-1))
        return out

    def _from_rows(self, shape: tuple[int, ...]) -> tuple[int, Arranged] | None:
        """Entries of each output in an array of this shape, and how (size, entries) becomes that array; None: shared."""
        size = self.size
        if size in shape:
            axis = shape.index(size)
            rest = shape[:axis] + shape[axis + 1 :]
            return math.prod(rest), lambda block: np.moveaxis(block.reshape(size, *rest), 0, axis)
        if len(shape) == 1 and size and shape[0] and shape[0] % size == 0:
            by_columns = self.flat == "columns"
            return shape[0] // size, lambda block: (block.T if by_columns else block).reshape(-1)
        return None

    def _by_row(self, array: NDArray[Any], m: int) -> NDArray[Any]:
        """The entries (size, m) of an array with rows, the way back of `_from_rows`."""
        if self.size in array.shape:
            return np.moveaxis(array, array.shape.index(self.size), 0).reshape(self.size, m)
        return array.reshape(m, self.size).T if self.flat == "columns" else array.reshape(self.size, m)

    def _block(self, kind: str, m: int) -> Floats:
        """The next m entries of each output, noted."""
        first = self._places.get(kind, 0)
        self._places[kind] = first + m
        self._layout.append((kind, m))
        block = self._drawn(kind, m, first)
        if first < self._most(kind):
            self._blocks.setdefault(kind, []).append(block)
        return block

    # one by one

    def _reach(self, kind: str, places: int) -> Floats:
        """The sheet (size, places or more) of standard variates of a kind for all outputs, whoever asks first."""
        if kind not in self._sheets:
            self._sheets[kind], self._used[kind] = np.empty((self.size, 0)), np.zeros(self.size, np.int64)
        while (have := self._sheets[kind].shape[1]) < places:
            more = min(max(_COLUMNS, have), self._most(kind) - have)
            block = self._drawn(kind, more, have, _SHEETS, CODES[kind], have)
            self._sheets[kind] = np.hstack([self._sheets[kind], block]) if have else block
        return self._sheets[kind]

    def _next(self, kind: str, count: int) -> Floats:
        """The next entries of the present output, of a kind of standard variates, a new array (count,)."""
        out = np.empty(count)  # first, as there may be no memory for it
        first, most = self._place(kind), self._most(kind)
        self._places[kind], self._ready[kind] = first + count, []
        kept = min(count, max(0, most - first))
        if kept:
            out[:kept] = self._reach(kind, first + kept)[self._at, first : first + kept]
        if kept < count:
            self._plain().bit_generator.take(CODES[kind], out[kept:])
        return out

    def _one(self, kind: str) -> float:
        """The next entry of the present output alone."""
        ready = self._ready.get(kind)
        if ready:
            return ready.pop()
        place = self._places.get(kind, 0)
        if place >= self._most(kind):
            self._places[kind] = place + 1
            return float(self._plain().bit_generator.one(CODES[kind]))
        ready = self._reach(kind, place + 1)[self._at, place : place + _AHEAD].tolist()
        self._places[kind] = place + len(ready)
        ready.reverse()
        self._ready[kind] = ready
        return ready.pop()


def _sequence(seed: Any) -> np.random.SeedSequence:
    return seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)


def _child(seed: Any, *key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))


@lru_cache(4)
def _full(size: int, times: int) -> Ints:
    """So many entries of each output; nobody writes into it."""
    return np.full(size, times)
