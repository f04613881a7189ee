"""A kernel that makes real outputs canonical where they lie, in one pass."""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel

_TOP, _OTHERS = np.uint64(1 << 63), np.uint64((1 << 63) - 1)
_LEAST = np.uint64(1 << 52)  # what carries the exponent of infinities and NaN into the top bit, and no other


@kernel()
def settle(bits):  # type: ignore[no-untyped-def]
    """Make −0.0 of float64, seen as uint64 (size,), 0.0; whether all are finite."""
    seen = np.uint64(0)
    for i in range(bits.size):
        one = bits[i] if bits[i] != _TOP else np.uint64(0)
        bits[i] = one
        seen |= (one & _OTHERS) + _LEAST
    return seen < _TOP
