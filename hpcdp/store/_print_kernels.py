"""CRC-32 and the sum of words in one pass: what is left of many words for zlib is a few, of the same checksum.

x^(64·4018) + x^(64·2091) + x^(64·1837) + 1 is a multiple of CRC-32's polynomial: the multiple of least degree of its form
with terms far apart (tests/test_fingerprints.py). So a word may be added modulo 2 to the words that follow it 1927, 2181 and 4018
places later instead of being divided, as in "Chorba" (Russell, 2024), which zlib-ng uses where nothing multiplies
without carries.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel

LAGS = 1927, 2181, 4018
"""Of words of 64 bits."""

_A, _B, _C = LAGS
_RUNS = 16


@kernel()
def fold(words, rest):  # type: ignore[no-untyped-def]
    """The sum modulo 2⁶⁴ of uint64 words, more than the largest lag, of which so many are left in `rest`: divided
    by CRC-32's polynomial they leave what all leave. CRC-32 begins by inverting the first 32 bits, as is done here.
    """
    some = np.empty(_C + _RUNS * _A, np.uint64)  # the last words that were added to, in the processor's near cache
    some[:_C] = 0
    total, place, begin = np.uint64(0), 0, words.size - _C
    for start in range(0, begin, _A):
        count = min(_A, begin - start)
        new, given = some[place + _C : place + _C + count], words[start : start + count]
        one, two, three = some[place + _C - _A :], some[place + _C - _B :], some[place:]
        for i in range(count):
            word = given[i]
            total += word
            new[i] = word ^ one[i] ^ two[i] ^ three[i]
        if start == 0:
            flip = np.uint64(0xFFFFFFFF)
            new[0] ^= flip
        place += count
        if place + _C + _A > some.size:
            some[:_C] = some[place : place + _C].copy()
            place = 0
    for i in range(_C):
        word = words[begin + i]
        total += word
        for lag in LAGS:
            if i < lag and begin + i >= lag:
                word ^= some[place + _C + i - lag]
        rest[i] = word
    return total
