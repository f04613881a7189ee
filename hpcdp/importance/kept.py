"""What each output of a random tape was given, and what it weighs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError
from hpcdp.importance import _tape_kernels as kernels
from hpcdp.importance.blocks import CODES, Blocks, Memory
from hpcdp.importance.kinds import Entry, whole
from hpcdp.importance.proposal import Proposal
from hpcdp.mechanisms.streams import Bits, Floats, Stream

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
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


class Kept(Stream):
    """A `Stream` that gives entries of the kinds of `kinds` to outputs, from a proposal, and keeps what each got.

    `hpcdp.importance.drawing.Drawing` makes of them what is asked for.
    """

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
        self._components, self._rows = self._mix()
        self._memory = Memory()
        self._blocks = Blocks(proposal, size, self._rows, self._own_bits, self._memory)
        self._exchanged: tuple[Bools, Stream, Blocks] | None = None
        if exchanged is not None:
            self._others = _sequence(exchanged[1])
            other = Stream(self._others)
            self._exchanged = exchanged[0], other, Blocks(proposal, size, self._rows, other.bit_generator, self._memory)
        self._entries: list[Entry] = []
        self._places: dict[str, int] = {}  # by rows, the next of each kind
        self._layout: list[tuple[str, int]] = []
        self._sheets: dict[str, Floats] = {}  # one by one, (size, places)
        self._used: dict[str, Ints] = {}
        self._ready: dict[str, list[float]] = {}  # one by one, those that come next, the last of them first
        self._mosts: dict[str, int] = {}
        self._own: dict[tuple[str, int, Any], tuple[list[int], list[Any], list[Any], Any]] = {}
        # one by one, of the present output: of each kind the place after what is ready
        self._counted: dict[str, int] = {}
        self._edges: dict[Any, tuple[list[float], int]] = {}
        # of exponentials whose place is made a whole number of steps; 0: not always the same
        self.steps: dict[int, float] = {}
        self._at = 0
        self._apart: Stream | None = None  # of the present output

    def _mix(self) -> tuple[Ints | None, list[Ints]]:
        """Each output's component, and the outputs of each, in an order by chance: a place among outputs tells no component.

        Components of consecutive outputs would be wrong for a mechanism whose outputs' law depends on their place.
        """
        spans = list(zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True))
        if spans[0][1] >= self.size:
            return None, []
        order = np.random.Generator(np.random.PCG64(self._seed.spawn(1)[0])).permutation(self.size)
        rows = [np.sort(order[start:stop]) for start, stop in spans]
        found = np.empty(self.size, np.int64)
        for c, own in enumerate(rows):
            found[own] = c
        return found, rows

    def __del__(self) -> None:
        """Give back the memory of what was drawn, where nobody else holds it."""
        if self.__dict__.get("_memory") is not None:  # else of one output alone
            self._entries, self._sheets = [], {}
            self._memory.give_back()

    @property
    def bit_generator(self) -> Bits:  # type: ignore[override]  # it cannot be set in NumPy's either
        """As of NumPy. Whoever takes it, or spawns of it, draws plainly; by rows that may be for all outputs."""
        if not self.by_rows:
            return self._plain().bit_generator
        self.shared += 1
        return self._own_bits

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a random tape is its call's alone, and cannot be copied or pickled")

    def generator(self, number: int = -1) -> Kept:
        """What a mechanism gets: of a call for all outputs, or an object of this output's own, which no other output meets."""
        one = type(self).__new__(type(self))
        np.random.Generator.__init__(one, self._own_bits)
        alone = {"_at": number, "_counted": {}, "_ready": {}, "_apart": None, "_memory": None}
        one.__dict__ = self.__dict__ if self.by_rows else self.__dict__ | alone
        return one

    def close(self) -> None:
        """Of what `generator` gave: its outputs are there."""
        for kind in self._counted:
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
        """What outputs were given, of kinds that have proposals; of each kind as many places as are kept."""
        found = [*self._entries]
        for kind, sheet in self._sheets.items():
            if kind == "coin":
                continue
            used = self._used[kind]
            whole_sheet = self._sheets[kind] = np.ascontiguousarray(sheet[:, : int(used.max(initial=0))])
            found.append(Entry(kind, 0, whole_sheet, used))
        for (kind, place, _), (rows, values, bases, law) in self._own.items():
            array = np.asarray(values)
            if kind in ("gamma", "poisson"):
                law = np.asarray(bases, np.float64)[:, None]
            elif kind == "binomial":
                law = tuple(np.asarray(part, np.float64)[:, None] for part in zip(*bases, strict=True))
            shaped = array if kind == "order" else array[:, None]
            found.append(Entry(kind, place, shaped, _ones(len(rows), 1), law, np.asarray(rows, np.int64)))
        return found

    def log_weights(self, which: Ints) -> tuple[Floats, Floats]:
        """log w of these outputs, and how far the computed one may be from it, at most; (selected,) each."""
        count = self.proposal.count
        if count == 1 or not which.size:
            return np.zeros(which.size), np.zeros(which.size)
        ratios, magnitudes = np.zeros((which.size, count)), np.zeros(which.size)
        terms = np.zeros(which.size)
        for entry in whole(self.entries(), self.proposal.tables):
            table = self.proposal.tables.get(entry.kind)
            if table is None or entry.first >= table.shape[1]:
                continue
            entry.add_log_ratios(which, table, ratios, magnitudes)
            columns: Any = entry.values.shape[1]
            if entry.rows is not None:
                own = np.zeros(self.size)
                own[entry.rows] = columns if entry.kind == "order" else np.minimum(entry.used, columns)
                terms += own[which]
            else:
                terms += columns if entry.kind == "order" else np.minimum(entry.used[which], columns)
        weights = np.empty(which.size)
        with np.errstate(divide="ignore"):
            kernels.mix_log_weights(ratios, np.log(self.proposal.shares), weights)
        # sums of n terms are n roundings of no more than the sum of their sizes, a term itself a few of its own
        return weights, _EXACT * ((terms + 12.0) * magnitudes + count + 32.0)

    def strata(self, which: Ints) -> tuple[Ints, Ints]:
        """The stratum of these outputs, and how many outputs each stratum has: one for each component that any is of."""
        sizes = np.diff(self.starts)
        number = np.cumsum(sizes > 0) - 1
        own = np.zeros(which.size, np.int64) if self._components is None else number[self._components[which]]
        return own, sizes[sizes > 0]

    # how it is drawn

    def _most(self, kind: str) -> int:
        """Places of a kind that are kept, all that a proposal tilts among them; what is drawn beyond them is plain."""
        if kind not in self._mosts:
            table = self.proposal.tables.get(kind)
            self._mosts[kind] = max(_MOST_KEPT // max(1, self.size), 0 if table is None else table.shape[1])
        return self._mosts[kind]

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

    def _block(
        self, kind: str, m: int, base: Any, draw: Callable[[int, Blocks], NDArray[Any]], places: int | None = None
    ) -> NDArray[Any]:
        """The next m entries of each output, in so many places (None: one each), noted; draw: of (the first's place, what
        draws). By rows.
        """
        first, places = self._places.get(kind, 0), m if places is None else places
        self._places[kind] = first + places
        self._layout.append((kind, m))
        block = draw(first, self._blocks)
        if self._exchanged is not None:
            rows, _, other = self._exchanged
            block = np.where(rows.reshape(-1, *[1] * (block.ndim - 1)), draw(first, other), block)
        if first < self._most(kind):
            self._entries.append(Entry(kind, first, block, _ones(self.size, places), base))
        return block

    def _reach(self, kind: str, places: int) -> Floats:
        """The sheet (size, places or more) of standard variates of a kind for all outputs, whoever asks first; one by one."""
        if kind not in self._sheets:
            self._sheets[kind], self._used[kind] = np.empty((self.size, 0)), np.zeros(self.size, np.int64)
        while (have := self._sheets[kind].shape[1]) < places:
            more = min(max(_COLUMNS, have), self._most(kind) - have)
            where = _SHEETS + (kind == "coin"), CODES[kind], have
            block = self._blocks.of(_child(self._seed, *where)).standard(kind, more, have)
            if self._exchanged is not None:
                rows, _, blocks = self._exchanged
                other = blocks.of(_child(self._others, *where)).standard(kind, more, have)
                block = np.where(rows[:, None], other, block)
            self._sheets[kind] = np.hstack([self._sheets[kind], block]) if have else block
        return self._sheets[kind]

    def _coin(self) -> float:
        """The present output's next uniform variate that has no proposal of its own."""
        place = self._counted["coin"] = self._counted.get("coin", 0) + 1
        if place > self._most("coin"):
            return float(self._plain().bit_generator.one(CODES["uniform"]))
        return self._reach("coin", place).item(self._at, place - 1)

    def _stepped(self, before: int, rate: Any) -> None:
        """Exponentials from this place on are made whole numbers of steps of this length, ⌈v/rate⌉."""
        step = float(rate) if np.ndim(rate) == 0 else 0.0
        for place in range(before, self._place("exponential")):
            self.steps[place] = step if self.steps.get(place, step) == step else 0.0

    def _place(self, kind: str) -> int:
        """The next place of a kind, of the present output."""
        if self.by_rows:
            return self._places.get(kind, 0)
        return self._counted.get(kind, 0) - len(self._ready.get(kind, ()))

    def _next(self, kind: str, count: int) -> Floats:
        """The next entries of the present output, of a kind of standard variates, a new array (count,); one by one."""
        out = np.empty(count)  # first, as there may be no memory for it
        first, most = self._place(kind), self._most(kind)
        self._counted[kind], self._ready[kind] = first + count, []
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
        place = self._counted.get(kind, 0)
        if place >= self._most(kind):
            self._counted[kind] = place + 1
            return float(self._plain().bit_generator.one(CODES[kind]))
        ready = self._reach(kind, place + 1)[self._at, place : place + _AHEAD].tolist()
        self._counted[kind] = place + len(ready)
        ready.reverse()
        self._ready[kind] = ready
        return ready.pop()

    def _note(self, kind: str, key: Any, value: Any, base: Any = None, law: Any = None) -> None:
        """The present output's next entry of a kind that has a law of its own; key: what tells laws apart that are not alike."""
        place = self._counted.get(kind, 0)
        self._counted[kind] = place + 1
        if place < self._most(kind):
            rows, values, bases, _ = self._own.setdefault((kind, place, key), ([], [], [], law))
            rows.append(self._at)
            values.append(value)
            bases.append(base)

    def _component(self) -> int:
        """The component of the present output."""
        return 0 if self._components is None else int(self._components[self._at])

    def _own_tilt(self, kind: str) -> Floats | None:
        """The parameters (P,) of the present output's next entry of a kind; None: plain."""
        table, place = self.proposal.tables.get(kind), self._counted.get(kind, 0)
        return None if table is None or place >= table.shape[1] else table[self._component(), place]


def _sequence(seed: Any) -> np.random.SeedSequence:
    return seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)


def _child(seed: Any, *key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))


@lru_cache(4)
def _ones(size: int, times: int) -> Ints:
    """So many entries of each output; nobody writes into it."""
    return np.full(size, times)
