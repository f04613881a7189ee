"""Gauss-Legendre quadrature on panels, and Legendre series of what is smooth on them."""

import itertools
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Rule:
    """The Gauss-Legendre rule of `order` nodes on [-1, 1] and the transforms that belong to it.

    Attributes:
        nodes, weights: shape (order,).
        to_series: (order, order), from values at the nodes to Legendre coefficients.
        integral: (order + 1, order), from coefficients to those of the antiderivative that is 0 at -1.
        slope: (order, order), from coefficients to those of the derivative; its last row is 0.
    """

    def __init__(self, order: int) -> None:
        legendre = np.polynomial.legendre
        self.order = order
        self.nodes, self.weights = legendre.leggauss(order)
        values = legendre.legvander(self.nodes, order - 1)
        self.to_series = np.asarray((np.arange(order) + 0.5)[:, None] * (self.weights[:, None] * values).T, np.float64)
        self.integral = np.asarray(legendre.legint(np.eye(order), lbnd=-1.0, axis=0), np.float64)
        self.slope: Array = np.zeros((order, order))
        if order > 1:
            self.slope[:-1] = legendre.legder(np.eye(order), axis=0)


@lru_cache
def gauss(order: int) -> Rule:
    """Return the rule of this order, made once."""
    return Rule(order)


def evaluate_series(points: Array, series: Array) -> Array:
    """Evaluate row i of `series`, (rows, terms), at points[i], (rows,), in [-1, 1]: Clenshaw's recurrence."""
    return np.asarray(np.polynomial.legendre.legval(points, series.T, tensor=False))


def panel_edges(breaks: Array, low: float, high: float, width: float) -> Array:
    """Return ascending panel edges from `low` to `high`, with every break between, at most `width` apart."""
    inner = breaks[(breaks > low) & (breaks < high)]
    marks = np.unique(np.concatenate(([low], inner, [high])))
    pieces = [
        np.linspace(start, stop, int(np.ceil((stop - start) / width)) + 1)[:-1]
        for start, stop in itertools.pairwise(marks)
    ]
    return np.concatenate([*pieces, marks[-1:]])


def panel_nodes(edges: Array, rule: Rule) -> tuple[Array, Array]:
    """Return the nodes of `rule` on the panels between the edges, and their weights, each flat and ascending."""
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1.0 + rule.nodes)).ravel(), (half * rule.weights).ravel()
