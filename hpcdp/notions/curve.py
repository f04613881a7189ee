"""Trade-off curves as objects: polygons that can be evaluated, inverted, symmetrised, compared and composed.

What several claims say together of a mechanism that publishes all their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import integer, non_negative, positive, refusal
from hpcdp.analytic import ApproximateDP, GaussianShift, LaplaceShift, LaplaceVector, SpectrumPoints, TradeOffPoints
from hpcdp.analytic._curve import Curve, Direction, checked
from hpcdp.analytic.discrete import Discrete
from hpcdp.analytic.points import largest_excess, minorant, upper_envelope, with_ends
from hpcdp.notions._draw import draw
from hpcdp.notions._product import Outcomes, inscribed, multiply, power

Floats = NDArray[np.float64]

_ROUNDING = 1e-12
_LARGEST_LEVEL = 700.0  # e to this is finite
_LEVELS, _NOTHING = 1 << 14, 1e-12  # of a polygon from below
_WRITTEN = 1 << 14  # corners of a file, at most
_LOWERED = 1e-11  # what a product is lowered by, ten times the rounding of one on the grid


class Gap(NamedTuple):
    """The largest difference of two curves, and the type-I error at which it is."""

    size: float
    alpha: float


@dataclass(frozen=True, eq=False)
class TradeOffCurve(Curve):
    """A trade-off curve T of an ordered pair (P, Q), H0 = P: a polygon from (0, 1) to (1, 0) that never rises.

    Where several corners have one alpha, the curve drops there and its value is the lowest of them; a drop at alpha = 0 is
    the mass of Q where P has none. The curve need not be convex: one through estimates may not be. δ, levels and
    points are of its convex minorant, exact up to 1e-16 or so. It has no densities: `renyi` raises NotImplementedError.

    Args:
        alpha: type-I errors of the corners, from 0 to 1, never falling, float64 (k,), k >= 2.
        beta: type-II errors of the corners, from 1 to 0, never rising, float64 (k,).

    Raises:
        ValueError: values out of range, shapes that differ, other ends, or an alpha that falls or a beta that rises.
    """

    alpha: Floats
    beta: Floats

    def __post_init__(self) -> None:
        sizes, errors = _points(self.alpha, self.beta)
        ends = [(float(sizes[i]), float(errors[i])) for i in (0, -1)] if sizes.size else []
        if ends != [(0.0, 1.0), (1.0, 0.0)]:
            raise refusal("first and last corner", ends, "(0, 1) and (1, 0); from_points adds them")
        for name, turn, steps in (("alpha", "falls", np.diff(sizes)), ("beta", "rises", -np.diff(errors))):
            back = np.flatnonzero(steps < -_ROUNDING)
            if back.size:
                raise refusal("corners (alpha, beta)", _two(sizes, errors, back[0]), f"a {name} that never {turn}")
        # rounding may have lifted one; + 0.0, as a step from 0 to −0.0 has no slope
        for name, values in (
            ("alpha", np.maximum.accumulate(sizes) + 0.0),
            ("beta", np.minimum.accumulate(errors) + 0.0),
        ):
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @classmethod
    def from_points(cls, alpha: ArrayLike, beta: ArrayLike) -> TradeOffCurve:
        """The polygon through points in any order, and through (0, 1) and (1, 0), as in Algorithm 3 of Askin et al. (2025).

        If the points are those of tests, so are all points of the polygon (of random choices between two of them). Then it
        is on or above the true T.

        Args:
            alpha, beta: errors from 0 to 1, (k,) each.

        Raises:
            ValueError: values out of range, shapes that differ, or a beta that rises with alpha, as errors of unrelated
                tests may: `from_tests` takes these.
        """
        sizes, errors = _points(alpha, beta)
        order = np.lexsort((-errors, sizes))
        sizes, errors = sizes[order], errors[order]
        rises = np.flatnonzero(np.diff(errors) > _ROUNDING)
        if rises.size:
            accepted = "a beta that never rises with alpha; from_tests takes the best of any tests"
            raise refusal("points (alpha, beta)", _two(sizes, errors, rises[0]), accepted)
        return cls(*with_ends(sizes, errors))

    @classmethod
    def from_tests(cls, alpha: ArrayLike, beta: ArrayLike) -> TradeOffCurve:
        """The best that can be made of any tests: the lower convex hull of their errors, of (0, 1) and of (1, 0).

        Exact: tests chosen at random between two of them have the errors between. So it is on or above the true T if each
        point is; of estimates it takes the luckiest.

        Args:
            alpha, beta: errors from 0 to 1, (k,) each, in any order.

        Raises:
            ValueError: values out of range or shapes that differ.
        """
        return cls(*minorant(*_points(alpha, beta)))

    @classmethod
    def from_curve(cls, exact: Curve, tolerance: float = 1e-6) -> TradeOffCurve:
        """A polygon through exact Neyman–Pearson points: on or above the exact curve, and nowhere `tolerance` above it.

        The bound is derived from the supporting lines at the points, and holds for heights (T) and for widths (of the
        inverse) alike, so that `delta` in both directions is too small by at most `tolerance`. Both up to the rounding of
        the exact curve. Of two discrete laws it is exact.

        Args:
            exact: a curve of `hpcdp.analytic`.
            tolerance: > 0; a hundredth of it needs ten times the points, 1e-6 about 2000 for a smooth curve.

        Raises:
            ValueError: no exact curve, or a tolerance that needs more than 2^20 points.
        """
        if isinstance(exact, Discrete):
            return cls.from_discrete(exact.p, exact.q)
        if not isinstance(exact, Curve):
            raise refusal("exact", exact, "a curve of hpcdp.analytic")
        return cls(*with_ends(*inscribed(exact, positive("tolerance", tolerance))))

    @classmethod
    def from_discrete(cls, p: ArrayLike, q: ArrayLike) -> TradeOffCurve:
        """The exact curve of two discrete laws: outcomes are rejected by descending q/p (Neyman and Pearson).

        Args:
            p, q: probabilities of the same outcomes under P and under Q, (k,); entries >= 0, each sums to 1 within 1e-9.

        Raises:
            ValueError: no two pmfs on the same outcomes.
        """
        alpha, beta = Discrete(p, q)._vertices
        return cls(*with_ends(np.minimum(alpha, 1.0), np.minimum(beta, 1.0)))

    @classmethod
    def from_delta(cls, epsilons: ArrayLike, forward: ArrayLike, reverse: ArrayLike | None = None) -> TradeOffCurve:
        """The least curve that a spectrum known at some levels allows: every pair with these deltas has T on or above it.

        T(a) = max over the levels of {1 − δ_QP(ε) − e^ε a, e^−ε (1 − δ_PQ(ε) − a), 0}, the dual relation of Dong, Roth and
        Su (2022), whose parts are equation 12 of Askin et al. (2025). Exact for the given levels; from all levels it would
        be T itself.

        Args:
            epsilons: levels from 0 to 700, in any order, (k,), k >= 1.
            forward: δ_PQ at these levels, from 0 to 1, (k,).
            reverse: δ_QP at these levels; if left out, `forward`, as for the spectrum of an unordered pair.

        Raises:
            ValueError: values out of range or shapes that differ.
        """
        levels = checked("epsilons", epsilons, 0.0, _LARGEST_LEVEL)
        there = checked("forward", forward, 0.0, 1.0)
        back = there if reverse is None else checked("reverse", reverse, 0.0, 1.0)
        if levels.ndim != 1 or not levels.size or not levels.shape == there.shape == back.shape:
            shapes = (levels.shape, there.shape, back.shape)
            raise refusal("shapes of epsilons, forward, reverse", shapes, "equal shapes (k,) with k >= 1")
        steepness = np.concatenate((np.exp(levels), np.exp(-levels)))
        height = np.concatenate((1.0 - back, np.exp(-levels) * (1.0 - there)))
        corners = upper_envelope(steepness, height)
        return cls(
            *with_ends(*(np.clip(values, 0.0, 1.0) for values in corners))
        )  # off by rounding where δ is nearly 1

    @classmethod
    def below(cls, exact: Curve) -> TradeOffCurve:
        """A polygon on or below the exact curve: its supporting lines at 2^14 levels, from 0 to where delta is 1e-12.

        `delta` in both directions is too large, by at most 5e-8 for Laplace and Gaussian noise up to epsilon or mu 4 (measured).

        Raises:
            ValueError: no exact curve.
        """
        if not isinstance(exact, Curve):
            raise refusal("exact", exact, "a curve of hpcdp.analytic")
        most = max(float(exact.epsilon(_NOTHING, direction)) for direction in ("forward", "reverse"))
        levels = np.unique(np.linspace(0.0, min(most, _LARGEST_LEVEL), _LEVELS))
        return cls.from_delta(levels, exact.delta(levels, "forward"), exact.delta(levels, "reverse"))

    def __call__(self, alpha: ArrayLike) -> Floats:
        """Return T(alpha). Exact for the polygon.

        Args:
            alpha: sizes from 0 to 1, any shape.

        Returns:
            float64 of the shape of `alpha`.

        Raises:
            ValueError: a size out of range.
        """
        return self.tradeoff(alpha)

    def _tradeoff(self, alpha: Floats) -> Floats:
        # of equal alphas np.interp takes the last, so the lowest
        return np.asarray(np.interp(alpha, self.alpha, self.beta))

    def _point(self, eta: Floats) -> tuple[Floats, Floats]:
        hull = self.convex()
        with np.errstate(divide="ignore"):
            steepness = -np.diff(hull.beta) / np.diff(hull.alpha)
        corner = np.searchsorted(-steepness, -eta)  # behind all sides that are steeper
        return hull.alpha[corner], hull.beta[corner]

    def inverse(self) -> TradeOffCurve:
        """The curve of the reversed pair (Q, P), T⁻¹(b) = inf{a: T(a) <= b}. Exact, and its own inverse."""
        return TradeOffCurve(self.beta[::-1], self.alpha[::-1])

    @cached_property
    def _convex(self) -> TradeOffCurve:
        return TradeOffCurve(*minorant(self.alpha, self.beta))

    def convex(self) -> TradeOffCurve:
        """The greatest convex curve on or below this one, what random choices between its tests reach. Exact."""
        return self._convex

    def symmetrise(self) -> TradeOffCurve:
        """C[T], the greatest convex minorant of T and T⁻¹: what T says of the unordered pair. Exact for the polygon.

        Dong, Roth and Su (2022). The hull of the corners of both; no fixed point is needed.
        """
        both = np.concatenate((self.alpha, self.beta)), np.concatenate((self.beta, self.alpha))
        return TradeOffCurve(*minorant(*both))

    def is_symmetric(self, tolerance: float = 1e-9) -> bool:
        """Whether T and T⁻¹ differ by at most `tolerance` in alpha + beta, on every line on which beta − alpha is constant.

        So where one is steep and the other flat, no small error counts as a large one.

        Raises:
            ValueError: a negative tolerance.
        """
        along, across = (self.alpha - self.beta), (self.alpha + self.beta)
        # at the corners of T and of T⁻¹, whose `along` is the negative one
        mirrored = np.interp(along, -along[::-1], across[::-1])
        return bool(np.abs(across - mirrored).max() <= non_negative("tolerance", tolerance))

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        # at a corner of the polygon: δ_PQ = sup_b 1 − T⁻¹(b) − e^ε b forward, δ_QP = sup_a 1 − T(a) − e^ε a in reverse
        hull = self.convex()
        corners = (hull.alpha, hull.beta) if direction == "reverse" else (hull.beta[::-1], hull.alpha[::-1])
        return largest_excess(*corners, epsilon)

    def gap(self, other: TradeOffCurve) -> Gap:
        """Return the largest T_other − T_self and the alpha where it is. Exact for polygons: it is at a corner of one.

        If other is a claim, this is how far the claim is missed; at least 0, as both curves end in the same points.

        Raises:
            ValueError: `other` is no TradeOffCurve.
        """
        _require(other)
        sizes = np.unique(np.concatenate((self.alpha, other.alpha)))
        # at a drop the largest difference may be the limit from the left
        values = [[side(curve, sizes) for curve in (self, other)] for side in (_before, TradeOffCurve.__call__)]
        differences = np.concatenate([theirs - mine for mine, theirs in values])
        place = int(np.argmax(differences))
        return Gap(float(differences[place]), float(np.tile(sizes, 2)[place]))

    def tensor(self, other: TradeOffCurve) -> TradeOffCurve:
        """The curve of both outputs together, when the coins are independent and the databases are the same.

        A convex polygon is exactly the curve of a discrete pair with an outcome for each edge, and this is that of the product
        pair, for the convex minorants of both. Exact, up to rounding, if the product has at most 2^20 outcomes. Otherwise
        the losses are spread over a grid: the result is on or below the exact curve, up to rounding of about 1e-12, so
        what it guarantees is guaranteed. How far below was measured: docs/mathematics-claims.md.

        If the two polygons are above their true curves by at most s and t in height and width, then the δ of the product
        of the polygons is too small by at most s + t.

        Raises:
            ValueError: `other` is no TradeOffCurve.
        """
        _require(other)
        first, second = (Outcomes.of(curve.alpha, curve.beta) for curve in (self.convex(), other.convex()))
        return _from_outcomes(multiply(first, second))

    def power(self, n: int) -> TradeOffCurve:
        """The curve of n independent outputs of the same pair together, as `tensor`, of the convex minorant.

        Exact, up to rounding, if the sum of n losses has at most 2^10 values. Otherwise on or below the exact curve, up to
        rounding of about 1e-12: the losses are spread over a grid of at least 2^18 steps and convolved at once.

        Raises:
            ValueError: n is no integer >= 1.
        """
        count, convex = integer("n", n, 1), self.convex()
        return convex if count == 1 else _from_outcomes(power(Outcomes.of(convex.alpha, convex.beta), count))

    def write(self, path: str | Path) -> None:
        """Write the greatest convex curve on or below this one as a CSV file that a claim file(path) reads.

        Its header is alpha,beta. Between two points a claim goes as low as a convex curve may, so each side has a third point
        in its middle; then the claim is the polygon, within 1e-12. Of more than 16,384 corners, as products on a grid have, the
        file holds so many supporting lines: the claim is on or below the curve, by 1e-7 at most for products of Laplace and
        Gaussian noise (measured).

        Raises:
            OSError: the file cannot be written.
        """
        curve = self.convex()
        if curve.alpha.size > _WRITTEN:
            curve = curve._thinned()
        alpha, beta = curve.alpha, curve.beta
        first = int(np.searchsorted(alpha, 0.0, side="right")) - 1  # behind a drop at 0
        alpha, beta = alpha[first:], beta[first:]
        sizes, errors = (np.insert(v, np.arange(1, v.size), 0.5 * (v[:-1] + v[1:])) for v in (alpha, beta))
        kept = np.append(True, np.diff(sizes) > 0.0)
        lines = [f"{a!r},{b!r}" for a, b in zip(sizes[kept].tolist(), errors[kept].tolist(), strict=True)]
        Path(path).write_text("\n".join(["alpha,beta", *lines, ""]), encoding="utf-8")

    def _thinned(self) -> TradeOffCurve:
        """Supporting lines at some of the slopes: on or below this convex curve."""
        with np.errstate(divide="ignore"):
            slopes = np.abs(np.log(-np.diff(self.beta)) - np.log(np.diff(self.alpha)))
        levels = np.unique(slopes[slopes <= _LARGEST_LEVEL])
        chosen = levels[np.unique(np.linspace(0, levels.size - 1, _WRITTEN // 2).astype(int))]
        return TradeOffCurve.from_delta(chosen, self.delta(chosen), self.delta(chosen, "reverse"))

    def plot(self, axis: Any = None, path: str | Path | None = None, **line: Any) -> Any:
        """Draw the curve on a Matplotlib axis, by default of a new figure; with a path (.png or .svg), write the figure.

        Args:
            axis: where to draw.
            path: the file to write.
            line: options of Matplotlib's `plot`, such as label and color.

        Returns:
            the Matplotlib Figure.

        Raises:
            ValueError: a path that ends otherwise.
        """
        return draw(self.alpha, self.beta, axis, path, line)


def _points(alpha: ArrayLike, beta: ArrayLike) -> tuple[Floats, Floats]:
    sizes, errors = checked("alpha", alpha, 0.0, 1.0), checked("beta", beta, 0.0, 1.0)
    if sizes.shape != errors.shape or sizes.ndim != 1:
        raise refusal("shapes of alpha, beta", (sizes.shape, errors.shape), "equal shapes (k,)")
    return sizes, errors


def _two(alpha: Floats, beta: Floats, place: int) -> list[tuple[float, float]]:
    return [(float(alpha[i]), float(beta[i])) for i in (place, place + 1)]


def _before(curve: TradeOffCurve, alpha: Floats) -> Floats:
    """The limit of T from the left; at 0 it is 1."""
    return np.asarray(np.interp(-alpha, -curve.alpha[::-1], curve.beta[::-1]))


def _from_outcomes(pair: Outcomes) -> TradeOffCurve:
    alpha, beta = pair.corners()
    # sums of masses may round to just off 1
    alpha, beta = np.minimum(alpha, 1.0), np.minimum(beta, 1.0)
    alpha[-1], beta[0] = 1.0, 1.0
    return TradeOffCurve(alpha, beta)


def _require(other: Any) -> None:
    if not isinstance(other, TradeOffCurve):
        raise refusal("other", other, "a TradeOffCurve; from_curve makes one of an exact curve")


class Bound(Protocol):
    """What a claim stands for: an exact curve, or points of a spectrum or of a trade-off curve."""

    def spectrum(self, epsilon: ArrayLike) -> Floats:
        """Return the largest delta allowed in either direction at levels >= 0, same shape."""

    def tradeoff(self, alpha: ArrayLike) -> Floats:
        """Return the smallest type-II error allowed at sizes between 0 and 1, same shape."""


def tensor(bounds: Sequence[Bound]) -> Bound:
    """The trade-off curve of independent outputs together, each of which meets its own bound: their tensor product.

    Dong, Roth and Su (2022), Section 3. Gaussian curves' is exact, Laplace curves' as `LaplaceVector` says. Any other is a
    polygon on or below the exact one, of `TradeOffCurve.below` of each part, lowered by 1e-11: it claims no more than the parts
    do, so that a violation of it is one of them. Its delta is too large by e^epsilon 1e-11, and at most 6e-8 more where it was
    measured.
    """
    shifts = [bound.mu for bound in bounds if isinstance(bound, GaussianShift)]
    distances = [bound.epsilon0 for bound in bounds if isinstance(bound, LaplaceShift)]
    parts = [bound for bound in bounds if not isinstance(bound, GaussianShift | LaplaceShift)]
    if shifts:
        parts.append(GaussianShift(math.hypot(*shifts)))
    if distances:
        parts.append(LaplaceShift(distances[0]) if len(distances) == 1 else LaplaceVector(distances))
    if len(parts) == 1:
        return parts[0]
    whole = reduce(TradeOffCurve.tensor, map(polygon, parts))
    return TradeOffCurve(*minorant(whole.alpha, np.maximum(whole.beta - _LOWERED, 0.0)))


def polygon(bound: Bound) -> TradeOffCurve:
    """A convex polygon on or below the bound."""
    if isinstance(bound, ApproximateDP):
        return TradeOffCurve.from_delta([bound.epsilon0], [bound.delta0])
    if isinstance(bound, SpectrumPoints):
        return TradeOffCurve.from_delta(bound.epsilons, bound.deltas)
    if isinstance(bound, TradeOffPoints):
        return TradeOffCurve(*with_ends(*bound.hull))
    if isinstance(bound, TradeOffCurve):  # of a product
        return bound.convex()
    assert isinstance(bound, Curve)
    return TradeOffCurve.below(bound)
