"""The random generator that mechanisms get: NumPy's own, whose most asked methods are filled by kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.mechanisms._pcg64 import PCG64
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, GROUP, LAPLACE, NORMAL, UNIFORM, fill, fill_integers

_INTEGERS = 4
_KINDS = 5
_MOST_SPAN = 1 << 32  # integers whose kernel's values are as likely as one another within 2⁻³² of their probability
_FEW = GROUP // 4  # variates that a call takes from a group made before
_ALL = (1 << 64) - 1

Floats = NDArray[np.float64]


class Bits(PCG64):
    """NumPy's PCG64, and beside it the counters of a `Stream`: its state is both, so that it goes where that goes."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(seed)
        # four words of 32 bits, which tell the stream; the first eight are PCG64's
        self.words: list[int] = self._seed_seq.generate_state(12, np.uint32)[8:].tolist()  # type: ignore[attr-defined]
        self.following = [0] * _KINDS  # of each kind the index of the next variate
        self.made: dict[int, tuple[int, NDArray[Any]]] = {}  # the last group of a kind that few were taken of
        self.begun = self._place()  # where both parts were at the last snapshot

    def _place(self) -> list[int]:
        own: dict[str, Any] = super().state  # type: ignore[assignment]
        return [*own["state"].values(), own["has_uint32"], own["uinteger"], *self.words, *self.following]

    @property  # type: ignore[override]  # NumPy's stubs know the keys of its own
    def state(self) -> dict[str, Any]:
        """That of PCG64, and under "stream" the words and the indices that follow. One of PCG64 alone may be set too.

        Reading it, a copy and a pickle are snapshots: who takes one up goes on as this one does. If either part has drawn since
        the last one, both begin anew, seeded by where they are: else draws of one part would leave the other's next ones known.
        """
        with self.lock:
            if (place := self._place()) != self.begun:
                self.take_up(type(self)(np.random.SeedSequence(place)).whole())
            told = {"words": [*self.words], "following": [*self.following]}
            return {**super().state, "bit_generator": "PCG64", "stream": told}

    @state.setter
    def state(self, value: Any) -> None:
        own = {key: value[key] for key in value if key != "stream"}
        if own.get("bit_generator") == "PCG64":  # NumPy looks for the name of the class
            own["bit_generator"] = type(self).__name__
        np.random.PCG64.state.__set__(self, own)  # type: ignore[attr-defined]
        told = value.get("stream")
        if told is None:  # what follows must tell of this state, and of nothing else
            words = np.random.SeedSequence([*own["state"].values()]).generate_state(4, np.uint32).tolist()
            told = {"words": words, "following": [0] * _KINDS}
        self.words, self.following, self.made = [*told["words"]], [*told["following"]], {}
        self.begun = self._place()

    def __reduce__(self) -> tuple[Any, ...]:
        state = self.state  # first, as it may give another seed
        return _bits, (self._seed_seq, state)  # type: ignore[attr-defined]

    def reserve(self, kind: int, size: int) -> int:
        """The index of the first of so many variates, which nobody else gets; under the lock."""
        first = self.following[kind]
        self.following[kind] = (first + size) & _ALL
        return first

    def name(self, kind: int) -> tuple[np.uint64, np.uint64, np.uint64]:
        """Upper half of the counters, and the keys, of a kind."""
        k0, k1, high, low = self.words
        return np.uint64(high << 32 | (low & 0xFFFFFF00) | kind), np.uint64(k0), np.uint64(k1)

    def take(self, kind: int, out: Floats, scale: float = 1.0, loc: float = 0.0) -> None:
        """Fill with loc + scale · standard variates that follow."""
        with self.lock:
            first = self.reserve(kind, out.size)
            group, place = divmod(first, GROUP)
            if is_few := 0 < out.size <= _FEW and place + out.size <= GROUP:
                out[...] = self._group(kind, group)[place : place + out.size]
            name = self.name(kind) if not is_few else ()
        if not is_few:
            fill(out, np.uint64(first), kind, *name, scale, loc)
            return
        if scale != 1.0:
            out *= scale
        if loc != 0.0:
            out += loc

    def one(self, kind: int) -> Any:
        """The next standard variate alone, a float; of integers the next word, an int."""
        with self.lock:
            group, place = divmod(self.reserve(kind, 1), GROUP)
            return self._group(kind, group).item(place)

    def _group(self, kind: int, group: int) -> NDArray[Any]:
        cached = self.made.get(kind)
        if cached is None or cached[0] != group:
            first = np.uint64(group * GROUP)
            if kind == _INTEGERS:
                values: NDArray[Any] = np.empty(GROUP, np.uint64)
                fill_integers(values, first, np.uint64(0), *self.name(kind), np.uint64(0))
            else:
                values = np.empty(GROUP)
                fill(values, first, kind, *self.name(kind), 1.0, 0.0)
            cached = self.made[kind] = group, values
        return cached[1]


def _bits(seed_seq: Any, state: Any) -> Bits:
    bits = Bits(seed_seq)
    bits.state = state
    return bits


class Stream(np.random.Generator):
    """A `numpy.random.Generator` whose uniform, normal, Laplace and exponential variates, and integers, are its own.

    `random`, `uniform`, `standard_normal`, `normal`, `laplace`, `standard_exponential`, `exponential` and `integers` come from
    Philox4x32-10 by kernels (`hpcdp.mechanisms._stream_kernels`), with the same bits on every machine: the i-th variate of a
    kind is a function of the seed, the kind and i, whether it is asked for alone or among many. Other methods, arguments that
    the kernels do not take (other dtypes, lists and arrays of integers, spans of integers above 2³²), and numba's use of a
    generator are NumPy's, from a PCG64 of the same seed; those that NumPy makes of the methods above are made of these. No word
    serves twice, in threads neither. The state of `bit_generator` is that of both parts.

    Args:
        seed: as of `numpy.random.PCG64`.
    """

    bit_generator: Bits

    def __init__(self, seed: Any) -> None:
        super().__init__(seed if isinstance(seed, Bits) else Bits(seed))

    def __reduce__(self) -> tuple[Any, ...]:
        return Stream, (self.bit_generator,)

    def __repr__(self) -> str:
        return "Stream(PCG64)"

    __str__ = __repr__

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Streams of their own, as `numpy.random.Generator.spawn` has them."""
        sequence: Any = self.bit_generator._seed_seq  # type: ignore[attr-defined]
        return [Stream(child) for child in sequence.spawn(n_children)]

    def _variates(self, kind: int, loc: float | Floats, scale: float | Floats, size: Any) -> Any:
        """loc + scale · variates of a kind, as one method of NumPy returns them."""
        bits = self.bit_generator
        if isinstance(loc, float) and isinstance(scale, float):
            if size is None:
                return bits.one(kind) * scale + loc
            out = np.empty(size)
            bits.take(kind, out.reshape(-1), scale, loc)
            return out
        out = np.empty(broadcast_shape(size, loc, scale))
        bits.take(kind, out.reshape(-1))
        out *= scale
        out += loc
        return out if out.ndim or size is not None else out.item()

    def _standard(self, kind: int, size: Any, out: Any) -> Any:
        if out is None:
            return self._variates(kind, 0.0, 1.0, size)
        if size is not None and np.empty(size).shape != out.shape:
            raise ValueError("size must match out.shape when used together")
        self.bit_generator.take(kind, out.reshape(-1))
        return out

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Uniform on [0, 1), in steps of 2⁻⁵³."""
        if size is None and out is None and dtype is np.float64:
            return self._variates(UNIFORM, 0.0, 1.0, None)
        if _is_other(dtype, out):
            return super().random(size, dtype, out)
        return self._standard(UNIFORM, size, out)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform on [low, high)."""
        first, last = _plain(low), _plain(high)
        if first is not None and last is not None:
            width = last - first
            if _is_scale(width) and np.isfinite(width).all():
                return self._variates(UNIFORM, first, width, size)
        return super().uniform(low, high, size)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Standard normal, by Box and Muller from 64 bits: up to 9.5 standard deviations."""
        if _is_other(dtype, out):
            return super().standard_normal(size, dtype, out)
        return self._standard(NORMAL, size, out)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normal with mean loc and standard deviation scale."""
        return self._located(NORMAL, super().normal, loc, scale, size)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Laplace (double exponential) with mean loc and scale `scale`."""
        return self._located(LAPLACE, super().laplace, loc, scale, size)

    def _located(self, kind: int, other: Callable[..., Any], loc: Any, scale: Any, size: Any) -> Any:
        """loc + scale · variates of a kind, or what NumPy's method makes of what the kernels do not take."""
        if size is None and type(loc) is type(scale) is float and scale > 0.0:
            return self._variates(kind, loc, scale, None)  # the short way of Python loops
        place, width = _plain(loc), _plain(scale)
        if place is None or width is None or not _is_scale(width):
            return other(loc, scale, size)
        return self._variates(kind, place, width, size)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: Any = "zig", out: Any = None
    ) -> Any:
        """Standard exponential, by inversion of 64 bits; method: NumPy's, of other dtypes."""
        if _is_other(dtype, out):
            return super().standard_exponential(size, dtype, method, out)
        return self._standard(EXPONENTIAL, size, out)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential with mean scale."""
        width = _plain(scale)
        if width is None or not _is_scale(width):
            return super().exponential(scale, size)
        return self._variates(EXPONENTIAL, 0.0, width, size)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """Integers from low to high, which is excluded but with endpoint; without high, from 0 to low."""
        first, last = (0, low) if high is None else (low, high)
        if type(first) is not int or type(last) is not int or dtype is not np.int64:
            return super().integers(low, high, size, dtype, endpoint)
        span = last - first + bool(endpoint)
        if not (0 < span <= _MOST_SPAN and -(1 << 63) <= first <= first + span <= 1 << 63):
            return super().integers(low, high, size, dtype, endpoint)
        bits = self.bit_generator
        if size is None:
            return np.int64(first + (bits.one(_INTEGERS) * span >> 64))
        out = np.empty(size, np.int64)
        flat = out.reshape(-1).view(np.uint64)
        with bits.lock:
            at, name = bits.reserve(_INTEGERS, flat.size), bits.name(_INTEGERS)
        fill_integers(flat, np.uint64(at), np.uint64(span), *name, np.uint64(first % (1 << 64)))
        return out


def _plain(given: Any) -> Any:
    """A float, or an array of float64, as it is; None: what only NumPy takes."""
    kind = type(given)
    if kind is float:
        return given
    if kind is np.float64 or (kind is int and -(1 << 53) <= given <= 1 << 53):
        return float(given)
    return given if kind is np.ndarray and given.dtype == np.float64 else None


def _is_scale(width: float | Floats) -> bool:
    """Whether the kernels take it; NumPy says what is wrong with others."""
    if isinstance(width, float):
        return width > 0.0 or (width == 0.0 and math.copysign(1.0, width) > 0.0)
    return not bool(np.signbit(width).any() or np.isnan(width).any())


def _is_other(dtype: Any, out: Any) -> bool:
    """Whether it is not float64, in an array that is filled in place where one is given."""
    if dtype is not np.float64 and np.dtype(dtype) != np.float64:
        return True
    return out is not None and not (
        type(out) is np.ndarray and out.dtype == np.float64 and out.flags.carray and out.dtype.isnative
    )


def broadcast_shape(size: Any, *given: Any) -> tuple[int, ...]:
    """The shape that is asked for with these parameters; ValueError, as NumPy's, where they do not fit it."""
    own = np.broadcast_shapes(*(np.shape(parameter) for parameter in given))
    if size is None:
        return own
    wanted = _shape(size)
    if np.broadcast_shapes(wanted, own) != wanted:
        raise ValueError(f"Output size {wanted} is not compatible with broadcast dimensions of inputs {own}.")
    return wanted


def _shape(size: Any) -> tuple[int, ...]:
    return np.empty(size, np.bool_).shape  # ValueError where one is negative, before anything is counted as drawn
