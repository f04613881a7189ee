"""Trade-off curves known at finitely many points."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import refusal
from hpcdp.analytic._curve import checked
from hpcdp.analytic.hull import lower_hull

Array = NDArray[np.float64]

_ROUNDING = 1e-9  # points of a convex curve, printed with some ten digits, need not be convex to the last one
_PRINTED = 1e-6


@dataclass(frozen=True, eq=False)
class TradeOffPoints:
    """A convex trade-off curve that is known at finitely many points, and the least that follows between them.

    A convex curve through the points lies above the lines through two neighbouring points, extended beyond them.
    So between two points, the curve here is the larger of the lines that the segments on both sides give; before the
    first point it is at least that point's beta. It meets every point, and is never above the curve that was meant.

    Args:
        alphas: sizes between 0 and 1, strictly increasing, shape (k,), k >= 2.
        betas: type-II errors between 0 and 1 - alpha, shape (k,); never rising, and convex in alpha.

    Raises:
        ValueError: a value out of range, sizes that do not increase, shapes that differ, or points of no convex curve.
    """

    alphas: Array
    betas: Array

    def __init__(self, alphas: ArrayLike, betas: ArrayLike) -> None:
        sizes, errors = checked("alpha", alphas, 0.0, 1.0), checked("beta", betas, 0.0, 1.0)
        if sizes.ndim != 1 or sizes.size < 2 or sizes.shape != errors.shape:
            raise refusal("alpha, beta", (sizes.shape, errors.shape), "equal shapes (k,) with k >= 2")
        back = np.flatnonzero(np.diff(sizes) <= 0.0)
        if back.size:
            raise refusal("alpha", (float(sizes[back[0]]), float(sizes[back[0] + 1])), "a strictly increasing sequence")
        over = np.flatnonzero(errors > 1.0 - sizes + _ROUNDING)
        if over.size:
            first = int(over[0])
            raise refusal(f"beta at alpha {float(sizes[first])!r}", float(errors[first]), "at most 1 - alpha")
        rise = np.flatnonzero(np.diff(errors) > _ROUNDING)
        if rise.size:
            first = int(rise[0]) + 1
            raise refusal(f"beta at alpha {float(sizes[first])!r}", float(errors[first]), "none above the one before")
        chord = _chords(sizes, errors)
        bent = np.flatnonzero(errors[1:-1] > chord + _ROUNDING)
        if bent.size:
            first = int(bent[0]) + 1
            raise refusal(
                f"beta at alpha {float(sizes[first])!r}",
                float(errors[first]),
                f"points of a convex curve, here at most {float(chord[first - 1])!r}, between its neighbours",
            )
        object.__setattr__(self, "alphas", sizes)
        object.__setattr__(self, "betas", errors)

    @property
    def _slopes(self) -> Array:
        """Slopes of the segments, each at most 0; with those that hold before the first and after the last."""
        return np.concatenate([[-np.inf], np.diff(self.betas) / np.diff(self.alphas), [0.0]])

    def tradeoff(self, alpha: ArrayLike) -> Array:
        """Return the least type-II error that a convex curve through the points can have at each size.

        Args:
            alpha: sizes between 0 and 1, any shape.

        Returns:
            float64 of the shape of `alpha`, between 0 and 1 - alpha.

        Raises:
            ValueError: a size out of range.
        """
        sizes = checked("alpha", alpha, 0.0, 1.0)
        slopes, last = self._slopes, int(self.alphas.size) - 1
        left = np.searchsorted(self.alphas, sizes, side="right") - 1  # −1 before the first point
        before, after = np.maximum(left, 0), np.minimum(left + 1, last)
        with np.errstate(invalid="ignore"):
            # from the point on the left with the slope of the segment that ends there, and from the right likewise
            falling = self.betas[before] + slopes[before] * (sizes - self.alphas[before])
            rising = self.betas[after] + slopes[after + 1] * (sizes - self.alphas[after])
        falling = np.where((left < 0) | np.isnan(falling), -np.inf, falling)
        rising = np.where(left >= last, -np.inf, rising)
        exact = (left >= 0) & (sizes == self.alphas[before])
        betas = np.where(exact, self.betas[before], np.maximum(falling, rising))
        betas = np.where(left < 0, np.maximum(betas, self.betas[0]), betas)
        return np.asarray(np.clip(betas, 0.0, 1.0 - sizes), np.float64)

    def convex(self, alpha: ArrayLike) -> Array:
        """Return the largest convex curve that is nowhere above `tradeoff`, at each size.

        Args:
            alpha: sizes between 0 and 1, any shape.

        Returns:
            float64 of the shape of `alpha`, between 0 and 1 - alpha.

        Raises:
            ValueError: a size out of range.
        """
        sizes = checked("alpha", alpha, 0.0, 1.0)
        return np.asarray(np.interp(sizes, *self.hull), np.float64)

    @cached_property
    def hull(self) -> tuple[Array, Array]:
        """Sizes and errors of the corners of `convex`, (m,) each."""
        a, b = self._vertices
        order = np.lexsort((b, a))
        sizes, lowest = np.unique(a[order], return_index=True)
        errors = b[order][lowest]
        corners = lower_hull(sizes, errors)
        return sizes[corners], errors[corners]

    def delta(self, epsilon: ArrayLike, direction: str = "forward") -> Array:
        """Return the largest delta that the points allow at each level: of (P, Q) forward, of (Q, P) in reverse.

        delta_QP(epsilon) = sup_a 1 - T(a) - e^epsilon a, the other one with the inverse curve; the sup over a curve made
        of lines is at a vertex.

        Args:
            epsilon: levels >= 0, any shape.
            direction: "forward" or "reverse".

        Returns:
            float64 of the shape of `epsilon`, between 0 and 1.

        Raises:
            ValueError: a negative or NaN level.
        """
        levels = checked("epsilon", epsilon, 0.0, np.inf)
        a, b = self._vertices
        if direction == "forward":
            a, b = b, a
        with np.errstate(over="ignore", invalid="ignore"):
            cost = np.multiply.outer(np.exp(levels), a)
        cost[..., a == 0.0] = 0.0  # e^∞ times nothing
        return np.asarray(np.clip((1.0 - b - cost).max(axis=-1), 0.0, 1.0), np.float64)

    def spectrum(self, epsilon: ArrayLike) -> Array:
        """Return the larger delta of both directions at each level.

        Args:
            epsilon: levels >= 0, any shape.

        Returns:
            float64 of the shape of `epsilon`, between 0 and 1.

        Raises:
            ValueError: a negative or NaN level.
        """
        return np.maximum(self.delta(epsilon, "forward"), self.delta(epsilon, "reverse"))

    @property
    def is_symmetric(self) -> bool:
        """Whether the points may be those of a curve that is its own inverse, to six digits."""
        first = int((self.betas > 0.0).sum()) + 1  # sizes after the first whose error is 0 say nothing
        alphas, betas = self.alphas[:first], self.betas[:first]
        least = self.tradeoff(betas)
        most = np.interp(betas, alphas, betas, left=1.0, right=float(betas[-1]))
        return bool(((alphas >= least - _PRINTED) & (alphas <= most + _PRINTED)).all())

    @property
    def _vertices(self) -> tuple[Array, Array]:
        """Where the curve bends: the points, where two extended lines meet, and where it reaches 0; sizes and errors."""
        a, b, slopes = self.alphas, self.betas, self._slopes
        left, right = slopes[1:-2], slopes[3:]  # of the segments before and after each segment but the first
        start, stop = b[1:-1] - left * a[1:-1], b[2:] - right * a[2:]
        apart = left < right
        meet = (stop - start)[apart] / (left - right)[apart]
        low = start[apart] + left[apart] * meet
        # nothing is known on the left of the first segment, so the curve may fall steeply from the first point
        first = b[1] + slopes[2] * (a[0] - a[1])
        end = a[-1] - b[-1] / slopes[-2] if slopes[-2] < 0.0 else 1.0
        rest = (min(end, 1.0), max(0.0, float(b[-1] + slopes[-2] * (min(end, 1.0) - a[-1]))))
        sizes = np.concatenate([[0.0, a[0]], a, meet, [rest[0], 1.0]])
        errors = np.concatenate([[b[0], first], b, low, [rest[1], 0.0]])
        return np.clip(sizes, 0.0, 1.0), np.clip(errors, 0.0, 1.0)


def _chords(sizes: Array, errors: Array) -> Array:
    """At each inner point, the line between its two neighbours."""
    share = (sizes[1:-1] - sizes[:-2]) / (sizes[2:] - sizes[:-2])
    return np.asarray((1.0 - share) * errors[:-2] + share * errors[2:])
