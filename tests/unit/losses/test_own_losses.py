"""What a user's own loss gives is looked at before anything rests on it; each refusal names the loss and what it did."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from hpcdp.errors import MechanismError
from hpcdp.losses._own import make_own
from hpcdp.losses.protocol import Loss

OUTPUTS = np.linspace(0.0, 1.0, 5)
THRESHOLDS = np.array([0.0])


class Gives:
    """A loss, its model and its counter in one, which gives these."""

    def __init__(self, scores: Any, arrays: Any) -> None:
        self.scores, self.arrays = scores, arrays

    def fit(self, *_: Any) -> Gives:
        return self

    restore = counter = fit

    def count(self, _: Any) -> Any:
        return np.array([0, 0, 5])

    def score(self, _: Any) -> Any:
        return self.scores

    def state(self) -> Any:
        return self.arrays


def own(scores: Any = None, state: Any = None) -> Any:
    """The loss that gives these, at arm's length."""
    return make_own(lambda: cast(Loss, Gives(scores, state)), "own:Loss")


@pytest.mark.parametrize(
    "score, words",
    [
        (None, "a NoneType"),
        (np.zeros(3), r"float64 of shape \(3,\)"),
        (np.zeros((5, 1)), r"float64 of shape \(5, 1\)"),
        (np.array([0.0, 1.0, np.nan, 2.0, 3.0]), "a NaN"),
        (np.array(list("abcde")), r"<U1 of shape \(5,\)"),
        ([True] * 5, "a list"),
    ],
)
def test_scores_that_are_none(score: Any, words: str) -> None:
    model = own(score).fit(None, None)
    for scored in (model, model.counter(THRESHOLDS)):
        with pytest.raises(
            MechanismError, match=f"^estimate.loss: own:Loss: score gave {words} for 5 outputs; accepted: 5"
        ):
            scored.score(OUTPUTS)


def test_scores_that_are_right() -> None:
    model = own([1, 2, 3, 4, -5]).fit(None, None)
    assert model.score(OUTPUTS).tolist() == [1.0, 2.0, 3.0, 4.0, -5.0]
    infinite = own(np.array([np.inf, -np.inf, 0.0, 1.0, 2.0])).fit(None, None).counter(THRESHOLDS)
    assert infinite.score(OUTPUTS)[0] == np.inf


@pytest.mark.parametrize(
    "state, words",
    [
        ({"../../evil": np.zeros(1)}, r"'../../evil': float64 of shape \(1,\)"),
        ({3: np.zeros(1)}, r"3: float64 of shape \(1,\)"),
        ({"w": "text"}, "'w': a str"),
        ({"w": np.array([object()])}, r"'w': object of shape \(1,\)"),
        ({"": np.zeros(1)}, "''"),
        ([1.0], "raised AttributeError"),
    ],
)
def test_states_that_are_none(state: Any, words: str) -> None:
    with pytest.raises(MechanismError, match=f"^estimate.loss: own:Loss: state (gave )?{words}"):
        own(state=state).fit(None, None).counter(THRESHOLDS).state()


def test_states_that_are_right() -> None:
    assert own(state=None).fit(None, None).counter(THRESHOLDS).state() is None
    found = own(state={"w": 2.0, "b_1": np.arange(3)}).fit(None, None).counter(THRESHOLDS).state()
    assert {key: value.tolist() for key, value in found.items()} == {"w": 2.0, "b_1": [0, 1, 2]}
