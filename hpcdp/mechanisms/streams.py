"""The random generator that mechanisms get: NumPy's own, whose most asked methods are filled by kernels."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, LAPLACE, NORMAL, UNIFORM, fill, fill_integers

_INTEGERS = 4
_MOST_SPAN = 1 << 32  # integers whose kernel's values are as likely as one another within 2⁻³² of their probability
_SCALARS = 64  # variates that are drawn ahead for calls that ask for one


class Stream(np.random.Generator):
    """A `numpy.random.Generator` whose uniform, normal, Laplace and exponential variates, and integers, are its own.

    `random`, `uniform`, `standard_normal`, `normal`, `laplace`, `standard_exponential`, `exponential` and `integers` come from
    Philox4x32-10 by kernels (`hpcdp.mechanisms._stream_kernels`), with the same bits on every machine: the i-th variate of a
    kind is a function of the seed, the kind and i, whether it is asked for alone or among many. All other methods,
    `bit_generator`, arguments that the kernels do not take (other dtypes, spans of integers above 2³²), and numba's use of a
    generator are NumPy's, from a PCG64 of the same seed; no word serves twice, in threads neither.

    Args:
        seed: as of `numpy.random.PCG64`.
    """

    def __init__(self, seed: np.random.SeedSequence | int | Sequence[int]) -> None:
        sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        super().__init__(np.random.PCG64(sequence))
        # the first eight words are PCG64's
        self._words: list[int] = sequence.generate_state(12, np.uint32)[8:].tolist()
        self._next = [0] * (_INTEGERS + 1)
        self._ahead: dict[int, list[float]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        following = [n - len(self._ahead.get(kind, ())) for kind, n in enumerate(self._next)]
        return _restored, (self.bit_generator, self._words, following)

    def __copy__(self) -> Stream:
        """Another that draws from the same counters, as a shallow copy of NumPy's shares its bits."""
        copied = _restored(self.bit_generator, self._words, self._next)
        copied._ahead = self._ahead
        return copied

    def __repr__(self) -> str:
        return f"Stream({type(self.bit_generator).__name__})"

    __str__ = __repr__

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Streams of their own, as `numpy.random.Generator.spawn` has them."""
        sequence: Any = self.bit_generator.seed_seq
        return [Stream(child) for child in sequence.spawn(n_children)]

    def _name(self, kind: int) -> tuple[np.uint64, np.uint64, np.uint64]:
        """Upper half of the counters, and the keys, of a kind."""
        k0, k1, high, low = self._words
        return np.uint64(high << 32 | (low & 0xFFFFFF00) | kind), np.uint64(k0), np.uint64(k1)

    def _fill(self, kind: int, out: NDArray[np.float64], scale: float = 1.0, loc: float = 0.0) -> None:
        with self.bit_generator.lock:
            first = self._reserve(kind, out.size)
        fill(out, first, kind, *self._name(kind), float(scale), float(loc))

    def _reserve(self, kind: int, size: int) -> np.uint64:
        """The index of the first of so many, which nobody else gets; under the lock."""
        first = self._next[kind] - len(self._ahead.pop(kind, ()))
        self._next[kind] = first + size
        return np.uint64(first)

    def _one(self, kind: int) -> float:
        """The next variate alone."""
        with self.bit_generator.lock:
            if not self._ahead.get(kind):
                made, first = np.empty(_SCALARS), self._reserve(kind, _SCALARS)
                fill(made, first, kind, *self._name(kind), 1.0, 0.0)
                self._ahead[kind] = made[::-1].tolist()
            return self._ahead[kind].pop()

    def _variates(self, kind: int, loc: Any, scale: Any, size: Any) -> Any:
        """loc + scale · variates of a kind, as one method of NumPy returns them."""
        if type(loc) in _NUMBERS and type(scale) in _NUMBERS:
            if size is None:
                one = self._one(kind)
                return one if scale == 1 and loc == 0 else one * scale + loc
            out = np.empty(size)
            self._fill(kind, out.reshape(-1), scale, loc)
            return out
        shape = np.broadcast_shapes(np.shape(loc), np.shape(scale))
        if size is not None:
            wanted = (operator.index(size),) if not isinstance(size, Sequence) else tuple(size)
            if np.broadcast_shapes(wanted, shape) != wanted:
                raise ValueError(f"Output size {wanted} is not compatible with broadcast dimensions of inputs {shape}.")
            shape = wanted
        if not shape:
            return self._one(kind) * float(scale) + float(loc)
        out = np.empty(shape)
        self._fill(kind, out.reshape(-1))
        out *= scale
        out += loc
        return out

    def _standard(self, kind: int, size: Any, out: Any) -> Any:
        if out is None:
            return self._variates(kind, 0.0, 1.0, size)
        if size is not None and np.empty(size).shape != out.shape:
            raise ValueError("size must match out.shape when used together")
        self._fill(kind, out.reshape(-1))
        return out

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Uniform on [0, 1), in steps of 2⁻⁵³."""
        if _is_other(dtype, out):
            return super().random(size, dtype, out)
        return self._standard(UNIFORM, size, out)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform on [low, high)."""
        width = np.subtract(high, low) if type(low) not in _NUMBERS or type(high) not in _NUMBERS else high - low
        if not (np.isfinite(width).all() and (np.asarray(width) >= 0).all()):
            return super().uniform(low, high, size)
        return self._variates(UNIFORM, low, width, size)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Standard normal, by Box and Muller from 64 bits: up to 9.4 standard deviations."""
        if _is_other(dtype, out):
            return super().standard_normal(size, dtype, out)
        return self._standard(NORMAL, size, out)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normal with mean loc and standard deviation scale."""
        if not _is_scale(scale):
            return super().normal(loc, scale, size)
        return self._variates(NORMAL, loc, scale, size)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Laplace (double exponential) with mean loc and scale `scale`."""
        if not _is_scale(scale):
            return super().laplace(loc, scale, size)
        return self._variates(LAPLACE, loc, scale, size)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: Any = "zig", out: Any = None
    ) -> Any:
        """Standard exponential, by inversion of 64 bits; method: NumPy's, of other dtypes."""
        if _is_other(dtype, out):
            return super().standard_exponential(size, dtype, method, out)
        return self._standard(EXPONENTIAL, size, out)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential with mean scale."""
        if not _is_scale(scale):
            return super().exponential(scale, size)
        return self._variates(EXPONENTIAL, 0.0, scale, size)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """Integers from low to high, which is excluded but with endpoint; without high, from 0 to low."""
        first, last = (0, low) if high is None else (low, high)
        if type(first) is not int or type(last) is not int or np.dtype(dtype) != np.int64:
            return super().integers(low, high, size, dtype, endpoint)
        span = last - first + bool(endpoint)
        if not (0 < span <= _MOST_SPAN and -(1 << 63) <= first <= first + span <= 1 << 63):
            return super().integers(low, high, size, dtype, endpoint)
        out = np.empty(() if size is None else size, np.int64)
        flat = out.reshape(-1).view(np.uint64)
        with self.bit_generator.lock:
            at = self._reserve(_INTEGERS, flat.size)
        fill_integers(flat, at, np.uint64(span), *self._name(_INTEGERS), np.uint64(first % (1 << 64)))
        return out[()] if size is None else out


_NUMBERS = (float, int, np.float64)


def _is_scale(scale: Any) -> bool:
    """Whether the kernels take it; NumPy says what is wrong with others."""
    if type(scale) in _NUMBERS:
        return bool(scale >= 0)
    found = np.asarray(scale)
    return found.dtype.kind in "biuf" and bool((found >= 0).all())


def _is_other(dtype: Any, out: Any) -> bool:
    """Whether it is not float64, in an array that is filled in place where one is given."""
    if np.dtype(dtype) != np.float64:
        return True
    return out is not None and not (
        isinstance(out, np.ndarray) and out.dtype == np.float64 and out.flags.c_contiguous and out.flags.writeable
    )


def _restored(bit_generator: Any, words: list[int], following: list[int]) -> Stream:
    stream = Stream.__new__(Stream)
    np.random.Generator.__init__(stream, bit_generator)
    stream._words, stream._next, stream._ahead = words, following, {}
    return stream
