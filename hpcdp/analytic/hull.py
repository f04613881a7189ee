"""Greatest convex minorants of points, and largest values of lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_STEEPEST = -1e300  # where a step is so short that its slope overflows


def lower_hull(x: Floats, y: Floats) -> Ints:
    """Return the indices of the corners of the greatest convex minorant of points, with both ends.

    Its slopes are the isotonic regression of the slopes between neighbours, weighted by their distances; the corners are
    where its blocks begin.

    Args:
        x: strictly ascending, shape (k,), k >= 1.
        y: shape (k,).
    """
    if x.size < 3:
        return np.arange(x.size)
    from scipy.optimize import isotonic_regression

    width = np.diff(x)
    with np.errstate(over="ignore"):
        slope = np.maximum(np.diff(y) / width, _STEEPEST)
    return np.asarray(isotonic_regression(slope, weights=width).blocks, np.intp)


def upper_envelope(steepness: Floats, height: Floats) -> tuple[Floats, Floats]:
    """Return the corners between 0 and 1 of the largest of the lines height − steepness · a, and of the line 0.

    Args:
        steepness, height: shape (k,); at 1 each line is at most 0, at 0 at most 1.

    Returns:
        a ascending and the values there, shape (m,); the first at 0, the last at 1.
    """
    slopes, heights = np.append(steepness, 0.0), np.append(height, 0.0)
    order = np.lexsort((heights, slopes))
    slopes, heights = slopes[order], heights[order]
    highest = np.append(np.diff(slopes) > 0.0, True)  # of parallel lines
    slopes, heights = slopes[highest], heights[highest]
    # A line that is somewhere the largest is a corner of the points (steepness, −height), and the other way round.
    kept = lower_hull(slopes, -heights)
    slopes, heights = slopes[kept][::-1], heights[kept][::-1]
    meet = np.diff(heights) / np.diff(slopes)
    value = heights[1:] - slopes[1:] * meet  # on the flatter of the two
    inside = (meet > 0.0) & (meet < 1.0)
    corners = np.maximum.accumulate(meet[inside])
    return np.concatenate(([0.0], corners, [1.0])), np.concatenate(([heights.max()], value[inside], [0.0]))


def largest_excess(x: Floats, y: Floats, level: Floats) -> Floats:
    """Return the largest 1 − y − e^level x on a convex polygon, which is at a corner.

    Args:
        x, y: the corners, x from 0 to 1 ascending and y from 1 to 0 falling, shape (k,); a drop at x = 0 has two of them.
        level: >= 0, any shape; may be infinite.

    Returns:
        float64 of the shape of `level`.
    """
    with np.errstate(divide="ignore", over="ignore"):
        factor = np.minimum(np.exp(level), np.finfo(np.float64).max)  # below the infinite slope of a drop
        steepness = -np.diff(y) / np.diff(x)
    corner = np.searchsorted(-steepness, -factor)  # behind all sides that are steeper
    return np.asarray(1.0 - y[corner] - factor * x[corner])


def with_ends(alpha: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Return the points, with (0, 1) before and (1, 0) behind where these are missing."""
    first = [] if alpha.size and (alpha[0], beta[0]) == (0.0, 1.0) else [(0.0, 1.0)]
    last = [] if alpha.size and (alpha[-1], beta[-1]) == (1.0, 0.0) else [(1.0, 0.0)]
    points = np.concatenate((np.reshape(first, (-1, 2)), np.column_stack((alpha, beta)), np.reshape(last, (-1, 2))))
    return points[:, 0], points[:, 1]


def minorant(alpha: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Return the corners of the lower convex hull of points in any order, of (0, 1) and of (1, 0)."""
    sizes, errors = np.concatenate(([0.0], alpha, [1.0])), np.concatenate(([1.0], beta, [0.0]))
    order = np.lexsort((errors, sizes))
    sizes, errors = sizes[order], errors[order]
    lowest = np.concatenate(([True], np.diff(sizes) > 0.0))
    sizes, errors = sizes[lowest], errors[lowest]
    kept = lower_hull(sizes, errors)
    return with_ends(sizes[kept], errors[kept])
