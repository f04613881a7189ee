"""The ready neural network: an additive model, a multilayer perceptron that sees it, and their best combination.

A perceptron alone learns a strong loss that a few columns carry. A weak one that fifty columns share drowns in the noise of
its many weights, where an additive model has few. So the perceptron gets the additive log-odds as one more input, stops when
the log-loss of held-out training outputs no longer falls, and those outputs weigh both log-odds at the end.

Outputs are numbers that a linear model or a network learns from: columns brought to one scale, values, steps. The additive
model is logistic regression on these features, fitted batch by batch in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import expit, ndtri

from hpcdp.losses.protocol import Arrays, Outputs

Floats = NDArray[np.float64]

SAMPLE = 1 << 17
"""Outputs of each side that are enough to learn columns from: a quantile is then within 0.2 % of its rank."""

_SHARE = 0.01  # of the outputs: a value that more of them hold gets an indicator of its own, so at most 100 a column
_STRAIGHT = 6.0  # scaled values beyond this grow with the logarithm only, so that heavy tails stay small
_NORMAL = 2 * float(ndtri(0.75))  # interquartile range of the standard normal law


def as_rows(outputs: Outputs) -> Floats:
    """Numeric outputs of shape (size,) or (size, d) as float64 rows (size, d), without a copy where there is no need."""
    return np.ascontiguousarray(outputs.reshape(outputs.shape[0], -1), np.float64)


@dataclass(frozen=True, eq=False)
class Columns(Arrays):
    """How outputs (size, d) become features: scaled columns, indicators of common values, and steps, is it above a quantile?"""

    # columns of many values, less their median and over the range that a normal law would have
    scaled: NDArray[np.int64]
    centre: Floats
    scale: Floats
    # columns of indicators, of values that more than 1 % hold, and of all but one of few values
    held: NDArray[np.int64]
    value: Floats
    # columns of steps, above quantiles: they let a linear model follow any function of one column
    stepped: NDArray[np.int64]
    edge: Floats

    @classmethod
    def learn(cls, p: Outputs, q: Outputs, steps: int) -> Columns:
        """From some training outputs of each side, with so many steps a column."""
        rows = np.concatenate([as_rows(outputs) for outputs in (p, q)])
        numbers: list[tuple[int, float, float]] = []
        values: list[tuple[int, float]] = []
        edges: list[tuple[int, float]] = []
        for number, column in enumerate(rows.T):
            distinct, counts = np.unique(column, return_counts=True)
            common = counts > _SHARE * column.size
            if common.all():  # the commonest value is what the others differ from
                values += [(number, v) for v in np.delete(distinct, np.argmax(counts))]
                continue
            values += [(number, v) for v in distinct[common]]
            rest = column[~np.isin(column, distinct[common])] if common.any() else column
            low, centre, high = np.quantile(rest, [0.25, 0.5, 0.75])
            numbers.append((number, centre, (high - low) / _NORMAL or float(rest.std()) or 1.0))
            places = np.quantile(rest, np.arange(1, steps + 1) / (steps + 1), method="inverted_cdf")
            edges += [(number, v) for v in np.unique(places)]
        return cls(
            np.array([n for n, _, _ in numbers], np.int64),
            np.array([c for _, c, _ in numbers], np.float64),
            np.array([s for _, _, s in numbers], np.float64),
            np.array([n for n, _ in values], np.int64),
            np.array([v for _, v in values], np.float64),
            np.array([n for n, _ in edges], np.int64),
            np.array([v for _, v in edges], np.float64),
        )

    @property
    def plain(self) -> int:
        """How many features there are without the steps."""
        return self.scaled.size + self.held.size

    @property
    def size(self) -> int:
        """How many features there are."""
        return self.plain + self.stepped.size

    def features(self, rows: Floats, dtype: Any = np.float64) -> NDArray[Any]:
        """Features (size, self.size) of rows (size, d); the steps come last. Steps and indicators are 0 or 1."""
        columns = np.ascontiguousarray(rows.T)  # a feature at a time, in contiguous memory
        out = np.empty((self.size, rows.shape[0]), dtype)
        a, b = self.scaled.size, self.plain
        z = (columns[self.scaled] - self.centre[:, None]) / self.scale[:, None]
        far = np.abs(z) > _STRAIGHT
        if far.any():
            z[far] = np.sign(z[far]) * (_STRAIGHT + np.log1p(np.abs(z[far]) - _STRAIGHT))
        out[:a] = z
        for i, (column, value) in enumerate(zip(self.held, self.value, strict=True), a):
            out[i] = columns[column] == value
        for i, (column, edge) in enumerate(zip(self.stepped, self.edge, strict=True), b):
            out[i] = columns[column] > edge
        return out.T


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
    """The maximum of the logistic likelihood less penalty/2 times the squared weights, by L-BFGS; asymptotically efficient."""
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
            residual = np.exp(-np.logaddexp(0.0, -z)) - is_other
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


Layers = tuple[tuple[NDArray[Any], NDArray[Any]], ...]

_ACTIVATIONS: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "identity": lambda x: x,
    "logistic": expit,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}
_PART = 4096  # rows at a time
# Passes over few outputs must still be long enough to tell whether they help; large batches are the faster ones.
_SMALLEST_BATCH, _LARGEST_BATCH, _FEWEST_BATCHES = 32, 1024, 64


@dataclass(frozen=True, eq=False)
class Network:
    """Log-odds: combine[0]·additive + combine[1]·perceptron + combine[2]; middle, width: of the perceptron's inputs."""

    additive: Additive
    middle: Floats
    width: Floats
    layers: Layers
    activation: str
    combine: Floats

    def logits(self, rows: Floats) -> Floats:
        """Log-odds of D' for rows (size, d), shape (size,)."""
        inputs, additive = self.additive.inputs(rows)
        perceived = self.perceive((inputs - self.middle) / self.width)
        return self.combine[0] * additive + self.combine[1] * perceived + self.combine[2]

    def perceive(self, inputs: NDArray[Any]) -> Floats:
        """Log-odds by the perceptron alone, for scaled inputs (size, inputs), batch by batch."""
        parts, (last, shift) = [], self.layers[-1]
        for start in range(0, max(1, inputs.shape[0]), _PART):
            x = inputs[start : start + _PART]
            for weights, bias in self.layers[:-1]:
                x = _ACTIVATIONS[self.activation](x @ weights + bias)
            parts.append(x @ last[:, 0] + shift[0])
        return np.concatenate(parts).astype(np.float64)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        numbers = {f"layer{i}_{n}": x for i, layer in enumerate(self.layers) for n, x in zip("wb", layer, strict=True)}
        own = {"middle": self.middle, "width": self.width, "combine": self.combine}
        kind = {"activation": np.array(list(_ACTIVATIONS).index(self.activation)), "layers": np.array(len(self.layers))}
        return self.additive.state() | own | kind | numbers

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Network:
        """The network that `state` came from."""
        layers = tuple((state[f"layer{i}_w"], state[f"layer{i}_b"]) for i in range(int(state["layers"])))
        activation = list(_ACTIVATIONS)[int(state["activation"])]
        return cls(Additive.restore(state), state["middle"], state["width"], layers, activation, state["combine"])


def learn_network(
    additive: Additive, train: Batches, held_out: Batches, options: Mapping[str, Any], seed: int
) -> Network:
    """A perceptron on training rows, stopped and combined with the additive log-odds on held-out rows."""
    from sklearn.neural_network import MLPClassifier

    given = dict(options)
    passes, patience = given.pop("max_iter"), given.pop("n_iter_no_change")
    inputs, is_other = _gather(additive, train)
    held_inputs, held_is_other = _gather(additive, held_out)
    additive_logits = held_inputs[:, -1].astype(np.float64)
    middle, width = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    width[width == 0] = 1.0
    for block in (inputs, held_inputs):
        block -= middle.astype(np.float32)
        block /= width.astype(np.float32)
    if given["batch_size"] == "auto":
        given["batch_size"] = min(_LARGEST_BATCH, max(_SMALLEST_BATCH, inputs.shape[0] // _FEWEST_BATCHES))
    given["batch_size"] = min(given["batch_size"], inputs.shape[0])
    perceptron = MLPClassifier(**given, random_state=seed)
    enough = 1.0 / held_is_other.size  # of log-loss, what one more weight gains by chance (Akaike)
    best: Network | None = None
    best_loss, waited = np.inf, 0
    for _ in range(passes):
        perceptron.partial_fit(inputs, is_other, classes=[False, True])
        layers = tuple((w.copy(), b.copy()) for w, b in zip(perceptron.coefs_, perceptron.intercepts_, strict=True))
        network = Network(additive, middle, width, layers, perceptron.activation, np.array([0.0, 1.0, 0.0]))
        scores = np.column_stack([additive_logits, network.perceive(held_inputs)])
        combine, loss = _combine(scores, held_is_other)
        waited += 1
        if best is None or loss < best_loss - enough:
            best, best_loss, waited = replace(network, combine=combine), loss, 0
        if waited >= patience:
            break
    assert best is not None  # passes is at least 1
    return replace(best, layers=tuple((w.astype(np.float64), b.astype(np.float64)) for w, b in best.layers))


def _gather(additive: Additive, batches: Batches) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The perceptron's inputs before scaling, (size, inputs), and whether each row came from D'."""
    inputs, labels = [], []
    for rows, is_other in batches():
        x, _ = additive.inputs(rows)
        inputs.append(x.astype(np.float32))
        labels.append(is_other)
    return np.concatenate(inputs), np.concatenate(labels)


def _combine(scores: Floats, is_other: NDArray[np.bool_]) -> tuple[Floats, float]:
    """Weights of both log-odds (size, 2) and an intercept, by logistic regression, and the log-loss that they reach."""
    from sklearn.linear_model import LogisticRegression

    regression = LogisticRegression(max_iter=1000).fit(scores, is_other)
    logits = regression.decision_function(scores)
    loss = float((np.logaddexp(0.0, logits) - np.where(is_other, logits, 0.0)).mean())
    return np.append(regression.coef_[0], regression.intercept_), loss
