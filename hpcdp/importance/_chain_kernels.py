"""Variates that depend on those before them in the same output: of a score Σ c·v the rest up to a threshold, place by place.

A chained table (C, K, P + `WIDTH`) has behind the parameters of a kind those of `chained`. At place j the rest is r = t − Σ_{i<j}
c_i·v_i, where v is the variate, or ⌈v/step⌉ where the mechanism makes a geometric variate of it, and ℓ = r/c is what this place
alone would have to give. Nothing else that was drawn decides, so that a tape's density is a product of known conditional ones.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, NORMAL

CODE, COEFFICIENT, THRESHOLD, UPPER, TAIL, STEP, OWN = range(7)
"""Columns of a chain's parameters; from `OWN` on the heights of `BINS` bins, or of a normal its mean (a + b·r) and deviation.

`UPPER` is how much above the threshold the score may come to lie, 0 for as much as it likes.
"""
BINS = 32
"""Of tables that are learned; one has as many as it is wide."""
WIDTH = OWN + BINS
_KEPT = 64  # steps of a lattice of which areas are kept
FREE, LED, BEYOND, HELD, ENDED = 0.0, 1.0, 2.0, 3.0, 4.0
"""How a place is drawn: as without a chain; by the rest; beyond ℓ; an exponential by the rest, or beyond ℓ, by no more than
`UPPER` whatever came before. Places before one that is `ENDED` are `HELD`, or give nothing to the score.
"""

_SLACK = 0.25  # of a step, by which ℓ may be off for the same lattice values
_NEAR = 0.5  # ℓ from which on a normal is drawn beyond it
_ROUNDING = 1e-9  # of a step
_LOG_ROOT_TAU, _LOG_TWO = 0.9189385332046727, 0.6931471805599453


@kernel(error_model="numpy")
def _start(rest, c, step):  # type: ignore[no-untyped-def]
    """ℓ of an exponential: from where on it is beyond, not below 0."""
    start = rest / c
    if step > 0.0:
        start = step * (np.ceil(start - _SLACK) - 1.0)
    return max(start, 0.0)


@kernel(error_model="numpy")
def _reach(kind, rest, code, c, upper, step):  # type: ignore[no-untyped-def]
    """From where on, ℓ, a place is beyond, −∞ where it is drawn plainly, and how far it may go, 0: as far as it likes."""
    if kind == EXPONENTIAL:
        start = _start(rest, c, step)
        if upper == 0.0 or code == LED:
            return start, 0.0
        room = max(0.0, _start(rest + upper, c, step) - start)
        if room == 0.0 and code >= HELD:
            room = step if step > 0.0 else upper / c
        return start, room
    near = rest / abs(c)
    return (near, upper / abs(c)) if near >= (_NEAR if kind == NORMAL else 0.0) else (-np.inf, 0.0)


@kernel(error_model="numpy")
def _misses(kind, x, rest, code, c, upper, step):  # type: ignore[no-untyped-def]
    """Whether a place cannot be drawn so."""
    near, room = _reach(kind, rest, code, c, upper, step)
    value = x if c > 0.0 else -x
    return (value < near and code != LED and code != HELD) or (room > 0.0 and value >= near + room)


@kernel(error_model="numpy")
def _held(room):  # type: ignore[no-untyped-def]
    """log of the probability that a standard exponential is less than `room`."""
    return np.log(-np.expm1(-room)) if room > 0.0 else 0.0


@kernel(error_model="numpy")
def _scored(value, c, step):  # type: ignore[no-untyped-def]
    """What a variate gives to the score."""
    return c * (np.ceil(value / step) if step > 0.0 else value)


@kernel(error_model="numpy")
def _first(b, start, row):  # type: ignore[no-untyped-def]
    """Where bin b of those up to ℓ begins; of a lattice at a whole number of steps."""
    bins = row.size - OWN
    if row[STEP] > 0.0:
        return row[STEP] * np.ceil(b * np.rint(start / row[STEP]) / bins)
    return b * (start / bins)


@kernel(error_model="numpy")
def _area(start, row, total):  # type: ignore[no-untyped-def]
    """Of bins up to ℓ with these heights, and of a tail, total, that starts with height 1."""
    low = _first(0, start, row)
    for b in range(row.size - OWN):
        high = _first(b + 1, start, row)
        total += row[OWN + b] * (high - low)
        low = high
    return total


@kernel(error_model="numpy")
def _tail_area(room, row):  # type: ignore[no-untyped-def]
    """Of a tail that starts with height 1 and ends where there is no more room."""
    return row[TAIL] if room == 0.0 else row[TAIL] * -np.expm1(-room / row[TAIL])


@kernel(error_model="numpy")
def _led(coin, size, start, room, row):  # type: ignore[no-untyped-def]
    """An exponential by heights; coin uniform, size a standard exponential. On a lattice its law within a step is its own."""
    place, high = coin * _area(start, row, _tail_area(room, row)), _first(0, start, row)
    for b in range(row.size - OWN):
        low, high = high, _first(b + 1, start, row)
        area = row[OWN + b] * (high - low)
        if place < area:
            value = min(high, low + place / row[OWN + b])
            if row[STEP] > 0.0:
                step = row[STEP]
                value = min(np.floor(value / step + _ROUNDING) * step, high - step) + size % step
            return value
        place -= area
    # an exponential has no memory: its remainder is one that is less
    return start + row[TAIL] * (size % (room / row[TAIL]) if room > 0.0 else size)


@kernel(error_model="numpy")
def _rate(kind, near, row):  # type: ignore[no-untyped-def]
    """Of the exponential beyond ℓ; that which is nearest to a normal there (Robert 1995)."""
    return 0.5 * (near + np.sqrt(near * near + 4.0)) if kind == NORMAL else 1.0 / row[TAIL]


@kernel(error_model="numpy")
def draw_chained(kind, values, more, table, scores, base):  # type: ignore[no-untyped-def]
    """Let standard variates (rows, m) depend on those before them, in place; table (K, P); more (rows, m): of a second kind."""
    for j in range(min(values.shape[1], table.shape[0])):
        row = table[j, base:]
        sign = 1.0 if row[COEFFICIENT] > 0.0 else -1.0
        for i in range(values.shape[0]):
            x, rest = values[i, j], row[THRESHOLD] - scores[i]
            if kind == NORMAL and row[CODE] == LED:
                values[i, j] = row[OWN] + row[OWN + 1] * rest + row[OWN + 2] * x
            elif row[CODE] != FREE:
                near, room = _reach(kind, rest, row[CODE], row[COEFFICIENT], row[UPPER], row[STEP])
                if (row[CODE] == LED or row[CODE] == HELD) and near > 0.0:
                    values[i, j] = _led(more[i, j], x, near, room, row)
                elif near > -np.inf:
                    rate = _rate(kind, near, row)
                    size = more[i, j] if kind == NORMAL else abs(x)
                    values[i, j] = sign * (near + (size % (room * rate) if room > 0.0 else size) / rate)
            scores[i] += _scored(values[i, j], row[COEFFICIENT], row[STEP])


@kernel(error_model="numpy")
def _term(kind, x, rest, row, kept, c, j):  # type: ignore[no-untyped-def]
    """log g − log f of a chained place that can be drawn so, and the size of its terms; kept: known areas of lattice steps."""
    own = 0.5 * x * x if kind == NORMAL else abs(x)
    if kind == NORMAL and row[CODE] == LED:
        mean = row[OWN] + row[OWN + 1] * rest
        y = (x - mean) / row[OWN + 2]
        far, head = 0.5 * y * y, np.log(row[OWN + 2])
        return own - far - head, own + far + abs(head) + abs(y) * (abs(x) + abs(mean)) / row[OWN + 2]
    near, room = _reach(kind, rest, row[CODE], row[COEFFICIENT], row[UPPER], row[STEP])
    if near == -np.inf:
        return 0.0, 0.0
    value, rate = x if row[COEFFICIENT] > 0.0 else -x, _rate(kind, near, row)
    if (row[CODE] == LED or row[CODE] == HELD) and near > 0.0:
        head = _tail_area(room, row)
        if row[STEP] == 0.0 or near >= (kept.shape[2] - 1) * row[STEP]:
            head = -np.log(_area(near, row, head))
        else:
            steps = np.int64(np.rint(near / row[STEP]))
            if np.isnan(kept[c, j, steps]):
                kept[c, j, steps] = _area(near, row, 0.0)
            head = -np.log(kept[c, j, steps] + head)
        if x < near:
            last = row.size - OWN - 1
            b = min(last, np.int64(x / near * (last + 1)))  # the bin that holds x, or one beside it
            while b > 0 and x < _first(b, near, row):
                b -= 1
            while b < last and x >= _first(b + 1, near, row):
                b += 1
            height, size = np.log(row[OWN + b]), x
            if row[STEP] > 0.0:  # within its step an exponential, of the density of a flat one on the average
                size = np.floor(x / row[STEP]) * row[STEP]
                height += np.log(row[STEP]) - _held(row[STEP])
            return height + head + size, abs(height) + abs(head) + x + 3.0
    else:
        density = _LOG_ROOT_TAU if kind == NORMAL else 0.0 if kind == EXPONENTIAL else _LOG_TWO
        head = np.log(rate) + density - _held(room * rate)
    return head + (own - rate * (value - near)), abs(head) + own + rate * (value + near) + 3.0


@kernel(error_model="numpy")
def add_chained(kind, values, which, used, table, base, out, magnitudes):  # type: ignore[no-untyped-def]
    """Log-ratios of chained places alone, of values (rows, m) from the first place on: Σ log g_j(v_j | r_j) − log f(v_j)."""
    m, count = min(values.shape[1], table.shape[1]), table.shape[0]
    coefficients = np.ascontiguousarray(table[:, :m, base + COEFFICIENT])
    last, ends = np.full(count, -1), np.zeros((count, 4))  # where each goes beyond, and what `_misses` takes of that
    chained, chains = np.empty(count, np.int64), 0
    for c in range(count):
        if (coefficients[c] != 0.0).any():
            chained[chains] = c
            chains += 1
            is_alike = True  # to the first one, of which what variates give to the score is had once
            for j in range(m):
                row = table[c, j, base:]
                is_alike &= row[STEP] == table[chained[0], j, base + STEP]
                if is_alike and (row[CODE] == BEYOND or row[CODE] == ENDED):
                    last[c] = j
                    ends[c] = row[CODE], row[THRESHOLD], row[UPPER], row[STEP]
    given, kept = np.empty(m), np.full((count, m, _KEPT), np.nan)
    for k in range(which.size if chains else 0):
        i, largest = which[k], 0.0
        places = min(m, used[i])
        for j in range(places):
            given[j] = _scored(values[i, j], 1.0, table[chained[0], j, base + STEP])
        for at in range(chains):
            c, score, size = chained[at], 0.0, 0.0
            if 0 <= last[c] < places:  # most chains do not lead to an output, which is seen before anything else
                for j in range(last[c]):  # as it is drawn: on a lattice a rounding may be a whole step
                    score += coefficients[c, j] * given[j]
                c_last, rest, upper = coefficients[c, last[c]], ends[c, 1] - score, ends[c, 2]
                if kind == EXPONENTIAL:
                    is_missed = _misses(kind, values[i, last[c]], rest, ends[c, 0], c_last, upper, ends[c, 3])
                else:  # without a division; what is close to an end is looked at below
                    beyond, slack = c_last * given[last[c]] - rest, _ROUNDING * (abs(c_last) + abs(ends[c, 1]))
                    is_missed = beyond < -slack or (upper > 0.0 and beyond >= upper + slack)
                    is_missed &= rest >= (_NEAR if kind == NORMAL else 0.0) * abs(c_last)
                if is_missed:
                    out[k, c] = -np.inf
                    continue
            score = 0.0
            for j in range(places):
                row, x = table[c, j, base:], values[i, j]
                rest = row[THRESHOLD] - score
                if row[CODE] >= BEYOND and _misses(kind, x, rest, row[CODE], row[COEFFICIENT], row[UPPER], row[STEP]):
                    out[k, c] = -np.inf
                elif row[CODE] != FREE:
                    term, own = _term(kind, x, rest, row, kept, c, j)
                    out[k, c] += term
                    size += own
                score += _scored(x, row[COEFFICIENT], row[STEP])
            largest = max(largest, size)
        magnitudes[k] += largest
