"""Linear binning of sorted numbers, only where there are any: far outliers cost a few bins each, not all between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.kde import _density_kernels as kernels

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bins:
    """Linearly binned numbers: node i lies at nodes[i], increasing, and holds counts[i] of them, float64, (nodes,) each.

    Nodes are equally spaced within an island. Islands are farther apart than a kernel reaches; `pad` empty nodes lie at
    both ends of each.
    """

    nodes: Floats
    counts: Floats


def bin_line(x: Floats, centre: float, spacing: float, pad: int, most: int) -> Bins | None:
    """Bins at centre + whole multiples of the spacing, of sorted finite x (size,).

    At most so many nodes: islands of fewest numbers are left out; None when one island alone has more. Numbers beyond
    2⁴⁸ spacings from the centre are left out.
    """
    per_unit = 1.0 / spacing
    first, last, held = kernels.find_islands(x, centre, per_unit, 2.0 * pad + 1.0)
    if not first.size:
        return Bins(np.empty(0), np.empty(0))
    sizes = last - first + 2.0 * pad + 2.0
    order = np.argsort(-held, kind="stable")
    if sizes[order[0]] > most:
        return None
    order = np.sort(order[np.cumsum(sizes[order]) <= most])
    ends = np.cumsum(sizes[order]).astype(np.int64)
    starts = ends - sizes[order].astype(np.int64)
    offsets = np.full(first.size, -1)
    offsets[order] = starts + pad
    counts = np.zeros(int(ends[-1]))
    kernels.bin_line(x, centre, per_unit, first, last, offsets, counts)
    within = np.arange(counts.size) - np.repeat(starts, ends - starts)
    numbers = np.repeat(first[order] - pad, ends - starts) + within
    return Bins(centre + numbers * spacing, counts)
