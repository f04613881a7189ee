"""Any two distributions on finitely many outcomes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import refusal
from hpcdp.analytic._curve import Curve, Direction
from hpcdp.analytic._divergence import Parts

Array = NDArray[np.float64]

_AT_ONCE = 1 << 16  # numbers in memory
_SMALL, _NEAR_ONE = (
    1e-8,
    1.5,
)  # of deltas that rounding spoils, and of roots of e^epsilon at which its complement is small
SUM_TOLERANCE = 1e-9
"""How far the sum of the probabilities may be from 1; they are then divided by their sum."""


@dataclass(frozen=True, eq=False)
class Discrete(Curve):
    """Two pmfs over the same k outcomes; an outcome may be impossible under either, so of infinite loss.

    Args:
        p, q: probabilities of the same outcomes under P and under Q, shape (k,); entries >= 0, each sums
            to 1 within 1e-9.

    Raises:
        ValueError: the shapes differ, an entry is negative or not finite, or a sum is not 1.
    """

    p: Array
    q: Array

    def __init__(self, p: ArrayLike, q: ArrayLike) -> None:
        first, second = _pmf("p", p), _pmf("q", q)
        if first.shape != second.shape:
            raise refusal("q", second, f"an array of the shape of p, {first.shape}")
        object.__setattr__(self, "p", first)
        object.__setattr__(self, "q", second)

    @cached_property
    def _ratio(self) -> Array:
        """q/p, infinity where p = 0; impossible outcomes have p = q = 0 and weigh nothing anywhere."""
        return np.asarray(np.divide(self.q, self.p, out=np.full(self.p.shape, np.inf), where=self.p > 0.0))

    def pure(self) -> float:
        with np.errstate(divide="ignore"):
            return float(np.abs(np.log(self._ratio[(self.p > 0.0) | (self.q > 0.0)])).max())

    @cached_property
    def _vertices(self) -> tuple[Array, Array]:
        """Corners (alpha, beta) of the trade-off curve, alpha ascending.

        Outcomes are rejected by descending q/p, as in the Neyman-Pearson lemma; the curve is the
        linear interpolation of the cumulated (sum p, 1 - sum q).
        """
        order = np.argsort(-self._ratio, kind="stable")
        order = order[self.p[order] > 0.0]  # outcomes with p = 0 are rejected at no cost, at alpha = 0
        alpha = np.concatenate(([0.0], np.cumsum(self.p[order])))
        # Tail sums, not 1 - sums: a small beta keeps its digits.
        beta = np.concatenate((np.cumsum(self.q[order][::-1])[::-1], [0.0]))
        return alpha, beta

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        kept, inflated = (self.p, self.q) if direction == "forward" else (self.q, self.p)
        with np.errstate(over="ignore"):
            roots = np.exp(0.5 * epsilon.ravel())
        out = _positive_sums(kept, inflated, roots)
        for row in np.flatnonzero((out < _SMALL) & (roots < _NEAR_ONE)):
            if kept[kept > inflated * roots[row] ** 2].sum() > 0.5:
                # All of P - e^epsilon Q is 1 - e^epsilon: the outcomes that have little mass tell the rest with more digits.
                rest = _positive_sums(-kept, -inflated, roots[row : row + 1])[0]
                out[row] = max(rest - np.expm1(epsilon.ravel()[row]), 0.0)
        return out.reshape(epsilon.shape)

    def _point(self, eta: Array) -> tuple[Array, Array]:
        alpha, beta = np.empty(eta.shape), np.empty(eta.shape)
        for index in np.ndindex(eta.shape):
            rejected = self._ratio > eta[index]
            alpha[index], beta[index] = self.p[rejected].sum(), self.q[~rejected].sum()
        return np.minimum(alpha, 1.0), np.minimum(beta, 1.0)  # sums may round to just above 1

    def _tradeoff(self, alpha: Array) -> Array:
        return np.asarray(np.interp(alpha, *self._vertices))

    def _parts(self, order: float) -> Parts:
        with np.errstate(divide="ignore"):
            return Parts((), np.log(self.p), np.log(self.q))


def _positive_sums(kept: Array, inflated: Array, roots: Array) -> Array:
    """The sum of the positive parts of kept - root^2 inflated at each root (m,), of shape (m,)."""
    alone = np.maximum(kept[inflated == 0.0], 0.0).sum()
    kept, inflated = kept[inflated != 0.0], inflated[inflated != 0.0]
    out = np.empty(roots.size)
    rows = max(1, _AT_ONCE // max(1, kept.size))
    with np.errstate(over="ignore"):
        # In two halves, so that the factor overflows only where the product exceeds 1.
        for start in range(0, out.size, rows):
            block = roots[start : start + rows, None]
            out[start : start + rows] = alone + np.maximum(kept - (inflated * block) * block, 0.0).sum(axis=1)
    return out


def _pmf(name: str, values: ArrayLike) -> Array:
    accepted = "probabilities of shape (k,): entries >= 0 of sum 1"
    given: NDArray[Any] = np.asarray(values)
    if given.dtype.kind not in "iuf" or given.ndim != 1 or given.size == 0:
        raise refusal(name, values, accepted)
    array = given.astype(np.float64)
    if not (np.isfinite(array) & (array >= 0.0)).all() or abs(array.sum() - 1.0) > SUM_TOLERANCE:
        raise refusal(name, values, accepted)
    return np.asarray(array / array.sum(), dtype=np.float64)
