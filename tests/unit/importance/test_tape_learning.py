"""Random tapes learn: fits are likeliest, shares best, δ of 10⁻¹⁰ is reached, and nothing is gained where nothing can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import hpcdp
from benchmarks import tape as bench
from hpcdp import Study
from hpcdp.importance.chains import is_score
from hpcdp.importance.fit import fit
from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import Proposal, is_chained
from hpcdp.importance.levels import learn
from hpcdp.importance.mixtures import Goal
from hpcdp.importance.pool import Elite, Pool
from hpcdp.importance.training import Direction, Taught, draws_for

Floats = NDArray[np.float64]


def _elite(draw: Callable[[Tape], Any], size: int = 20_000, seed: int = 1) -> tuple[Elite, Any]:
    """All outputs of a plain tape, with weights that differ."""
    tape = Tape(seed, Proposal.plain(), size, True)
    values = draw(tape)
    weights = np.random.default_rng(seed + 1).random(size)
    return Elite(tape, np.arange(size), weights, np.asarray(values, np.float64)), values


def test_tilts_are_likeliest() -> None:
    """The likeliest tilt keeps the mean that was found, as if e^(x/2) were wanted."""
    elite, x = _elite(lambda tape: tape.exponential(1.0, tape.size))
    weights = elite.weights * np.exp(0.5 * x)
    ((_, found),) = fit([replace(elite, weights=weights)])
    np.testing.assert_allclose(found["exponential"][0, 0], weights @ x / weights.sum(), rtol=1e-12)


def test_a_shifted_normal_is_one_mode_and_two_tails_are_two() -> None:
    elite, x = _elite(lambda tape: tape.standard_normal(tape.size))
    ((share, found),) = fit([replace(elite, weights=np.exp(1.2 * x))])
    weights = np.exp(1.2 * x)
    assert share == 1.0
    np.testing.assert_allclose(found["normal"][0, 0], weights @ x / weights.sum(), rtol=1e-9)
    two = fit([replace(elite, weights=np.where(np.abs(x) > 2.0, 1.0, 0.0))])
    assert sorted(np.sign(component["normal"][0, 0]) for _, component in two) == [-1.0, 1.0]
    assert sum(share for share, _ in two) == pytest.approx(1.0)


def _draw_of(laws: tuple[Any, Any], seed: int) -> Any:
    def draw(side: int, proposal: Proposal, size: int, call: int) -> tuple[Floats, Tape]:
        tape = Tape(np.random.SeedSequence([seed, side, call]), proposal, size, True)
        return np.asarray(laws[side](tape), np.float64), tape

    return draw


def _aims(columns: int) -> Any:
    return lambda _: [(d, columns - 1) for d in (0, 1)]


@pytest.mark.slow
def test_equal_laws_and_all_alike_and_one_epsilon() -> None:
    """δ = 0 everywhere, outputs that are one value, ε = 0 alone: something is learned, and weights have mean 1."""
    for laws in (
        (lambda tape: tape.standard_normal(tape.size),) * 2,
        (lambda tape: 0.0 * tape.standard_normal(tape.size),) * 2,
        (lambda tape: tape.standard_normal(tape.size), lambda tape: 100.0 + tape.standard_normal(tape.size)),
    ):
        for epsilons in (np.array([0.0]), np.linspace(0.0, 2.0, 100)):
            found = learn(_draw_of(laws, 5), Goal(epsilons, _aims(epsilons.size)), 4096, 4096)
            for side in found.sides:
                assert (side.weights @ side.shares) == pytest.approx(1.0, abs=0.2)
            assert not np.isnan(found.losses).any()


EPSILONS = np.array([0.0, 0.3, 0.5])


def _with_chains(laws: tuple[Any, Any], answers: list[float], main: float = 0.0) -> tuple[bool, list[float]]:
    """Whether proposals have chains where these are asked for in turn, and which answers are left."""
    left = list(answers)
    found = learn(_draw_of(laws, 6), Goal(EPSILONS, _aims(3), main=main), 4096, 4096, asks=lambda _: left.pop(0))
    tables = [(kind, table) for one in found.sides for kind, table in one.proposal.tables.items()]
    return any(is_chained(kind, table) for kind, table in tables), left


@pytest.mark.slow
@pytest.mark.parametrize("places", [1, 2])
def test_chains_come_first_where_a_score_tells_outputs(places: int) -> None:
    """Proposals without them are tried only where more is asked for than may be drawn; the fewer draws decide. With a
    certificate, whose bets know of no strata, it is the other way round.
    """

    def sum_(tape: Tape) -> Any:
        return tape.geometric(0.6, (tape.size, places)).sum(axis=1)

    laws = (lambda tape: 1.0 + sum_(tape)), sum_
    assert _with_chains(laws, [0.9]) == (True, [])
    assert _with_chains(laws, [1.1, 0.9]) == (False, [])
    assert _with_chains(laws, [1.1, 1.2]) == (True, [])
    if places > 1:
        assert _with_chains(laws, [0.9], 0.9) == (False, [])
        assert _with_chains(laws, [1.1, 0.9], 0.9) == (True, [])
    else:  # and of one place never
        assert _with_chains(laws, [1.1], 0.9) == (False, [1.1])


@pytest.mark.parametrize(
    "draw, told",
    [
        (lambda tape: 2.0 * tape.standard_normal((tape.size, 3)) @ [1.0, -0.5, 0.2] + 7.0, True),
        (lambda tape: np.expm1(tape.standard_normal(tape.size)), True),
        (lambda tape: np.maximum(0.0, tape.laplace(size=tape.size) - 1.0), True),
        (lambda tape: np.abs(tape.standard_normal(tape.size)), False),
        (lambda tape: np.exp(tape.standard_normal((tape.size, 2))).sum(axis=1), False),
        (lambda tape: tape.standard_normal(tape.size) + tape.integers(0, 2, tape.size), False),
        (lambda tape: tape.standard_normal(tape.size) + tape.exponential(size=tape.size), False),
        (lambda tape: tape.gamma(2.0, 1.0, tape.size), True),
        (lambda tape: tape.gamma(2.0, 1.0, (tape.size, 2)).sum(axis=1), False),
    ],
)
def test_what_a_score_tells(draw: Any, told: bool) -> None:
    tape = Tape(4, Proposal.plain(), 5_000, True)
    assert is_score(tape, np.asarray(draw(tape), np.float64)) == told


def test_the_pool_weighs_by_all_components() -> None:
    """E w = 1 and E w x = 0 of a standard normal, drawn twice from a mixture and once from another component."""
    pool, tables = Pool(), [np.array([[3.0, 1.0]]), np.array([[-3.0, 1.0]]), np.array([[1.0, 2.0]])]
    counts = np.zeros(4)
    for number, (shares, calls) in enumerate(([[0.5, 0.25, 0.25], 2], [[0.25, 0.75], 1])):
        own = tables[:2] if number == 0 else tables[2:]
        numbers = [0, *pool.add([{"normal": table} for table in own])]
        proposal = Proposal(np.array(shares), {"normal": np.stack([np.array([[0.0, 1.0]]), *own])})
        draws = []
        for call in range(calls):
            tape = Tape(np.random.SeedSequence([11, number, call]), proposal, 20_000, True)
            draws.append((np.asarray(tape.standard_normal(20_000)), tape))
            counts[numbers] += 20_000 * np.array(shares)
        pool.take(draws, numbers)
    weights, x = pool.weights(), np.concatenate(pool.outputs)
    exact = sum(
        n * stats.norm.pdf(x, *law) for n, law in zip(counts, [(0.0, 1.0), *(t[0] for t in tables)], strict=True)
    )
    np.testing.assert_allclose(weights, counts.sum() * stats.norm.pdf(x) / exact, rtol=1e-9)
    for values, truth in ((np.ones(x.size), 1.0), (x, 0.0), (x * x, 1.0)):
        error = float((weights * values).std()) / np.sqrt(x.size)
        assert abs(float((weights * values).mean()) - truth) < 5.0 * error  # false alarm: 6e-7 each


def test_draws_where_nothing_is_told() -> None:
    nothing = Taught(np.zeros(100, np.int64), np.zeros(100), np.full(100, 0.01), 8.0)
    direction = Direction(nothing, nothing, np.array([0.0, 1.0]))
    for column in (0, 1):
        assert draws_for(direction, column, 0.1, 1e-3, 4096, 10**5) == 10**5
        cutoff, _ = direction.cutoff(column, 4096, 1e-3)
        assert all(np.isfinite(direction.bet(column, 4096, 1e-3, cutoff)))


@pytest.mark.parametrize("weight, share, is_larger", [(7.9, 1e-40, False), (7.9, 1e-6, True), (0.1, 1e-6, True)])
def test_draws_without_probability_set_no_cut_off(weight: float, share: float, is_larger: bool) -> None:
    """P(S) = 10⁻⁴, Q(S) = 10⁻⁵, told by draws that weigh a 10⁻⁴th, and one that weighs more."""
    classes, even = np.full(10_001, 1), np.append(np.full(10_000, 1e-5), share)
    p = Taught(classes, np.full(10_001, 1e-3), even, 8.0)
    direction = Direction(p, Taught(classes, np.append(np.full(10_000, 1e-4), weight), even, 8.0), np.array([0.0]))
    assert direction.near(0) == pytest.approx(2.0 * (weight if is_larger else 1e-4))
    lone = Direction(p, Taught(classes[-1:], np.array([weight]), np.array([1e-40]), 8.0), np.array([0.0]))
    assert lone.near(0) == pytest.approx(2.0 * weight)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "threshold",
        *(
            pytest.param(name, marks=pytest.mark.release)
            for name in ("gaussian 1/4", "gaussian 1", "mixture", "dp-sgd, forward", "dp-sgd, reverse")
        ),
    ],
)
def test_a_tenth_of_a_billionth_is_reached(name: str) -> None:
    """Seeds that nothing was tuned by; estimates at the last ε within 4 standard errors (false alarm 6e-5 each)."""
    figures = bench.estimate(name, 1e-10, seed=77_001)
    assert abs(figures["last off"]) < 4.0 * figures["last error"]
    assert figures["last error"] < 0.05


def around(database: NDArray[Any], size: int, rng: np.random.Generator) -> Floats:
    """Noise on a circle, which has no proposal."""
    return np.asarray(rng.vonmises(0.0, 1.0, size) + database[0])


@pytest.mark.slow
def test_noise_without_a_proposal_falls_back(tmp_path: Path) -> None:
    study = Study.from_dict(
        {
            "study": {"name": "learning", "seed": 77_002},
            "mechanism": {"call": "test_tape_learning:around"},
            "pairs": {"given": [{"d": [0.0], "d_prime": [0.5]}]},
            "estimate": {"tape": True, "epsilons": [0.0, 0.2], "train": 1 << 12, "test": 1 << 13},
        },
        Path(__file__).parent,
    )
    result = hpcdp.run(study, tmp_path / "learning.zarr", workers=0)
    assert result["tape_gain"].tolist() == [1.0]
    assert (result["leftover_draws"] == 0).all()
