"""Estimators with the interface of scikit-learn: made, checked on a few numbers, fitted, and turned into log-odds."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.raised import describe_raised, interruptions
from hpcdp._base.threads import library_threads
from hpcdp.losses._alone import has_equal_scores
from hpcdp.losses.learned._pickled import pack, unpack

Floats = NDArray[np.float64]

BOOSTING = "sklearn.ensemble:HistGradientBoostingClassifier"
_TRIAL = 200  # rows


@dataclass(frozen=True, eq=False)
class Estimator:
    """A fitted classifier; is_log_odds: whether its decision_function is log-odds, so that no probability is rounded."""

    fitted: Any
    path: str
    is_log_odds: bool

    @property
    def has_odds(self) -> bool:
        """Whether its scores are log-odds; what has only a decision_function needs calibration."""
        return self.is_log_odds or hasattr(self.fitted, "predict_proba")

    def logits(self, rows: Floats) -> Floats:
        """Log-odds of D' (or the decision value) of rows (size, d), shape (size,); ±inf at probabilities 0 and 1.

        Raises:
            ValueError: it gives not one score, or not two probabilities, for each row.
        """
        size = rows.shape[0]
        if self.is_log_odds or not hasattr(self.fitted, "predict_proba"):
            values = np.asarray(self.fitted.decision_function(rows), np.float64)
            if values.shape not in ((size,), (size, 1)):
                raise ValueError(f"decision_function gave shape {values.shape} for {size} rows; accepted: ({size},)")
            return values.reshape(-1)
        chances = np.asarray(self.fitted.predict_proba(rows), np.float64)
        if chances.shape != (size, 2):
            raise ValueError(f"predict_proba gave shape {chances.shape} for {size} rows; accepted: ({size}, 2)")
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(chances[:, 1]) - np.log(chances[:, 0])

    def state(self) -> dict[str, NDArray[Any]] | None:
        """The pickled estimator; None where it cannot be stored."""
        return self._packed

    @cached_property
    def _packed(self) -> dict[str, NDArray[Any]] | None:
        return pack(self.fitted, _packages(self.path))

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], path: str, is_log_odds: bool) -> Estimator:
        """The estimator that `state` came from."""
        return cls(unpack(state, _packages(path)), path, is_log_odds)


def _packages(path: str) -> set[str]:
    return {path.partition(":")[0].partition(".")[0]}


def make_estimator(path: str, options: Mapping[str, Any], seed: int) -> Any:
    """What the callable at "package.module:Class" makes of the options; every random_state left open is the seed.

    Raises:
        ValueError: it cannot be imported, or does not accept the options.
    """
    module, _, name = path.partition(":")
    try:
        target: Any = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
    except interruptions():
        raise
    except BaseException as error:
        raise ValueError(f"parameters.classifier: cannot import {path!r}: {describe_raised(error)}") from error
    if not callable(target):
        raise ValueError(f"parameters.classifier: a class; given: {path!r}, a {type(target).__name__}")
    _check_keywords(path, target, options)
    try:
        estimator = target(**options)
    except interruptions():
        raise
    except BaseException as error:
        raise ValueError(f"parameters.options: {path}: {describe_raised(error)}") from error
    if hasattr(estimator, "get_params"):
        own = estimator.get_params()
        open_states = {k: seed for k, v in own.items() if v is None and k.rpartition("__")[2] == "random_state"}
        if open_states:
            estimator.set_params(**open_states)
    return estimator


def _check_keywords(path: str, target: Any, options: Mapping[str, Any]) -> None:
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):  # some compiled classes have no signature
        return
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    unknown = sorted(set(options) - set(parameters))
    if unknown:
        accepted = ", ".join(parameters) or "none"
        raise ValueError(f"parameters.options: {', '.join(unknown)}: unknown; accepted by {path}: {accepted}")


def try_estimator(path: str, options: Mapping[str, Any], seed: int, calibrated: bool) -> None:
    """Fit the estimator to a few numbers in two columns, twice.

    Raises:
        ValueError: it fails, gives no score that can become log-odds, or gives other scores the second time.
    """
    estimator = make_estimator(path, options, seed)
    if not hasattr(estimator, "fit"):
        raise ValueError(
            f"parameters.classifier: {path!r} has no fit; accepted: a class like scikit-learn's classifiers"
        )
    rng = np.random.default_rng(seed)
    is_other = np.arange(_TRIAL) % 2 == 1
    rows, fresh = (rng.normal(size=(_TRIAL, 2)) + is_other[:, None] for _ in range(2))
    try:
        with warnings.catch_warnings(), library_threads(1):
            warnings.simplefilter("ignore")
            trained = Estimator(estimator.fit(rows, is_other.astype(np.int64)), path, False)
            if not trained.has_odds and not hasattr(trained.fitted, "decision_function"):
                raise ValueError("it has neither predict_proba nor decision_function")
            scores = trained.logits(fresh)
            again = make_estimator(path, options, seed).fit(rows, is_other.astype(np.int64))
            # Tasks that learn for themselves must agree, or the two sides would be counted by different sets.
            if not np.array_equal(Estimator(again, path, False).logits(fresh), scores, equal_nan=True):
                raise ValueError("learned twice from equal numbers, it gave different scores; it must be deterministic")
            # Not on the rows it learned from, which it may have kept and score by themselves.
            if not has_equal_scores(trained.logits, fresh):
                raise ValueError(
                    "it scores an output differently in another batch (reversed, in halves, singly); a score must depend on "
                    "the output and on what was learned alone"
                )
    except interruptions():
        raise
    except BaseException as error:  # a class that exits would take hpcdp along without a word
        raise ValueError(
            f"parameters.classifier: {path} with these options fails on {_TRIAL} trial outputs: "
            f"{describe_raised(error)}"
        ) from error
    if not trained.has_odds and not calibrated:
        raise ValueError(
            f"parameters.calibrate: {path} with these options has a decision_function but no predict_proba, and such a "
            'score is no log-odds; accepted: "platt", "isotonic"'
        )


def fit_estimator(path: str, options: Mapping[str, Any], seed: int, rows: Floats, is_other: NDArray[np.bool_]) -> Any:
    """The estimator fitted to rows (size, d) and whether each came from D'; raises whatever the estimator raises."""
    return make_estimator(path, options, seed).fit(rows, is_other.astype(np.int64))
