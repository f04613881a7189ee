"""Sums of independent Laplace losses on a grid: a pair that dominates the true one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic.discrete import Discrete

Array = NDArray[np.float64]

STEPS = 1 << 18
"""Steps of the grid over the range of the sum of the losses."""

_ROUNDING = 1e-9  # a shift this near to a grid point, in steps, is on it


def sum_on_grid(shifts: Array, steps: int = STEPS) -> Discrete:
    """Return the pair of the sum of the coordinates' losses, each loss spread over its two neighbours on a grid.

    What lies between two grid points goes to both so that its masses under P and under Q stay what they are.
    That is a mean-preserving spread of q/p under P, so the spectrum of the result is no smaller than the true
    one, and of second order in the step above it (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022).

    Args:
        shifts: (d,), > 0.
        steps: of the grid, at least.
    """
    different, repeated = np.unique(shifts, return_counts=True)
    # A step that divides the most frequent shift keeps its atoms where they are.
    common = float(different[np.argmax(repeated)])
    step = common / np.ceil(0.5 * common * steps / shifts.sum())
    reach = int(np.sum(repeated * np.ceil(different / step)))  # steps from 0 to the largest sum
    size = 1 << (2 * reach + 1).bit_length()  # a power of two is transformed fastest
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    for shift, times in zip(different, repeated, strict=True):
        law = _one(float(shift), step)
        half = law.size // 2
        wrapped = np.zeros(size)
        wrapped[: half + 1], wrapped[size - half :] = law[half:], law[:half]
        transform *= np.fft.rfft(wrapped) ** int(times)
    positive = np.maximum(np.fft.irfft(transform, size)[: reach + 1], 0.0)
    loss = step * np.arange(reach + 1)
    # The pair is symmetric: the half where P is larger gives the other, without the transform's rounding.
    mirrored = positive * np.exp(-loss)
    p = np.concatenate((mirrored[:0:-1], positive))
    p /= p.sum()
    return Discrete(p, p[::-1])


def _one(shift: float, step: float) -> Array:
    """The masses under P of one coordinate on -n to n steps, n = ceil(shift / step)."""
    inside = int(shift / step + _ROUNDING)
    rest = max(shift - inside * step, 0.0)
    count = inside if rest <= _ROUNDING * step else inside + 1
    tilted = np.zeros(2 * count + 1)
    full = 0.25 * 2.0 * np.tanh(0.25 * step)  # what a whole step gives to each of its two ends
    centre = count
    for side in (1, -1):
        ends = centre + side * np.arange(inside + 1)
        tilted[ends[:-1]] += full
        tilted[ends[1:]] += full
        last = ends[-1]
        if count > inside:
            # The atom, and the density on the part of a step that is left.
            scale = np.sinh(0.5 * step)
            tilted[last] += 0.5 * np.sinh(0.5 * (step - rest)) / scale
            tilted[last + side] += 0.5 * np.sinh(0.5 * rest) / scale
            tilted[last] += np.sinh(0.25 * (2.0 * step - rest)) * np.sinh(0.25 * rest) / scale
            tilted[last + side] += np.sinh(0.25 * rest) ** 2 / scale
        else:
            tilted[last] += 0.5
    loss = step * np.arange(-count, count + 1)
    return np.asarray(tilted * np.exp(0.5 * (loss - shift)))
