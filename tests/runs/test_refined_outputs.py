"""Refining of outputs that are no numbers on a line: strings, values, vectors."""

import json
import math

import numpy as np
import pytest
from commands import call, one_message, show, write_study

LETTERS = """
def noisy(database, size, rng):
    p = [0.4, 0.3, 0.2, 0.0999, 0.0001] if database.sum() > 1 else [0.5, 0.2, 0.25, 0.04999, 0.00001]
    return rng.choice(["a", "bb", "ccc", "", "rare"], size, p=p)
"""


def test_strings_need_a_loss_of_values(tmp_path):
    message = one_message(call("plan", write_study(tmp_path, LETTERS, refine=10, etas=[]), code=2))
    assert "estimate.refine: of such outputs" in message
    assert "accepted with loss = frequency; given: loss = knn" in message


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [4, 1 << 22])
def test_values_are_refined_by_more_draws(tmp_path, scheduler, distinct):
    """The rare string is told by refining draws, which training lacks."""
    sizes = {"train": 2000, "refine": 400_000, "test": 200_000, "chunk": 50_000, "keep": "none", "etas": []}
    settings = {"loss": "frequency", "databases": [[1.0, 1.0]], "epsilons": [0.0, 1.0, 2.0], **sizes}
    if distinct == 4:  # fewer classes than values: what shares a class counts together
        settings["pairs"] = "given = [{ d = [1.0, 1.0], d_prime = [1.0] }]\n[estimate.parameters]\ndistinct = 4"
    study, store = write_study(tmp_path, LETTERS, **settings), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    cells = {(c["direction"], c["epsilon"]): c for c in json.loads(show(store))["cells"] if c["pair"] == 0}
    if distinct > 4:
        # {rare, ""} at ε = 0 beside "bb"; only rare above ε = 2, with P = 1e-4 and Q = 1e-5
        assert cells["forward", 2.0]["exceed"] != [0, 0]
        truth = 0.0001 - math.exp(2.0) * 0.00001
        assert abs(cells["forward", 2.0]["delta"] - truth) < 5.5 * cells["forward", 2.0]["standard_error"]
    assert abs(cells["forward", 0.0]["delta"] - (0.1 + 0.04991 + 0.00009)) < (0.01 if distinct > 4 else 0.2)


CORNERS = """
def noisy(database, size, rng):
    signs = rng.choice([-1.0, 1.0], (size, 3))
    signs[:, 2] = signs[:, 0] * signs[:, 1] * (1.0 if database.sum() > 1 else -1.0)
    return 1.5 * signs + rng.normal(size=(size, 3))
"""


def corner_delta(epsilon):
    """δ of the two laws above and its standard error, from 10⁶ draws of D and the exact L."""
    rng = np.random.default_rng(5)
    signs = rng.choice([-1.0, 1.0], (10**6, 3))
    signs[:, 2] = signs[:, 0] * signs[:, 1]
    x = 1.5 * (1.5 * signs + rng.normal(size=signs.shape))
    # a product of cosh and sinh of the columns: cosh³ ± sinh³ are the densities over the normal one
    odd = np.tanh(x).prod(axis=1)
    gains = np.maximum(0.0, 1.0 - math.exp(epsilon) * (1.0 - odd) / (1.0 + odd))
    return gains.mean(), gains.std() / 1e3


@pytest.mark.slow
def test_vectors_that_no_quadratic_tells(tmp_path, scheduler):
    """L depends on the product of three columns: a classifier that can tell it brings them to the line."""
    found = {}
    for loss in ("smooth", "learned"):
        settings = {"databases": [[1.0, 1.0]], "epsilons": [0.0, 1.0], "etas": [], "loss": loss, "keep": "none"}
        sizes = {"train": 20_000, "refine": 50_000, "test": 100_000, "chunk": 50_000}
        if loss == "learned":
            settings["pairs"] = (
                "given = [{ d = [1.0, 1.0], d_prime = [1.0] }]\n[estimate.parameters]\nclassifier = 'gradient-boosting'"
            )
        study, store = write_study(tmp_path, CORNERS, **settings, **sizes), tmp_path / f"{loss}.zarr"
        call("run", study, "--store", store, "--cluster", scheduler)
        found[loss] = {c["epsilon"]: c for c in json.loads(show(store))["cells"] if c["direction"] == "forward"}
    for epsilon in (0.0, 1.0):
        exact, error = corner_delta(epsilon)
        learned, smooth = (found[loss][epsilon] for loss in ("learned", "smooth"))
        print(epsilon, exact, learned["delta"], learned["lower"], smooth["delta"])
        assert learned["lower"] <= exact + 4 * error
        assert learned["delta"] > 0.85 * exact
        assert smooth["delta"] < 0.7 * learned["delta"]  # third moments alone tell it something
