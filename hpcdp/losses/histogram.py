"""Counts of outputs in equal bins of an interval."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp.errors import StudyError


class OutsideError(StudyError):
    """Outputs are not as the study says: one lies outside its interval, or one value comes too often for a density."""


@kernel()
def _count(x, low, high, scale, counts):  # type: ignore[no-untyped-def]
    """Add one to counts[⌊(x − low)·scale⌋] for each x; returns the place of the first one outside, −1 where none is."""
    last = counts.size - 1
    for i in range(x.size):
        if not (x[i] >= low and x[i] <= high):
            return i
        counts[min(last, int((x[i] - low) * scale))] += 1
    return -1


def count_bins(outputs: NDArray[np.float64], interval: tuple[float, float], counts: NDArray[np.int64]) -> None:
    """Add outputs (size,) float64 to counts (m,) of equal bins; the last one has both its ends; OutsideError of one outside."""
    low, high = interval
    outside = _count(outputs, low, high, counts.size / (high - low), counts)
    if outside >= 0:
        refuse_outside([float(outputs[outside])], interval)


def refuse_outside(outputs: Iterable[float], interval: tuple[float, float]) -> None:
    """OutsideError, a ValueError, quotes the first output outside the interval."""
    low, high = interval
    for output in outputs:
        if not low <= output <= high:
            raise OutsideError(
                f"parameters.range: an interval that holds every output; given: [{low!r}, {high!r}], and the output {output!r}"
            )
