"""What every exact pair of output distributions offers: its spectrum and its trade-off curve."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import refusal
from hpcdp.analytic._divergence import Parts

Array = NDArray[np.float64]
Direction = Literal["forward", "reverse"]
DIRECTIONS: tuple[Direction, Direction] = ("forward", "reverse")

_HALVINGS = 200  # enough for full precision of every solution above 2^-147


class Curve(ABC):
    """Exact privacy spectrum and trade-off curve of an ordered pair (P, Q) of output distributions.

    P is the law of M(D), Q the law of M(D'), p and q are their densities or probabilities. A new family
    is a subclass with the methods `_delta`, `_point` and `_tradeoff`, which get checked float64
    arrays of any shape and return arrays of that shape; for Rényi divergences also `_parts`. All values are exact up to rounding.
    """

    @abstractmethod
    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        """Spectrum at checked levels, all >= 0."""

    @abstractmethod
    def _point(self, eta: Array) -> tuple[Array, Array]:
        """Neyman-Pearson points at checked thresholds, all >= 0."""

    @abstractmethod
    def _tradeoff(self, alpha: Array) -> Array:
        """Trade-off curve at checked sizes between 0 and 1."""

    def _parts(self, order: float) -> Parts:
        """Densities and atoms of both laws, with edges that find what counts at this order and below, either way round."""
        raise NotImplementedError(f"densities of {type(self).__name__}, which its Rényi divergences need")

    def _renyi(self, order: float, direction: Direction) -> float:
        """Rényi divergence at a checked order >= 1: by quadrature, where a family has no closed form."""
        parts = self._parts(order)
        return (parts if direction == "forward" else parts.reversed()).renyi(order)

    def delta(self, epsilon: ArrayLike, direction: Direction = "forward") -> Array:
        """Return the privacy spectrum, the hockey-stick divergence sup_S P(S) - e^epsilon Q(S).

        Args:
            epsilon: levels >= 0, any shape; infinity gives the mass of infinite loss.
            direction: "forward" is delta of (P, Q) as written above, "reverse" of (Q, P).

        Returns:
            float64 of the shape of `epsilon`, between 0 and 1.

        Raises:
            ValueError: a negative or NaN level, or an unknown direction.
        """
        levels = checked("epsilon", epsilon, 0.0, np.inf)
        if direction not in ("forward", "reverse"):
            raise refusal("direction", direction, '"forward" or "reverse"')
        return np.asarray(np.clip(self._delta(levels, direction), 0.0, 1.0), dtype=np.float64)

    def spectrum(self, epsilon: ArrayLike) -> Array:
        """Return the spectrum of the unordered pair: the larger of both directions.

        Args:
            epsilon: levels >= 0, any shape.

        Returns:
            float64 of the shape of `epsilon`, between 0 and 1.

        Raises:
            ValueError: a negative or NaN level.
        """
        return np.maximum(self.delta(epsilon, "forward"), self.delta(epsilon, "reverse"))

    def epsilon(self, delta: ArrayLike, direction: Direction = "forward") -> Array:
        """Return the smallest level >= 0 at which the spectrum is at most `delta`, by bisection.

        Args:
            delta: masses, 0 < delta <= 1, any shape.
            direction: as in `delta`.

        Returns:
            float64 of the shape of `delta`; infinity where more than `delta` has infinite loss.

        Raises:
            ValueError: a mass out of range, or an unknown direction.
        """
        masses = checked("delta", delta, np.nextafter(0.0, 1.0), 1.0)
        return invert_non_increasing(lambda level: self.delta(level, direction), masses)

    def renyi(self, order: ArrayLike, direction: Direction = "forward") -> Array:
        """Return the Rényi divergence D_a(P‖Q) = ln(∫ p^a q^(1 − a)) / (a − 1), in nats; of order 1 that of Kullback and Leibler.

        Args:
            order: a >= 1, finite, any shape. Of order infinity it is the pure level, `epsilon` at δ = 0.
            direction: "forward" is D of (P, Q) as written above, "reverse" of (Q, P).

        Returns:
            float64 of the shape of `order`, >= 0; infinity where the first law has mass and the second has none.

        Raises:
            ValueError: an order below 1, infinite or NaN, or so large (from about 10⁷ of normal noise that is subsampled) that
                quadrature cannot tell; or an unknown direction.
        """
        orders = checked("order", order, 1.0, np.finfo(np.float64).max)
        if direction not in ("forward", "reverse"):
            raise refusal("direction", direction, '"forward" or "reverse"')
        divergences = [self._renyi(float(a), direction) for a in orders.ravel()]
        return np.asarray(divergences, np.float64).reshape(orders.shape)

    def pure(self) -> float | None:
        """Return the pure level of the unordered pair, sup |ln p - ln q| (Askin, Kutta and Dette 2022, Theorem 1).

        Infinite where one law gives what the other cannot, or where the loss has no bound; None where this family has no
        closed form of it. Smaller deltas than floats hold count: it is no zero of the spectrum.
        """
        return None

    def point(self, eta: ArrayLike) -> tuple[Array, Array]:
        """Return the Neyman-Pearson points at thresholds on q/p: reject P where q/p > eta, strictly.

        Args:
            eta: thresholds >= 0, any shape.

        Returns:
            alpha = P(q/p > eta) and beta = Q(q/p <= eta), each float64 of the shape of `eta`.

        Raises:
            ValueError: a negative or NaN threshold.
        """
        alpha, beta = self._point(checked("eta", eta, 0.0, np.inf))
        return np.asarray(alpha, dtype=np.float64), np.asarray(beta, dtype=np.float64)

    def tradeoff(self, alpha: ArrayLike) -> Array:
        """Return T(alpha), the smallest type-II error of a test of P against Q of size at most `alpha`.

        The trade-off function of Dong, Roth and Su (2022), with H0 = P; that of the reversed pair is
        its inverse.

        Args:
            alpha: sizes between 0 and 1, any shape.

        Returns:
            float64 of the shape of `alpha`, between 0 and 1 - alpha.

        Raises:
            ValueError: a size out of range.
        """
        sizes = checked("alpha", alpha, 0.0, 1.0)
        return np.asarray(np.clip(self._tradeoff(sizes), 0.0, 1.0), dtype=np.float64)


def checked(name: str, values: ArrayLike, least: float, most: float, accepted: str | None = None) -> Array:
    """Return `values` as float64; ValueError of the first outside [least, most], NaN, or no number."""
    accepted = accepted or (f"numbers from {least:g} to {most:g}" if most < np.inf else f"numbers >= {least:g}")
    given: NDArray[Any] = np.asarray(values)
    if given.dtype.kind not in "iuf":
        raise refusal(name, values, accepted)
    array = given.astype(np.float64)
    wrong = ~((array >= least) & (array <= most))
    if wrong.any():
        raise refusal(name, float(array[wrong].flat[0]), accepted)
    return array


def finite_vector(name: str, given: ArrayLike, letter: str = "k") -> Array:
    """Return finite numbers as float64 of shape (k,), k >= 1; ValueError where they are none."""
    values = np.asarray(given)
    if values.ndim != 1 or not values.size or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise refusal(name, given, f"finite numbers of shape ({letter},), {letter} >= 1")
    return values.astype(np.float64)


def invert_non_increasing(function: Callable[[Array], Array], target: Array) -> Array:
    """Return the smallest x >= 0 with function(x) <= target, elementwise, to the last bit; infinity where there is none."""
    reachable = function(np.full(target.shape, np.inf)) <= target
    upper = np.ones(target.shape)
    short = reachable & (function(upper) > target)
    while short.any():
        upper = np.where(short, 2.0 * upper, upper)
        short = reachable & (function(upper) > target)
    lower = np.zeros(target.shape)
    for _ in range(_HALVINGS):
        middle = 0.5 * (lower + upper)
        if ((middle == lower) | (middle == upper)).all():
            break
        above = function(middle) > target
        lower, upper = np.where(above, middle, lower), np.where(above, upper, middle)
    solution = np.where(function(np.zeros(target.shape)) <= target, 0.0, upper)
    return np.where(reachable, solution, np.inf)
