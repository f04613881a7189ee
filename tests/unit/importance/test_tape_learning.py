"""Random tapes learn: fits are likeliest, a score is known by what it tells, and draws are weighed by all components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hpcdp.importance.chains import is_score
from hpcdp.importance.fit import fit
from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import Proposal
from hpcdp.importance.pool import Elite, Pool


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
