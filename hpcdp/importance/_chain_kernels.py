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
_LOG_ROOT_TAU = 0.9189385332046727


@kernel(error_model="numpy")
def _start(rest, row):  # type: ignore[no-untyped-def]
    """ℓ of an exponential: from where on it is beyond, not below 0."""
    found = rest / row[COEFFICIENT]
    if row[STEP] > 0.0:
        found = row[STEP] * (np.ceil(found - _SLACK) - 1.0)
    return max(found, 0.0)


@kernel(error_model="numpy")
def _room(rest, start, row):  # type: ignore[no-untyped-def]
    """How far an exponential may go beyond ℓ; 0: as far as it likes."""
    if row[UPPER] == 0.0 or row[CODE] == LED:
        return 0.0
    found = max(0.0, _start(rest + row[UPPER], row) - start)
    if found == 0.0 and row[CODE] >= HELD:
        return row[STEP] if row[STEP] > 0.0 else row[UPPER] / row[COEFFICIENT]
    return found


@kernel(error_model="numpy")
def _within(size, room):  # type: ignore[no-untyped-def]
    """A standard exponential that is less than `room`: one that has no memory tells it by its remainder."""
    return size % room if room > 0.0 else size


@kernel(error_model="numpy")
def _held(room):  # type: ignore[no-untyped-def]
    """log of the probability that a standard exponential is less than `room`."""
    return np.log(-np.expm1(-room)) if room > 0.0 else 0.0


@kernel(error_model="numpy")
def _scored(value, row):  # type: ignore[no-untyped-def]
    """What a variate gives to the score."""
    return row[COEFFICIENT] * (np.ceil(value / row[STEP]) if row[STEP] > 0.0 else value)


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
def _bin(x, start, row):  # type: ignore[no-untyped-def]
    """The bin of those up to ℓ that holds x."""
    last = row.size - OWN - 1
    b = min(last, max(0, np.int64(x / start * (last + 1))))
    while b > 0 and x < _first(b, start, row):
        b -= 1
    while b < last and x >= _first(b + 1, start, row):
        b += 1
    return b


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
    return start + row[TAIL] * _within(size, room / row[TAIL])


@kernel(error_model="numpy")
def _rate(near):  # type: ignore[no-untyped-def]
    """Of the exponential that is nearest to a normal beyond ℓ (Robert 1995)."""
    return 0.5 * (near + np.sqrt(near * near + 4.0))


@kernel(error_model="numpy")
def draw_chained(kind, values, more, table, scores, base):  # type: ignore[no-untyped-def]
    """Let standard variates (rows, m) of one component depend on those before them, in place.

    table (K, P): from their first place on. scores (rows,) go on.
    more (rows, m): uniform for exponentials, exponential for normals; of Laplace variates nothing is read.
    """
    for j in range(min(values.shape[1], table.shape[0])):
        row = table[j, base:]
        size, sign = abs(row[COEFFICIENT]), 1.0 if row[COEFFICIENT] > 0.0 else -1.0
        for i in range(values.shape[0]):
            x, rest = values[i, j], row[THRESHOLD] - scores[i]
            if row[CODE] == FREE:
                pass
            elif kind == EXPONENTIAL:
                start = _start(rest, row)
                room = _room(rest, start, row)
                if (row[CODE] == LED or row[CODE] == HELD) and start > 0.0:
                    values[i, j] = _led(more[i, j], x, start, room, row)
                else:
                    values[i, j] = start + row[TAIL] * _within(x, room / row[TAIL])
            elif row[CODE] == LED:
                values[i, j] = row[OWN] + row[OWN + 1] * rest + row[OWN + 2] * x
            elif kind == NORMAL and rest / size >= _NEAR:
                near = rest / size
                rate = _rate(near)
                values[i, j] = sign * (near + _within(more[i, j], row[UPPER] / size * rate) / rate)
            elif kind != NORMAL and rest / size >= 0.0:
                values[i, j] = sign * (rest / size + row[TAIL] * _within(abs(x), row[UPPER] / size / row[TAIL]))
            scores[i] += _scored(values[i, j], row)


@kernel(error_model="numpy")
def _log_area(start, room, row, kept):  # type: ignore[no-untyped-def]
    """log of `_area` with its tail; kept: of so many steps of a lattice, NaN where it is not known yet."""
    tail = _tail_area(room, row)
    if row[STEP] == 0.0 or start >= (kept.size - 1) * row[STEP]:
        return np.log(_area(start, row, tail))
    steps = np.int64(np.rint(start / row[STEP]))
    if row[CODE] == HELD:  # whose room is not always the same
        if np.isnan(kept[steps]):
            kept[steps] = _area(start, row, 0.0)
        return np.log(kept[steps] + tail)
    if np.isnan(kept[steps]):
        kept[steps] = np.log(_area(start, row, tail))
    return kept[steps]


@kernel(error_model="numpy")
def _misses(x, start, room, row):  # type: ignore[no-untyped-def]
    """Whether an exponential cannot be drawn here."""
    return (x < start and (row[CODE] == BEYOND or row[CODE] == ENDED)) or (room > 0.0 and x >= start + room)


@kernel(error_model="numpy")
def _exponential(x, rest, row, kept):  # type: ignore[no-untyped-def]
    """log g − log f of an exponential, and the size of its terms; kept: see `_log_area`."""
    start = _start(rest, row)
    room = _room(rest, start, row)
    if _misses(x, start, room, row):
        return -np.inf, 0.0
    if (row[CODE] == LED or row[CODE] == HELD) and start > 0.0:
        head = -_log_area(start, room, row, kept)
        if x < start:
            own, size = np.log(row[OWN + _bin(x, start, row)]), x
            if row[STEP] > 0.0:  # within its step an exponential, of the density of a flat one on the average
                size = np.floor(x / row[STEP]) * row[STEP]
                own += np.log(row[STEP]) - _held(row[STEP])
            return own + head + size, abs(own) + abs(head) + x + 3.0
    else:
        head = -np.log(row[TAIL]) - _held(room / row[TAIL])
    return head + (x - (x - start) / row[TAIL]), abs(head) + x + (x + start) / row[TAIL] + 3.0


@kernel(error_model="numpy")
def _normal(z, rest, row):  # type: ignore[no-untyped-def]
    own = 0.5 * z * z
    if row[CODE] == LED:
        mean = row[OWN] + row[OWN + 1] * rest
        y = (z - mean) / row[OWN + 2]
        far, head = 0.5 * y * y, np.log(row[OWN + 2])
        return own - far - head, own + far + abs(head) + abs(y) * (abs(z) + abs(mean)) / row[OWN + 2]
    near = rest / abs(row[COEFFICIENT])
    if near < _NEAR:
        return 0.0, 0.0
    value, room = z if row[COEFFICIENT] > 0.0 else -z, row[UPPER] / abs(row[COEFFICIENT])
    if value < near or (room > 0.0 and value >= near + room):
        return -np.inf, 0.0
    rate = _rate(near)
    head = np.log(rate) + _LOG_ROOT_TAU - _held(room * rate)
    return head + (own - rate * (value - near)), abs(head) + own + rate * (value + near) + 3.0


@kernel(error_model="numpy")
def _laplace(x, rest, row):  # type: ignore[no-untyped-def]
    near = rest / abs(row[COEFFICIENT])
    if near < 0.0:
        return 0.0, 0.0
    value, room = x if row[COEFFICIENT] > 0.0 else -x, row[UPPER] / abs(row[COEFFICIENT])
    if value < near or (room > 0.0 and value >= near + room):
        return -np.inf, 0.0
    head = np.log(2.0 / row[TAIL]) - _held(room / row[TAIL])
    return head + (value - (value - near) / row[TAIL]), abs(head) + value + (value + near) / row[TAIL] + 3.0


@kernel(error_model="numpy")
def _most(table, j, base):  # type: ignore[no-untyped-def]
    """What the score is at most after place j of a chain (K, P) that ends at every place, inf where one does not."""
    most = 0.0
    for i in range(j + 1):
        row = table[i, base:]
        c, t, end = row[COEFFICIENT], row[THRESHOLD], row[THRESHOLD] + row[UPPER]
        if c > 0.0 and (row[CODE] < HELD or row[UPPER] == 0.0):
            return np.inf
        if c > 0.0 and row[STEP] > 0.0:  # whole steps, one at least, also where none ends before the end
            least = most + c if most >= end - (1.0 + _SLACK - _ROUNDING) * c else 0.0
            most = max(least, max(end, t + c) - _SLACK * c)
        elif c > 0.0:
            most = most + row[UPPER] if most >= end else end
    return most


@kernel(error_model="numpy")
def _ends(kind, table, base, chained):  # type: ignore[no-untyped-def]
    """Of each component the place where it goes beyond, −1: not told, and there (c, t, u, slack, least rest): what such a place
    gives to the score is between the rest less slack and the rest and u and slack, or the density is 0.
    """
    count, m = chained.size, table.shape[1]
    last, told, first = np.full(count, -1), np.zeros((count, 5)), -1
    for c in range(count):
        if not chained[c]:
            continue
        first = c if first < 0 else first
        for j in range(m):
            row = table[c, j, base:]
            if row[STEP] != table[first, j, base + STEP]:
                last[:] = -1
                return last, told
            if row[CODE] == BEYOND or row[CODE] == ENDED:
                size, is_lattice = abs(row[COEFFICIENT]), row[STEP] > 0.0
                last[c] = j
                told[c, 0], told[c, 1] = row[COEFFICIENT], row[THRESHOLD]
                told[c, 2] = row[UPPER] if row[UPPER] >= size or not is_lattice else 0.0
                told[c, 3] = size if is_lattice else _ROUNDING * (size + abs(row[THRESHOLD]))
                told[c, 4] = size * (_NEAR if kind == 0 else 0.0 if kind == 1 else 1.0)
                if row[CODE] == ENDED:
                    most = _most(table[c], j, base)
                    told[c, 2], told[c, 4] = most - row[THRESHOLD] if most < np.inf else 0.0, -np.inf
                    told[c, 3] = 1.2 * _SLACK * size if is_lattice else (j + 1) * _ROUNDING * (1.0 + most)
    return last, told


@kernel(error_model="numpy")
def add_chained(kind, values, which, used, table, base, out, magnitudes):  # type: ignore[no-untyped-def]
    """Log-ratios of chained places alone: kind 0 normal, 1 Laplace, 2 exponential; values (rows, m) from the first place on."""
    m = min(values.shape[1], table.shape[1])
    count = table.shape[0]
    chained, some, first = np.zeros(count, np.bool_), np.empty(count, np.int64), 0
    for c in range(count):
        for j in range(m):
            chained[c] |= table[c, j, base + COEFFICIENT] != 0.0
        if chained[c]:
            some[first] = c
            first += 1
    last, told = _ends(kind, table, base, chained)
    coefficients = np.ascontiguousarray(table[:, :, base + COEFFICIENT])
    given, kept = np.empty(m), np.full((count, m, _KEPT), np.nan)
    for k in range(which.size):
        i = which[k]
        largest = 0.0
        for j in range(min(m, used[i]) if first else 0):
            step = table[some[0], j, base + STEP]
            given[j] = np.ceil(values[i, j] / step) if step > 0.0 else values[i, j]
        for at in range(first):
            c = some[at]
            if 0 <= last[c] < used[i]:  # most chains do not lead to an output, which is seen before anything else
                rest = told[c, 1]
                for j in range(last[c]):
                    rest -= coefficients[c, j] * given[j]
                beyond = told[c, 0] * given[last[c]] - rest
                if rest >= told[c, 4] and (
                    beyond < -told[c, 3] or (told[c, 2] > 0.0 and beyond >= told[c, 2] + told[c, 3])
                ):
                    out[k, c] = -np.inf
                    continue
                if told[c, 4] == -np.inf:  # others have the magnitudes, and bytes, of before
                    row, x, score = table[c, last[c], base:], values[i, last[c]], 0.0
                    for j in range(last[c]):  # as it is drawn: on a lattice a rounding may be a whole step
                        score += coefficients[c, j] * given[j]
                    rest = row[THRESHOLD] - score
                    start = _start(rest, row)
                    if _misses(x, start, _room(rest, start, row), row):
                        out[k, c] = -np.inf
                        continue
            score, size = 0.0, 0.0
            for j in range(min(m, used[i])):
                if out[k, c] == -np.inf and told[c, 4] == -np.inf:
                    break
                row, x = table[c, j, base:], values[i, j]
                if row[CODE] != FREE:
                    rest = row[THRESHOLD] - score
                    if kind == 0:
                        term, own = _normal(x, rest, row)
                    elif kind == 1:
                        term, own = _laplace(x, rest, row)
                    else:
                        term, own = _exponential(x, rest, row, kept[c, j])
                    out[k, c] += term
                    size += own
                score += _scored(x, row)
            largest = max(largest, size)
        magnitudes[k] += largest
