"""Counts of cells against their exact probabilities, at five standard deviations."""

from itertools import pairwise

import numpy as np
from scipy.special import betainc, betaincc, ndtri

_RARE = 40  # cells that expect fewer draws are tested together as well as one by one


def check_cells(counts, probabilities):
    """Every count in the binomial tails of five standard deviations; an impossible cell holds no draw."""
    counts, exact = np.asarray(counts, float).ravel(), np.asarray(probabilities, float).ravel()
    assert counts.shape == exact.shape
    assert (exact > -1e-12).all()
    np.testing.assert_allclose(exact.sum(), 1.0, atol=1e-9)
    exact = np.clip(exact, 0.0, 1.0)
    draws = counts.sum()
    rare = draws * exact < _RARE
    counts, exact = np.append(counts, counts[rare].sum()), np.append(exact, exact[rare].sum())
    least = np.where(counts < draws, betaincc(counts + 1, np.maximum(draws - counts, 1), exact), 1.0)
    most = np.where(counts > 0, betainc(np.maximum(counts, 1), draws - counts + 1, exact), 1.0)
    worst = -ndtri(np.minimum(least, most).min())
    print(f"worst of {counts.size} cells: {worst:.2f} sd")
    assert worst <= 5.0


def count_codes(codes, size):
    """How often each code 0 … size − 1 occurs; nothing else may."""
    assert codes.min() >= 0
    assert codes.max() < size
    return np.bincount(codes, minlength=size)


def laplace_cdf(x, scale=1.0):
    """P(Laplace noise <= x)."""
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0) / scale), 1 - 0.5 * np.exp(-np.maximum(x, 0) / scale))


def exponential_cdf(x, scale=1.0):
    """P(exponential noise <= x)."""
    return -np.expm1(-np.maximum(x, 0) / scale)


def laplace_nodes(scale, kinks):
    """Nodes and probabilities of Gauss-Legendre panels for expectations over Laplace noise; kinks of the integrand."""
    reach = 45 * scale
    edges = np.unique(np.concatenate([np.linspace(-reach, reach, 61), [0.0], np.clip(kinks, -reach, reach)]))
    x, w = np.polynomial.legendre.leggauss(16)
    nodes = np.concatenate([0.5 * (a + b) + 0.5 * (b - a) * x for a, b in pairwise(edges)])
    widths = np.concatenate([0.5 * (b - a) * w for a, b in pairwise(edges)])
    return nodes, widths * np.exp(-np.abs(nodes) / scale) / (2 * scale)
