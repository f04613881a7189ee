"""What a random tape makes of its entries: standard variates and others with proposals, in the arrays that are asked for."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcdp.importance import _tape_kernels as kernels
from hpcdp.importance.blocks import CODES, NAMES, draw_based
from hpcdp.importance.kept import Ints, Kept
from hpcdp.importance.kinds import draw_choices, draw_order
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, UNIFORM
from hpcdp.mechanisms.streams import Floats, Stream, _shape, broadcast_shape


class Drawing(Kept):
    """A `Stream` that draws variates of the kinds of `kinds` from a proposal.

    See `hpcdp.importance.generator.Tape`, which adds the methods of NumPy.
    """

    def _standards(self, kind: str, shape: tuple[int, ...], scale: Any = 1.0, loc: Any = 0.0) -> Floats:
        """A new array of loc + scale · standard variates of this shape."""
        found = self._from_rows(shape) if self.by_rows else None
        if found is not None:
            m, arranged = found
            out = np.empty(shape)
            block = self._block(kind, m, None, lambda first, blocks: blocks.standard(kind, m, first))
            view = arranged(block)
            if view.flags.c_contiguous and isinstance(scale, float) and isinstance(loc, float):
                kernels.move(view.reshape(-1), scale, loc, out.reshape(-1))
                return out
            out[...] = view
        elif self.by_rows:
            self.shared += 1
            out = np.empty(shape)
            self._own_bits.take(CODES[kind], out.reshape(-1))
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
        rows = self._from_rows(shape) if self.by_rows else None
        if rows is not None:
            m, arranged = rows
            block = self._block("choice", m, masses, lambda first, blocks: blocks.choices(masses, m, first))
            return np.array(arranged(block), order="C")
        if self.by_rows:
            self.shared += 1
            coins = np.empty(shape)
            self._own_bits.take(UNIFORM, coins.reshape(-1))
            out = draw_choices(masses, None, coins)
            return int(out) if size is None else out
        own = masses.tobytes()
        drawn = [self._one_value(own, masses) for _ in range(math.prod(shape))]
        return drawn[0] if size is None else np.array(drawn, np.int64).reshape(shape)

    def _one_value(self, own: bytes, masses: Floats) -> int:
        edges, last = self._own_edges(own, masses)
        found = min(bisect_right(edges, self._coin() * edges[-1]), last)
        self._note("choice", own, found, law=masses)
        return found

    def _own_edges(self, own: bytes, masses: Floats) -> tuple[list[float], int]:
        """Sums of the masses of the present output's next choice, and the last value that has any."""
        table, place = self.proposal.tables.get("choice"), self._counted.get("choice", 0)
        tilted = table is not None and place < table.shape[1]
        key = (own, self._component(), place) if tilted else own
        found = self._edges.get(key)
        if found is None:
            tilt = self._own_tilt("choice")
            tilted_masses = masses if tilt is None else masses * np.exp(tilt[: masses.size])
            found = np.cumsum(tilted_masses).tolist(), int(np.flatnonzero(tilted_masses > 0.0)[-1])
            if len(self._edges) > 1 << 12:
                self._edges.clear()
            self._edges[key] = found
        return found

    def _order(self, items: int, picked: int) -> Ints:
        """The first items of a random order, (picked,), of the present output; one by one."""
        times = np.empty(items)
        self._plain().bit_generator.take(EXPONENTIAL, times)
        found = draw_order(times, picked, self._own_tilt("order"))
        if picked:
            self._note("order", (items, picked), found.copy(), law=items)
        return found

    def _orders(self, items: int) -> Ints:
        """A random order of each output, (size, items); by rows."""
        return self._block("order", items, items, lambda first, blocks: blocks.orders(items, first), 1)

    def _based(self, kind: str, bases: tuple[Any, ...], size: Any, plain: Callable[[Stream], Any]) -> Any:
        """Variates of a kind whose law the mechanism names; plain: NumPy's own way, of a stream."""
        arrays = [np.asarray(base, np.float64) for base in bases]
        own = np.broadcast_shapes(*(array.shape for array in arrays))
        shape = own if size is None else _shape(size)
        if np.broadcast_shapes(own, shape) != shape:
            return plain(self._plain())  # which says what is wrong
        if not self.by_rows:
            if not shape and size is None:
                return self._one_based(kind, tuple(array.item() for array in arrays))
            wide = [np.broadcast_to(array, shape) for array in arrays]
            out = np.empty(shape, np.float64 if kind == "gamma" else np.int64)
            for place in np.ndindex(shape):
                out[place] = self._one_based(kind, tuple(float(array[place]) for array in wide))
            return out
        rows = self._from_rows(shape)
        if rows is None:
            self.shared += 1
            return plain(self)
        m, arranged = rows
        # a copy: what the mechanism does to its arrays must not change the tape
        law = tuple(
            array.copy() if not array.ndim else np.array(self._by_row(np.broadcast_to(array, shape), m))
            for array in arrays
        )
        base = law if len(law) > 1 else law[0]
        block = self._block(kind, m, base, lambda first, blocks: blocks.based(kind, m, law, first))
        return np.array(arranged(block), order="C")

    def _one_based(self, kind: str, base: tuple[float, ...]) -> Any:
        tilt = self._own_tilt(kind)
        value = draw_based(kind, base, None if tilt is None else float(tilt[0]), self._plain(), None)
        self._note(kind, None, value, base if len(base) > 1 else base[0])
        return value

    def _passed(self, draw: Callable[[Stream], Any], is_shared: bool = False) -> Any:
        """What is drawn without a proposal, with weight 1; draw: of a stream; is_shared: by no rows, whatever its shape."""
        found = draw(self._plain())
        if not self.by_rows:
            return found
        shape = np.shape(found)
        rows = None if is_shared else self._from_rows(shape)
        if rows is None:
            self.shared += 1
        elif self._exchanged is not None:
            m, arranged = rows
            own, other = self._by_row(np.asarray(found), m), self._by_row(np.asarray(draw(self._exchanged[1])), m)
            found = np.array(arranged(np.where(self._exchanged[0][:, None], other, own)), order="C")
        return found
