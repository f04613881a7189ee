"""`estimate.certify`: the level goes to the cells of some ε alone, and bounds at the others are what these imply."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, show
from journals import records
from studies import learn_and_count, make_study, pose

from hpcdp.errors import StudyError
from hpcdp.notions.bounds import binomial_lower, binomial_upper, joint_lower
from hpcdp.results.load import assemble

EPSILONS = [0.0, 0.3, 0.8, 1.5, 3.0]


def test_bounds_are_the_tests_at_these_epsilons_and_what_they_imply() -> None:
    study = make_study(
        "laplace", {"scale": 1.0}, [([0.0], [1.0])], seed=7, epsilons=EPSILONS, certify=[0.3, 1.5], keep="none",
        train=2000, test=50_000,
    )  # fmt: skip
    problem = pose(study)
    index, _ = learn_and_count(problem)
    arrays = {name: values[0] if values.ndim > 1 else values for name, (_, values) in assemble(problem, index).items()}
    lower = arrays["lower"]
    assert arrays["level"].sum() == pytest.approx(0.05)
    assert not arrays["level"][:, [0, 2, 4]].any()
    for direction in (0, 1):
        (a, n), (b, m) = (zip(*(arrays[k][direction, c] for c in (1, 3)), strict=True) for k in ("exceed", "test"))
        x0, x1, n0, n1 = np.array(a), np.array(n), np.array(b), np.array(m)
        level, c = arrays["level"][direction, [1, 3]], np.exp([0.3, 1.5])
        own = np.maximum(0, joint_lower(x0, n0, x1, n1, c, level))
        low, high = (limit(x1, n1, level / 40) for limit in (binomial_lower, binomial_upper))  # which it pays for
        for column, wanted in enumerate(np.exp(EPSILONS)):
            sets = own - np.where(wanted > c, np.minimum(high, (1 - own) / c), low) * (wanted - c)
            expected = max(0.0, sets[own > 0].max())
            assert lower[direction, column] == pytest.approx(expected, rel=1e-12)
            assert lower[direction, column] <= expected
        assert (lower[direction, [1, 3]] >= own).all()


STUDY = """
[study]
name = "s"
seed = 5
claim = "laplace(epsilon=1)"
[mechanism]
call = "laplace"
parameters = { epsilon = 1.0 }
[pairs]
given = [{ d = [0.0], d_prime = [1.0] }]
[estimate]
train = 20_000
test = 20_000
epsilons = [0.0, 0.25, 0.5, 0.75, 1.0]
"""


@pytest.fixture(name="ran")
def ran_fixture(tmp_path: Path) -> Callable[[str], Path]:
    """Run a study into one store, again and again."""

    def run(text: str) -> Path:
        (tmp_path / "s.toml").write_text(text)
        call("run", tmp_path / "s.toml", "--store", tmp_path / "s.zarr", "--workers", 0, "--no-plot")
        return tmp_path / "s.zarr"

    return run


@pytest.mark.slow
def test_a_store_goes_on_with_other_epsilons(ran: Callable[[str], Path]) -> None:
    """Nothing is drawn or counted; the bounds are a new family, which is said; and without the key they are what they were."""
    store = ran(STUDY)
    whole = json.loads(show(store))
    assert not any("certified" in cell for cell in [*whole["cells"], *whole["spectrum"]])
    counted = records(store, "counts")
    ran(f"{STUDY}certify = [0.5]\n")
    shares = "10 entries: (pair, direction, ε), of which 2 share the level (estimate.certify)"
    assert shares in call("plan", store.with_name("s.toml")).stdout
    assert records(store, "counts") == counted
    text = call("show", store).stdout
    assert "† implied by the bounds at ε = 0.5 (estimate.certify)" in text
    assert "This is a new estimate" in text
    assert [line.count("†") for line in re.findall(r"^ *[\d.]+ .*", text, re.MULTILINE)] == [1, 1, 0, 1, 1]
    some = json.loads(show(store))
    assert [cell["certified"] for cell in some["cells"]] == [False, False, True, False, False] * 2
    assert [row["certified"] for row in some["spectrum"]] == [False, False, True, False, False]
    bounds = ("certified", "lower", "resolved")
    for before, after in zip(whole["cells"], some["cells"], strict=True):
        assert [{k: v for k, v in cell.items() if k not in bounds} for cell in (before, after)] == [
            {k: v for k, v in before.items() if k not in bounds}
        ] * 2
    levels = [row["lower"] for row in some["spectrum"]]
    assert levels == sorted(levels, reverse=True)
    # the cells at 0.5 have all of the level
    assert levels[2] >= max(some["cells"][7]["lower"], whole["spectrum"][2]["lower"])
    rows = list(csv.DictReader(io.StringIO(call("show", store, "--format", "csv").stdout)))
    assert [row["certified"] for row in rows] == ["false", "false", "true", "false", "false"] * 2
    limit = json.loads(call("show", store, "--delta", "0.1", "--format", "json").stdout)
    assert limit["levels"][0]["epsilon"] == 0.5  # of the only cell with a bound of its own
    ran(STUDY)
    assert json.loads(show(store))["cells"] == whole["cells"]
    assert "certified at ε = 0.5" in call("show", store).stdout


def test_a_gap_at_another_epsilon_is_not_promised_to_be_separated(ran: Callable[[str], Path]) -> None:
    store = ran(f"{STUDY}certify = [1.0]\n".replace("epsilon=1)", "epsilon=0.98)"))
    claim = ("verify", store, "--claim", "laplace(epsilon=0.95)")
    text = " ".join(call(*claim).stdout.split())
    assert "not separable" in text
    assert "That ε has no bound of its own (estimate.certify)" in text
    found = json.loads(call(*claim, "--format", "json").stdout)["separation"]
    assert found["epsilon"] != 1.0
    assert found["test"] is None


@pytest.mark.parametrize(
    "estimate, words",
    [
        ({"certify": [0.55]}, "certify: some of the epsilons; given: 0.55"),
        ({"certify": []}, "at least one point"),
        ({"certify": 0.5}, "a grid is a list"),
        ({"certify": [0.5], "reuse": True}, "estimate.reuse = True was given with estimate.certify"),
        ({"certify": [0.5], "loss": "literal-knn"}, "estimate.loss = 'literal-knn' was given with estimate.certify"),
    ],
)
def test_what_is_refused(estimate: dict[str, Any], words: str) -> None:
    given = {"epsilons": [0.5, 1.0], "train": 100, "test": 100, **estimate}
    with pytest.raises(StudyError, match=re.escape(words)):
        make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, **given)
