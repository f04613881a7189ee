"""smooth: L̂ as a smooth function of the output; for laws whose log-ratio is smooth the one that reaches the smallest δ.

Numbers: the line is cut into cells, the training outputs are counted by cell, and L̂ is a smoothing spline of the
log-ratio of the counts. Atoms have their own log-ratio. Vectors are brought to the line by logistic regression: a polynomial
of degree 1 or 2 that estimates the log-ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, log_expit, ndtri

from hpcdp._base.kernels import kernel
from hpcdp.losses._spline import fit_log_ratio
from hpcdp.losses.counts import classes_of
from hpcdp.losses.kind import refuse_strings
from hpcdp.losses.line.cells import LineCells
from hpcdp.losses.line.step import ProjectedCounter, StepCounter, restore_steps
from hpcdp.losses.parameters import PRODUCTS, SmoothParameters
from hpcdp.losses.protocol import Arrays, Outputs, Side, ascending

__all__ = ["Smooth", "SmoothLine", "SmoothParameters", "SmoothVectors"]

Floats = NDArray[np.float64]

_STRAIGHT = 6.0  # scaled values beyond this grow with the logarithm only, so that heavy tails stay small
_NORMAL = 2 * float(ndtri(0.75))  # interquartile range of the standard normal law
_RIDGE = 0.01  # precision of the weights: one fitted to nothing has standard deviation 10
_SAMPLE = 1 << 16  # outputs per database that choose the degree and the start
_WORK = 4e9  # outputs times squared features that a Newton step may cost
_STEPS = 30
_BLOCK = 1 << 14
_RESOLVED = 2.0  # standard errors by which degree 2 must be better on outputs that it did not learn from


@dataclass(frozen=True, eq=False)
class Predictor(Arrays):
    """A polynomial in scaled columns: centre, scale, linear (d,); products (d, d), upper, or (0, 0) of degree 1."""

    centre: Floats
    scale: Floats
    constant: float
    linear: Floats
    products: Floats

    def coordinate(self, outputs: Outputs) -> Floats:
        """The estimated log-ratio of outputs (size, d), (size,), finite; a fixed function of each output."""
        rows = np.ascontiguousarray(outputs, np.float64)
        out = np.empty(rows.shape[0])
        predict(rows, self.centre, self.scale, _STRAIGHT, self.constant, self.linear, self.products, out)
        return out


@dataclass(frozen=True, eq=False)
class _Task:
    """Rows of both sides, their log-odds where L̂ is 0, and the scales of the columns."""

    p: Outputs
    q: Outputs
    offset: float
    centre: Floats
    scale: Floats

    def part(self, start: int, step: int) -> _Task:
        return _Task(self.p[start::step], self.q[start::step], self.offset, self.centre, self.scale)

    def without(self, start: int, step: int) -> _Task:
        p, q = (x[np.arange(x.shape[0]) % step != start] for x in (self.p, self.q))
        return _Task(p, q, self.offset, self.centre, self.scale)

    @property
    def size(self) -> int:
        return int(self.p.shape[0] + self.q.shape[0])


def learn_predictor(p: Side, q: Side, degree: Literal["auto", 1, 2]) -> tuple[Predictor, Floats, Floats]:
    """The predictor, and coordinates (size,) of the training outputs of both sides to calibrate it on."""
    few = [np.asarray(side.spread(_SAMPLE), np.float64) for side in (p, q)]
    centre, scale = _scales(np.concatenate(few))
    offset = float(np.log(max(1, p.draws)) - np.log(max(1, q.draws)))
    task = _Task(p.outputs, q.outputs, offset, centre, scale)
    sample = _Task(few[0], few[1], offset, centre, scale)
    chosen = _choose(sample) if degree == "auto" else degree
    predictor = _fit(task, sample, chosen)
    features = _features(np.zeros((1, centre.size)), chosen).shape[1]
    if task.size >= 200 * features:
        return predictor, predictor.coordinate(p.outputs), predictor.coordinate(q.outputs)
    outs = np.empty(p.size), np.empty(q.size)
    for fold in range(4):
        rest = task.without(fold, 4)
        other = _fit(rest, rest, chosen)
        outs[0][fold::4], outs[1][fold::4] = other.coordinate(p.outputs[fold::4]), other.coordinate(q.outputs[fold::4])
    return predictor, *outs


def _scales(rows: Floats) -> tuple[Floats, Floats]:
    low, middle, high = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = (high - low) / _NORMAL
        spread = rows.std(axis=0)
    scale = np.where(scale > 0, scale, spread)
    return middle, np.where((scale > 0) & np.isfinite(scale), scale, 1.0)


def _choose(sample: _Task) -> Literal[1, 2]:
    learned, fresh = sample.part(0, 2), sample.part(1, 2)
    if not fresh.size:
        return 1
    ones = [_fit(learned, learned, degree) for degree in (1, 2)]
    gains = [
        np.subtract(*(log_expit(sign * (predictor.coordinate(side) + sample.offset)) for predictor in reversed(ones)))
        for sign, side in ((1, fresh.p), (-1, fresh.q))
    ]
    gain = np.concatenate(gains)
    return 2 if gain.mean() > _RESOLVED * gain.std() / np.sqrt(gain.size) else 1


def _features(z: Floats, degree: int) -> Floats:
    """1, the scaled columns, and of degree 2 their products (squares only of many columns), (size, features)."""
    parts = [np.ones((z.shape[0], 1)), z]
    if degree == 2:
        i, j = _pairs(z.shape[1])
        parts.append(z[:, i] * z[:, j])
    return np.concatenate(parts, axis=1)


def _pairs(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(d) if d <= PRODUCTS else (np.arange(d), np.arange(d))


def _scaled(rows: Outputs, centre: Floats, scale: Floats) -> Floats:
    with np.errstate(over="ignore"):
        z = (np.asarray(rows, np.float64) - centre) / scale
    size = np.minimum(np.abs(z), 1e300)
    far = _STRAIGHT + np.log1p(np.maximum(size - _STRAIGHT, 0.0))
    return np.where(size > _STRAIGHT, np.sign(z) * far, z)


def _fit(task: _Task, sample: _Task, degree: int) -> Predictor:
    """Newton's steps on a sample, then on as many outputs as are not too much work."""
    d = task.centre.size
    theta = np.zeros(_features(np.zeros((1, d)), degree).shape[1])
    theta = _newton(sample, degree, theta)
    step = max(1, int(np.ceil(task.size * theta.size**2 / _WORK)))
    if sample.size < task.size // step:
        theta = _newton(task.part(0, step), degree, theta)
    products = np.zeros((d, d) if degree == 2 else (0, 0))
    if degree == 2:
        products[_pairs(d)] = theta[d + 1 :]
    return Predictor(task.centre, task.scale, float(theta[0]), theta[1 : d + 1].copy(), products)


def _newton(task: _Task, degree: int, theta: Floats) -> Floats:
    value, gradient, curvature = _likelihood(task, degree, theta)
    for _ in range(_STEPS):
        step = cho_solve(cho_factor(curvature), gradient)
        for _ in range(30):
            new = _likelihood(task, degree, theta + step)
            if new[0] >= value:
                break
            step = step / 2
        if new[0] < value:
            break
        gain = new[0] - value
        theta, (value, gradient, curvature) = theta + step, new
        if gain < 1e-3:
            break
    return theta


def _likelihood(task: _Task, degree: int, theta: Floats) -> tuple[float, Floats, Floats]:
    """Penalised log-likelihood, its gradient (features,) and curvature (features, features), block by block."""
    ridge = np.full(theta.size, _RIDGE)
    ridge[0] = 1e-9  # only to keep the matrix definite
    value, gradient, curvature = -0.5 * float(ridge @ theta**2), -ridge * theta, np.diag(ridge)
    for sign, rows in ((1.0, task.p), (-1.0, task.q)):
        for start in range(0, rows.shape[0], _BLOCK):
            features = _features(_scaled(rows[start : start + _BLOCK], task.centre, task.scale), degree)
            odds = features @ theta + task.offset
            s = expit(odds)
            value += float(log_expit(sign * odds).sum())
            gradient = gradient + ((1.0 if sign > 0 else 0.0) - s) @ features
            curvature = curvature + features.T @ (features * (s * (1 - s))[:, None])
    return value, gradient, curvature


@kernel()
def predict(rows, centre, scale, straight, constant, linear, products, out):  # type: ignore[no-untyped-def]
    """constant + Σ z_j·(linear_j + Σ_{l >= j} products_jl·z_l) of rows (size, d), z scaled, a logarithm beyond ±straight."""
    d = rows.shape[1]
    z = centre.copy()
    for i in range(rows.shape[0]):
        for j in range(d):
            value = (rows[i, j] - centre[j]) / scale[j]
            size = min(abs(value), 1e300)
            if size > straight:
                size = straight + math.log1p(size - straight)
                value = size if value > 0 else -size
            z[j] = value
        total = constant
        for j in range(d):
            inner = linear[j]
            for k in range(j, products.shape[0]):
                inner += products[j, k] * z[k]
            total += z[j] * inner
        out[i] = total


@dataclass(frozen=True, eq=False)
class SmoothLine:
    """L̂ of scalar outputs: losses (cells,), natural log, ±inf allowed, one for each cell."""

    cells: LineCells
    losses: Floats

    @classmethod
    def learn(cls, a: Floats, b: Floats, n0: int, n1: int) -> SmoothLine:
        """From sorted training outputs a and b of n0 and n1 draws."""
        if not a.size + b.size:
            return cls(LineCells.of(np.zeros(1), np.zeros(0)), np.zeros(3))
        cells = LineCells.of(a, b)
        n0, n1 = max(1, n0), max(1, n1)
        return cls(cells, fit_log_ratio(cells.centres, cells.tally(a), cells.tally(b), n0, n1, cells.atoms))

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size,) or (size, 1), shape (size,), natural log."""
        return self.losses[self.cells.lookup.runs(np.ascontiguousarray(outputs, np.float64).reshape(-1))]

    def counter(self, thresholds: Floats) -> StepCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        thresholds = np.asarray(thresholds, np.float64)
        return StepCounter.merged(self.cells.starts, classes_of(self.losses, thresholds), thresholds)


@dataclass(frozen=True, eq=False)
class SmoothVectors:
    """L̂ of vector outputs: a smooth function of a linear predictor, which is itself an estimate of the log-ratio."""

    predictor: Predictor
    line: SmoothLine

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size, d), shape (size,), natural log."""
        return self.line.score(self.coordinate(outputs))

    def coordinate(self, outputs: Outputs) -> Floats:
        """The linear predictor of each output of shape (size, d), shape (size,), finite, natural log."""
        return self.predictor.coordinate(outputs)

    def projection(self) -> Predictor:
        """What brings outputs to the line."""
        return self.predictor

    def counter(self, thresholds: Floats) -> ProjectedCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return ProjectedCounter(self.predictor, self.line.counter(thresholds))


@dataclass(frozen=True)
class Smooth:
    """The smooth estimator of L (`SmoothParameters`); see this module."""

    parameters: SmoothParameters = field(default_factory=SmoothParameters)

    def fit(self, p: Side, q: Side) -> SmoothLine | SmoothVectors:
        """Learn from training outputs of D (p) and D' (q), which have one shape and kind; integers and booleans are reals."""
        refuse_strings("smooth", p.dtype == object)
        if p.outputs.ndim == 1 or p.outputs.shape[1] == 1:
            return SmoothLine.learn(p.ascending, q.ascending, p.draws, q.draws)
        predictor, *places = learn_predictor(p, q, self.parameters.degree)
        a, b = (ascending(place) for place in places)
        return SmoothVectors(predictor, SmoothLine.learn(a, b, p.draws, q.draws))

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> StepCounter | ProjectedCounter:
        """The counter whose `state` this is."""
        return restore_steps(state, Predictor.restore)

    def restore_projection(self, state: Mapping[str, NDArray[Any]]) -> Predictor:
        """The projection whose `state` this is."""
        return Predictor.restore(state)
