"""Cross-fitting: the estimate and its error are the stated sums; the error covers, and is less than a split's."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
from folding import CASES, count, cross_count, learn

from hpcdp.notions.prequential import crossfit_estimate, folds

RUNS = 300
PARTS = 5
SIZES = {"gaussian": 1600, "laplace": 1600, "integers": 25_600}  # the third needs outputs for each of 301 values


def test_the_folds_are_all_places_once_in_sizes_that_differ_by_one_at_most():
    for total, parts in ((2, 2), (17, 5), (100, 7)):
        cut = folds(total, parts)
        assert [place for fold in cut for place in fold] == list(range(total))
        assert len(cut) == parts
        assert {len(fold) for fold in cut} <= {total // parts, total // parts + 1}


def test_the_estimate_is_of_the_sums_and_its_error_that_of_the_pooled_rates():
    x0, n0 = np.array([[12, 0], [9, 1]]), np.array([[40, 40], [60, 60]])
    x1, n1 = np.array([[1, 9], [2, 9]]), np.array([[50, 50], [30, 30]])
    delta, error = crossfit_estimate(x0, n0, x1, n1, exp(0.5))
    assert delta[0] == pytest.approx(0.21 - exp(0.5) * 3 / 80)
    assert delta[1] == 0.0
    assert error[0] == pytest.approx(sqrt(0.21 * 0.79 / 100 + exp(1.0) * (3 / 80) * (77 / 80) / 80))


def test_inflations_and_folds_broadcast():
    delta, error = crossfit_estimate(np.ones((3, 2, 1), int), 9, np.ones((3, 1, 1), int), 9, np.array([1.0, 2.0, 3.0]))
    assert delta.shape == error.shape == (2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_standard_errors_cover_the_mean_of_the_folds_sets_and_half_of_the_outputs_have_more_error(name):
    law, loss, epsilon = CASES[name]
    size = SIZES[name]
    exact = float(law.curve.delta(np.array([epsilon]), "forward")[0])
    rng = np.random.default_rng(1)
    of_sets, of_truth, split = np.empty(RUNS), np.empty(RUNS), np.empty(RUNS)
    for run in range(RUNS):
        p, q = law.draw(rng, size)
        counts, sizes, models = cross_count(loss, p, q, epsilon, PARTS)
        delta, error = crossfit_estimate(counts[0], sizes, counts[1], sizes, exp(epsilon))
        masses = np.array([law.masses(model, epsilon) for model in models])
        of_sets[run] = (delta - (masses[:, 0] - exp(epsilon) * masses[:, 1]).mean()) / error
        of_truth[run] = delta - exact
        half = size // 2
        x0, x1 = count(learn(loss, p[:half], q[:half]), p[half:], q[half:], epsilon)
        split[run] = (x0 - exp(epsilon) * x1) / half - exact
    covered = (np.abs(of_sets) <= 1.96).mean()
    ratio = sqrt((of_truth**2).mean() / (split**2).mean())
    print(
        f"{name}: covered {covered:.3f}, mean {of_sets.mean():.2f}, sd {of_sets.std():.2f}, error of split × {ratio:.2f}"
    )
    noise = 4.0 * sqrt(0.95 * 0.05 / RUNS)
    assert 0.95 - noise <= covered
    assert of_sets.std() >= 0.8  # an error that is far too wide would cover as well
    assert ratio < 0.9


def test_refusals_name_what_is_accepted():
    for total, parts, message in (
        (4, 1, "count: 1 was given; accepted: an integer >= 2"),
        (4, 5, "total: 4 was given; accepted: an integer >= 5"),
    ):
        with pytest.raises(ValueError, match=message):
            folds(total, parts)
    for given, inflation, message in (
        (([1], [2], [1], [2]), 1.0, "a first axis of two or more folds"),
        ((1, 2, 1, 2), 1.0, "a first axis of two or more folds"),
        (([1, 3], [2, 2], [1, 1], [2, 2]), 1.0, "0 <= successes <= trials"),
        (([1, 1], [2, 2], [1, 1], [2, 2]), -1.0, "inflation"),
    ):
        with pytest.raises(ValueError, match=message):
            crossfit_estimate(*given, inflation)
