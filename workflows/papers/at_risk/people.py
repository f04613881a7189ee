"""A synthetic population of 212,605 rows, and the queries: five predictors of Euclidean norm 1, a target in [0, 1]."""

from __future__ import annotations

from functools import cache

import numpy as np

ROWS, PREDICTORS = 212_605, 5
PENALTY = 0.01  # λ of (1/n)·Σ(y − wx)² + λ‖w‖²


@cache
def population():
    """All rows, the same ones wherever they are asked for; the last column is the target."""
    rng = np.random.default_rng(20210101)
    x = np.abs(rng.normal(size=(ROWS, PREDICTORS))) * np.array([1.0, 0.5, 0.3, 0.6, 0.8])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.clip(0.15 + 0.5 * x[:, 4] - 0.2 * x[:, 1] + 0.12 * rng.normal(size=ROWS), 0.0, 1.0)
    return np.column_stack([x, y])


def rows(size, rng):
    """Rows drawn by themselves, each as likely as every other."""
    return population()[rng.integers(ROWS, size=size)]


def ridge(database):
    """The coefficients w."""
    x, y = database[:, :-1], database[:, -1]
    count = database.shape[0]
    return np.linalg.solve(x.T @ x + PENALTY * count * np.eye(x.shape[1]), x.T @ y)


def mean(database):
    """The mean target."""
    return database[:, -1].mean()


def ridge_bound(count):
    """How far the L1 norm of w moves at most where one row is replaced."""
    return np.sqrt(PREDICTORS) * 2.0 * (1.0 + PENALTY**-0.5) / (count * PENALTY)


def mean_cover(distance, count):
    """Exact: the share of pairs of databases whose mean targets are at most so far apart."""
    y = np.sort(population()[:, -1])
    above = np.searchsorted(y, y + distance * count * (1 + 1e-12), side="right")
    below = np.searchsorted(y, y - distance * count * (1 + 1e-12), side="left")
    return float((above - below).sum() / ROWS**2)
