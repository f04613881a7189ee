"""Logistic regression on the features of columns: an additive model, fitted batch by batch in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from hpcdp.losses.learned._columns import Columns

Floats = NDArray[np.float64]
Batches = Callable[[], Iterator[tuple[Floats, NDArray[np.bool_]]]]
"""Rows (size, d) and whether each came from D', batch by batch, as often as it is called."""

_CURVED = 1 << 16  # rows from which the curvature of the likelihood is learned
_WIDEST = 1024  # features; of more only the diagonal of the curvature is used
_STEPS = 200


@dataclass(frozen=True, eq=False)
class Additive:
    """Log-odds weights · features + intercept that a row came from D'; weights: (features,) float64."""

    columns: Columns
    weights: Floats
    intercept: float

    def logits(self, rows: Floats) -> Floats:
        """Log-odds of D' for rows (size, d), shape (size,)."""
        return self.columns.features(rows) @ self.weights + self.intercept

    def inputs(self, rows: Floats) -> tuple[Floats, Floats]:
        """The features without steps and, as the last column, the log-odds; and the log-odds alone, shape (size,)."""
        features = self.columns.features(rows)
        logits = features @ self.weights + self.intercept
        return np.column_stack([features[:, : self.columns.plain], logits]), logits

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return self.columns.state() | {"weights": self.weights, "intercept": np.array(self.intercept)}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Additive:
        """The model that `state` came from."""
        return cls(Columns.restore(state), state["weights"], float(state["intercept"]))


def learn_additive(columns: Columns, batches: Batches, penalty: float) -> Additive:
    """The maximum of the logistic likelihood less penalty/2 times the squared weights; asymptotically efficient.

    L-BFGS in coordinates in which the curvature at zero is the identity: where the loss is weak, which is where many
    samples are needed, that is nearly the curvature everywhere, and a few passes do. It stops when the gradient is
    far below its own sampling noise.
    """
    from scipy.optimize import minimize

    size, factor = _whiten(columns, batches, penalty)

    def objective(u: Floats) -> tuple[float, Floats]:
        w = _solve(factor, u, "T")
        total, gradient = 0.5 * penalty * float(w[1:] @ w[1:]), penalty * w
        gradient[0] = 0.0
        wide = w.astype(np.float32)
        for rows, is_other in batches():
            x = columns.features(rows, np.float32)
            z = (x @ wide[1:]).astype(np.float64) + w[0]
            total += float(np.logaddexp(0.0, z).sum() - z[is_other].sum())
            residual = _expit(z) - is_other
            gradient[1:] += residual.astype(np.float32) @ x
            gradient[0] += residual.sum()
        return total / size, _solve(factor, gradient, "N") / size

    start = np.zeros(columns.size + 1)
    noise = 0.02 / np.sqrt(size)
    optimum = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"gtol": noise, "ftol": 0, "maxiter": _STEPS}
    )
    w = _solve(factor, optimum.x, "T")
    return Additive(columns, w[1:], float(w[0]))


def _solve(factor: Floats, x: Floats, trans: str) -> Floats:
    """A·x ("T") or Aᵀ·x ("N") with A·Aᵀ the inverse curvature; factor: its lower Cholesky factor (n, n), or its root (n,)."""
    return x / factor if factor.ndim == 1 else solve_triangular(factor, x, lower=True, trans=trans)


def _whiten(columns: Columns, batches: Batches, penalty: float) -> tuple[int, Floats]:
    """How many rows there are, and the factor (see `_solve`) of the curvature at zero weights, of features + 1."""
    n = columns.size + 1
    full = n <= _WIDEST
    curvature = np.zeros((n, n) if full else n)
    size = used = 0
    for rows, _ in batches():
        if used < _CURVED:
            x = np.column_stack([np.ones(rows.shape[0]), columns.features(rows)])
            curvature += x.T @ x if full else np.einsum("ij,ij->j", x, x)
            used += rows.shape[0]
        size += rows.shape[0]
    # the curvature of the mean over all rows; a little more on the diagonal keeps it positive where columns repeat
    curvature *= 0.25 / used
    extra = penalty / size + 1e-6
    if not full:
        return size, np.sqrt(curvature + extra)
    curvature[np.diag_indices(n)] += extra
    return size, np.asarray(np.linalg.cholesky(curvature), np.float64)


def _expit(z: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -z))
