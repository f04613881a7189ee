"""Polygons through Neyman–Pearson points of an exact trade-off curve, refined until they are close to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import refusal
from hpcdp.analytic._curve import Curve

Floats = NDArray[np.float64]

_FIRST = np.linspace(16.0, -16.0, 65)  # log η
_LARGEST = 690.0  # log η whose exp, and that of its opposite, is finite and normal
_ROUNDS = 80  # enough to bring two thresholds around an atom to neighbouring numbers
_MOST = 1 << 20


def inscribed(exact: Curve, tolerance: float) -> tuple[Floats, Floats]:
    """Return points of T, alpha ascending from 0; the lines between them are nowhere more than `tolerance` above T.

    At the point of threshold η the line of slope −η supports T. So between two neighbours T lies in the triangle of their
    two supporting lines and the chord. Thresholds are halved, on a logarithmic scale, until every triangle is at most
    `tolerance` high and wide: a bound that is derived, not sampled, exact up to the rounding of the points.

    Raises:
        ValueError: more than 2^20 points, or thresholds beyond e^±690, would be needed.
    """
    log_eta = np.concatenate(([np.inf], _FIRST, [-np.inf]))
    alpha, beta = _points(exact, log_eta)
    for _ in range(_ROUNDS):
        wide = np.flatnonzero(_excess(log_eta, alpha, beta) > tolerance)
        middle = _between(log_eta[wide], log_eta[wide + 1])
        new = (middle < log_eta[wide]) & (middle > log_eta[wide + 1])
        if not new.any():
            break
        middle = middle[new]
        if middle.size + log_eta.size > _MOST or np.abs(middle).max() > _LARGEST:
            raise refusal("tolerance", tolerance, "a larger one, as this curve would need too many points")
        more = _points(exact, middle)
        place = wide[new] + 1
        log_eta = np.insert(log_eta, place, middle)
        alpha, beta = np.insert(alpha, place, more[0]), np.insert(beta, place, more[1])
    return np.maximum.accumulate(alpha), np.minimum.accumulate(beta)


def _points(exact: Curve, log_eta: Floats) -> tuple[Floats, Floats]:
    alpha, beta = exact.point(np.exp(log_eta))
    # at η = ∞ the first point of the curve, not the test that never rejects
    return alpha, np.where(log_eta == np.inf, exact.tradeoff(0.0), beta)


def _between(left: Floats, right: Floats) -> Floats:
    """Halfway; from an infinite end, twice as far from 0 as the finite one."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (left + right)
    middle = np.where(left == np.inf, 2.0 * np.abs(right), middle)
    return np.where(right == -np.inf, -2.0 * np.abs(left), middle)


def _excess(log_eta: Floats, alpha: Floats, beta: Floats) -> Floats:
    """The larger of height and width of each triangle; 0 where two points are one."""
    steep, flat = np.exp(log_eta[:-1]), np.exp(log_eta[1:])
    wide, high = np.maximum(np.diff(alpha), 0.0), np.maximum(-np.diff(beta), 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        chord = np.clip(high / wide, flat, steep)  # rounding may take it out of the two slopes
        # with one factor divided by `steep`, which may be infinite
        height = wide * (chord - flat) * np.where(steep == np.inf, 1.0, (steep - chord) / (steep - flat))
        width = height / chord
    positive = (wide > 0.0) & (high > 0.0)
    return np.where(positive, np.maximum(height, width), 0.0)
