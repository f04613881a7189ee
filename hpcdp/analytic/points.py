"""What is known of a spectrum or a trade-off curve from one or a few points; greatest convex minorants of points.

A level and its delta: (epsilon, delta)-differential privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import fraction, non_negative, refusal
from hpcdp.analytic._curve import Curve, Direction, checked
from hpcdp.analytic._divergence import Parts

Array = NDArray[np.float64]

_STEEPEST = -1e300  # where a step is so short that its slope overflows
_ROUNDING = 1e-9  # points of a convex curve, printed with some ten digits, need not be convex to the last one
_PRINTED = 1e-6


@dataclass(frozen=True)
class ApproximateDP(Curve):
    """The least private symmetric pair that is (epsilon0, delta0)-differentially private.

    Its trade-off curve is f_{epsilon,delta}, equation 12 of Askin, Dette, Dunsche, Kutta, Lu, Wei and Zikas
    (2025). A pair with this curve has four outcomes: of loss infinity, epsilon0, -epsilon0, -infinity.
    The spectrum is that pair's, the tightest that the curve implies.

    Args:
        epsilon0: the privacy level, >= 0, finite.
        delta0: the failure mass, between 0 and 1.

    Raises:
        ValueError: a value out of range.
    """

    epsilon0: float
    delta0: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon0", non_negative("epsilon0", self.epsilon0))
        object.__setattr__(self, "delta0", fraction("delta0", self.delta0))

    @property
    def _unlikely(self) -> float:
        """Mass, under P, of the outcome that Q makes e^epsilon0 times as likely."""
        return float((1.0 - self.delta0) * np.exp(-self.epsilon0) / (1.0 + np.exp(-self.epsilon0)))

    def pure(self) -> float:
        return float("inf") if self.delta0 > 0.0 else self.epsilon0

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        # (e^epsilon0 - e^epsilon) / (1 + e^epsilon0), without overflow
        gap = -np.expm1(np.minimum(epsilon - self.epsilon0, 0.0)) / (1.0 + np.exp(-self.epsilon0))
        return np.asarray(self.delta0 + (1.0 - self.delta0) * gap)

    def _point(self, eta: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            least, most = np.exp(-self.epsilon0), np.exp(self.epsilon0)
        low, high = (eta < least) | (eta == 0.0), eta >= most
        finite = 1.0 - self.delta0
        alpha = np.where(low, finite, np.where(high, 0.0, self._unlikely))
        beta = np.where(low, 0.0, np.where(high, finite, self._unlikely))
        return alpha, np.where(eta == np.inf, 1.0, beta)

    def _tradeoff(self, alpha: Array) -> Array:
        return approximate_tradeoff(alpha, self.epsilon0, self.delta0)

    def _parts(self, order: float) -> Parts:
        shared = np.log1p(-self.delta0) if self.delta0 < 1.0 else -np.inf
        likely = shared - np.log1p(np.exp(-self.epsilon0))
        alone = np.log(self.delta0) if self.delta0 > 0.0 else -np.inf
        p = np.array([alone, likely, likely - self.epsilon0, -np.inf])
        return Parts((), p, p[::-1])


def approximate_tradeoff(alpha: Array, epsilon: float, delta: float) -> Array:
    """Return f_{epsilon,delta}: max{0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)}, Askin et al. (2025)."""
    with np.errstate(divide="ignore", over="ignore"):
        # In log space, as e^epsilon overflows where alpha is 0.
        steep = 1.0 - delta - np.exp(epsilon + np.log(alpha))
    flat = np.exp(-epsilon) * (1.0 - delta - alpha)
    return np.asarray(np.maximum(0.0, np.maximum(steep, flat)))


@dataclass(frozen=True, eq=False)
class SpectrumPoints:
    """A spectrum of an unordered pair that is known at finitely many levels, and what follows between them.

    Between two levels the spectrum is interpolated linearly in e^epsilon: the spectrum is convex there, so
    the true one is no larger. Below the first level it is min(1, delta_1 + e^epsilon_1 - e^epsilon), as in
    footnote 2 of Dandekar, Basu and Bressan (2021); beyond the last level it is delta_k.

    Args:
        epsilons: levels >= 0, finite, strictly increasing, shape (k,).
        deltas: the spectrum at these levels, between 0 and 1, shape (k,).

    Raises:
        ValueError: a value out of range, levels that do not increase, or shapes that differ.
    """

    epsilons: Array
    deltas: Array

    def __init__(self, epsilons: ArrayLike, deltas: ArrayLike) -> None:
        levels = checked("epsilon", epsilons, 0.0, np.finfo(np.float64).max)
        masses = checked("delta", deltas, 0.0, 1.0)
        if levels.ndim != 1 or levels.size == 0 or levels.shape != masses.shape:
            raise refusal("epsilon, delta", (levels.shape, masses.shape), "equal shapes (k,) with k >= 1")
        back = np.flatnonzero(np.diff(levels) <= 0.0)
        if back.size:
            pair = (float(levels[back[0]]), float(levels[back[0] + 1]))
            raise refusal("epsilon", pair, "a strictly increasing sequence")
        object.__setattr__(self, "epsilons", levels)
        object.__setattr__(self, "deltas", masses)

    def spectrum(self, epsilon: ArrayLike) -> Array:
        """Return the spectrum, as `Curve` does, or its upper bound between the known levels."""
        levels = checked("epsilon", epsilon, 0.0, np.inf)
        known, masses = self.epsilons, self.deltas
        if known.size == 1:
            between = np.full(levels.shape, masses[0])
        else:
            right = np.clip(np.searchsorted(known, levels, side="right"), 1, known.size - 1)
            inside = np.clip(levels, known[right - 1], known[right])
            # (e^x - e^a) / (e^b - e^a) with exponents <= 0 only, so that nothing overflows
            weight = np.exp(inside - known[right]) * np.expm1(known[right - 1] - inside)
            weight = weight / np.expm1(known[right - 1] - known[right])
            between = (1.0 - weight) * masses[right - 1] + weight * masses[right]
        with np.errstate(over="ignore", invalid="ignore"):
            rise = np.exp(known[0]) * -np.expm1(np.minimum(levels - known[0], 0.0))
        below = np.minimum(1.0, masses[0] + rise)
        return np.asarray(np.where(levels < known[0], below, between), dtype=np.float64)

    def tradeoff(self, alpha: ArrayLike) -> Array:
        """Return the trade-off curve that the known points imply: max over points of f_{epsilon,delta}.

        Dong, Roth and Su (2022), the primal-dual relation between a trade-off curve and a spectrum. The
        levels between the points add nothing to the maximum, as the spectrum there is a bound that follows
        from the points.
        """
        sizes = checked("alpha", alpha, 0.0, 1.0)
        curve = np.zeros(sizes.shape)
        for level, mass in zip(self.epsilons, self.deltas, strict=True):
            np.maximum(curve, approximate_tradeoff(sizes, float(level), float(mass)), out=curve)
        return curve


def lower_hull(x: Array, y: Array) -> NDArray[np.intp]:
    """Corners of the greatest convex minorant, x ascending: where blocks of the slopes' isotonic regression begin."""
    if x.size < 3:
        return np.arange(x.size)
    from scipy.optimize import isotonic_regression

    width = np.diff(x)
    with np.errstate(over="ignore"):
        slope = np.maximum(np.diff(y) / width, _STEEPEST)
    return np.asarray(isotonic_regression(slope, weights=width).blocks, np.intp)


def upper_envelope(steepness: Array, height: Array) -> tuple[Array, Array]:
    """Corners between 0 and 1 of the largest of the lines height − steepness · a, at 1 at most 0, at 0 at most 1, and of 0."""
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


def largest_excess(x: Array, y: Array, level: Array) -> Array:
    """Return the largest 1 − y − e^level x on a convex polygon's corners, x from 0 to 1, levels >= 0 of any shape."""
    with np.errstate(divide="ignore", over="ignore"):
        factor = np.minimum(np.exp(level), np.finfo(np.float64).max)  # below the infinite slope of a drop
        steepness = -np.diff(y) / np.diff(x)
    corner = np.searchsorted(-steepness, -factor)  # behind all sides that are steeper
    return np.asarray(1.0 - y[corner] - factor * x[corner])


def with_ends(alpha: Array, beta: Array) -> tuple[Array, Array]:
    """Return the points, with (0, 1) before and (1, 0) behind where these are missing."""
    first = [] if alpha.size and (alpha[0], beta[0]) == (0.0, 1.0) else [(0.0, 1.0)]
    last = [] if alpha.size and (alpha[-1], beta[-1]) == (1.0, 0.0) else [(1.0, 0.0)]
    points = np.concatenate((np.reshape(first, (-1, 2)), np.column_stack((alpha, beta)), np.reshape(last, (-1, 2))))
    return points[:, 0], points[:, 1]


def minorant(alpha: Array, beta: Array) -> tuple[Array, Array]:
    """Return the corners of the lower convex hull of points in any order, of (0, 1) and of (1, 0)."""
    sizes, errors = np.concatenate(([0.0], alpha, [1.0])), np.concatenate(([1.0], beta, [0.0]))
    order = np.lexsort((errors, sizes))
    sizes, errors = sizes[order], errors[order]
    lowest = np.concatenate(([True], np.diff(sizes) > 0.0))
    sizes, errors = sizes[lowest], errors[lowest]
    kept = lower_hull(sizes, errors)
    return with_ends(sizes[kept], errors[kept])


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
        """Return the least type-II error, as `Curve` does, that a convex curve through the points can have at each size."""
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
        """Return the largest convex curve that is nowhere above `tradeoff`, at each size."""
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
        """Return the larger delta of both directions at each level."""
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
