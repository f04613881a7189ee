"""What speaks against a random tape's estimate is told, with counts, and asks for no endless draws; else nothing is."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from results import changed
from studies import make_study, run

from benchmarks.tape_hidden import find
from hpcdp.importance.plan import Choice
from hpcdp.importance.result import fallen_words, unexplained_words
from hpcdp.importance.training import Direction, Taught, draws_for
from hpcdp.report.notions import text
from hpcdp.results.result import Result
from hpcdp.store.records import read_records
from hpcdp.store.root import open_layout

EPSILONS = np.array([0.0, 1.0])


def _direction(heavy: int, size: int = 10_000, by_loss: list[float] | None = None) -> Direction:
    """P(S) = 10⁻⁴ told by all draws; Q(S) = 10⁻⁵ too, but for so many that each have weight 1."""
    classes, shares = np.full(size, 2), np.full(size, 1.0 / size)
    weights = np.full(size, 1e-5)
    weights[:heavy] = 1.0
    p, q = Taught(classes, np.full(size, 1e-4), shares, 8.0), Taught(classes, weights, shares, 8.0)
    return Direction(p, q, EPSILONS, None if by_loss is None else np.array(by_loss))


def test_draws_that_carry_all_are_told_and_ask_for_no_more_than_training_can_tell() -> None:
    assert _direction(0).unexplained == {}
    for heavy in (1, 3, 20):
        found = _direction(heavy)
        q = heavy * 1e-4 + (10_000 - heavy) * 1e-9
        worth = q * q / (heavy * 1e-8 + (10_000 - heavy) * 1e-18)
        assert {column: reached for column, (reached, _) in found.unexplained.items()} == {0: 10_000, 1: 10_000}
        assert found.unexplained[1][1] == pytest.approx(worth, rel=1e-9)
        # δ as L̂ tells it would have taken all that is allowed
        told = _direction(heavy, by_loss=[1e-4, 1e-4])
        assert draws_for(told, 1, 0.04, 1e-3, 4096, 10**12) <= 1 << 20
    assert _direction(100).unexplained == {}  # so many tell Q(S) well
    lawful = _direction(0, by_loss=[1e-4, 1e-4])
    assert draws_for(lawful, 1, 1e-4, 1e-3, 4096, 10**12) >= lawful.variance[1] / (1e-4 * lawful.delta[1]) ** 2


def test_plain_counts_are_no_riddle() -> None:
    """Sixty draws of P in S and three of Q, all plain: chance, which standard errors tell."""
    classes = np.zeros(100_000, np.int64)
    classes[:60] = 2
    few = np.zeros(100_000, np.int64)
    few[:3] = 2
    ones, shares = np.ones(100_000), np.full(100_000, 1e-5)
    assert Direction(Taught(classes, ones, shares, 1.0), Taught(few, ones, shares, 1.0), EPSILONS).unexplained == {}


@pytest.mark.slow
def test_a_region_that_training_met_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """D′ returns, with probability 10⁻⁴, what D returns in the best set: of 32,768 plain draws some meet it. δ is 0 then."""
    figures = find(1e-7, 1e-4, 31)
    assert figures["truth"] == 0.0
    assert figures["lower"] == figures["lower_up_to_leftover"] == 0.0
    printed = " ".join(capsys.readouterr().out.split())
    assert "draws of D′ that taught lie in the set" in printed or "plain draws of D′ lie in the leftover" in printed
    assert figures["seconds"] < 300.0  # and no target.most of 10¹² draws


@pytest.fixture(scope="module")
def lawful(tmp_path_factory: pytest.TempPathFactory) -> Result:
    given = {"tape": True, "train": 8192, "epsilons": [0.0, 1.0, 2.0, 3.0], "certify": [3.0]}
    given["target"] = {"epsilon": 3.0, "relative_error": 0.1, "most": 1_000_000}
    study = make_study("gaussian", {"sigma": 1.0}, [([0.0], [1.0])], seed=32, loss="auto", **given)
    return run(study, tmp_path_factory.mktemp("lawful") / "one.zarr", lambda: None)  # type: ignore[arg-type,return-value]


@pytest.mark.slow
def test_nothing_is_told_of_a_law_without_a_region(lawful: Result) -> None:
    assert unexplained_words(lawful.arrays) == fallen_words(lawful.arrays) == ()
    assert lawful.method.warnings(lawful.arrays) == ()
    (record,) = [body for _, body in read_records(open_layout(lawful.store), "fits") if isinstance(body, dict)]
    (entry,) = record["entries"]
    choice = Choice.from_dict(entry["choice"])
    assert json.loads(json.dumps(asdict(choice))) == entry["choice"]
    odd = replace(choice, unexplained=(((3, 10_000, 1.5),), ()))
    assert Choice.from_dict(json.loads(json.dumps(asdict(odd)))) == odd
    assert odd.key("a") != choice.key("a")


@pytest.mark.slow
def test_words_have_the_counts_and_are_in_pages_and_json(lawful: Result) -> None:
    reached, worth = lawful["training_reached"].copy(), lawful["training_worth"].copy()
    reached[0, 1, -2:], worth[0, 1, -2:] = (7_531, 9_999), (1.26, 2.0)
    told = changed(lawful, training_reached=reached, training_worth=worth)
    epsilons = lawful["epsilon"]
    (words,) = unexplained_words(told.arrays)
    assert words.startswith(
        f"pair 0, reverse, ε = {epsilons[-2]:g} to {epsilons[-1]:g} (2 of them): 7,531 draws of D that"
    )
    assert "only as 1.3 plain ones" in words
    assert words in " ".join(text(told).replace("WARNING: ", "").split())
    assert words in json.loads(told.to_json())["warnings"]
    delta, error = lawful["delta"].copy(), lawful["standard_error"].copy()
    delta[0, 0, -1], error[0, 0, -1] = 0.0, 100.0 * lawful["training_error"][0, 0, -1]
    (words,) = fallen_words(changed(lawful, delta=delta, standard_error=error).arrays)
    assert words.startswith(f"pair 0, forward, ε = {epsilons[-1]:g}: training estimated δ = ")
    assert "few draws of D′ carry much of it" in words
