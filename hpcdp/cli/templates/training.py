"""Training under audit: logistic regression by full-batch DP-SGD, many models at once. Put your own training here."""

import numpy as np

STEPS, RATE = 25, 0.5


def people(count=100, columns=5):
    """The training set: made up, and the same in every process. Its last column is the label, −1 or 1."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(count, columns))
    return np.hstack([features, np.sign(features[:, :1] + rng.normal(size=(count, 1)))])


def with_canary():
    """The training set and one row more, the canary: all zeros, which no person is. D′ lacks it."""
    rows = people()
    return np.vstack([rows, np.zeros(rows.shape[1])])


def canary_score(database, size, rng, *, noise):
    """Train `size` models and return of each how far it moved along the canary's direction; shape (size,).

    Each person's gradient is clipped to norm 1, and Gaussian noise of standard deviation `noise` is added to their sum.
    With full batches this is exactly μ-Gaussian-DP with μ = √STEPS/noise.
    """
    is_canary = ~database.any(axis=1)
    features, labels = database[~is_canary, :-1], database[~is_canary, -1:]
    canary = (
        np.eye(features.shape[1])[0] * is_canary.sum()
    )  # its gradient: of norm 1 in a fixed direction, at every step
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    weights, score = np.zeros((features.shape[1], size)), np.zeros(size)
    for _ in range(STEPS):
        slopes = -labels / (1.0 + np.exp(labels * (features @ weights)))  # a column a model
        slopes *= np.minimum(1.0, 1.0 / np.maximum(np.abs(slopes) * norms, 1e-12))
        others = features.T @ slopes
        step = others + canary[:, None] + rng.normal(0.0, noise, weights.shape)
        score += step[0] - others[0]  # what an observer of every step knows of the canary
        weights -= RATE / len(features) * step
    return score / STEPS
