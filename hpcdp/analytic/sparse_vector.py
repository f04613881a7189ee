"""The sparse vector technique: which of several queries are above a noisy threshold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import real, refusal
from hpcdp.analytic._cells import evaluate_series, gauss, panel_edges, panel_nodes
from hpcdp.analytic._curve import Curve, finite_vector
from hpcdp.analytic.discrete import Discrete
from hpcdp.analytic.noisy_max import LAPLACE
from hpcdp.analytic.piecewise import Piecewise
from hpcdp.mechanisms.sparse_vector import sparse_vector_variant

Array = NDArray[np.float64]

_RULE = gauss(20)
_PANEL = 0.75  # in units of the smaller noise scale
_REACH = 45.0  # in units of the noise scale of the threshold; the noise beyond has mass below 1e-19
_BLOCK = 4_000_000  # numbers held at once


@dataclass(frozen=True)
class NoisyThreshold:
    """Nodes of threshold + rho between edges, weights (n,) of their expectation, (n, K) log P(q_i + nu_i < z) and of >= z."""

    edges: Array
    weights: Array
    below: Array
    above: Array

    def expect(self, log_values: Array) -> Array:
        """The expectation of exp of `log_values`, (n, m); shape (m,)."""
        return np.asarray(self.weights @ np.exp(log_values))

    def log_running(self, log_values: Array) -> Callable[[Array], Array]:
        """The logarithm of the expectation of exp of `log_values`, (n,), over thresholds up to z, as a function of z (m,)."""
        panels = (self.weights * np.exp(log_values)).reshape(-1, _RULE.order) / _RULE.weights
        series = panels @ _RULE.to_series.T @ _RULE.integral.T  # antiderivatives from each left edge
        before = np.append(0.0, np.cumsum(series.sum(axis=1)))  # Legendre polynomials are 1 at the right end

        def log_integral(points: Array) -> Array:
            panel = np.clip(np.searchsorted(self.edges, points, side="right") - 1, 0, len(series) - 1)
            half = 0.5 * np.diff(self.edges)[panel]
            at = np.clip((points - self.edges[panel]) / half - 1.0, -1.0, 1.0)
            with np.errstate(divide="ignore"):
                return np.log(before[panel] + np.maximum(evaluate_series(at, series[panel]), 0.0))

        return log_integral


def noisy_threshold(answers: Array, breaks: Array, threshold: float, rho: float, nu: float) -> NoisyThreshold:
    """Return the nodes for K answers, (K,); panels end at the breaks, which hold the answers and the threshold."""
    edges = panel_edges(breaks, threshold - _REACH * rho, threshold + _REACH * rho, _PANEL * min(rho, nu))
    nodes, weights = panel_nodes(edges, _RULE)
    gaps = (nodes[:, None] - answers) / nu
    weights = weights * np.exp(LAPLACE.log_pdf((nodes - threshold) / rho)) / rho
    return NoisyThreshold(edges, weights, LAPLACE.log_cdf(gaps), LAPLACE.log_sf(gaps))


def first_above(noisy: NoisyThreshold, start: int) -> Array:
    """Return P(first query above, from `start` on, is j) for j >= start, and last P(none); (K - start + 1,)."""
    passed = _passed(noisy.below[:, start:])
    return noisy.expect(np.concatenate((passed[:, :-1] + noisy.above[:, start:], passed[:, -1:]), axis=1))


def tuple_probabilities(noisy: NoisyThreshold, tuples: NDArray[np.int64]) -> Array:
    """Return the probabilities that the queries above are those of each row (m, c), ascending, filled with K."""
    count = noisy.below.shape[1]
    below = _passed(noisy.below)
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
    """Return the probabilities of how many of each of (g,) groups of alike queries are above, flat, the last group fastest."""
    combinations = int(np.prod(groups + 1))
    out = np.zeros(combinations)
    step = max(1, _BLOCK // combinations)
    for start in range(0, len(noisy.weights), step):
        rows = slice(start, start + step)
        log_values = np.zeros((len(noisy.weights[rows]), 1))
        for index, size in enumerate(groups):
            ones = np.arange(size + 1)
            ways = np.array([math.log(math.comb(int(size), int(count))) for count in ones])
            part = ways + ones * noisy.above[rows, index, None] + (size - ones) * noisy.below[rows, index, None]
            log_values = (log_values[:, :, None] + part[:, None, :]).reshape(len(log_values), -1)
        out += noisy.weights[rows] @ np.exp(log_values)
    return out


def _passed(below: Array) -> Array:
    """The logarithms of the chances that the first 0, 1, … queries are all below."""
    return np.concatenate((np.zeros((below.shape[0], 1)), np.cumsum(below, axis=1)), axis=1)


_MOST_TUPLES = 12_000
_MOST_COUNTS = 1 << 16
_MOST_QUERIES = 500


def sparse_vector(
    first: ArrayLike,
    second: ArrayLike,
    *,
    variant: int,
    epsilon: float,
    threshold: float = 0.0,
    cutoff: int = 1,
    sensitivity: float = 1.0,
) -> Curve | None:
    """Return the exact pair of a variant of the sparse vector technique, Alg. 1 to 6 of Lyu, Su and Li (2017).

    Variants 1, 2 and 4: the probabilities of all tuples of indices above. Variant 3: the index and the density of
    the released answer. Variant 5: intervals of the threshold's noise. Variant 6: how many queries are above of each
    group of queries with equal answers under D and equal ones under D', on which alone the loss depends.
    Expectations over the threshold's noise are Gauss-Legendre sums on panels; right within 1e-12.

    Args:
        first, second: answers of the K queries under D and under D', (K,) each, finite.
        variant: 1 to 6.
        epsilon: the nominal privacy level, > 0.
        threshold: what the answers are compared with.
        cutoff: how many queries above end the run, >= 1; variants 5 and 6 have none and accept 1 only.
        sensitivity: of the queries, > 0; all noise scales are in proportion to it.

    Returns:
        the pair; None for variants 1, 2 and 4 with more than 12,000 tuples or 500 queries, for variant 3 with
        a cutoff above 1 or more than 500 queries, for variant 6 with more than 65,536 combinations of counts.

    Raises:
        ValueError: a value out of range, or shapes that differ.
    """
    sparse_vector_variant(variant, epsilon, cutoff, sensitivity)
    level, answers = real("threshold", threshold), _answers(first, second)
    unit = sensitivity / epsilon
    if variant == 5:
        return _exact_answers(answers, level, 2.0 * unit)
    if variant == 6:
        return _noisy_bits(answers, level, 2.0 * unit, 2.0 * unit)
    if answers[0].size > _MOST_QUERIES:
        return None
    if variant == 3:
        return _released(answers, level, 2.0 * unit, 2.0 * unit) if cutoff == 1 else None
    if variant == 4:
        return _indices(answers, level, 4.0 * unit, 4.0 / 3.0 * unit, cutoff)
    if variant == 1 or cutoff == 1:
        return _indices(answers, level, 2.0 * unit, 4.0 * cutoff * unit, cutoff)
    return _redrawn(answers, level, 2.0 * cutoff * unit, 4.0 * cutoff * unit, cutoff)


def _breaks(answers: tuple[Array, Array], threshold: float) -> Array:
    return np.unique(np.concatenate((*answers, [threshold])))


def _indices(answers: tuple[Array, Array], threshold: float, rho: float, nu: float, cutoff: int) -> Discrete | None:
    tuples, breaks = _tuples(answers[0].size, cutoff), _breaks(answers, threshold)
    if tuples is None:
        return None
    laws = [tuple_probabilities(noisy_threshold(part, breaks, threshold, rho, nu), tuples) for part in answers]
    return Discrete(*laws)


def _redrawn(answers: tuple[Array, Array], threshold: float, rho: float, nu: float, cutoff: int) -> Discrete | None:
    """A new threshold after every query above: the runs between them are independent."""
    count = answers[0].size
    tuples, breaks, laws = _tuples(count, cutoff), _breaks(answers, threshold), []
    if tuples is None:
        return None
    for part in answers:
        noisy = noisy_threshold(part, breaks, threshold, rho, nu)
        # runs[i, j]: from query i on, the first above is j, or none when j = K; after "none" nothing is left.
        runs = np.zeros((count + 2, count + 1))
        runs[count, count] = runs[count + 1, count] = 1.0
        for start in range(count):
            runs[start, start:] = first_above(noisy, start)
        start_of = np.concatenate((np.zeros((len(tuples), 1), np.int64), tuples[:, :-1] + 1), axis=1)
        laws.append(np.prod(runs[start_of, tuples], axis=1))
    return Discrete(*laws)


def _released(answers: tuple[Array, Array], threshold: float, rho: float, nu: float) -> Piecewise:
    """Index j and answer v: density f(v - q_j) times the chance that z <= v and all before j are below z."""
    breaks = _breaks(answers, threshold)
    noisy = [noisy_threshold(part, breaks, threshold, rho, nu) for part in answers]
    before = [_passed(n.below) for n in noisy]
    edges = np.concatenate(([breaks[0] - _REACH * nu], breaks, [breaks[-1] + _REACH * nu]))
    lines = []
    for index in range(answers[0].size):
        sides = [
            (float(part[index]), law.log_running(log_values[:, index]))
            for part, law, log_values in zip(answers, noisy, before, strict=True)
        ]
        lines.append((partial(_log_releases, sides=sides, nu=nu), edges))
    none = [law.expect(log_values[:, -1:]) for law, log_values in zip(noisy, before, strict=True)]
    return Piecewise(lines, *none)


def _log_releases(
    value: Array, *, sides: list[tuple[float, Callable[[Array], Array]]], nu: float
) -> tuple[Array, Array]:
    one, other = (
        LAPLACE.log_pdf((value - answer) / nu) - math.log(nu) + log_integral(value) for answer, log_integral in sides
    )
    return one, other


def _exact_answers(answers: tuple[Array, Array], threshold: float, rho: float) -> Discrete:
    """Without noise on the answers the bits change only where rho passes an answer minus the threshold."""
    laws: list[dict[bytes, float]] = []
    for part in answers:
        gaps = (part - threshold) / rho
        marks = np.unique(gaps)
        law: dict[bytes, float] = {}
        # Bits are 1 for rho <= gap: between two marks they are those of the upper one.
        for low, high in itertools.pairwise([-np.inf, *marks, np.inf]):
            law[(gaps >= high).tobytes()] = _laplace_mass(low, high)
        laws.append(law)
    outcomes = sorted({*laws[0], *laws[1]})
    return Discrete(*([law.get(outcome, 0.0) for outcome in outcomes] for law in laws))


def _laplace_mass(low: float, high: float) -> float:
    """The mass of Laplace noise of scale 1 between two points, without cancellation in either tail."""
    if low > 0.0:
        return 0.5 * (math.exp(-low) - math.exp(-high))
    if high < 0.0:
        return 0.5 * (math.exp(high) - math.exp(low))
    return 1.0 - 0.5 * math.exp(low) - 0.5 * math.exp(-high)


def _noisy_bits(answers: tuple[Array, Array], threshold: float, rho: float, nu: float) -> Discrete | None:
    groups, sizes = np.unique(np.column_stack(answers), axis=0, return_counts=True)
    if np.prod(sizes + 1.0) > _MOST_COUNTS:
        return None
    breaks = _breaks(answers, threshold)
    laws = [count_probabilities(noisy_threshold(part, breaks, threshold, rho, nu), sizes) for part in groups.T]
    return Discrete(*laws)


def _tuples(count: int, cutoff: int) -> NDArray[np.int64] | None:
    """All ascending tuples of up to `cutoff` of `count` indices, filled up with `count`; None if too many."""
    most = min(cutoff, count)
    if sum(math.comb(count, size) for size in range(most + 1)) > _MOST_TUPLES:
        return None
    rows = [
        chosen + (count,) * (cutoff - size)
        for size in range(most + 1)
        for chosen in itertools.combinations(range(count), size)
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, cutoff)


def _answers(first: ArrayLike, second: ArrayLike) -> tuple[Array, Array]:
    one, other = finite_vector("first", first, "K"), finite_vector("second", second, "K")
    if one.shape != other.shape:
        raise refusal("second", other, f"as many answers as first, {one.size}")
    return one, other
