"""Uniform words and variates by index: the i-th of a stream depends on its name and i alone, however many are asked at once.

Words come from Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), of which
a word of 64 bits is a function of a key and a counter. Variates are functions of one word, or two of two, in additions, products,
divisions and square roots alone: IEEE 754 rounds each the same way everywhere, and nothing is contracted or reordered. No
branch depends on a word, so loops run on as many lanes as the processor has.

Groups of `GROUP` words: the first half of a group are the low words of its counters, the second half their high words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from hpcdp._base.kernels import kernel

GROUP = 1024
_HALF = GROUP // 2

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_TOP, _LOW63 = np.uint64(1 << 63), np.uint64((1 << 63) - 1)
_ONE, _NEXT, _LOW62 = np.uint64(1), np.uint64(62), np.uint64((1 << 62) - 1)
_BITS52 = np.uint64(0x4330000000000000)  # of 2^52, below which 52 bits are an integer
_TWO52, _TWO32 = 2.0**52, 2.0**32

# log, sin and cos: the polynomials of FreeBSD's msun (Sun Microsystems, 1993), whose errors are below one unit in the last place
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROOT_HALF, _ONE_BITS, _MANTISSA = (np.uint64(bits) for bits in (0x3FE6A09E667F3BCD, 0x3FF0000000000000, (1 << 52) - 1))
_L1, _L2, _L3, _L4 = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
)
_L5, _L6, _L7 = 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01
_S1, _S2, _S3 = -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04
_S4, _S5, _S6 = 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10
_C1, _C2, _C3 = 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05
_C4, _C5, _C6 = -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11
_HALF_PI = 1.5707963267948966

NORMAL, LAPLACE, EXPONENTIAL, UNIFORM = 0, 1, 2, 3
"""Kinds of variates: standard normal, standard Laplace, standard exponential, [0, 1) in steps of 2^-53."""


def _widen(_: Any) -> Any:
    """Lets loops of the function that calls it use registers of 512 bits, where LLVM prefers 256; each of them must."""

    def compiled(_: Any, builder: Any, __: Any, ___: Any) -> None:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # its own `add` knows no attributes of text

    return types.void(), compiled


_wide: Any = intrinsic(_widen)


@kernel(inline="always")
def _as_float(bits):  # type: ignore[no-untyped-def]
    return np.uint64(bits).view(np.float64)


@kernel(inline="always")
def _as_bits(number):  # type: ignore[no-untyped-def]
    return np.float64(number).view(np.uint64)


@kernel(error_model="numpy")
def words(low, high, first, name, k0, k1):  # type: ignore[no-untyped-def]
    """Words of counters first, first + 1, …: the low 64 bits of each, and the high ones; name: the counters' upper half."""
    _wide()
    f0, f1, n0, n1 = first & _LOW, first >> _SHIFT, name & _LOW, name >> _SHIFT
    for i in range(low.size):
        x0, x1, x2, x3 = f0 + np.uint64(i), f1, n0, n1  # upper halves may hold anything until the last step
        a0, a1 = k0, k1
        for _ in range(10):
            p0, p1 = _M0 * (x0 & _LOW), _M1 * (x2 & _LOW)  # so that the compiler knows products of 32 bits
            x0, x1, x2, x3 = (p1 >> _SHIFT) ^ x1 ^ a0, p1, (p0 >> _SHIFT) ^ x3 ^ a1, p0
            a0, a1 = a0 + _W0, a1 + _W1
        low[i], high[i] = (x0 & _LOW) | (x1 << _SHIFT), (x2 & _LOW) | (x3 << _SHIFT)


@kernel(error_model="numpy")
def _middle(word, one):  # type: ignore[no-untyped-def]
    """(word + 1/2) / 2^n of a word of n bits, rounded once: exact where it is small, as tails need it. one: 2^(52 - n)."""
    above = one * 2.0**32
    high = _as_float((word >> _SHIFT) | _as_bits(above)) - above
    low = _as_float((word & _LOW) | _as_bits(one)) - one * (1.0 - 2.0**-53)
    return high + low


@kernel(error_model="numpy")
def _minus_log(p):  # type: ignore[no-untyped-def]
    """−log(p) of a normal number p, 0 < p ≤ 1."""
    bits = _as_bits(p) + (_ONE_BITS - _ROOT_HALF)
    k = _as_float((bits >> np.uint64(52)) | _BITS52) - (_TWO52 + 1023.0)
    f = _as_float((bits & _MANTISSA) + _ROOT_HALF) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    r = w * (_L2 + w * (_L4 + w * _L6)) + z * (_L1 + w * (_L3 + w * (_L5 + w * _L7)))
    h = 0.5 * f * f
    return (h - (s * (h + r) + k * _LN2_LOW)) - f - k * _LN2_HIGH


@kernel(error_model="numpy")
def _exponentials(word, out):  # type: ignore[no-untyped-def]
    _wide()
    for i in range(word.size):
        out[i] = _minus_log(_middle(word[i], 2.0**-12))


@kernel(error_model="numpy")
def _laplaces(word, out):  # type: ignore[no-untyped-def]
    """An exponential of 63 bits, with the sign of the last one."""
    _wide()
    for i in range(word.size):
        out[i] = _as_float(_as_bits(_minus_log(_middle(word[i] & _LOW63, 2.0**-11))) ^ (word[i] & _TOP))


@kernel(error_model="numpy")
def _uniforms(word, out):  # type: ignore[no-untyped-def]
    _wide()
    for i in range(word.size):
        bits = word[i] >> np.uint64(11)
        high = _as_float((bits >> _SHIFT) | _BITS52) - _TWO52
        low = _as_float((bits & _LOW) | _BITS52) - _TWO52
        out[i] = (high * _TWO32 + low) * 2.0**-53


@kernel(error_model="numpy")
def _normals(low, high, out):  # type: ignore[no-untyped-def]
    """Box and Muller (1958), in one loop: a radius from all 64 bits of one word, a direction from the other's; two variates."""
    _wide()
    half = low.size
    for i in range(half):
        word, radius = high[i], np.sqrt(2.0 * _minus_log(_middle(low[i], 2.0**-12)))
        x = (_middle(word & _LOW62, 2.0**-10) - 0.5) * _HALF_PI  # from −π/4 to π/4
        z = x * x
        sine = x + x * z * (_S1 + z * (_S2 + z * (_S3 + z * (_S4 + z * (_S5 + z * _S6)))))
        cosine = 1.0 - (0.5 * z - z * z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * (_C5 + z * _C6))))))
        turned = np.uint64(0) - ((word >> _NEXT) & _ONE)  # all ones: by a quarter; the top bit: by a half
        s, c = _as_bits(sine), _as_bits(cosine)
        both = (s ^ c) & turned
        out[i] = radius * _as_float(c ^ both ^ ((word ^ turned) & _TOP))
        out[half + i] = radius * _as_float(s ^ both ^ (word & _TOP))


@kernel(error_model="numpy")
def _fill_group(kind, group, name, k0, k1, word, out):  # type: ignore[no-untyped-def]
    _wide()
    words(word[:_HALF], word[_HALF:], group * np.uint64(_HALF), name, k0, k1)
    if kind == NORMAL:
        _normals(word[:_HALF], word[_HALF:], out)
    elif kind == LAPLACE:
        _laplaces(word, out)
    elif kind == EXPONENTIAL:
        _exponentials(word, out)
    else:
        _uniforms(word, out)


@kernel(error_model="numpy")
def fill(out, first, kind, name, k0, k1, scale, loc):  # type: ignore[no-untyped-def]
    """loc + scale · (variates first, first + 1, … of a kind), of the stream of this name and key, into float64 (size,)."""
    _wide()
    word, spare = np.empty(GROUP, np.uint64), np.empty(GROUP, np.float64)
    group, skipped, done = first // np.uint64(GROUP), np.int64(first % np.uint64(GROUP)), 0
    while done < out.size:
        size = min(GROUP - skipped, out.size - done)
        part = out[done : done + size]
        if size == GROUP:
            _fill_group(kind, group, name, k0, k1, word, part)
        else:
            _fill_group(kind, group, name, k0, k1, word, spare)
            for i in range(size):
                part[i] = spare[skipped + i]
        if scale != 1.0 or loc != 0.0:
            for i in range(size):
                part[i] = part[i] * scale + loc
        group, skipped, done = group + np.uint64(1), np.int64(0), done + size


@kernel(error_model="numpy")
def fill_integers(out, first, span, name, k0, k1, loc):  # type: ignore[no-untyped-def]
    """loc + integers 0 to span − 1 (span 0: 2^64), uint64, modulo 2^64: the upper half of word · span, even to 2^-64."""
    _wide()
    low, high = np.empty(_HALF, np.uint64), np.empty(_HALF, np.uint64)
    group, skipped, done = first // np.uint64(GROUP), np.int64(first % np.uint64(GROUP)), 0
    s0, s1 = span & _LOW, span >> _SHIFT
    while done < out.size:
        size = min(GROUP - skipped, out.size - done)
        words(low, high, group * np.uint64(_HALF), name, k0, k1)
        for i in range(size):
            place = skipped + i
            word = low[place] if place < _HALF else high[place - _HALF]
            if span != 0:
                w0, w1 = word & _LOW, word >> _SHIFT
                middle = w1 * s0 + ((w0 * s0) >> _SHIFT)
                word = w1 * s1 + (middle >> _SHIFT) + ((w0 * s1 + (middle & _LOW)) >> _SHIFT)
            out[done + i] = word + loc
        group, skipped, done = group + np.uint64(1), np.int64(0), done + size
