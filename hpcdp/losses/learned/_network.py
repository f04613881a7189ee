"""The ready neural network: an additive model, a multilayer perceptron that sees it, and their best combination.

A perceptron alone learns a strong loss that a few columns carry. A weak one that fifty columns share drowns in the noise
of its many weights, where an additive model has few. So the perceptron gets the additive log-odds as one more input,
stops when the log-loss of held-out training outputs no longer falls, and those outputs weigh both log-odds at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hpcdp.losses.learned._additive import Additive, Batches

Floats = NDArray[np.float64]
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
    """Log-odds that a row came from D': combine[0]·additive + combine[1]·perceptron + combine[2].

    middle, width: (inputs,) of the perceptron's inputs, which are the features without steps and the additive log-odds.
    """

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
        return np.concatenate([self._forward(part) for part in _parts(inputs)]).astype(np.float64)

    def _forward(self, x: NDArray[Any]) -> NDArray[Any]:
        for weights, bias in self.layers[:-1]:
            x = _ACTIVATIONS[self.activation](x @ weights + bias)
        weights, bias = self.layers[-1]
        return x @ weights[:, 0] + bias[0]

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
    """A perceptron on training rows, stopped and combined with the additive log-odds on held-out rows.

    options: of scikit-learn's MLPClassifier; max_iter (passes at most) and n_iter_no_change (passes without a better
    combination) end it.
    """
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


def _parts(rows: NDArray[Any]) -> list[NDArray[Any]]:
    return [rows[start : start + _PART] for start in range(0, max(1, rows.shape[0]), _PART)]


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
