"""DP-SGD on scikit-learn's digits in NumPy: multinomial logistic regression, many models at once, with a gradient canary.

One step of one model, on all rows of the database (full batch), as in Abadi et al. (2016, Algorithm 1) at sampling rate 1:

    W ← W − rate/LOT · (Σᵢ gᵢ · min(1, clip/‖gᵢ‖) + noise·clip·Z),    Z standard normal, one number a weight

The canary is a row whose gradient is `clip` in a fixed direction at every step, whatever the model: the worst that one
person can do. LOT is public, so adding or removing a row moves the sum by at most `clip`, and the noise multiplier is
`noise` for that relation.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CLASSES = 10
LOT = 600
"""Digits to train on; the rest test."""

CANARY = -1
"""The label of a row that is a canary."""


@cache
def load() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The digits to train on and to test on: rows of 64 pixels from 0 to 16, and the label."""
    from sklearn.datasets import load_digits

    found = load_digits()
    rows = np.column_stack([found.data, found.target]).astype(np.int64)
    return rows[:LOT], rows[LOT:]


def with_canary() -> NDArray[np.int64]:
    """The database D, (LOT + 1, 65); its last row is the canary."""
    rows = load()[0]
    return np.vstack([rows, [[0] * (rows.shape[1] - 1) + [CANARY]]])


def features(rows: NDArray[np.int64]) -> Floats:
    """Pixels from 0 to 1, and a one for the intercept, (rows, 65)."""
    return np.column_stack([rows[:, :-1] / 16.0, np.ones(rows.shape[0])])


def canary_direction(kind: str) -> Floats:
    """The canary's gradient over its norm, (65, CLASSES).

    "random": any direction, drawn once and for all; what it does to the model changes the others' gradients a little.
    "blank": the weights of the first pixel, which is 0 in all digits: no other gradient has a part in this direction.
    """
    width = with_canary().shape[1]
    if kind == "random":
        direction = np.random.default_rng(0).standard_normal((width, CLASSES))
    elif kind == "blank":
        direction = np.zeros((width, CLASSES))
        direction[0] = 1.0
    else:
        raise ValueError(f"direction: {kind!r} was given; accepted: 'random', 'blank'")
    return direction / np.linalg.norm(direction)


def train(
    database: NDArray[np.int64],
    size: int,
    rng: np.random.Generator,
    *,
    noise: float,
    steps: int,
    rate: float,
    clip: float = 1.0,
    direction: str = "random",
) -> Floats:
    """Train `size` models of independent noise from the same start, zero; returns their weights (65, CLASSES, size)."""
    is_canary = database[:, -1] == CANARY
    rows = database[~is_canary]
    x, labels, numbers = features(rows), rows[:, -1], np.arange(rows.shape[0])
    lengths = np.linalg.norm(x, axis=1)[:, None]
    canaries = int(is_canary.sum()) * clip * canary_direction(direction)[:, :, None]
    weights = np.zeros((x.shape[1], CLASSES, size))
    for _ in range(steps):
        # the gradient of a row is the outer product of x and these residuals, so its norm is that of both multiplied
        residuals = _probabilities(x, weights)
        residuals[numbers, labels, :] -= 1.0
        norms = lengths * np.sqrt(np.einsum("ikm,ikm->im", residuals, residuals))
        residuals *= (clip / np.maximum(norms, clip))[:, None, :]
        total = (x.T @ residuals.reshape(rows.shape[0], -1)).reshape(weights.shape)
        total += canaries
        total += noise * clip * rng.standard_normal(weights.shape)
        weights -= rate / LOT * total
    return weights


def _probabilities(x: Floats, weights: Floats) -> Floats:
    """Class probabilities of each row under each model, (rows, CLASSES, models)."""
    logits = (x @ weights.reshape(x.shape[1], -1)).reshape(x.shape[0], *weights.shape[1:])
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits


def canary_score(
    database: NDArray[np.int64],
    size: int,
    rng: np.random.Generator,
    *,
    noise: float,
    steps: int,
    rate: float,
    clip: float = 1.0,
    direction: str = "random",
) -> Floats:
    """The mechanism: scores of `size` trained models, (size,).

    How far training moved against the canary's direction, in units in which a canary moves it by 1 in all steps together
    and the noise has standard deviation noise/√steps.
    """
    weights = train(database, size, rng, noise=noise, steps=steps, rate=rate, clip=clip, direction=direction)
    return -np.einsum("fkm,fk->m", weights, canary_direction(direction)) * LOT / (rate * clip * steps)


def accuracy(weights: Floats, rows: NDArray[np.int64]) -> Floats:
    """Share of rows that each model labels correctly, (models,)."""
    guesses = _probabilities(features(rows), weights).argmax(axis=1)
    return np.asarray((guesses == rows[:, -1:]).mean(axis=0), np.float64)


def save(path: Any, weights: Floats) -> None:
    """Write one model, (65, CLASSES), as a file of its own."""
    np.savez(path, weights=weights)


def saved_score(path: Any, *, rate: float, steps: int, clip: float = 1.0, direction: str = "random") -> float:
    """The score of a model that `save` wrote, for the built-in mechanism `scores`."""
    with np.load(path) as found:
        moved = -np.sum(found["weights"] * canary_direction(direction))
    return float(moved * LOT / (rate * clip * steps))
