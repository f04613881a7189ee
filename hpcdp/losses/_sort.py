"""Ascending float64 by whichever sort is faster here: NumPy's, or a radix sort (see docs/design.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel

_BITS = 11
_PASSES = 6  # 6 · 11 bits cover 64
_SIGN = np.uint64(1 << 63)
_SMALL = 1 << 10  # below this, NumPy's sort is as fast
_FIRST = 1 << 20  # values that NumPy sorts before the kernels are loaded, which takes longer
_TRIED, _TRIES = 1 << 17, 4  # values, and times, in which both are tried
_FAST = 5e-9  # seconds a value that seven passes of a radix sort never take (11e-9 were seen), so that it need not be loaded

_sorted = 0  # values, by NumPy


@kernel()
def _radix_sort(keys, spare):  # type: ignore[no-untyped-def]
    """Sort keys least significant digit first; returns True when the result lies in spare."""
    radix = 1 << _BITS
    mask = np.uint64(radix - 1)
    counts = np.zeros((_PASSES, radix), np.int64)
    for i in range(keys.size):
        for p in range(_PASSES):
            counts[p, (keys[i] >> np.uint64(p * _BITS)) & mask] += 1
    in_spare = False
    for p in range(_PASSES):
        position = counts[p]
        if position.max() == keys.size:
            continue  # all keys share this digit
        total = 0
        for d in range(radix):
            count = position[d]
            position[d] = total
            total += count
        source, target = (spare, keys) if in_spare else (keys, spare)
        shift = np.uint64(p * _BITS)
        for i in range(source.size):
            digit = (source[i] >> shift) & mask
            target[position[digit]] = source[i]
            position[digit] += 1
        in_spare = not in_spare
    return in_spare


def _by_radix(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # keys whose unsigned order is that of the floats: negative ones inverted, others with the sign bit set, −0.0 as 0.0
    bits = np.ascontiguousarray(values).view(np.uint64)
    keys = np.where(bits > _SIGN, ~bits, bits | _SIGN)
    spare = np.empty_like(keys)
    if _radix_sort(keys, spare):
        keys = spare
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)


@cache
def _is_numpy_faster() -> bool:
    """Whether NumPy's sort, whose lanes depend on the processor, is the faster one here; both give the same bits."""
    values = np.random.default_rng(0).random(_TRIED)
    by_numpy = _fastest(np.sort, values)
    return by_numpy < _FAST * _TRIED or by_numpy <= _fastest(_by_radix, values)


def _fastest(sort: Callable[[NDArray[np.float64]], object], values: NDArray[np.float64]) -> float:
    """Seconds of the fastest of some times."""
    least = np.inf
    for _ in range(_TRIES):
        begin = time.perf_counter()
        sort(values)
        least = min(least, time.perf_counter() - begin)
    return least


def ascending(values: NDArray[np.float64], is_own: bool = False) -> NDArray[np.float64]:
    """Sorted copy of finite float64 values, shape (size,). is_own: whether the array, which is contiguous, may become it."""
    global _sorted
    if values.size >= _SMALL and values.size + _sorted >= _FIRST:
        _sorted = _FIRST
        if not _is_numpy_faster():
            return _by_radix(values)
    _sorted += values.size
    out = values if is_own else values.copy()
    out.sort()
    out += 0.0  # −0.0 as 0.0
    return out
