"""Kernels of rows: booleans as whole numbers, whole numbers in a table, and how many rows are equal to one."""

from __future__ import annotations

from hpcdp._base.kernels import kernel


@kernel()
def pack(table, key):  # type: ignore[no-untyped-def]
    """Rows of booleans (size, d), d <= 62, as whole numbers in the same order, into key (size,)."""
    for i in range(table.shape[0]):
        found = 0
        for column in range(table.shape[1]):
            found = 2 * found + table[i, column]
        key[i] = found


@kernel()
def count_equal(rows, wanted):  # type: ignore[no-untyped-def]
    """How many rows (size, d) are equal to the wanted one (d,)."""
    count = 0
    for i in range(rows.shape[0]):
        column = 0
        while column < rows.shape[1] and rows[i, column] == wanted[column]:
            column += 1
        count += column == rows.shape[1]
    return count


@kernel()
def look_up(x, low, table, out):  # type: ignore[no-untyped-def]
    """table[x − low] of whole numbers x (size,), of those beyond its ends the nearest one's, into out (size,)."""
    last = table.size - 1
    for i in range(x.size):
        place = 0 if x[i] < low else x[i] - low
        out[i] = table[place if place < last else last]
