"""Mechanisms, databases and losses of the golden studies, as their files name them."""

from __future__ import annotations

import numpy as np


def noisy_sum(database, size, rng):
    """A real number."""
    return database.sum() + rng.laplace(size=size)


def one_sum(database, rng, scale=4.0):
    """One output a call: what the random tape follows draw by draw."""
    return float(database.sum()) + scale * rng.normal()


def steps(database, rng, rounds=3):
    """A loop of noisy steps."""
    value = 0.0
    for _ in range(rounds):
        value += 0.5 * (float(database.sum()) - value) + rng.normal()
    return value


def two_columns(database, size, rng):
    """Two real columns that share noise."""
    shared = rng.normal(size=size)
    return np.column_stack([database.sum() + shared + rng.normal(size=size), shared])


def rounded(database, size, rng):
    """An integer."""
    return np.rint(database.sum() + rng.laplace(size=size)).astype(np.int64)


def text(database, size, rng):
    """Bytes: one of three words."""
    words = np.array([b"low", b"middle", b"high"])
    return words[np.digitize(database.sum() + rng.normal(size=size), [-0.5, 1.5])]


def mixed(database, size, rng):
    """Sequences: a word, and a number where the word is yes."""
    noisy = database.sum() + rng.laplace(size=size)
    return [("yes", float(round(x, 2))) if x > 0.5 else ("no",) for x in noisy]


def indexed(database, size, rng):
    """An index beside a number, as a noisy maximum gives."""
    noisy = database + rng.exponential(2.0, (size, database.size))
    return np.column_stack([noisy.argmax(axis=1), noisy.max(axis=1)])


def clamped(database, size, rng):
    """A number in [0, 1] with a density."""
    return rng.beta(2.0 + database[0], 2.0, size)


def together(database, size, rng):
    """Outputs of a call share noise: they depend on each other."""
    return database.sum() + 0.5 * rng.normal() + rng.normal(size=size)


def people(size, rng, *, rows):
    """Databases of rows that say yes or no."""
    return rng.random((size, rows)) < 0.5


def total(database, size, rng):
    """A count without noise: the databases are random."""
    return np.full(size, int(database.sum()))


def pairs():
    """Given pairs from a callable."""
    return [([0.0], [1.0]), ([0.0], [0.5])]


def mean(database):
    """A query whose sensitivity is sampled."""
    return database.mean()


def ages(size, rng):
    """A population."""
    return rng.integers(18, 90, size).astype(float)
