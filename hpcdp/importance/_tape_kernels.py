"""Variates of proposals, and the log-ratios of their densities to the mechanism's own, entry by entry.

A table (C, K, P) holds the parameters of C components at K places of the tape; the component of row `plain` tells nothing.
Values are (rows, m), entries of one kind at places first, first + 1, …; a place beyond the table is drawn as the mechanism
asked. Log-ratios log g_c − log f add to out (selected, C); magnitudes (selected,) grow by the sums of their terms' sizes, of
the component where that is largest, from which follows how exact they are.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel

_TWO53 = 2.0**53
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)
_DOWN, _UP = np.uint64(53), np.uint64(11)


@kernel(error_model="numpy")
def tilt_normals(values, table, first):  # type: ignore[no-untyped-def]
    """Standard normals (rows, m) of one component, in place; table (K, 2): shift and scale."""
    for j in range(min(values.shape[1], table.shape[0] - first)):
        shift, scale = table[first + j, 0], table[first + j, 1]
        if shift != 0.0 or scale != 1.0:
            for i in range(values.shape[0]):
                values[i, j] = shift + scale * values[i, j]


@kernel(error_model="numpy")
def tilt_exponentials(values, table, first):  # type: ignore[no-untyped-def]
    """Standard exponentials; table (K, 1): scale."""
    for j in range(min(values.shape[1], table.shape[0] - first)):
        for i in range(values.shape[0]):
            values[i, j] = table[first + j, 0] * values[i, j]


@kernel(error_model="numpy")
def tilt_laplaces(values, coins, table, first):  # type: ignore[no-untyped-def]
    """Standard Laplace variates; table (K, 3): chance of the positive side, scales of both; coins (rows, m) uniform."""
    for j in range(min(values.shape[1], table.shape[0] - first)):
        chance, above, below = table[first + j, 0], table[first + j, 1], table[first + j, 2]
        if chance != 0.5 or above != 1.0 or below != 1.0:
            for i in range(values.shape[0]):
                size = abs(values[i, j])
                values[i, j] = above * size if coins[i, j] < chance else -below * size


@kernel(error_model="numpy")
def _times(a, b):  # type: ignore[no-untyped-def]
    """Upper and lower half of a product of two words."""
    a0, a1, b0, b1 = a & _LOW, a >> _SHIFT, b & _LOW, b >> _SHIFT
    middle = a1 * b0 + ((a0 * b0) >> _SHIFT)
    return a1 * b1 + (middle >> _SHIFT) + ((a0 * b1 + (middle & _LOW)) >> _SHIFT), a * b


@kernel(error_model="numpy")
def tilt_uniforms(values, coins, more, table, first):  # type: ignore[no-untyped-def]
    """Uniforms in steps of 2^-53; table (K, 2B - 1): masses of B bins, their B - 1 inner edges, multiples of a step.

    coins choose the bin. Within it the steps are as likely as one another up to 2^-53, by 106 bits: those of `more` follow.
    """
    bins = (table.shape[1] + 1) // 2
    for j in range(min(values.shape[1], table.shape[0] - first)):
        row = table[first + j]
        for i in range(values.shape[0]):
            b, sum_ = 0, row[0]
            while b < bins - 1 and coins[i, j] >= sum_:
                b += 1
                sum_ += row[b]
            while b > 0 and row[b] == 0.0:  # what rounding of the sum leaves
                b -= 1
            low = row[bins + b - 1] if b > 0 else 0.0
            high = row[bins + b] if b < bins - 1 else 1.0
            steps = np.uint64((high - low) * _TWO53)
            above, below = _times(np.uint64(more[i, j] * _TWO53), steps)
            rest = (above << _UP) | (below >> _DOWN)
            above, below = _times(np.uint64(values[i, j] * _TWO53), steps)
            above += np.uint64(1) if below + rest < below else np.uint64(0)
            found = low + np.float64((above << _UP) | ((below + rest) >> _DOWN)) / _TWO53
            # 0 has 2^-53 plainly, and is what inversions cannot take: its part of a bin goes to the step beside it
            values[i, j] = max(found, 1.0 / _TWO53)


@kernel(error_model="numpy")
def choose(coins, edges, last, out):  # type: ignore[no-untyped-def]
    """Values by inversion: edges (n,) are sums of the masses, last the last value that has any; coins (k,) uniform."""
    if last <= 8:  # without branches, which coins make slow
        for i in range(coins.size):
            place, b = coins[i] * edges[-1], 0
            for e in range(last):
                b += place >= edges[e]
            out[i] = b
        return
    for i in range(coins.size):
        place, b = coins[i] * edges[-1], 0
        while b < last and place >= edges[b]:
            b += 1
        out[i] = b


@kernel(error_model="numpy")
def move(values, scale, loc, out):  # type: ignore[no-untyped-def]
    """out = loc + scale · values, each rounded, of arrays (n,)."""
    for i in range(values.size):
        out[i] = values[i] * scale + loc


@kernel(error_model="numpy")
def add_normals(values, which, used, table, first, out, magnitudes):  # type: ignore[no-untyped-def]
    """Log-ratios of normals. which (selected,): rows; used (rows,): entries of each that were asked for."""
    m = min(values.shape[1], table.shape[1] - first)
    count = table.shape[0]
    sizes = np.empty(count)
    logs, inverse = np.empty((count, max(m, 0))), np.empty((count, max(m, 0)))
    moved, some = np.empty(count, np.int64), 0  # components of other rows than plain ones, whose terms are 0
    for c in range(count):
        is_plain = c > 0
        for j in range(m):
            logs[c, j] = -np.log(table[c, first + j, 1])
            inverse[c, j] = 1.0 / table[c, first + j, 1]
            is_plain &= table[c, first + j, 0] == 0.0 and table[c, first + j, 1] == 1.0
        if not is_plain:
            moved[some] = c
            some += 1
    for k in range(which.size):
        i = which[k]
        sizes[:some] = 0.0
        for j in range(min(m, used[i])):
            z = values[i, j]
            own = 0.5 * z * z
            for at in range(some):
                c = moved[at]
                y = (z - table[c, first + j, 0]) * inverse[c, j]
                far = 0.5 * y * y
                out[k, c] += logs[c, j] + (own - far)
                sizes[at] += abs(logs[c, j]) + own + far
        magnitudes[k] += sizes[:some].max()


@kernel(error_model="numpy")
def add_exponentials(values, which, used, table, first, out, magnitudes):  # type: ignore[no-untyped-def]
    """Log-ratios of exponentials."""
    m = min(values.shape[1], table.shape[1] - first)
    count = table.shape[0]
    sizes, logs = np.empty(count), np.empty((count, max(m, 0)))
    moved, some = np.empty(count, np.int64), 0
    for c in range(count):
        is_plain = c > 0
        for j in range(m):
            logs[c, j] = np.log(table[c, first + j, 0])
            is_plain &= table[c, first + j, 0] == 1.0
        if not is_plain:
            moved[some] = c
            some += 1
    for k in range(which.size):
        i = which[k]
        sizes[:some] = 0.0
        for j in range(min(m, used[i])):
            e = values[i, j]
            for at in range(some):
                c = moved[at]
                scale = table[c, first + j, 0]
                out[k, c] += e - e / scale - logs[c, j]
                sizes[at] += e + e / scale + abs(logs[c, j])
        magnitudes[k] += sizes[:some].max()


@kernel(error_model="numpy")
def add_laplaces(values, which, used, table, first, out, magnitudes):  # type: ignore[no-untyped-def]
    """Log-ratios of Laplace variates."""
    m = min(values.shape[1], table.shape[1] - first)
    sizes = np.empty(table.shape[0])
    for k in range(which.size):
        i = which[k]
        sizes[:] = 0.0
        for j in range(min(m, used[i])):
            e = abs(values[i, j])
            for c in range(table.shape[0]):
                chance, scale = table[c, first + j, 0], table[c, first + j, 1]
                if values[i, j] < 0.0:
                    chance, scale = 1.0 - chance, table[c, first + j, 2]
                head = np.log(2.0 * chance / scale)
                out[k, c] += head + (e - e / scale)
                if head != -np.inf:
                    sizes[c] += 1.0 + abs(head) + e + e / scale
        magnitudes[k] += sizes.max()


@kernel(error_model="numpy")
def add_uniforms(values, which, used, table, first, out, magnitudes):  # type: ignore[no-untyped-def]
    """Log-ratios of uniforms."""
    m = min(values.shape[1], table.shape[1] - first)
    bins = (table.shape[2] + 1) // 2
    sizes, logs = np.empty(table.shape[0]), np.empty((table.shape[0], max(m, 0), bins))
    for c in range(table.shape[0]):
        for j in range(m):
            row = table[c, first + j]
            for b in range(bins):
                low = row[bins + b - 1] if b > 0 else 0.0
                high = row[bins + b] if b < bins - 1 else 1.0
                logs[c, j, b] = np.log(row[b] / (high - low))
    for k in range(which.size):
        i = which[k]
        sizes[:] = 0.0
        for j in range(min(m, used[i])):
            u = values[i, j]
            for c in range(table.shape[0]):
                row = table[c, first + j]
                b = 0
                while b < bins - 1 and u >= row[bins + b]:
                    b += 1
                term = logs[c, j, b]
                out[k, c] += term
                if term != -np.inf:
                    sizes[c] += 1.0 + abs(term)
        magnitudes[k] += sizes.max()


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
