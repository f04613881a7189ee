"""learned: L̂ from the scores of a classifier, any of scikit-learn's kind or a ready one, that tells D from D'.

A classifier that learned from m₀ outputs of D and m₁ of D' estimates the log-odds log(m₁ f₁(o)) − log(m₀ f₀(o)) that an
output o came from D'. So L̂ = log m₁ − log m₀ − log-odds, and outputs that were filtered to a region add the logarithms of
the shares that were kept (Lu et al., "Eureka", S&P 2024, Section V; any probabilistic classifier).

Calibration: scores become log-odds on training samples that the classifier did not learn from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from hpcdp._base.raised import Blamed
from hpcdp._base.threads import library_threads
from hpcdp.errors import HpcdpError, MechanismError, StudyError
from hpcdp.losses.counts import PlainCounter
from hpcdp.losses.kind import refuse_strings
from hpcdp.losses.learned._estimator import BOOSTING, Estimator, make_estimator
from hpcdp.losses.learned._network import (
    SAMPLE,
    Additive,
    Batches,
    Columns,
    Network,
    as_rows,
    learn_additive,
    learn_network,
)
from hpcdp.losses.learned.parameters import FEWEST_LEARNED, LearnedParameters
from hpcdp.losses.protocol import Outputs, Side

__all__ = ["Learned", "LearnedCounter", "LearnedModel", "LearnedParameters"]

Floats = NDArray[np.float64]


Calibration = dict[str, NDArray[Any]]
"""What makes log-odds of D' of a score, larger where D' is likelier; empty: the score is log-odds.

"platt": slope, intercept, and what stands for a score of −∞ and of ∞ (Platt 1999). "isotonic_score" and "isotonic_chance": the
points of the rising function that fits best (Zadrozny and Elkan 2002).
"""

_CALIBRATIONS = ("platt", "isotonic_score", "isotonic_chance")


def calibrated(calibration: Calibration, scores: Floats) -> Floats:
    """Log-odds of D' of scores (size,), shape (size,)."""
    if "platt" in calibration:
        slope, intercept, low, high = map(float, calibration["platt"])
        return slope * _finite(scores, low, high) + intercept
    if calibration:
        return logit(np.interp(scores, calibration["isotonic_score"], calibration["isotonic_chance"]))
    return scores


def learn_calibration(method: str, scores: Floats, is_other: NDArray[np.bool_]) -> Calibration:
    """ "platt" or "isotonic", from scores (size,) of held-out rows and whether each came from D'."""
    finite = scores[np.isfinite(scores)]
    low, high = (finite.min(), finite.max()) if finite.size else (-1.0, 1.0)
    scores = np.nan_to_num(_finite(scores, low, high))
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        least = 1.0 / (scores.size + 2)  # held-out rows cannot tell chances that are nearer to 0 and 1
        isotonic = IsotonicRegression(y_min=least, y_max=1.0 - least).fit(scores, is_other)
        return {"isotonic_score": isotonic.X_thresholds_, "isotonic_chance": isotonic.y_thresholds_}
    from sklearn.linear_model import LogisticRegression

    width = float(scores.std()) or 1.0
    line = LogisticRegression().fit(scores[:, None] / width, is_other)
    return {"platt": np.array([line.coef_[0, 0] / width, line.intercept_[0], low, high], np.float64)}


def _finite(scores: Floats, low: float, high: float) -> Floats:
    """Scores with ±∞ replaced; a NaN stays one."""
    return np.nan_to_num(scores, nan=np.nan, posinf=high, neginf=low)


Ints = NDArray[np.int64]

_ROWS = 4096  # rows at a time, for the ready classifiers' features
_ESTIMATOR_ROWS = 1 << 16  # an estimator of unknown cost a call
_FAR = 1e3  # in place of an infinite L̂; e^1000 is beyond every ε


Classifier = Network | Additive | Estimator
"""What has learned to tell D' from D: log-odds, or a score to be calibrated, and arrays by name."""


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """L̂ = offset − log-odds of the classifier, calibrated or not; at_once: rows that are scored together."""

    classifier: Classifier
    calibration: Calibration
    offset: float
    at_once: int

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output, (size,), natural log; 0 where the classifier gives no number; MechanismError where it fails."""
        scores = np.empty(outputs.shape[0])
        with library_threads(1):
            for start in range(0, scores.size, self.at_once):
                part = slice(start, start + self.at_once)
                scores[part] = self.offset - _scores(self.classifier, self.calibration, as_rows(outputs[part]))
        scores[np.isnan(scores)] = 0.0
        return scores

    def counter(self, thresholds: Floats) -> LearnedCounter:
        """A counter for sorted distinct thresholds, shape (T,)."""
        return LearnedCounter(self, thresholds)

    def projection(self) -> LearnedModel:
        """What brings outputs to the line: L̂ itself; MechanismError where the classifier cannot be stored."""
        if self.classifier.state() is None:
            raise MechanismError(
                "the classifier cannot be stored, which refining needs; accepted: one that can be pickled"
            )
        return self

    def coordinate(self, outputs: Outputs) -> Floats:
        """L̂ of each output of shape (size, d), shape (size,), natural log, finite."""
        return np.nan_to_num(self.score(outputs), posinf=_FAR, neginf=-_FAR)

    def state(self) -> dict[str, NDArray[Any]] | None:
        """The arrays by name; None where the classifier cannot be stored."""
        own = self.classifier.state()
        return None if own is None else own | self.calibration | {"offset": np.array(self.offset)}


@dataclass(frozen=True, eq=False)
class LearnedCounter(PlainCounter):
    """Counts by the scores of a model that may be stored."""

    model: LearnedModel

    def score(self, outputs: Outputs) -> Floats:
        """L̂ of each output."""
        return self.model.score(outputs)

    def state(self) -> dict[str, NDArray[Any]] | None:
        """The model's arrays; None where it cannot be stored, and each task must learn for itself."""
        return self.model.state()


@dataclass(frozen=True)
class Learned:
    """The estimator of L by a classifier: equal samples and seed give equal bits, on processors of one kind, by any threads."""

    parameters: LearnedParameters = field(default_factory=LearnedParameters)
    serves_any_thresholds: ClassVar[bool] = True

    def fit(self, p: Side, q: Side) -> LearnedModel:
        """Learn from training outputs of D (p) and D' (q), numbers of one shape and kind; HpcdpError where it cannot."""
        try:
            refuse_strings("learned", p.outputs.dtype == object)
        except ValueError as error:
            raise StudyError(f"estimate.{error}") from None
        if min(p.size, q.size) < FEWEST_LEARNED:
            raise MechanismError(
                f"learned needs at least {FEWEST_LEARNED} training outputs per database; there are {p.size} and {q.size}"
            )
        with Blamed(f"the classifier {self.parameters.classifier}: fit", HpcdpError, MemoryError), library_threads(1):
            return self._fit(p, q)

    def _fit(self, p: Side, q: Side) -> LearnedModel:
        given = self.parameters
        rng = np.random.default_rng(given.seed)
        parts = [rng.permutation(side.size) for side in (p, q)]
        held = [part[:0] for part in parts]
        if given.calibrate:
            held, parts = _split(parts, given.held_out)
        learn = _LEARNERS.get(given.classifier, _learn_estimator)
        classifier, sizes = learn(given, p, q, parts)
        calibration: Calibration = {}
        if given.calibrate:
            scores, is_other = _score_batches(classifier, _batches(p, q, held, _ESTIMATOR_ROWS))
            calibration, sizes = learn_calibration(given.calibrate, scores, is_other), _sizes(held)
        offset = log(sizes[1]) - log(sizes[0]) + log(p.size) - log(p.draws) - log(q.size) + log(q.draws)
        return LearnedModel(classifier, calibration, offset, _at_once(given))

    def restore(self, state: Mapping[str, NDArray[Any]], thresholds: Floats) -> LearnedCounter:
        """The counter whose `state` this is; DamagedError where the estimator is of other versions, or cannot be read."""
        return LearnedCounter(self.restore_projection(state), thresholds)

    def restore_projection(self, state: Mapping[str, NDArray[Any]]) -> LearnedModel:
        """The projection whose `state` this is; raises as `restore` does."""
        name = self.parameters.classifier
        classifier: Classifier
        if name == "mlp":
            classifier = Network.restore(state)
        elif name == "logistic":
            classifier = Additive.restore(state)
        else:
            classifier = Estimator.restore(state, *_estimator_path(name))
        calibration = {name: state[name] for name in _CALIBRATIONS if name in state}
        return LearnedModel(classifier, calibration, float(state["offset"]), _at_once(self.parameters))


def _split(parts: list[Ints], fraction: float) -> tuple[list[Ints], list[Ints]]:
    """Disjoint parts of both sides: a fraction, of at least one output, and the rest."""
    sizes = [max(1, round(fraction * part.size)) for part in parts]
    return [a[:n] for a, n in zip(parts, sizes, strict=True)], [a[n:] for a, n in zip(parts, sizes, strict=True)]


def _sizes(parts: list[Ints]) -> tuple[int, int]:
    return parts[0].size, parts[1].size


def _batches(p: Side, q: Side, parts: list[Ints], rows: int = _ROWS) -> Batches:
    """The named outputs of both sides, mixed in proportion, about so many rows at a time."""
    number = -(-(parts[0].size + parts[1].size) // rows)

    def batches() -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
        for a, b in zip(*(np.array_split(part, number) for part in parts), strict=True):
            outputs = np.concatenate([as_rows(p.outputs[a]), as_rows(q.outputs[b])])
            yield outputs, np.repeat([False, True], [a.size, b.size])

    return batches


def _score_batches(classifier: Classifier, batches: Batches) -> tuple[Floats, NDArray[np.bool_]]:
    scored = [(_scores(classifier, {}, rows), is_other) for rows, is_other in batches()]
    return np.concatenate([s for s, _ in scored]), np.concatenate([is_other for _, is_other in scored])


def _scores(classifier: Classifier, calibration: Calibration, rows: Floats) -> Floats:
    with Blamed("the classifier: its scores", HpcdpError, MemoryError):
        return calibrated(calibration, classifier.logits(rows))


def _at_once(parameters: LearnedParameters) -> int:
    return _ESTIMATOR_ROWS if parameters.is_pickled else _ROWS


def _learn_mlp(given: LearnedParameters, p: Side, q: Side, parts: list[Ints]) -> tuple[Network, tuple[int, int]]:
    options = dict(given.options)
    judges, learners = _split(parts, options.pop("validation_fraction"))
    train = _batches(p, q, learners)
    additive = learn_additive(_columns(p, q, learners, options.pop("steps")), train, options.pop("penalty"))
    return learn_network(additive, train, _batches(p, q, judges), options, given.seed), _sizes(judges)


def _learn_logistic(given: LearnedParameters, p: Side, q: Side, parts: list[Ints]) -> tuple[Additive, tuple[int, int]]:
    columns = _columns(p, q, parts, given.options["steps"])
    return learn_additive(columns, _batches(p, q, parts), given.options["penalty"]), _sizes(parts)


def _columns(p: Side, q: Side, parts: list[Ints], steps: int) -> Columns:
    """Columns of the outputs that are learned from; their numbers are in random order, so the first ones are a sample."""
    return Columns.learn(p.outputs[parts[0][:SAMPLE]], q.outputs[parts[1][:SAMPLE]], steps)


def _learn_estimator(
    given: LearnedParameters, p: Side, q: Side, parts: list[Ints]
) -> tuple[Estimator, tuple[int, int]]:
    path, is_log_odds = _estimator_path(given.classifier)
    options = given.options | ({"early_stopping": True} if is_log_odds else {})
    rows = np.concatenate([as_rows(side.outputs[part]) for side, part in zip((p, q), parts, strict=True)])
    is_other = np.repeat([False, True], [part.size for part in parts])
    fitted = make_estimator(path, options, given.seed).fit(rows, is_other.astype(np.int64))
    return Estimator(fitted, path, is_log_odds), _sizes(parts)


def _estimator_path(name: str) -> tuple[str, bool]:
    """The import path of an estimator, and whether its decision_function is known to be log-odds."""
    return (BOOSTING, True) if name == "gradient-boosting" else (name, False)


_LEARNERS: Mapping[str, Callable[..., tuple[Any, tuple[int, int]]]] = {"mlp": _learn_mlp, "logistic": _learn_logistic}
