"""Counts of cells against their exact probabilities, at five standard deviations."""

from itertools import combinations, pairwise, product

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


def sparse_vector_laws(answers, threshold, rho, nu, cutoff, redrawn=False, edges=()):
    """Probability of every ((query, cell of its noisy answer), …) above the threshold, by quadrature over the noise of that.

    It ends after `cutoff` of them, or after the last query; with a threshold drawn anew after each the parts are independent.
    """
    nodes, weights = laplace_nodes(rho, np.concatenate([answers, edges]) - threshold)
    limits = [np.maximum(threshold + nodes, edge) - answers[:, None] for edge in (-np.inf, *edges, np.inf)]
    below = [laplace_cdf(limit, nu) for limit in limits]
    inside, laws = [high - low for low, high in pairwise(below)], {}
    for count in range(cutoff + 1):
        for above, cells in product(
            combinations(range(answers.size), count), product(range(len(inside)), repeat=count)
        ):
            found = dict(zip(above, cells, strict=True))
            end = above[-1] + 1 if count == cutoff else answers.size
            factors = [inside[found[i]][i] if i in found else below[0][i] for i in range(end)]
            cuts = sorted({0, end, *(i + 1 for i in above if redrawn)})
            parts = [weights @ np.prod(factors[a:b], axis=0) for a, b in pairwise(cuts)]
            laws[tuple(found.items())] = np.prod(parts)
    return laws


def update_laws(rows, batch=5, rate=0.2, sigma=0.2, updates=10, start=0.0):
    """Centres, weights and deviation of the last update of toy DP-SGD, by the recursion itself; equal centres are merged."""
    means = [sum(chosen) / batch for chosen in combinations(rows, batch)]
    law, variance = {start: 1.0}, 0.0
    for _ in range(updates):
        after = {}
        for theta, weight in law.items():
            for mean in means:
                value = round(theta - rate * (theta - mean), 13)
                after[value] = after.get(value, 0.0) + weight / len(means)
        law, variance = after, (1 - rate) ** 2 * variance + (rate * sigma) ** 2
    return np.array(list(law)), np.array(list(law.values())), np.sqrt(variance)
