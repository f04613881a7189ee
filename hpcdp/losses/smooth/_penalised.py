"""Penalised binomial likelihood of a function that is linear between knots, with the penalty chosen by REML."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve_banded, cholesky_banded
from scipy.special import expit, log_expit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STEPS = 60
_SETTLED = 1e-3  # of the log-likelihood
_RIDGE = 1e-12  # of the largest curvature: what neither counts nor penalty tell
_DECADES = range(1, -14, -1)
_REFINED = (-0.5, 0.5, -0.25, 0.25)


@dataclass(frozen=True, eq=False)
class PenalisedCurve:
    """Counts a, b (size,) at places t (size,), increasing, and knots (m,), m >= 3, that begin and end as t does.

    offset: the log-odds of side a where f is 0.
    """

    t: Floats
    a: Floats
    b: Floats
    offset: float
    knots: Floats

    @cached_property
    def _piece(self) -> Ints:
        return np.clip(np.searchsorted(self.knots, self.t, "right") - 1, 0, self.knots.size - 2)

    @cached_property
    def _part(self) -> Floats:
        j = self._piece
        return (self.t - self.knots[j]) / (self.knots[j + 1] - self.knots[j])

    @cached_property
    def _saturated(self) -> tuple[Floats, Floats]:
        """Log-chances that fit each count exactly; 0 where the count is 0."""
        n = self.a + self.b
        return tuple(np.log(np.where(side > 0, side, n) / n) for side in (self.a, self.b))  # type: ignore[return-value]

    @cached_property
    def _second(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Coefficients (m - 2,) of the change of slope at inner knots, and the weight of its square in ∫ f''²."""
        h = np.diff(self.knots)
        return 1 / h[:-1], -(1 / h[:-1] + 1 / h[1:]), 1 / h[1:], 2 / (h[:-1] + h[1:])

    @cached_property
    def _penalty(self) -> Floats:
        """∫ f''² as a banded matrix, upper form, (3, m)."""
        c0, c1, c2, w = self._second
        m = self.knots.size
        out = np.zeros((3, m))
        out[2, :-2] += w * c0 * c0
        out[2, 1:-1] += w * c1 * c1
        out[2, 2:] += w * c2 * c2
        out[1, 1:-1] += w * c0 * c1
        out[1, 2:] += w * c1 * c2
        out[0, 2:] += w * c0 * c2
        return out

    def _bent(self, f: Floats) -> tuple[float, Floats]:
        """∫ f''² and half its gradient, (m,)."""
        c0, c1, c2, w = self._second
        turn = np.diff(np.diff(f) * np.append(c0, c2[-1]))
        pull = np.zeros(f.size)
        pull[:-2] += w * turn * c0
        pull[1:-1] += w * turn * c1
        pull[2:] += w * turn * c2
        return float((w * turn * turn).sum()), pull

    def _gather(self, values: Floats) -> Floats:
        m, j = self.knots.size, self._piece
        out = np.zeros(m)
        out += np.bincount(j, values * (1 - self._part), m)
        out += np.bincount(j + 1, values * self._part, m)
        return out

    def _at(self, f: Floats) -> Floats:
        j = self._piece
        return f[j] * (1 - self._part) + f[j + 1] * self._part + self.offset

    def _gain(self, f: Floats, penalty: float) -> float:
        """Penalised log-likelihood relative to the saturated one: large counts must not drown it in rounding."""
        z, (full_a, full_b) = self._at(f), self._saturated
        miss = self.a * (log_expit(z) - full_a) + self.b * (log_expit(-z) - full_b)
        return float(miss.sum()) - 0.5 * penalty * self._bent(f)[0]

    def fit(self, penalty: float, f: Floats) -> tuple[Floats, float]:
        """The best f (m,) for a penalty, by Newton's steps from a start f, and its REML score (Laplace's approximation)."""
        n, m, j, part = self.a + self.b, self.knots.size, self._piece, self._part
        now = self._gain(f, penalty)
        for _ in range(_STEPS):
            s = expit(self._at(f))
            weight = n * s * (1 - s)
            matrix = penalty * self._penalty
            diagonal = np.bincount(j, weight * (1 - part) ** 2, m) + np.bincount(j + 1, weight * part**2, m)
            matrix[2] += diagonal + _RIDGE * diagonal.max()
            matrix[1] += np.bincount(j + 1, weight * part * (1 - part), m)
            factor = cholesky_banded(matrix)
            step = cho_solve_banded((factor, False), self._gather(self.a - n * s) - penalty * self._bent(f)[1])
            step *= min(1.0, 20.0 / max(float(np.abs(step).max()), 1e-300))
            for _ in range(20):
                gain = self._gain(f + step, penalty) - now
                if gain >= 0:
                    break
                step = step / 2
            if gain < 0:
                break
            f, now = f + step, now + gain
            if gain < _SETTLED:
                break
        return f, now - float(np.log(factor[2]).sum()) + 0.5 * (m - 2) * np.log(penalty)

    def best(self) -> Floats:
        """f (m,) with the penalty of the largest REML score: decades first, then between them."""
        total = float((self.a + self.b).sum())
        f = np.zeros(self.knots.size)
        best: tuple[float, float, Floats] | None = None

        def attempt(power: float, start: Floats) -> Floats:
            nonlocal best
            try:
                fitted, score = self.fit(total * 10.0**power, start)
            except LinAlgError:  # a penalty that rounding cannot bear
                return start
            if np.isfinite(score) and (best is None or score > best[0]):
                best = score, power, fitted
            return fitted

        for power in _DECADES:
            f = attempt(float(power), f)
        if best is None:
            return np.zeros(self.knots.size)
        centre = best[1]
        for shift in _REFINED:
            attempt(centre + shift, best[2])
        return best[2]
