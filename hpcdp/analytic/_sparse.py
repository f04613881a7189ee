"""Expectations over the noisy threshold of the sparse vector technique, by quadrature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic._noise import LAPLACE
from hpcdp.analytic._quadrature import evaluate_series, gauss, panel_edges, panel_nodes

Array = NDArray[np.float64]

_RULE = gauss(20)
_PANEL = 0.75  # in units of the smaller noise scale
_REACH = 45.0  # in units of the noise scale of the threshold; the noise beyond has mass below 1e-19
_BLOCK = 4_000_000  # numbers held at once


@dataclass(frozen=True)
class NoisyThreshold:
    """Nodes z = threshold + rho, the weights of their expectation, and the logarithms of what a query does there.

    Attributes:
        edges: (panels + 1,). weights: (n,), quadrature weight times density of rho.
        below, above: (n, K) log P(q_i + nu_i < z) and log P(q_i + nu_i >= z).
    """

    edges: Array
    weights: Array
    below: Array
    above: Array

    def expect(self, log_values: Array) -> Array:
        """The expectation of exp of `log_values`, (n, m); shape (m,)."""
        return np.asarray(self.weights @ np.exp(log_values))

    def running(self, log_values: Array) -> RunningIntegral:
        """The expectation of exp of `log_values`, (n,), over thresholds up to z, as a function of z."""
        panels = (self.weights * np.exp(log_values)).reshape(-1, _RULE.order) / _RULE.weights
        return RunningIntegral(self.edges, panels @ _RULE.to_series.T @ _RULE.integral.T)


@dataclass(frozen=True)
class RunningIntegral:
    """An integral from the first edge up to a point. series: (panels, terms), antiderivatives from each left edge."""

    edges: Array
    series: Array

    def log(self, points: Array) -> Array:
        """The logarithm of the integral up to `points`, (m,); shape (m,)."""
        whole = self.series.sum(axis=1)  # Legendre polynomials are 1 at the right end
        before = np.concatenate(([0.0], np.cumsum(whole)))
        panel = np.clip(np.searchsorted(self.edges, points, side="right") - 1, 0, whole.size - 1)
        half = 0.5 * np.diff(self.edges)[panel]
        at = np.clip((points - self.edges[panel]) / half - 1.0, -1.0, 1.0)
        with np.errstate(divide="ignore"):
            return np.log(before[panel] + np.maximum(evaluate_series(at, self.series[panel]), 0.0))


def noisy_threshold(answers: Array, breaks: Array, threshold: float, rho: float, nu: float) -> NoisyThreshold:
    """Return the nodes for K answers, (K,); panels end at the breaks, which hold the answers and the threshold."""
    edges = panel_edges(breaks, threshold - _REACH * rho, threshold + _REACH * rho, _PANEL * min(rho, nu))
    nodes, weights = panel_nodes(edges, _RULE)
    gaps = (nodes[:, None] - answers) / nu
    weights = weights * np.exp(LAPLACE.log_pdf((nodes - threshold) / rho)) / rho
    return NoisyThreshold(edges, weights, LAPLACE.log_cdf(gaps), LAPLACE.log_sf(gaps))


def first_above(noisy: NoisyThreshold, start: int) -> Array:
    """Return P(first query above, from `start` on, is j) for j >= start, and last P(none); (K - start + 1,)."""
    return noisy.expect(_runs(noisy.below[:, start:], noisy.above[:, start:]))


def tuple_probabilities(noisy: NoisyThreshold, tuples: NDArray[np.int64]) -> Array:
    """Return the probabilities that the queries above are those of each row, one threshold for all.

    Args:
        noisy: of K queries.
        tuples: (m, c) ascending indices; K fills the places not used, and then all K queries were answered.
    """
    count = noisy.below.shape[1]
    below = np.concatenate((np.zeros((len(noisy.weights), 1)), np.cumsum(noisy.below, axis=1)), axis=1)
    odds = np.concatenate((noisy.above - noisy.below, np.zeros((len(noisy.weights), 1))), axis=1)
    out = np.empty(len(tuples))
    step = max(1, _BLOCK // len(noisy.weights))
    for start in range(0, len(tuples), step):
        rows = tuples[start : start + step]
        log_values = below[:, np.minimum(rows[:, -1] + 1, count)]
        for column in rows.T:
            log_values = log_values + odds[:, column]
        out[start : start + step] = noisy.expect(log_values)
    return out


def count_probabilities(noisy: NoisyThreshold, groups: NDArray[np.int64]) -> Array:
    """Return the probabilities of how many queries of each group are above, flat, the last group fastest.

    Args:
        noisy: of one query per group.
        groups: how many alike queries each group has, (g,).
    """
    combinations = int(np.prod(groups + 1))
    out = np.zeros(combinations)
    step = max(1, _BLOCK // combinations)
    for start in range(0, len(noisy.weights), step):
        rows = slice(start, start + step)
        log_values = np.zeros((len(noisy.weights[rows]), 1))
        for index, size in enumerate(groups):
            ones = np.arange(size + 1)
            ways = np.array([math.log(math.comb(int(size), int(one))) for one in ones])
            part = ways + ones * noisy.above[rows, index, None] + (size - ones) * noisy.below[rows, index, None]
            log_values = (log_values[:, :, None] + part[:, None, :]).reshape(len(log_values), -1)
        out += noisy.weights[rows] @ np.exp(log_values)
    return out


def _runs(below: Array, above: Array) -> Array:
    passed = np.concatenate((np.zeros((below.shape[0], 1)), np.cumsum(below, axis=1)), axis=1)
    return np.concatenate((passed[:, :-1] + above, passed[:, -1:]), axis=1)
