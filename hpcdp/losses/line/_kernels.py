"""Kernels of one-dimensional kNN: one sweep over sorted training samples gives L̂ as a step function.

As a query moves to the right, its closed k-nearest-neighbour ball [L, R] over the distinct training values only ever gains
values on the right and loses values on the left. So O(training) events describe the votes everywhere. Every event is placed
at the first float whose computed distances make it happen, which makes the step function equal to a brute-force ball on
floats, ties included (short of queries so far out, some 2⁵³ gaps, that distances to different values round to one).

Other kernels find the run of an output, or count outputs by the class of their run: tables of equal cells of the line. A cell
is a monotone function of the output, computed alike for outputs and starts. So in a cell where no run starts all outputs are
of one run, and the others need but the starts within their cell.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel
from hpcdp.losses._votes import class_of, log_ratio

_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@kernel(inline="always")
def _ordinal(x):  # type: ignore[no-untyped-def]
    """o(x), a whole number with o(x) < o(y) where x < y, of neighbouring floats neighbouring ones; 0 of ±0."""
    bits = np.float64(x).view(np.int64)
    return bits if bits >= 0 else -(bits & _SIGN)


@kernel(inline="always")
def _from_ordinal(o):  # type: ignore[no-untyped-def]
    """The float x with o(x) = o."""
    return np.int64(o).view(np.float64) if o >= 0 else -(np.int64(-o).view(np.float64))


@kernel()
def first_float(xl, xr, strict):  # type: ignore[no-untyped-def]
    """Smallest float q in (xl, xr] whose computed q - xl is at least (strict: more than) xr - q; xl < xr."""
    low, high = _ordinal(xl), _ordinal(xr)
    guess = _ordinal(0.5 * xl + 0.5 * xr)
    step = np.int64(1)
    while low < guess < high:
        q = _from_ordinal(guess)
        if (q - xl > xr - q) or (not strict and q - xl == xr - q):
            high = guess
            guess -= step
        else:
            low = guess
            guess += step
        step *= 2
    while high - low > 1:
        middle = low + (high - low) // 2
        q = _from_ordinal(middle)
        if (q - xl > xr - q) or (not strict and q - xl == xr - q):
            high = middle
        else:
            low = middle
    return _from_ordinal(high)


@kernel(inline="always")
def _group(a, b, i, j):  # type: ignore[no-untyped-def]
    """Next distinct value of the merge of a[i:] and b[j:], and the positions after it."""
    x = a[i] if j >= b.size or (i < a.size and a[i] <= b[j]) else b[j]
    while i < a.size and a[i] == x:
        i += 1
    while j < b.size and b[j] == x:
        j += 1
    return x, i, j


@kernel(inline="always")
def _code(v0, v1, k, n0, n1, thresholds, full, table):  # type: ignore[no-untyped-def]
    """What distinguishes two votes: their classes among the thresholds, or (full) the votes themselves."""
    if full:
        return v0 * full + v1
    extra = v0 + v1 - k
    if 0 <= extra < 2 and table.shape[1] > v0:
        return np.int64(table[extra, v0])
    return np.int64(class_of(log_ratio(v0, v1, n0, n1), thresholds))


@kernel(inline="always")
def _append(runs, starts, votes, codes, start, v0, v1, code):  # type: ignore[no-untyped-def]
    """Append a run unless its code is the last one's; of events of one float the last one stands. Returns the number."""
    if code == codes[runs - 1]:
        return runs
    if start <= starts[runs - 1]:
        runs -= 1
        start = starts[runs]
        if runs and codes[runs - 1] == code:
            return runs
    starts[runs] = start
    votes[runs, 0], votes[runs, 1] = v0, v1
    codes[runs] = code
    return runs + 1


@kernel()
def _sweep_on(a, b, k, table, from_a, starts, votes, codes, state):  # type: ignore[no-untyped-def]
    """Go on with `sweep_distinct` until its end, or until the runs have no room; returns whether it is the end."""
    # entries of the merge that were met, those of a among them, those of a that left the window, runs, equal neighbours
    t, ir, il, runs, ties = state
    previous = -np.inf if t == 0 else max(a[ir - 1] if ir else -np.inf, b[t - ir - 1] if t > ir else -np.inf)
    current = codes[runs - 1]
    has_room = True
    while t < from_a.size and has_room:
        # no branch on which side is next: it is a coin flip that no processor predicts
        x = a[ir] if ir < a.size else np.inf
        y = b[t - ir] if t - ir < b.size else np.inf
        take = x <= y
        value = x if take else y
        ties += value == previous
        previous = value
        from_a[t] = take
        union = ir - il + take
        ir += take
        t += 1
        if t < k:
            continue
        if t == k:
            starts[0] = -np.inf
            votes[0, 0], votes[0, 1] = ir, k - ir
            current = np.int64(table[0, ir])
            codes[0] = current
            runs = 1
            continue
        drop = np.int64(from_a[t - 1 - k])
        after = union - drop
        if (table[1, union] != current) | (table[0, after] != current):
            xl = a[il] if drop else b[t - 1 - k - il]
            if table[1, union] != current:
                start = first_float(xl, value, False)
                runs = _append(runs, starts, votes, codes, start, union, k + 1 - union, table[1, union])
            if table[0, after] != codes[runs - 1]:
                start = first_float(xl, value, True)
                runs = _append(runs, starts, votes, codes, start, after, k - after, table[0, after])
            current = codes[runs - 1]
            has_room = runs + 2 <= codes.size
        il += drop
    state[:] = t, ir, il, runs, ties
    return t == from_a.size


@kernel()
def sweep_distinct(a, b, k, table):  # type: ignore[no-untyped-def]
    """`sweep` by class for samples that are all distinct, at least k: windows of k, or k + 1. Returns whether they are, too."""
    starts, votes, codes = np.empty(1024), np.empty((1024, 2), np.int64), np.empty(1024, np.int64)
    from_a, state = np.empty(a.size + b.size, np.uint8), np.array([0, 0, 0, 1, 0])
    while not _sweep_on(a, b, k, table, from_a, starts, votes, codes, state):
        starts, votes, codes = (
            np.concatenate((starts, starts)),
            np.concatenate((votes, votes)),
            np.concatenate((codes, codes)),
        )
    runs = state[3]
    return state[4] == 0, starts[:runs].copy(), votes[:runs, 0].copy(), votes[:runs, 1].copy()


@kernel()
def sweep(a, b, k, n0, n1, thresholds, full, table):  # type: ignore[no-untyped-def]
    """Starts, from −inf, v0 and v1 of runs of constant votes (full > 0) or class (full = 0); a, b: without atoms."""
    starts, votes, codes = np.empty(1024), np.empty((1024, 2), np.int64), np.empty(1024, np.int64)

    il = jl = ir = jr = 0
    xl = xr = 0.0
    il2 = jl2 = 0
    if a.size + b.size:
        xl, il2, jl2 = _group(a, b, 0, 0)
    while ir + jr < k and (ir < a.size or jr < b.size):
        xr, ir, jr = _group(a, b, ir, jr)
    starts[0] = -np.inf
    votes[0, 0], votes[0, 1] = ir, jr
    codes[0] = _code(ir, jr, k, n0, n1, thresholds, full, table)
    runs = 1
    right_is_last = True
    while True:
        left_weight = (il2 - il) + (jl2 - jl)
        weight = (ir - il) + (jr - jl)
        if right_is_last:
            if weight - left_weight < k:
                right_is_last = False
                continue
            xa, xb = xl, xr
            after0, after1 = ir - il2, jr - jl2
            union0, union1 = ir - il, jr - jl
            drop = True
        else:
            if ir >= a.size and jr >= b.size:
                break
            xa = xl
            xr, ir, jr = _group(a, b, ir, jr)
            xb = xr
            union0, union1 = ir - il, jr - jl
            drop = union0 + union1 - left_weight >= k
            after0, after1 = (ir - il2, jr - jl2) if drop else (union0, union1)
            right_is_last = drop
        union_code = _code(union0, union1, k, n0, n1, thresholds, full, table)
        after_code = _code(after0, after1, k, n0, n1, thresholds, full, table)
        if union_code != codes[runs - 1] or after_code != codes[runs - 1]:
            if runs + 2 > codes.size:
                starts, votes, codes = (
                    np.concatenate((starts, starts)),
                    np.concatenate((votes, votes)),
                    np.concatenate((codes, codes)),
                )
            if union_code != codes[runs - 1]:
                start = first_float(xa, xb, False)
                runs = _append(runs, starts, votes, codes, start, union0, union1, union_code)
            if after_code != codes[runs - 1]:
                start = first_float(xa, xb, True)
                runs = _append(runs, starts, votes, codes, start, after0, after1, after_code)
        if drop:
            il, jl = il2, jl2
            if il < a.size or jl < b.size:
                xl, il2, jl2 = _group(a, b, il, jl)
    return starts[:runs].copy(), votes[:runs, 0].copy(), votes[:runs, 1].copy()


_BLOCK = 1024  # outputs whose cells are found before any of them is counted: the first loop works on vectors


@kernel(inline="always")
def _place(x, origin, scale, last):  # type: ignore[no-untyped-def]
    """The cell ⌊(x − origin)·scale⌋, from 0 to the last."""
    position = (x - origin) * scale
    position = position if position > 0.0 else 0.0
    return np.int32(position if position < last else last)


@kernel(inline="always")
def _run(x, starts, first, origin, scale):  # type: ignore[no-untyped-def]
    """Index of the run that holds x, without a branch on the comparisons: outputs among near starts go either way."""
    cell = _place(x, origin, scale, float(first.size - 2))
    low = np.uint64(first[cell])
    left = np.uint64(first[cell + 1]) - low
    while left > 0:
        half = (left + np.uint64(1)) >> np.uint64(1)
        low += half * np.uint64(starts[low + half - np.uint64(1)] <= x)
        left -= half
    return low - np.uint64(1)


@kernel()
def find_runs(x, starts, first, origin, scale, out):  # type: ignore[no-untyped-def]
    """Index of the run that holds each x."""
    for i in range(x.size):
        out[i] = _run(x[i], starts, first, origin, scale)


@kernel()
def count_classes(x, table, table_origin, table_scale, split, starts, codes, first, origin, scale, histogram):  # type: ignore[no-untyped-def]
    """Add one to histogram[code of the run that holds x] for each x, (split + 1,); the last one takes what is in split cells."""
    places = np.empty(_BLOCK, np.int32)
    cells = places.view(np.uint32)
    late = np.empty(_BLOCK + 1, np.uint32)
    lanes = np.zeros((4, histogram.size), np.int64)  # an addition need not wait for the one before
    last = float(table.size - 1)
    for begin in range(0, x.size, _BLOCK):
        part = x[begin : begin + _BLOCK]
        for i in range(part.size):
            places[i] = _place(part[i], table_origin, table_scale, last)
        waiting = np.uint32(0)
        for i in range(part.size):
            code = table[cells[i]]
            lanes[i & 3, code] += 1
            late[waiting] = i
            waiting += np.uint32(code == split)
        for j in range(waiting):
            run = _run(part[late[j]], starts, first, origin, scale)
            histogram[np.uint32(codes[run])] += 1
    histogram += lanes.sum(axis=0)


@kernel()
def count_each_run(x, table, table_origin, table_scale, many, following, starts, first, origin, scale, histogram):  # type: ignore[no-untyped-def]
    """Add one to histogram[run that holds x] for each x, (runs + 1,); the last one takes what lies among many starts."""
    places, runs = np.empty(_BLOCK, np.int32), np.empty(_BLOCK, np.int32)
    cells, run_numbers = places.view(np.uint32), runs.view(np.uint32)
    late = np.empty(_BLOCK + 1, np.uint32)
    last = float(table.size - 1)
    for begin in range(0, x.size, _BLOCK):
        part = x[begin : begin + _BLOCK]
        for i in range(part.size):
            places[i] = _place(part[i], table_origin, table_scale, last)
        for i in range(part.size):  # apart from the counting, which waits for what it wrote before
            run = np.int32(table[cells[i]])  # the cell holds at most two starts: no branch
            run += np.int32(following[np.uint32(run)] <= part[i])
            run += np.int32(following[np.uint32(run)] <= part[i])
            runs[i] = run
        waiting = np.uint32(0)
        for i in range(part.size):
            late[waiting] = i
            waiting += np.uint32(run_numbers[i] == many)
            histogram[run_numbers[i]] += np.uint32(1)
        for j in range(waiting):
            histogram[_run(part[late[j]], starts, first, origin, scale)] += np.uint32(1)
