"""What methods take of a study, and what is said where one takes less."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdp import Study, StudyError
from hpcdp.study.combinations import METHODS, PLAIN, SPECIAL, method_named

STUDY: dict[str, Any] = {
    "study": {"name": "s", "seed": 1},
    "mechanism": {"call": "laplace", "parameters": {"epsilon": 1.0}},
    "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
}


def test_methods_take_options_that_there_are_and_each_is_taken_by_one():
    taken = {name: method_named(name).takes for name in METHODS}
    assert frozenset().union(*taken.values()) == PLAIN | SPECIAL


@pytest.mark.parametrize(
    "estimate, words",
    [
        (
            {"loss": "literal-knn", "renyi": [2.0]},
            "estimate.loss: estimate.loss = 'literal-knn' was given with estimate.renyi; accepted: ",
        ),
        (
            {"target": {"precision": 0.1}, "keep": "train"},
            "estimate.target.precision: estimate.target.precision was given with estimate.loss = 'auto'; accepted: "
            'estimate.target.precision with estimate.loss = "histogram"',
        ),
    ],
)
def test_a_refusal_says_where_the_option_is_accepted(estimate, words):
    with pytest.raises(StudyError) as error:
        Study.from_dict({**STUDY, "estimate": {"epsilons": [0.5], **estimate}})
    assert words in str(error.value)
    assert "with " in str(error.value).partition("accepted: ")[2]
