"""Rényi divergences of two laws that are given by densities between known points and by atoms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import refusal
from hpcdp.analytic._cells import LogDensities, gauss

Array = NDArray[np.float64]
Integrand = Callable[[Array, Array], tuple[Array, Array]]
"""From log p and log q, (m,) each, to logarithms of a scale, and factors of it, that make the integrand."""

_RULE = gauss(20)
_CLOSE = 1e-13  # of all the integral: what halving a panel may change
_HALVINGS = 60
_MOST_PENDING = 1 << 16
_LOST = 1e-6  # of the logarithm of a moment, which is below 0 only where a peak was missed
_NEAR = 1e-2  # orders this close to 1, where the logarithm of a moment near 1 would lose digits


def _none() -> Array:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Parts:
    """A pair (P, Q) of laws: lines with log densities, smooth between ascending edges, and logarithms of masses of atoms."""

    lines: tuple[tuple[LogDensities, Array], ...]
    log_p: Array = field(default_factory=_none)
    log_q: Array = field(default_factory=_none)

    def reversed(self) -> Parts:
        """(Q, P)."""
        return self._changed(lambda log_p, log_q: (log_q, log_p))

    def mixed(self, rate: float) -> Parts:
        """(P, (1 − rate) P + rate Q)."""
        with np.errstate(divide="ignore"):
            kept, taken = np.log1p(-rate), np.log(rate)
        return self._changed(lambda log_p, log_q: (log_p, np.logaddexp(kept + log_p, taken + log_q)))

    def _changed(self, change: Integrand) -> Parts:
        """The pair whose log densities are made of these two."""

        def changed(densities: LogDensities) -> LogDensities:
            return lambda x: change(*densities(x))

        return Parts(tuple((changed(f), edges) for f, edges in self.lines), *change(self.log_p, self.log_q))

    def renyi(self, order: float) -> float:
        """D_order(P‖Q), order >= 1; infinity where P has mass and Q none; ValueError where quadrature misses the moment."""
        above = order - 1.0
        if order > 1.0:
            log_moment = self._log_integral(lambda log_p, log_q: _power(log_p, log_q, order))
            if log_moment < -_LOST:  # no moment is below 1
                raise refusal("order", order, "one at which quadrature finds where the moment of this pair lies")
            if above > _NEAR or not log_moment < 1.0:
                return max(0.0, log_moment / above)
        log_mean = self._integral(lambda log_p, log_q: _excess(log_p, log_q, above))
        return max(0.0, math.log1p(above * log_mean) / above if order > 1.0 else log_mean)

    def _log_integral(self, integrand: Integrand) -> float:
        total, scale = self._scaled(integrand)
        return -math.inf if total == 0.0 else math.log(total) + scale if total < math.inf else math.inf

    def _integral(self, integrand: Integrand, close: float = _CLOSE) -> float:
        total, scale = self._scaled(integrand, close)
        return total * math.exp(scale) if math.isfinite(total) else total

    def _scaled(self, integrand: Integrand, close: float = _CLOSE) -> tuple[float, float]:
        """The integral in units of e^scale, and the scale."""
        scale = -math.inf
        while True:
            sums, most = [], scale
            logs, factors = integrand(self.log_p, self.log_q)
            for line in (None, *self.lines):
                value, seen = (
                    _atoms(logs, factors, scale) if line is None else _integrate(*line, integrand, scale, close)
                )
                sums.append(value)
                most = max(most, seen)
            if most == math.inf:
                return math.inf, 0.0
            if most - scale < 1.0 or most == -math.inf:
                return math.fsum(sums), scale
            scale = most  # a peak that no panel had seen before is now the unit


def _power(log_p: Array, log_q: Array, order: float) -> tuple[Array, Array]:
    with np.errstate(invalid="ignore"):
        logs = log_p + (order - 1.0) * (log_p - log_q)
    return np.where(log_p == -np.inf, -np.inf, logs), np.ones(log_p.shape)


def _excess(log_p: Array, log_q: Array, above: float) -> tuple[Array, Array]:
    """p·(e^(above·L) − 1)/above, which is p·L at 0."""
    there = log_p > -np.inf
    loss = np.where(there, log_p, 0.0) - np.where(there, log_q, 0.0)
    factors = loss if above == 0.0 else np.expm1(above * loss) / above
    return np.where(there & (log_q == -np.inf), np.inf, log_p), factors


def _atoms(logs: Array, factors: Array, scale: float) -> tuple[float, float]:
    most = float(logs.max(initial=-np.inf))
    if scale == -math.inf or most == math.inf:
        return 0.0, most
    return math.fsum(np.exp(logs - scale) * factors), most


def _integrate(
    densities: LogDensities, edges: Array, integrand: Integrand, scale: float, close: float
) -> tuple[float, float]:
    """The integral on one line in units of e^scale, and the largest logarithm met; panels are halved until nothing changes."""
    most = -math.inf

    def panels(left: Array, right: Array) -> Array:
        nonlocal most
        half = 0.5 * (right - left)
        x = left[:, None] + half[:, None] * (1.0 + _RULE.nodes)
        logs, factors = (part.reshape(x.shape) for part in integrand(*densities(x.ravel())))
        most = max(most, float(logs.max(initial=-np.inf)))
        if most == math.inf or scale == -math.inf:
            return np.zeros(left.shape)
        with np.errstate(over="ignore"):
            return np.asarray((np.exp(np.minimum(logs - scale, 700.0)) * factors) @ _RULE.weights * half)

    left, right = edges[:-1], edges[1:]
    values = panels(left, right)
    if scale == -math.inf:
        return 0.0, most
    accepted: list[float] = []
    for generation in range(_HALVINGS):
        if not left.size or left.size > _MOST_PENDING or most - scale >= 1.0:
            break
        middle = 0.5 * (left + right)
        halves = panels(np.concatenate((left, middle)), np.concatenate((middle, right))).reshape(2, -1)
        whole = math.fsum(np.abs(accepted)) + float(np.abs(halves).sum())
        done = np.abs(halves.sum(axis=0) - values) <= close * whole
        done |= generation == _HALVINGS - 1
        accepted += halves[:, done].sum(axis=0).tolist()
        left, right = np.concatenate((left[~done], middle[~done])), np.concatenate((middle[~done], right[~done]))
        values = halves[:, ~done].ravel()
    return math.fsum([*accepted, *values]), most


def renyi_of_spectrum(spectrum: Callable[[Array], Array], order: float, last: float) -> float:
    """D_order of a symmetric pair from its δ(ε), which is next to nothing beyond `last` (Sason and Verdú 2016).

    E_Q[(p/q)^a] = 1 + a(a − 1)·∫₀^∞ (e^((a−1)ε) + e^(−aε))·δ(ε) dε, and KL the same integral at a = 1.
    """
    if float(spectrum(np.array([np.inf]))[0]) > 0.0:
        return math.inf
    if last == 0.0:
        return 0.0

    def densities(level: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            logs = np.log(spectrum(level))
        return logs + np.logaddexp((order - 1.0) * level, -order * level), logs

    parts = Parts(((densities, np.linspace(0.0, last, 2 + int(4.0 * last))),))
    log_integral = parts._log_integral(lambda logs, _: (logs, np.ones(logs.shape)))
    if order == 1.0:
        return math.exp(log_integral)
    return float(np.logaddexp(0.0, math.log(order * (order - 1.0)) + log_integral)) / (order - 1.0)
