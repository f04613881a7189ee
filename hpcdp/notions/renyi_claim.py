"""What limits on Rényi divergences say of every test: the least trade-off curve of all pairs that meet them.

A test S of (P, Q) makes two laws of one bit of them, and no divergence grows by that. So P(S) = p and Q(S) = q are possible
if and only if the two Bernoulli laws of p and q meet the limits, and those two laws are such a pair themselves: for one ε
at a time no sharper conversion is possible. (Asoodeh, Liao, Calmon, Kosut and Sankar (2021), for one order; the one of
Canonne, Kamath and Steinke (2020) allows more.) The (p, q) that meet a limit are a convex set.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import non_negative
from hpcdp.analytic._curve import checked
from hpcdp.notions.curve import TradeOffCurve
from hpcdp.notions.renyi import LARGEST_ORDER

Floats = NDArray[np.float64]

# Orders of ρ-zCDP that are looked at. Fewer of them allow more, so that none is needed.
_ORDERS = np.append(1.0, 1.0 + np.geomspace(1e-2, 1e6, 48))
_NEAR = 1e-3  # the least a − 1, whose logarithm is varied around the order that is about the best
_FINER, _FINEST = np.linspace(-0.4, 0.4, 9), np.linspace(-0.09, 0.09, 7)
_POINTS, _APART, _FARTHEST = 2401, 20, 36.0  # the odds of q are the first ones times e^(−s²/2), s up to this
_HALVINGS = 50
_LARGEST_LEVEL = 700.0  # e to this is finite
_LARGEST_STEP = 4096.0  # of a logit, beyond which p is 1
_UNIT = 4e-16
_SAFE = 1e-12  # by which δ is raised, in proportion


def renyi_tradeoff(order: float, limit: float) -> TradeOffCurve:
    """A polygon on or below the curve of every pair with D_order <= limit in nats both ways; order 1 is KL."""
    number = float(checked("order", order, 1.0, LARGEST_ORDER))
    return _polygon(np.array([number]), np.array([1.0]), non_negative("epsilon", limit))


def zcdp_tradeoff(rho: float) -> TradeOffCurve:
    """The same of every pair with D_a <= rho·a for all a > 1: ρ-zCDP of Bun and Steinke (2016)."""
    return _polygon(_ORDERS, _ORDERS, non_negative("rho", rho))


def _polygon(orders: Floats, factors: Floats, limit: float) -> TradeOffCurve:
    if limit == 0.0:
        return TradeOffCurve.from_delta([0.0], [0.0])
    if limit > _LARGEST_LEVEL:  # no divergence is above ln(p/q), so that it takes larger odds to break it
        return TradeOffCurve.from_delta([0.0], [1.0])
    first, _ = _smallest(
        lambda x: -x, np.array([0.0]), orders, limit * factors
    )  # the least p = 1 − q that breaks a limit
    if first[0] > _LARGEST_LEVEL:
        return TradeOffCurve.from_delta([0.0], [1.0])
    total = float(np.tanh(0.5 * first[0]))  # p − q, the largest at ε = 0, since the set is symmetric
    steps = np.linspace(0.0, _FARTHEST, _POINTS)
    logit_q = -first[0] - 0.5 * steps**2
    if orders.size > 1:
        coarse = np.arange(0, _POINTS, _APART)
        _, active = _smallest(lambda _: logit_q[coarse], logit_q[coarse], orders, limit * factors)
        best = np.log(np.maximum(orders[active] - 1.0, _NEAR))
        # order 1 is always among them: where no order above it breaks its limit, it does
        finer = np.column_stack([np.ones(coarse.size), 1.0 + np.exp(best[:, None] + _FINER)])
        _, active = _smallest(lambda _: logit_q[coarse], logit_q[coarse], finer, limit * finer)
        best = np.interp(steps, steps[coarse], best + np.append(0.0, _FINER)[active])
        orders = factors = np.column_stack([np.ones(_POINTS), 1.0 + np.exp(best[:, None] + _FINEST)])
    logit_p, active = _smallest(lambda _: logit_q, logit_q, orders, limit * factors)
    chosen = np.broadcast_to(orders, (_POINTS, orders.shape[-1]))[np.arange(_POINTS), active]
    levels, delta = _tangents(logit_p, logit_q, chosen)
    kept = (levels >= 0.0) & (levels <= _LARGEST_LEVEL)
    raised = np.clip(np.append(total, delta[kept]) * (1.0 + _SAFE) + _UNIT, 0.0, 1.0)
    return TradeOffCurve.from_delta(np.append(0.0, levels[kept]), raised)


def _smallest(
    logit_q: Callable[[Floats], Floats], start: Floats, orders: Floats, limits: Floats
) -> tuple[Floats, NDArray[np.intp]]:
    """The smallest logit p >= start that surely breaks a limit, up to rounding, and which of them; NaN where none does."""

    def excess(x: Floats) -> Floats:
        return _divergences(x, logit_q(x), orders) - limits

    low, step = start, np.ones(start.shape)
    while not (over := excess(start + step).max(axis=-1) > 0.0).all() and step.max() < _LARGEST_STEP:
        step = np.where(over, step, 2.0 * step)
    high = start + step
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        breaks = excess(middle).max(axis=-1) > 0.0
        low, high = np.where(breaks, low, middle), np.where(breaks, middle, high)
    return np.where(over, high, np.nan), np.asarray(excess(high).argmax(axis=-1))


def _logs(logit: Floats) -> tuple[Floats, Floats]:
    """ln p and ln(1 − p)."""
    return -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)


def _divergences(logit_p: Floats, logit_q: Floats, orders: Floats) -> Floats:
    """D of two Bernoulli laws, less what rounding may add, (points, orders). The other direction binds where p + q > 1 alone."""
    (p, no_p), (q, no_q) = ([part[:, None] for part in _logs(logit)] for logit in (logit_p, logit_q))
    above = orders - 1.0
    kl = np.exp(p) * (p - q) + np.exp(no_p) * (no_p - no_q)
    logs = np.logaddexp(p + above * (p - q), no_p + above * (no_p - no_q))
    divisor = np.where(above > 0.0, above, 1.0)
    size = 2.0 + np.abs(p) + np.abs(q) + np.abs(no_p) + np.abs(no_q)
    rounding = _UNIT * size * np.where(above > 0.0, orders / divisor, 1.0)
    return np.asarray(np.where(above > 0.0, logs / divisor, kl) - 2.0 * rounding)


def _tangents(logit_p: Floats, logit_q: Floats, order: Floats) -> tuple[Floats, Floats]:
    """Of each point on or outside the set: ε and δ of the line p − e^ε·q = δ that has the gradient of its order's limit.

    A convex function that is at least its limit at a point is so on all the far side of that line, so the set is on this one.
    """
    (p, no_p), (q, no_q) = _logs(logit_p), _logs(logit_q)
    apart, above = (p - q) - (no_p - no_q), order - 1.0
    divisor = np.where(above > 0.0, above, 1.0)
    # e^ε is p/q times (1 − e^(−a·apart))/a over (1 − e^(−(a−1)·apart))/(a − 1), whose second is `apart` at a = 1
    share = -np.expm1(-order * apart) / order / np.where(above > 0.0, -np.expm1(-divisor * apart) / divisor, apart)
    levels = p - q + np.log(share)
    return levels, np.exp(p) - np.exp(levels + q)
