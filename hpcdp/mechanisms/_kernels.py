"""Kernels of mechanisms: random batches, the sparse vector technique, and outputs made canonical where they lie.

Sparse vector: one uniform decides one query, and a draw stops at its last "above". A query of gap g (threshold minus answer) is
above iff its noise is at least g + rho, so iff its uniform is below the noise's upper tail there; the noise itself is computed
only where it is released.
"""

from __future__ import annotations

import math

import numpy as np

from hpcdp._base.kernels import kernel


@kernel()
def fill_places(uniforms, rows, sizes, places):  # type: ignore[no-untyped-def]
    """Fill row i of places (draws, width) with sizes[i] different numbers below `rows`, every set being as likely."""
    deck = np.arange(rows)
    used = 0
    for draw in range(places.shape[0]):
        for top in range(sizes[draw]):
            # The steps of Fisher and Yates that decide the first places; the deck need not be sorted again, because
            # they give a uniform choice from whatever order they meet.
            other = top + int(uniforms[used] * (rows - top))
            used += 1
            deck[top], deck[other] = deck[other], deck[top]
            places[draw, top] = deck[top]


_TOP, _OTHERS = np.uint64(1 << 63), np.uint64((1 << 63) - 1)
_LEAST = np.uint64(1 << 52)  # what carries the exponent of infinities and NaN into the top bit, and no other


@kernel()
def settle(bits):  # type: ignore[no-untyped-def]
    """Make −0.0 of float64, seen as uint64 (size,), 0.0; whether all are finite."""
    seen = np.uint64(0)
    for i in range(bits.size):
        word = bits[i] if bits[i] != _TOP else np.uint64(0)
        bits[i] = word
        seen |= (word & _OTHERS) + _LEAST
    return seen < _TOP


_LEAST_UNIFORM = 2.0**-54  # stands for a uniform of 0, so that noise is finite


@kernel(inline="always")
def _tail(x):  # type: ignore[no-untyped-def]
    """P(noise >= x) of Laplace noise of scale 1."""
    return 0.5 * math.exp(-x) if x >= 0.0 else 1.0 - 0.5 * math.exp(x)


@kernel(inline="always")
def _noise(uniform):  # type: ignore[no-untyped-def]
    """The Laplace noise of scale 1 whose upper tail is `uniform`."""
    return -math.log(2.0 * max(uniform, _LEAST_UNIFORM)) if uniform < 0.5 else math.log(2.0 * (1.0 - uniform))


@kernel()
def draw_above(gaps, threshold, rho_scale, nu_scale, redraw, release, uniforms, index, value):  # type: ignore[no-untyped-def]
    """Draw until the uniforms may not do for one more, or `index` is full; returns how many draws were made."""
    # gaps: threshold minus answers, (K,). index, value: (size, cutoff), of the "above" and their noisy answers, else K and 0
    queries, cutoff = gaps.size, index.shape[1]
    used, draw = 0, 0
    while draw < index.shape[0] and used + queries + cutoff <= uniforms.size:
        rho = rho_scale * _noise(uniforms[used])
        used += 1
        above = 0
        last, tail = math.nan, 0.0
        for query in range(queries):
            if gaps[query] != last:  # neighbouring queries often have equal answers
                last = gaps[query]
                tail = _tail((last + rho) / nu_scale)
            if uniforms[used] < tail:
                index[draw, above] = query
                if release:
                    value[draw, above] = threshold - last + nu_scale * _noise(uniforms[used])
                above += 1
                used += 1
                if above == cutoff:
                    break
                if redraw:
                    rho = rho_scale * _noise(uniforms[used])
                    used += 1
                    last = math.nan
            else:
                used += 1
        for rest in range(above, cutoff):
            index[draw, rest] = queries
            if release:
                value[draw, rest] = 0.0
        draw += 1
    return draw


@kernel()
def draw_bits(gaps, place, rho_scale, nu_scale, uniforms, bits):  # type: ignore[no-untyped-def]
    """Fill bits (size, K): which queries are above, of distinct gaps in their places, all with the rho of their draw."""
    tails = np.empty(gaps.size)
    for draw in range(bits.shape[0]):
        rho = rho_scale * _noise(uniforms[draw, 0])  # uniforms: (size, K + 1), or (size, 1) where queries have no noise
        for k in range(gaps.size):
            if nu_scale > 0.0:
                tails[k] = _tail((gaps[k] + rho) / nu_scale)
            else:
                tails[k] = 1.0 if gaps[k] + rho <= 0.0 else 0.0
        for query in range(place.size):
            uniform = uniforms[draw, 1 + query] if nu_scale > 0.0 else 0.5
            bits[draw, query] = uniform < tails[place[query]]
