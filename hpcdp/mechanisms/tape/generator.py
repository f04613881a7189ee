"""The generator that a mechanism gets where its random tape is drawn from a proposal."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, LAPLACE, NORMAL, UNIFORM
from hpcdp.mechanisms.streams import Floats, Stream, _shape
from hpcdp.mechanisms.tape import _tape_kernels as kernels
from hpcdp.mechanisms.tape.kinds import MOST_ORDERED, MOST_VALUES, Entry, draw_choices, draw_order
from hpcdp.mechanisms.tape.proposal import Proposal

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NAMES = {NORMAL: "normal", LAPLACE: "laplace", EXPONENTIAL: "exponential", UNIFORM: "uniform"}
_CODES = {name: code for code, name in _NAMES.items()}
_COLUMNS = 8  # of variates of a kind that are made ahead for all outputs, where they are drawn one by one
_EXACT = 2.0**-52
_MOST_SPAN = 1 << 32


class Tape(Stream):
    """A `Stream` for a batch of outputs whose variates come from a proposal, and which knows what it gave to each output.

    Two ways tell which output a variate belongs to. By rows: the outputs of one call are drawn at once, and an array has an axis
    of as many entries; what has none is shared by all, is drawn plainly and noted in `shared`. One by one: `begin(i)` says that
    all that follows is output i's. Methods without a proposal are NumPy's, plain, with weight 1.

    Args:
        seed: as of `numpy.random.PCG64`.
        proposal: the mixture that weighs, and that is drawn from.
        size: how many outputs.
        by_rows: which way.
        is_plain: whether outputs are drawn plainly all the same, to be weighed by the proposal.
        exchanged: rows (size,) bool whose entries come from another seed, and that seed: to see which outputs change.
        flat: how a row axis of size · k entries is laid out: outputs one after another ("rows"), or places ("columns").
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
        super().__init__(seed)
        self.proposal, self.size, self.by_rows, self.flat = proposal, size, by_rows, flat
        self.starts = np.append(0, np.full(proposal.count, size)) if is_plain else proposal.starts(size)
        self.shared = 0
        self._exchanged = None if exchanged is None else (exchanged[0], Stream(exchanged[1]))
        self._entries: list[Entry] = []
        self._places: dict[str, int] = {}
        self._sheets: dict[str, Floats] = {}
        self._used: dict[str, Ints] = {}
        self._own: dict[tuple[str, int, Any], tuple[list[int], list[Any], list[Any]]] = {}
        self._counted: dict[str, int] = {}
        self._at = 0

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a random tape is its call's alone, and cannot be copied or pickled")

    def __repr__(self) -> str:
        return "Tape(PCG64)"

    __str__ = __repr__

    def begin(self, number: int) -> None:
        """What is drawn from now on belongs to this output."""
        self._at, self._counted = number, {}

    # what was drawn

    def entries(self) -> list[Entry]:
        """All that outputs were given, of kinds that have proposals."""
        found = [*self._entries]
        for kind, sheet in self._sheets.items():
            used = self._used[kind]
            found.append(Entry(kind, 0, np.ascontiguousarray(sheet[:, : int(used.max(initial=0))]), used))
        for (kind, place, base), (rows, values, bases) in self._own.items():
            array = np.asarray(values)
            shaped = array if kind == "order" else array[:, None]
            law: Any = np.frombuffer(base) if kind == "choice" else base
            if kind in ("gamma", "poisson"):
                law = np.asarray(bases, np.float64)[:, None]
            elif kind == "binomial":
                law = tuple(np.asarray(part, np.float64)[:, None] for part in zip(*bases, strict=True))
            used = np.ones(array.shape[0], np.int64)
            found.append(Entry(kind, place, shaped, used, law, np.asarray(rows, np.int64)))
        return found

    def log_weights(self, which: Ints) -> tuple[Floats, Floats]:
        """log w of these outputs, and how far the computed one may be from it, at most; (selected,) each."""
        count = self.proposal.count
        if count == 1:
            return np.zeros(which.size), np.zeros(which.size)
        ratios, magnitudes, terms = np.zeros((which.size, count)), np.zeros(which.size), 0
        for entry in self.entries():
            if (table := self.proposal.tables.get(entry.kind)) is not None:
                entry.add_log_ratios(which, table, ratios, magnitudes)
                terms += entry.values.shape[1]
        weights = np.empty(which.size)
        with np.errstate(divide="ignore"):
            kernels.mix_log_weights(ratios, np.log(self.proposal.shares), weights)
        return weights, _EXACT * ((terms + 12.0) * magnitudes + count + 32.0)

    # how it is drawn

    def _from_rows(self, shape: tuple[int, ...]) -> tuple[int, Any] | None:
        """Entries of each output in an array of this shape, and how (size, entries) becomes that array; None: shared."""
        size = self.size
        if size in shape:
            axis = shape.index(size)
            rest = shape[:axis] + shape[axis + 1 :]
            return int(np.prod(rest)), lambda block: np.moveaxis(block.reshape(size, *rest), 0, axis)
        if len(shape) == 1 and size and shape[0] and shape[0] % size == 0:
            by_columns = self.flat == "columns"
            return shape[0] // size, lambda block: (block.T if by_columns else block).reshape(-1)
        return None

    def _raw(self, kind: str, first: int, m: int, source: Stream, base: Any = None) -> NDArray[Any]:
        """A block (size, m) of a kind, tilted by each row's component."""
        if kind in _CODES:
            block = np.empty((self.size, m))
            source.bit_generator.take(_CODES[kind], block.reshape(-1))
            self._tilt(kind, block, first, source)
            return block
        tilt = self._tilts(kind, first, m)
        if kind == "gamma":
            return np.asarray(np.random.Generator.standard_gamma(source, base, (self.size, m)) * tilt)
        if kind == "poisson":
            return np.asarray(np.random.Generator.poisson(source, base * np.exp(tilt), (self.size, m)))
        trials, chance = base
        odds = chance * np.exp(tilt)
        return np.asarray(
            np.random.Generator.binomial(source, trials.astype(np.int64), odds / (1.0 - chance + odds), (self.size, m))
        )

    def _tilts(self, kind: str, first: int, m: int) -> Floats:
        """Parameter (size, m) of a kind with one, of each row's component."""
        found = np.full((self.size, m), 1.0 if kind == "gamma" else 0.0)
        table = self.proposal.tables.get(kind)
        if table is not None:
            for c, (start, stop) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
                part = table[c, first : first + m, 0]
                found[start:stop, : part.size] = part
        return found

    def _tilt(self, kind: str, block: Floats, first: int, source: Stream) -> None:
        table = self.proposal.tables.get(kind)
        if table is None or first >= table.shape[1]:
            return
        for c, (start, stop) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
            part = block[start:stop]
            if c == 0 or not part.size:
                continue
            if kind == "normal":
                kernels.tilt_normals(part, table[c], first)
            elif kind == "exponential":
                kernels.tilt_exponentials(part, table[c], first)
            else:
                coins = np.empty(part.shape)
                source.bit_generator.take(UNIFORM, coins.reshape(-1))
                tilted = kernels.tilt_laplaces if kind == "laplace" else kernels.tilt_uniforms
                tilted(part, coins, table[c], first)

    def _block(self, kind: str, m: int, base: Any = None) -> NDArray[Any]:
        """The next m entries of each output, noted on the tape; by rows."""
        first = self._places.get(kind, 0)
        self._places[kind] = first + m
        block = self._raw(kind, first, m, self, base)
        if self._exchanged is not None:
            rows, other = self._exchanged
            block = np.where(rows[:, None], self._raw(kind, first, m, other, base), block)
        self._entries.append(Entry(kind, first, block, np.full(self.size, m), base))
        return block

    def _next(self, kind: str, count: int) -> Floats:
        """The next entries of the present output, of a kind of standard variates, (count,); one by one."""
        used = self._used.setdefault(kind, np.zeros(self.size, np.int64))
        first = int(used[self._at])
        sheet = self._sheets.get(kind)
        have = 0 if sheet is None else sheet.shape[1]
        if first + count > have:
            more = max(_COLUMNS, have, first + count - have)
            block = self._raw(kind, have, more, self)
            sheet = block if sheet is None else np.hstack([sheet, block])
            self._sheets[kind] = sheet
        used[self._at] = first + count
        assert sheet is not None
        return sheet[self._at, first : first + count]

    def _note(self, kind: str, key: Any, value: Any, base: Any = None) -> None:
        place = self._counted.get(kind, 0)
        self._counted[kind] = place + 1
        rows, values, bases = self._own.setdefault((kind, place, key), ([], [], []))
        rows.append(self._at)
        values.append(value)
        bases.append(base)

    def _component(self) -> int:
        """The component of the present output."""
        return int(np.searchsorted(self.starts, self._at, "right")) - 1

    def _own_tilt(self, kind: str) -> Floats | None:
        """The parameters (P,) of the present output's next entry of a kind; None: plain."""
        table, place = self.proposal.tables.get(kind), self._counted.get(kind, 0)
        return None if table is None or place >= table.shape[1] else table[self._component(), place]

    def _standards(self, kind: str, shape: tuple[int, ...]) -> Floats:
        """A new array of standard variates of this shape."""
        if not self.by_rows:
            return self._next(kind, int(np.prod(shape))).reshape(shape).copy()
        found = self._from_rows(shape)
        if found is not None:
            m, arranged = found
            return np.array(arranged(self._block(kind, m)), order="C")
        self.shared += 1
        out = np.empty(shape)
        self.bit_generator.take(_CODES[kind], out.reshape(-1))
        return out

    # what mechanisms call; see `Stream` and NumPy

    def _variates(self, kind: int, loc: float | Floats, scale: float | Floats, size: Any) -> Any:
        shape = np.broadcast_shapes(np.shape(loc), np.shape(scale))
        if size is not None:
            wanted = _shape(size)
            if np.broadcast_shapes(wanted, shape) != wanted:
                raise ValueError(f"Output size {wanted} is not compatible with broadcast dimensions of inputs {shape}.")
            shape = wanted
        if not shape and not self.by_rows and size is None:
            return float(self._next(_NAMES[kind], 1)[0]) * scale + loc
        out = self._standards(_NAMES[kind], shape)
        if not (isinstance(scale, float) and scale == 1.0):
            out *= scale
        if not (isinstance(loc, float) and loc == 0.0):
            out += loc
        return out if out.ndim or size is not None else out.item()

    def _standard(self, kind: int, size: Any, out: Any) -> Any:
        if out is None:
            return self._variates(kind, 0.0, 1.0, size)
        if size is not None and np.empty(size).shape != out.shape:
            raise ValueError("size must match out.shape when used together")
        out[...] = self._standards(_NAMES[kind], out.shape)
        return out

    def _values(self, masses: Floats, size: Any) -> Any:
        """Numbers 0 to n − 1 with these probabilities, (n,)."""
        if masses.size > MOST_VALUES:
            coins = self._variates(UNIFORM, 0.0, 1.0, size)
            found = draw_choices(masses, None, np.asarray(coins))
            return int(found) if size is None else found
        shape = () if size is None else _shape(size)
        if not self.by_rows:
            out = np.empty(int(np.prod(shape)), np.int64)
            own = np.ascontiguousarray(masses, np.float64).tobytes()
            for i in range(out.size):
                coin = np.asarray(self.bit_generator.one(UNIFORM))
                out[i] = draw_choices(masses, self._own_tilt("choice"), coin)
                self._note("choice", own, out[i])
            return int(out[0]) if size is None else out.reshape(shape)
        rows = self._from_rows(shape)
        if rows is None:
            self.shared += 1
            out = draw_choices(
                masses, None, np.asarray(super().random(shape) if shape else self.bit_generator.one(UNIFORM))
            )
            return int(out) if size is None else out
        m, arranged = rows
        first = self._places.get("choice", 0)
        self._places["choice"] = first + m
        block = self._choice_block(masses, first, m, self)
        if self._exchanged is not None:
            block = np.where(
                self._exchanged[0][:, None], self._choice_block(masses, first, m, self._exchanged[1]), block
            )
        self._entries.append(Entry("choice", first, block, np.full(self.size, m), masses))
        return np.array(arranged(block), order="C")

    def _choice_block(self, masses: Floats, first: int, m: int, source: Stream) -> Ints:
        coins = np.empty((self.size, m))
        source.bit_generator.take(UNIFORM, coins.reshape(-1))
        block, table = np.empty((self.size, m), np.int64), self.proposal.tables.get("choice")
        for c, (start, stop) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
            for j in range(m):
                tilt = None if table is None or first + j >= table.shape[1] else table[c, first + j]
                block[start:stop, j] = draw_choices(masses, tilt, coins[start:stop, j])
        return block

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """As of NumPy."""
        first, last = (0, low) if high is None else (low, high)
        if type(first) is int and type(last) is int and dtype is np.int64:
            span = last - first + bool(endpoint)
            if 0 < span <= MOST_VALUES:
                found = self._values(np.full(span, 1.0 / span), size)
                return np.int64(found + first) if size is None else found + first
            if 0 < span <= _MOST_SPAN:
                found = np.floor(np.asarray(self._variates(UNIFORM, 0.0, 1.0, size)) * span).astype(np.int64) + first
                return np.int64(found) if size is None else found
        return np.random.Generator.integers(self, low, high, size, dtype, endpoint)

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """As of NumPy; without replacement by orders of Plackett and Luce, of up to 256 items."""
        items = np.arange(a) if isinstance(a, int | np.integer) else np.asarray(a)
        n = items.shape[axis] if items.ndim else 0
        masses = None if p is None else np.asarray(p, np.float64)
        usual = n > 0 and (
            masses is None or (masses.shape == (n,) and (masses >= 0.0).all() and abs(float(masses.sum()) - 1.0) < 1e-8)
        )
        if usual and replace:
            if masses is None and n > MOST_VALUES:
                return np.take(items, self.integers(0, n, size), axis=axis)
            found = self._values(np.full(n, 1.0 / n) if masses is None else masses / masses.sum(), size)
            return np.take(items, found, axis=axis)
        wanted = 1 if size is None else int(np.prod(_shape(size)))
        if usual and not self.by_rows and masses is None and wanted <= n <= MOST_ORDERED:
            found = self._order(n, wanted)
            return np.take(items, found[0] if size is None else found.reshape(_shape(size)), axis=axis)
        self._pass(() if size is None else _shape(size))
        return np.random.Generator.choice(self, a, size, replace, p, axis, shuffle)

    def _order(self, items: int, size: int) -> Ints:
        times = np.empty(items)
        self.bit_generator.take(EXPONENTIAL, times)
        found = draw_order(times, size, self._own_tilt("order"))
        self._note("order", items, found)
        return found

    def _pass(self, shape: tuple[int, ...]) -> None:
        """What is drawn by NumPy alone: plainly, with weight 1."""
        if self.by_rows and self._from_rows(shape) is None:
            self.shared += 1

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """As of NumPy."""
        items = np.arange(x) if isinstance(x, int | np.integer) else np.asarray(x)
        if not self.by_rows and items.ndim and 0 < items.shape[axis] <= MOST_ORDERED:
            return np.take(items, self._order(items.shape[axis], items.shape[axis]), axis=axis)
        self.shared += self.by_rows
        return np.random.Generator.permutation(self, x, axis)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """As of NumPy."""
        if not self.by_rows and isinstance(x, np.ndarray) and x.ndim and 0 < x.shape[axis] <= MOST_ORDERED:
            x[...] = np.take(x, self._order(x.shape[axis], x.shape[axis]), axis=axis)
        elif not self.by_rows and isinstance(x, list) and 0 < len(x) <= MOST_ORDERED:
            x[:] = [x[i] for i in self._order(len(x), len(x))]
        else:
            self.shared += self.by_rows
            np.random.Generator.shuffle(self, x, axis)

    def geometric(self, p: Any, size: Any = None) -> Any:
        """As of NumPy, by inversion of an exponential."""
        chance = np.asarray(p, np.float64)
        if not ((chance > 0.0) & (chance <= 1.0)).all():
            return np.random.Generator.geometric(self, p, size)
        with np.errstate(divide="ignore"):
            rate = -np.log1p(-chance)
        shape = chance.shape if size is None else _shape(size)
        found = np.asarray(self._variates(EXPONENTIAL, np.zeros(shape), 1.0, None if not shape else shape))
        out = np.maximum(1.0, np.ceil(found / rate)).astype(np.int64)
        return out if shape else int(out)

    def _based(self, kind: str, bases: tuple[Any, ...], size: Any, plain: Any) -> Any:
        """Variates of a kind whose law the mechanism names; plain: NumPy's own way."""
        arrays = [np.asarray(base, np.float64) for base in bases]
        own = np.broadcast_shapes(*(array.shape for array in arrays))
        shape = own if size is None else _shape(size)
        if np.broadcast_shapes(own, shape) != shape:
            return plain()  # which says what is wrong
        wide = [np.broadcast_to(array, shape) for array in arrays]
        if not self.by_rows:
            out = np.empty(shape, np.float64 if kind == "gamma" else np.int64)
            for place in np.ndindex(shape):
                base = tuple(float(array[place]) for array in wide)
                out[place] = value = self._one_based(kind, base)
                self._note(kind, None, value, base if len(base) > 1 else base[0])
            return out if shape else out.item()
        rows = self._from_rows(shape)
        if rows is None:
            self.shared += 1
            return plain()
        m, arranged = rows
        law = tuple(self._by_row(array, shape, m) for array in wide)
        return np.array(arranged(self._block(kind, m, law if len(law) > 1 else law[0])), order="C")

    def _by_row(self, array: Floats, shape: tuple[int, ...], m: int) -> Floats:
        if self.size in shape:
            return np.moveaxis(array, shape.index(self.size), 0).reshape(self.size, m)
        return array.reshape(m, self.size).T if self.flat == "columns" else array.reshape(self.size, m)

    def _one_based(self, kind: str, base: tuple[float, ...]) -> Any:
        tilt = self._own_tilt(kind)
        if kind == "gamma":
            return np.random.Generator.standard_gamma(self, base[0]) * (1.0 if tilt is None else tilt[0])
        factor = 1.0 if tilt is None else float(np.exp(tilt[0]))
        if kind == "poisson":
            return np.random.Generator.poisson(self, base[0] * factor)
        odds = base[1] * factor
        return np.random.Generator.binomial(self, int(base[0]), odds / (1.0 - base[1] + odds))

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """As of NumPy."""
        if np.dtype(dtype) != np.float64 or out is not None or not (np.asarray(shape) > 0).all():
            return np.random.Generator.standard_gamma(self, shape, size, dtype, out)
        return self._based("gamma", (shape,), size, lambda: np.random.Generator.standard_gamma(self, shape, size))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """As of NumPy."""
        if not ((np.asarray(shape) > 0).all() and (np.asarray(scale) > 0).all()):
            return np.random.Generator.gamma(self, shape, scale, size)
        wanted = np.broadcast_shapes(np.shape(shape), np.shape(scale)) if size is None else _shape(size)
        return self.standard_gamma(np.broadcast_to(shape, wanted) if wanted else shape) * scale

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        """As of NumPy."""
        if not ((np.asarray(lam) >= 0).all() and (np.asarray(lam) < 1e9).all()):
            return np.random.Generator.poisson(self, lam, size)
        return self._based("poisson", (lam,), size, lambda: np.random.Generator.poisson(self, lam, size))

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """As of NumPy."""
        trials, chance = np.asarray(n), np.asarray(p)
        if not (trials.dtype.kind in "iu" and (trials >= 0).all() and ((chance >= 0) & (chance <= 1)).all()):
            return np.random.Generator.binomial(self, n, p, size)
        return self._based("binomial", (n, p), size, lambda: np.random.Generator.binomial(self, n, p, size))

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """As of NumPy; one trial is a choice."""
        masses = np.asarray(pvals, np.float64)
        if n == 1 and np.ndim(n) == 0 and masses.ndim == 1 and masses.size > 0 and abs(masses.sum() - 1.0) < 1e-9:
            found = np.asarray(self._values(masses / masses.sum(), size))
            return (found[..., None] == np.arange(masses.size)).astype(np.int64)
        self._pass(() if size is None else _shape(size))
        return np.random.Generator.multinomial(self, n, pvals, size)
