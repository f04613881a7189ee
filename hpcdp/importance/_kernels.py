"""Variates of proposals, and the log-ratios of their densities to the mechanism's own, entry by entry.

A table (C, K, P) holds the parameters of C components at K places of the tape. Values are (rows, m), of one kind from the first
place on; a place beyond the table is drawn as the mechanism asked. Log-ratios log g_c − log f add to out
(selected, C); magnitudes (selected,) grow by the sums of their terms' sizes, of the component where that is largest, from which
follows how exact they are. Parameters: of a normal shift and scale; of an exponential its scale; of a Laplace variate the chance
of the positive side and the scales of both; of a uniform, in steps of 2^-53, masses of B bins and their B − 1 inner edges,
multiples of a step.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel
from hpcdp.mechanisms._stream_kernels import EXPONENTIAL, LAPLACE, NORMAL

_TWO53 = 2.0**53
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_DOWN, _UP = np.uint64(53), np.uint64(11)


@kernel(error_model="numpy")
def _times(a, b):  # type: ignore[no-untyped-def]
    """Upper and lower half of a product of two words."""
    a0, a1, b0, b1 = a & _LOW, a >> _SHIFT, b & _LOW, b >> _SHIFT
    middle = a1 * b0 + ((a0 * b0) >> _SHIFT)
    return a1 * b1 + (middle >> _SHIFT) + ((a0 * b1 + (middle & _LOW)) >> _SHIFT), a * b


@kernel(error_model="numpy")
def _binned(value, coin, more, row):  # type: ignore[no-untyped-def]
    """A uniform by bins: the coin chooses the bin; within it the steps are as likely as one another up to 2^-53, by 106 bits."""
    bins = (row.size + 1) // 2
    b, sum_ = 0, row[0]
    while b < bins - 1 and coin >= sum_:
        b += 1
        sum_ += row[b]
    while b > 0 and row[b] == 0.0:  # what rounding of the sum leaves
        b -= 1
    low = row[bins + b - 1] if b > 0 else 0.0
    high = row[bins + b] if b < bins - 1 else 1.0
    steps = np.uint64((high - low) * _TWO53)
    above, below = _times(np.uint64(more * _TWO53), steps)
    rest = (above << _UP) | (below >> _DOWN)
    above, below = _times(np.uint64(value * _TWO53), steps)
    above += np.uint64(1) if below + rest < below else np.uint64(0)
    uniform = low + np.float64((above << _UP) | ((below + rest) >> _DOWN)) / _TWO53
    # 0 has 2^-53 plainly, and is what inversions cannot take: its part of a bin goes to the step beside it
    return max(uniform, 1.0 / _TWO53)


@kernel(error_model="numpy")
def tilt(kind, values, coins, table):  # type: ignore[no-untyped-def]
    """Standard variates (rows, m) of one component, in place; table (K, P) from their first place on; coins (2, rows, m)."""
    for j in range(min(values.shape[1], table.shape[0])):
        row = table[j]
        if kind == NORMAL:
            if row[0] != 0.0 or row[1] != 1.0:
                for i in range(values.shape[0]):
                    values[i, j] = row[0] + row[1] * values[i, j]
        elif kind == EXPONENTIAL:
            for i in range(values.shape[0]):
                values[i, j] = row[0] * values[i, j]
        elif kind == LAPLACE:
            if row[0] != 0.5 or row[1] != 1.0 or row[2] != 1.0:
                for i in range(values.shape[0]):
                    size = abs(values[i, j])
                    values[i, j] = row[1] * size if coins[0, i, j] < row[0] else -row[2] * size
        else:
            for i in range(values.shape[0]):
                values[i, j] = _binned(values[i, j], coins[0, i, j], coins[1, i, j], row)


@kernel(error_model="numpy")
def _prepare(kind, row, out):  # type: ignore[no-untyped-def]
    """What `_term` takes of an entry's parameters."""
    if kind == NORMAL:
        out[0], out[1], out[2] = -np.log(row[1]), row[0], 1.0 / row[1]
    elif kind == EXPONENTIAL:
        out[0], out[1] = -np.log(row[0]), row[0]
    elif kind == LAPLACE:
        out[0], out[1] = np.log(2.0 * row[0] / row[1]), np.log(2.0 * (1.0 - row[0]) / row[2])
        out[2], out[3] = row[1], row[2]
    else:
        bins = (row.size + 1) // 2
        for b in range(bins):
            low = row[bins + b - 1] if b > 0 else 0.0
            high = row[bins + b] if b < bins - 1 else 1.0
            out[b], out[bins + b] = np.log(row[b] / (high - low)), high


@kernel(error_model="numpy")
def add_log_ratios(kind, values, which, used, table, plain, out, magnitudes):  # type: ignore[no-untyped-def]
    """Log-ratios of the rows `which`, of `used` entries each; components that are `plain` add nothing."""
    m, count, width = min(values.shape[1], table.shape[1]), table.shape[0], plain.size
    given, sizes, bins = np.empty((count, m, width + 1)), np.empty(count), (width + 1) // 2
    moved, moved_count = np.empty(count, np.int64), 0
    for c in range(count):
        is_plain = c > 0
        for j in range(m):
            _prepare(kind, table[c, j, :width], given[moved_count, j])
            for p in range(width):
                is_plain &= table[c, j, p] == plain[p]
        if not is_plain:
            moved[moved_count] = c
            moved_count += 1
    for k in range(which.size):
        i = which[k]
        sizes[:moved_count] = 0.0
        for j in range(min(m, used[i])):
            x = values[i, j]
            size, side, half = abs(x), 0 if x >= 0.0 else 1, 0.5 * x * x
            for at in range(moved_count):
                if kind == NORMAL:
                    y = (x - given[at, j, 1]) * given[at, j, 2]
                    head, own, far = given[at, j, 0], half, 0.5 * y * y
                elif kind == EXPONENTIAL:
                    head, own, far = given[at, j, 0], x, x / given[at, j, 1]
                elif kind == LAPLACE:
                    head, own, far = given[at, j, side], size, size / given[at, j, 2 + side]
                else:
                    b, own, far = 0, 0.0, 0.0
                    while b < bins - 1 and x >= given[at, j, bins + b]:
                        b += 1
                    head = given[at, j, b]
                out[k, moved[at]] += head + (own - far)
                if head != -np.inf:
                    sizes[at] += abs(head) + own + far + (0.0 if kind in (NORMAL, EXPONENTIAL) else 1.0)
        magnitudes[k] += sizes[:moved_count].max()


@kernel(error_model="numpy")
def mix_log_weights(ratios, logs, weights):  # type: ignore[no-untyped-def]
    """log w = -log sum_c share_c g_c/f of each row: ratios (rows, C), logs (C,) of the shares; -inf is a share of none."""
    for i in range(ratios.shape[0]):
        top = -np.inf
        for c in range(logs.size):
            top = max(top, logs[c] + ratios[i, c])
        if top == -np.inf:
            weights[i] = np.inf
            continue
        total = 0.0
        for c in range(logs.size):
            if ratios[i, c] > -np.inf:
                total += np.exp(logs[c] + ratios[i, c] - top)
        weights[i] = -(top + np.log(total))


@kernel(error_model="numpy")
def find_inside(values, starts, inside, out):  # type: ignore[no-untyped-def]
    """Numbers of the values in runs of a line that are inside, into out; how many there are. For few runs."""
    count, runs = 0, starts.size
    for i in range(values.size):
        x, at = values[i], 0
        for k in range(1, runs):
            at += starts[k] <= x
        out[count] = i
        count += inside[at]
    return count
