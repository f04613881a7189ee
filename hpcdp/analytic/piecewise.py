"""Two laws with densities that are smooth between known points, and with atoms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import refusal
from hpcdp.analytic._cells import Intervals, LogDensities, divide
from hpcdp.analytic._curve import Curve, Direction, checked
from hpcdp.analytic._divergence import Parts

Array = NDArray[np.float64]

MASS_TOLERANCE = 1e-9
"""How far the mass of either law may be from 1."""

_BISECTIONS = 60
_MOST_LOG = 700.0  # exp of it is finite


class Piecewise(Curve):
    """Two laws on a line, or on several lines side by side, with densities between known edges and with atoms.

    The densities are expanded in Legendre series of degree 19 on intervals that are halved until the series
    resolve them, and cut where the privacy loss turns; the level sets of the loss are then found by Newton's
    method. Intervals of constant loss count as atoms. Against closed forms the spectrum is right within 1e-13.
    What lies beyond the first and last edge counts as nothing.

    Args:
        lines: pairs of log_densities and edges. log_densities maps points (m,) to log p and log q, (m,) each,
            -inf where a density is 0; edges (k,) ascend and hold every point where a density jumps or bends.
        p, q: masses of the atoms under P and under Q, (a,) each; where one law has none, 0.

    Raises:
        ValueError: no lines, a mass that is negative, laws whose mass is not 1 within 1e-9, or densities that are not
            smooth between the edges.
    """

    def __init__(self, lines: Sequence[tuple[LogDensities, ArrayLike]], p: ArrayLike = (), q: ArrayLike = ()) -> None:
        first, second = (checked(name, np.asarray(given, np.float64), 0.0, 1.0) for name, given in (("p", p), ("q", q)))
        if not lines:
            raise refusal("lines", lines, "at least one pair of log_densities and edges; Discrete needs none")
        if first.shape != second.shape or first.ndim != 1:
            raise refusal("p, q", (first.shape, second.shape), "equal shapes (a,)")
        self._lines = tuple((densities, np.asarray(edges, np.float64)) for densities, edges in lines)
        self._atoms = first, second
        divided = [divide(*line) for line in self._lines]
        cells = zip(*(vars(own).values() for own, _, _ in divided), strict=True)
        self._cells = Intervals(*(np.concatenate(parts) for parts in cells))
        atoms_p = np.concatenate([first, *(part for _, part, _ in divided)])
        atoms_q = np.concatenate([second, *(part for _, _, part in divided)])
        for name, atoms, masses in (("P", atoms_p, self._cells.p), ("Q", atoms_q, self._cells.q)):
            mass = float(atoms.sum() + masses.sum())
            if abs(mass - 1.0) > MASS_TOLERANCE:
                raise refusal(f"mass of {name}", mass, f"1 within {MASS_TOLERANCE:g}")
        self._only_p = float(atoms_p[atoms_q == 0.0].sum())
        self._only_q = float(atoms_q[atoms_p == 0.0].sum())
        shared = (atoms_p > 0.0) & (atoms_q > 0.0)
        ratio = atoms_q[shared] / atoms_p[shared]
        order = np.argsort(ratio, kind="stable")
        self._ratio, self._atoms_p, self._atoms_q = _merge(ratio[order], atoms_p[shared][order], atoms_q[shared][order])
        losses = np.concatenate((self._cells.ends.ravel(), -np.log(self._ratio)))
        self._span = (float(losses.min(initial=0.0)) - 1.0, float(losses.max(initial=0.0)) + 1.0)

    def pure(self) -> float:
        if self._only_p > 0.0 or self._only_q > 0.0:
            return float("inf")
        return float(np.abs(np.concatenate((self._cells.ends.ravel(), np.log(self._ratio)))).max(initial=0.0))

    def _delta(self, epsilon: Array, direction: Direction) -> Array:
        level = epsilon.ravel()
        forward = direction == "forward"
        with np.errstate(over="ignore"):
            eta = np.exp(-level if forward else level)
        below_p, below_q, above_p, above_q = self._masses(level if forward else -level, eta, strict=True)
        kept, inflated = (above_p, above_q) if forward else (below_q, below_p)
        alone = self._only_p if forward else self._only_q
        kept = kept - alone  # these masses include what has infinite loss
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            cost = np.where(inflated > 0.0, np.exp(level + np.log(inflated)), 0.0)
        return (alone + np.maximum(kept - cost, 0.0)).reshape(epsilon.shape)

    def _point(self, eta: Array) -> tuple[Array, Array]:
        flat = eta.ravel()
        with np.errstate(divide="ignore"):
            level = -np.log(flat)
        alpha, _, _, beta = self._masses(level, flat, strict=False)
        # At eta = 0 everything that Q can give is rejected, at infinity nothing that P can give.
        alpha = np.where(flat == 0.0, 1.0 - self._only_p, alpha)
        beta = np.where(flat == 0.0, 0.0, np.where(flat == np.inf, 1.0, beta))
        return np.clip(alpha, 0.0, 1.0).reshape(eta.shape), np.clip(beta, 0.0, 1.0).reshape(eta.shape)

    def _tradeoff(self, alpha: Array) -> Array:
        sizes = alpha.ravel()
        low, high = np.full(sizes.shape, self._span[0]), np.full(sizes.shape, self._span[1])
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            fits = self._masses(middle, np.exp(np.minimum(-middle, _MOST_LOG)), strict=False)[0] <= sizes
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        # From the point at `low` the curve goes on with the slope of its tangent: within an atom it is that line.
        steep = np.exp(np.minimum(-low, _MOST_LOG))
        used, _, _, beta = self._masses(low, steep, strict=False)
        return np.maximum(beta - steep * (sizes - used), 0.0).reshape(alpha.shape)

    def _parts(self, order: float) -> Parts:
        with np.errstate(divide="ignore"):
            return Parts(self._lines, *(np.log(masses) for masses in self._atoms))

    def _masses(self, level: Array, eta: Array, *, strict: bool) -> tuple[Array, Array, Array, Array]:
        """P, Q(L < level), P, Q(L > level), the last two with >= unless `strict`; eta = exp(-level) decides for atoms."""
        below_p, below_q, above_p, above_q = self._cells.masses_below(level)
        upper = np.searchsorted(self._ratio, eta, side="right")
        lower = np.searchsorted(self._ratio, eta, side="left" if strict else "right")
        below_p = below_p + _suffix(self._atoms_p)[upper]
        below_q = below_q + _suffix(self._atoms_q)[upper] + self._only_q
        above_p = above_p + _prefix(self._atoms_p)[lower] + self._only_p
        above_q = above_q + _prefix(self._atoms_q)[lower]
        return below_p, below_q, above_p, above_q


def _prefix(masses: Array) -> Array:
    return np.concatenate(([0.0], np.cumsum(masses)))


def _suffix(masses: Array) -> Array:
    return np.concatenate((np.cumsum(masses[::-1])[::-1], [0.0]))


def _merge(ratio: Array, p: Array, q: Array) -> tuple[Array, Array, Array]:
    """Join neighbouring atoms whose ratios, ascending, differ by rounding only, as those of one plateau do."""
    if not ratio.size:
        return ratio, p, q
    starts = np.flatnonzero(np.concatenate(([True], np.diff(ratio) > 1e-12 * ratio[1:])))
    p, q = np.add.reduceat(p, starts), np.add.reduceat(q, starts)
    return q / p, p, q
