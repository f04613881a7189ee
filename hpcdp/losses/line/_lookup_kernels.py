"""Kernels that find the run of an output, or count outputs by the class of their run: tables of equal cells of the line.

A cell is a monotone function of the output, computed alike for outputs and starts. So in a cell where no run starts all
outputs are of one run, and the others need but the starts within their cell.
"""

from __future__ import annotations

import numpy as np

from hpcdp._base.kernels import kernel

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
def fill_classes(starts, codes, origin, scale, split, table):  # type: ignore[no-untyped-def]
    """Fill table, (cells,), with the code of each cell in which no run starts, `split` in the others."""
    last = float(table.size - 1)
    begin = 0
    for r in range(1, starts.size):
        cell = _place(starts[r], origin, scale, last)
        if cell >= begin:
            table[begin:cell] = codes[r - 1]
            table[cell] = split
            begin = cell + 1
    table[begin:] = codes[starts.size - 1]


@kernel()
def fill_runs(starts, origin, scale, many, table):  # type: ignore[no-untyped-def]
    """Fill table, (cells,), with the run that enters each cell, or `many` where more than two start in it."""
    last = float(table.size - 1)
    begin = 0
    r = 1
    while r < starts.size:
        cell = _place(starts[r], origin, scale, last)
        table[begin : cell + 1] = r - 1
        entered = r
        while r < starts.size and _place(starts[r], origin, scale, last) == cell:
            r += 1
        if r - entered > 2:
            table[cell] = many
        begin = cell + 1
    table[begin:] = starts.size - 1


@kernel()
def count_classes(x, table, table_origin, table_scale, split, starts, codes, first, origin, scale, histograms):  # type: ignore[no-untyped-def]
    """Add one to histograms[·, code of the run that holds x] for each x, (lanes, split + 1), of one lane or four.

    The last column takes what lies in split cells, which is then counted by its run. Neighbours go to different lanes,
    so that an addition does not wait for the one before.
    """
    places = np.empty(_BLOCK, np.int32)
    cells = places.view(np.uint32)
    late = np.empty(_BLOCK + 1, np.uint32)
    last = float(table.size - 1)
    most = histograms.shape[0] - 1
    h0, h1, h2, h3 = histograms[0], histograms[1 & most], histograms[2 & most], histograms[3 & most]
    for begin in range(0, x.size, _BLOCK):
        part = x[begin : begin + _BLOCK]
        for i in range(part.size):
            places[i] = _place(part[i], table_origin, table_scale, last)
        waiting, whole = np.uint32(0), part.size & ~3
        for i in range(0, whole, 4):
            a, b, c, d = table[cells[i]], table[cells[i + 1]], table[cells[i + 2]], table[cells[i + 3]]
            h0[a] += 1
            h1[b] += 1
            h2[c] += 1
            h3[d] += 1
            late[waiting] = i
            waiting += np.uint32(a == split)
            late[waiting] = i + 1
            waiting += np.uint32(b == split)
            late[waiting] = i + 2
            waiting += np.uint32(c == split)
            late[waiting] = i + 3
            waiting += np.uint32(d == split)
        for i in range(whole, part.size):
            code = table[cells[i]]
            h0[code] += 1
            late[waiting] = i
            waiting += np.uint32(code == split)
        for j in range(waiting):
            run = _run(part[late[j]], starts, first, origin, scale)
            h0[np.uint32(codes[run])] += 1


@kernel()
def count_each_run(x, table, table_origin, table_scale, many, following, starts, first, origin, scale, histogram):  # type: ignore[no-untyped-def]
    """Add one to histogram[run that holds x] for each x, (runs + 1,); the last entry takes what lies among many starts.

    following: the starts without the first, then NaN, which no x reaches, (runs + 2,).
    """
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
