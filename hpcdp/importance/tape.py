"""What each output of a random tape was given, and what it weighs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError
from hpcdp.importance import _kernels as kernels
from hpcdp.importance.kinds import CODES, NAMES, Entry, Proposal, draw_choices, draw_order, draw_tilted, whole
from hpcdp.importance.source import Memory, Source
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL
from hpcdp.mechanisms.streams import Bits, Floats, Stream, _shape, broadcast_shape

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


class Noted(Stream):
    """A `Stream` that gives entries of the kinds of `kinds` to outputs, from a proposal, and keeps what each got.

    See `hpcdp.importance.generator.Tape`, which adds the methods of NumPy.
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
        self._components, rows = self._mix()
        self._memory = Memory()
        self._source = Source(proposal, size, rows, self._own_bits, self._memory)
        self._exchanged: tuple[Bools, Stream, Source] | None = None
        if exchanged is not None:
            self._others = _sequence(exchanged[1])
            other = Stream(self._others)
            self._exchanged = exchanged[0], other, Source(proposal, size, rows, other.bit_generator, self._memory)
        self._entries: list[Entry] = []
        self._places: dict[
            str, int
        ] = {}  # by rows the next of each kind; one by one, of the present output, after what is ready
        self._layout: list[tuple[str, int]] = []
        self._sheets: dict[str, Floats] = {}  # one by one, (size, places)
        self._used: dict[str, Ints] = {}
        self._ready: dict[str, list[float]] = {}  # one by one, those that come next, the last of them first
        self._mosts: dict[str, int] = {}
        self._own: dict[tuple[str, int, Any], tuple[list[int], list[Any], list[Any]]] = {}
        self._edges: dict[Any, tuple[list[float], int]] = {}
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

    def generator(self, number: int = -1) -> Noted:
        """What a mechanism gets: of a call for all outputs, or an object of this output's own, which no other output meets."""
        one = type(self).__new__(type(self))
        np.random.Generator.__init__(one, self._own_bits)
        alone = {"_at": number, "_places": {}, "_ready": {}, "_apart": None, "_memory": None}
        one.__dict__ = self.__dict__ if self.by_rows else self.__dict__ | alone
        return one

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
        """What outputs were given, of kinds that have proposals; of each kind as many places as are kept."""
        found = [*self._entries]
        for kind, sheet in self._sheets.items():
            if kind != "coin":
                used = self._used[kind]
                kept = self._sheets[kind] = np.ascontiguousarray(sheet[:, : int(used.max(initial=0))])
                found.append(Entry(kind, 0, kept, used))
        for (kind, place, _), (rows, values, bases) in self._own.items():
            base = bases[0]
            if kind not in ("choice", "order"):
                columns = [np.asarray(part, np.float64)[:, None] for part in zip(*bases, strict=True)]
                base = tuple(columns) if len(columns) > 1 else columns[0]
            shaped = np.asarray(values) if kind == "order" else np.asarray(values)[:, None]
            found.append(Entry(kind, place, shaped, _ones(len(rows), 1), base, np.asarray(rows, np.int64)))
        return found

    def lengths(self) -> dict[str, int]:
        """Places of each kind that any output asked for."""
        found: dict[str, int] = {}
        for entry in self.entries():
            found[entry.kind] = max(found.get(entry.kind, 0), entry.first + entry.places)
        return found

    def log_weights(self, which: Ints) -> tuple[Floats, Floats]:
        """log w of these outputs, and how far the computed one may be from it, at most; (selected,) each."""
        count = self.proposal.count
        if count == 1 or not which.size:
            return np.zeros(which.size), np.zeros(which.size)
        ratios, magnitudes = np.zeros((which.size, count)), np.zeros(which.size)
        terms = np.zeros(which.size)
        for entry in whole(self.entries(), self.proposal.tables):
            table = self.proposal.tables[entry.kind]
            if entry.first >= table.shape[1]:
                continue
            entry.add_log_ratios(which, table, ratios, magnitudes)
            columns = entry.values.shape[1]
            own: Any = columns if entry.kind == "order" else np.minimum(entry.used, columns)
            if entry.rows is not None:
                placed = np.zeros(self.size)
                placed[entry.rows] = own
                own = placed
            terms += own if np.ndim(own) == 0 else own[which]
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

    def _both(self, draw: Callable[[Source, Any], NDArray[Any]]) -> NDArray[Any]:
        """A block of what it draws, of exchanged outputs of the other source; draw: of a source and the seed of that."""
        block = draw(self._source, self._seed)
        if self._exchanged is not None:
            rows, _, other = self._exchanged
            block = np.where(rows.reshape(-1, *[1] * (block.ndim - 1)), draw(other, self._others), block)
        return block

    def _standards(self, kind: str, shape: tuple[int, ...], scale: Any = 1.0, loc: Any = 0.0) -> Floats:
        """A new array of loc + scale · standard variates of this shape."""
        found = self._from_rows(shape) if self.by_rows else None
        if found is not None:
            m, arranged = found
            out = np.empty(shape)
            view = arranged(self._block(kind, m, None))
            if view.flags.c_contiguous and isinstance(scale, float) and isinstance(loc, float):
                kernels.move(view.reshape(-1), scale, loc, out.reshape(-1))
                return out
            out[...] = view
        elif self.by_rows:
            out = self._common(kind, shape)
        else:
            out = self._next(kind, math.prod(shape)).reshape(shape)
        if not (isinstance(scale, float) and scale == 1.0):
            out *= scale
        if not (isinstance(loc, float) and loc == 0.0):
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

    def _values(self, masses: Floats, size: Any) -> Any:
        """Numbers 0 to n − 1, n ≤ MOST_VALUES, with these probabilities (n,), which nobody else changes."""
        shape = () if size is None else _shape(size)
        if not self.by_rows:
            own = masses.tobytes()
            drawn = [self._one_value(own, masses) for _ in range(math.prod(shape))]
            return drawn[0] if size is None else np.array(drawn, np.int64).reshape(shape)
        rows = self._from_rows(shape)
        if rows is not None:
            return np.array(rows[1](self._block("choice", rows[0], masses)), order="C")
        out = draw_choices(masses, None, self._common("coin", shape))
        return int(out) if size is None else out

    def _tilted(self, kind: str, bases: tuple[Any, ...], size: Any, plain: Callable[[Stream], Any]) -> Any:
        """Variates of a kind whose distribution the mechanism names; plain: NumPy's own way, of a stream."""
        arrays = [np.asarray(base, np.float64) for base in bases]
        own = np.broadcast_shapes(*(array.shape for array in arrays))
        shape = own if size is None else _shape(size)
        if np.broadcast_shapes(own, shape) != shape:
            return plain(self._plain())  # which says what is wrong
        if not self.by_rows:
            if not shape and size is None:
                return self._one_tilted(kind, tuple(array.item() for array in arrays))
            wide = [np.broadcast_to(array, shape) for array in arrays]
            out = np.empty(shape, np.float64 if kind == "gamma" else np.int64)
            for place in np.ndindex(shape):
                out[place] = self._one_tilted(kind, tuple(float(array[place]) for array in wide))
            return out
        rows = self._from_rows(shape)
        if rows is None:
            self.shared += 1
            return plain(self)
        m, arranged = rows
        # a copy: what the mechanism does to its arrays must not change the tape
        base = tuple(
            array.copy() if not array.ndim else np.array(self._by_row(np.broadcast_to(array, shape), m))
            for array in arrays
        )
        return np.array(arranged(self._block(kind, m, base)), order="C")

    def _passed(self, draw: Callable[[Stream], Any], is_shared: bool = False) -> Any:
        """What is drawn without a proposal, with weight 1; draw: of a stream; is_shared: by no rows, whatever its shape."""
        found = draw(self._plain())
        if not self.by_rows:
            return found
        rows = None if is_shared else self._from_rows(np.shape(found))
        if rows is None:
            self.shared += 1
        elif self._exchanged is not None:
            m, arranged = rows
            own, other = self._by_row(np.asarray(found), m), self._by_row(np.asarray(draw(self._exchanged[1])), m)
            found = np.array(arranged(np.where(self._exchanged[0][:, None], other, own)), order="C")
        return found

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

    def _block(self, kind: str, m: int, base: Any) -> NDArray[Any]:
        """The next m entries of each output, of orders one, noted."""
        first, places = self._places.get(kind, 0), 1 if kind == "order" else m
        self._places[kind] = first + places
        self._layout.append((kind, m))
        block = self._both(lambda source, _: source.draw(kind, m, base, first))
        if first < self._most(kind):
            told = base[0] if isinstance(base, tuple) and len(base) == 1 else base
            self._entries.append(Entry(kind, first, block, _ones(self.size, places), told))
        return block

    # one by one

    def _reach(self, kind: str, places: int) -> Floats:
        """The sheet (size, places or more) of standard variates of a kind for all outputs, whoever asks first."""
        if kind not in self._sheets:
            self._sheets[kind], self._used[kind] = np.empty((self.size, 0)), np.zeros(self.size, np.int64)
        while (have := self._sheets[kind].shape[1]) < places:
            more = min(max(_COLUMNS, have), self._most(kind) - have)
            key = _SHEETS + (kind == "coin"), CODES[kind], have
            block = self._both(lambda source, seed: source.of(_child(seed, *key)).draw(kind, more, None, have))  # noqa: B023
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

    def _note(self, kind: str, key: Any, value: Any, base: Any) -> None:
        """The present output's next entry of a kind that has a base; key: what tells bases apart that are not alike."""
        place = self._places.get(kind, 0)
        self._places[kind] = place + 1
        if place < self._most(kind):
            for known, new in zip(
                self._own.setdefault((kind, place, key), ([], [], [])), (self._at, value, base), strict=True
            ):
                known.append(new)

    def _component(self) -> int:
        """The component of the present output."""
        return 0 if self._components is None else int(self._components[self._at])

    def _own_tilt(self, kind: str) -> Floats | None:
        """The parameters (P,) of the present output's next entry of a kind; None: plain."""
        table, place = self.proposal.tables.get(kind), self._places.get(kind, 0)
        return None if table is None or place >= table.shape[1] else table[self._component(), place]

    def _one_tilted(self, kind: str, base: tuple[float, ...]) -> Any:
        tilt = self._own_tilt(kind)
        value = draw_tilted(kind, base, None if tilt is None else float(tilt[0]), self._plain(), None)
        self._note(kind, None, value, base)
        return value

    def _one_value(self, own: bytes, masses: Floats) -> int:
        tilt = self._own_tilt("choice")
        key = own if tilt is None else (own, self._component(), self._places.get("choice", 0))
        found = self._edges.get(key)
        if found is None:
            tilted = masses if tilt is None else masses * np.exp(tilt[: masses.size])
            found = np.cumsum(tilted).tolist(), int(np.flatnonzero(tilted > 0.0)[-1])
            if len(self._edges) > 1 << 12:
                self._edges.clear()
            self._edges[key] = found
        place = self._places["coin"] = self._places.get("coin", 0) + 1
        if place > self._most("coin"):
            coin = float(self._plain().bit_generator.one(CODES["coin"]))
        else:
            coin = self._reach("coin", place).item(self._at, place - 1)
        value = min(bisect_right(found[0], coin * found[0][-1]), found[1])
        self._note("choice", own, value, masses)
        return value

    def _order(self, items: int, picked: int) -> Ints:
        """The first items of a random order, (picked,), of the present output."""
        times = np.empty(items)
        self._plain().bit_generator.take(EXPONENTIAL, times)
        found = draw_order(times, picked, self._own_tilt("order"))
        if picked:
            self._note("order", (items, picked), found.copy(), items)
        return found


def _sequence(seed: Any) -> np.random.SeedSequence:
    return seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)


def _child(seed: Any, *key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))


@lru_cache(4)
def _ones(size: int, times: int) -> Ints:
    """So many entries of each output; nobody writes into it."""
    return np.full(size, times)
