"""Which entries of a random tape belong to which output is found out, refused, or needs no finding; never wrongly."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hpcdp.errors import MechanismError
from hpcdp.mechanisms._callable import CallableMechanism
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.mechanisms.tape.generator import Tape
from hpcdp.mechanisms.tape.kinds import PLAIN
from hpcdp.mechanisms.tape.ownership import Ownership, find_rows, same_rows
from hpcdp.mechanisms.tape.proposal import Proposal, join
from hpcdp.study.sampler import Sampler

Floats = NDArray[np.float64]

LAW = "0" * 32
NOTHING = np.zeros((1, 1))
MANY = 4_096  # outputs of a chunk


def sampler(function: Callable[..., Any], vectorised: bool = True) -> Sampler:
    mechanism = CallableMechanism(function, {}, vectorised)
    return Sampler(1, "tests:it", {}, mechanism, "", MANY)


def trial_of(function: Callable[..., Any], vectorised: bool = True, sizes: list[int] | None = None) -> Any:
    own = sampler(function, vectorised)

    def trial(size: int, seed: int, **how: Any) -> tuple[Outputs, Tape]:
        how.setdefault("proposal", Proposal.plain())
        if sizes is not None:
            sizes.append(size)
        return own.draw_tape(NOTHING, LAW, None, seed, size, None, **how)

    return trial


def tilted() -> Proposal:
    """Far out in both directions, of three places of normals and one of uniforms."""
    ways = [
        {"normal": np.array([[s, 1.2], [0.5 * s, 1.0], [-s, 1.1]]), "laplace": np.array([[0.5 + 0.2 * s, 1.5, 1.5]])}
        for s in (1.5, -1.5)
    ]
    return join(ways, np.array([0.5, 0.25, 0.25]), PLAIN)  # type: ignore[arg-type]


def check_weights(function: Callable[..., Any], found: Ownership, law: Any, vectorised: bool = True) -> None:
    """E w = 1 and E w·1{output ≤ x} = P(output ≤ x), within 4 standard errors, drawn as was found."""
    size = 40_000 if found.by_rows else 4_000
    outputs, tape = sampler(function, vectorised).draw_tape(
        NOTHING, LAW, "test", 3, size, None, proposal=tilted(), by_rows=found.by_rows, flat=found.flat
    )
    assert not tape.shared
    weights = np.exp(tape.log_weights(np.arange(size))[0])
    assert np.ptp(weights) > 0.1
    pairs = [(weights, 1.0)] + [(weights * (outputs <= law.ppf(q)), law.cdf(law.ppf(q))) for q in (0.05, 0.5, 0.95)]
    for values, exact in pairs:
        assert abs(values.mean() - exact) <= 4.0 * values.std() / math.sqrt(size)


NORMAL = stats.norm()


def column(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=size)


def rows_first(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=(size, 4)).sum(axis=1) / 2.0


def rows_last(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=(4, size)).sum(axis=0) / 2.0


def flat_rows(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=size * 3).reshape(size, 3) @ np.array([2.0, 1.0, 2.0]) / 3.0


def flat_columns(_: Any, size: int, rng: Any) -> Any:
    return np.array([2.0, 1.0, 2.0]) @ rng.normal(size=size * 3).reshape(3, size) / 3.0


def vectors(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=(size, 2))


def strings(_: Any, size: int, rng: Any) -> Any:
    return ["high" if x > 1.0 else "low" for x in rng.normal(size=size)]


def mixed_lengths(_: Any, size: int, rng: Any) -> Any:
    return [(float(x),) * int(1 + (x > 0.0)) for x in rng.normal(size=size)]


def student(_: Any, size: int, rng: Any) -> Any:
    return rng.standard_t(3, size=size)


def no_proposal_beside(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=size) + 1e-9 * rng.hypergeometric(5, 5, 5, size)


def spoils_its_noise(_: Any, size: int, rng: Any) -> Any:
    x = rng.normal(size=size)
    y = x.copy()
    x[...] = 9.0
    return y


def nothing_usually(_: Any, size: int, rng: Any) -> Any:
    """Released above 6 only."""
    x = rng.normal(size=size)
    return np.where(x > 6.0, x, -1.0)


BY_ROWS = {
    column: NORMAL, rows_first: NORMAL, rows_last: NORMAL, flat_rows: NORMAL, vectors: None, strings: None, mixed_lengths: None,
    student: stats.t(3), no_proposal_beside: NORMAL, spoils_its_noise: NORMAL, nothing_usually: None,
}  # fmt: skip


@pytest.mark.parametrize("mechanism", BY_ROWS)
def test_rows_are_found(mechanism: Any) -> None:
    found = find_rows(trial_of(mechanism), True, MANY)
    assert found == Ownership(True, "rows")
    law = BY_ROWS[mechanism]
    if law is NORMAL:
        check_weights(mechanism, found, law)


def test_columns_are_found() -> None:
    found = find_rows(trial_of(flat_columns), True, MANY)
    assert found == Ownership(True, "columns")
    check_weights(flat_columns, found, NORMAL)


def rolled(_: Any, size: int, rng: Any) -> Any:
    return np.roll(rng.normal(size=size), 1)


def rolled_when_far(_: Any, size: int, rng: Any) -> Any:
    """Of the next output where that is above 5, as no plain noise is in trials."""
    x = rng.normal(size=size)
    return np.where(np.roll(x, 1) > 5.0, np.roll(x, 1), x)


def nothing_but_rolled(_: Any, size: int, rng: Any) -> Any:
    """The next output's, released above 6 only."""
    x = np.roll(rng.normal(size=size), 1)
    return np.where(x > 6.0, x, -1.0)


def rolled_when_both_far(_: Any, size: int, rng: Any) -> Any:
    x = rng.normal(size=(size, 2))
    next_ = np.roll(x, 1, axis=0)
    return np.where((next_[:, 0] > 3.5) & (next_[:, 1] < -3.5), next_[:, 0], x[:, 0])


def in_order(_: Any, size: int, rng: Any) -> Any:
    return np.sort(rng.normal(size=size))


def of_the_mean(_: Any, size: int, rng: Any) -> Any:
    x = rng.normal(size=size)
    return x - x.mean() if size > 1 else x


def clipped_at_the_largest(_: Any, size: int, rng: Any) -> Any:
    """Another's noise matters to the largest one alone."""
    x = rng.normal(size=size)
    if size > 1:
        x[np.argmax(x)] = np.sort(x)[-2]
    return x


def shared_number(_: Any, size: int, rng: Any) -> Any:
    return 0.6 * rng.normal() + 0.8 * rng.normal(size=size)


def shared_plain_number(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=size) + 1e-9 * rng.hypergeometric(5, 5, 5)


def loop_inside(_: Any, size: int, rng: Any) -> Any:
    return [rng.normal() for _ in range(size)]


def redraws(_: Any, size: int, rng: Any) -> Any:
    """Below 3 in size: the others are drawn again."""
    x = rng.normal(size=size)
    while (bad := np.abs(x) > 3.0).any():
        x[bad] = rng.normal(size=bad.sum())
    return x


def redraws_all(_: Any, size: int, rng: Any) -> Any:
    """The same, of as many numbers as outputs: others' noise decides how many entries an output has."""
    x = rng.normal(size=size)
    while (bad := np.abs(x) > 3.0).any():
        x = np.where(bad, rng.normal(size=size), x)
    return x


def blocks_of(block: int) -> Callable[..., Any]:
    def in_blocks(_: Any, size: int, rng: Any) -> Any:
        return np.concatenate([rng.normal(size=min(block, size - start)) for start in range(0, size, block)])

    return in_blocks


def permuted_rows(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=size)[rng.permutation(size)]


def chosen_rows(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=size)[rng.choice(size, size, replace=False)]


def other_size(_: Any, size: int, rng: Any) -> Any:
    if size not in (1, MANY):
        raise ValueError("only 1 or a chunk")
    return rng.normal(size=size)


SAME = np.empty((1, 2))


def reuses_its_array(_: Any, size: int, rng: Any) -> Any:
    if size > 1:
        return [reuses_its_array(None, 1, rng).copy()[0] for _ in range(size)]
    rng.standard_normal(out=SAME)
    return SAME


TRUNCATED = stats.truncnorm(-3.0, 3.0)
ONE_BY_ONE = {
    rolled: NORMAL, rolled_when_far: NORMAL, nothing_but_rolled: None, rolled_when_both_far: NORMAL,
    in_order: NORMAL, of_the_mean: NORMAL,
    clipped_at_the_largest: NORMAL, shared_number: NORMAL, shared_plain_number: NORMAL, loop_inside: NORMAL, redraws: TRUNCATED,
    redraws_all: TRUNCATED, blocks_of(10): NORMAL, blocks_of(1_000): NORMAL, permuted_rows: NORMAL,
    chosen_rows: NORMAL, other_size: NORMAL,
    reuses_its_array: None,
}  # fmt: skip


@pytest.mark.parametrize("mechanism", ONE_BY_ONE)
def test_what_is_no_function_of_its_row_is_drawn_one_by_one(mechanism: Any) -> None:
    found = find_rows(trial_of(mechanism), True, MANY)
    assert found == Ownership(False)
    law = ONE_BY_ONE[mechanism]
    if law is not None:
        check_weights(mechanism, found, law)


def test_an_array_that_is_filled_again_is_copied() -> None:
    outputs, tape = sampler(reuses_its_array).draw_tape(
        NOTHING, LAW, "test", 3, 50, None, proposal=Proposal.plain(), by_rows=False
    )
    assert np.array_equal(outputs, tape.entries()[0].values)


def keeping(function: Callable[[list[Any], Any, int], Any]) -> Callable[..., Any]:
    kept: list[Any] = []

    def mechanism(_: Any, size: int, rng: Any) -> Any:
        return function(kept, rng, size)

    mechanism.__name__ = function.__name__
    return mechanism


def last_noise(kept: list[Any], rng: Any, size: int) -> Any:
    """The noise of the call before."""
    kept.append(rng.normal(size=size))
    return kept[-2] if len(kept) > 1 and kept[-2].size == size else kept[-1]


def noise_of_five_before(kept: list[Any], rng: Any, size: int) -> Any:
    kept.append(rng.normal(size=size))
    return kept[-6] if len(kept) > 5 and kept[-6].size == size else kept[-1]


def running_sum(kept: list[Any], rng: Any, size: int) -> Any:
    x = rng.normal(size=size)
    kept.append(float(x.sum()))
    return x + sum(kept)


def counter(kept: list[Any], rng: Any, size: int) -> Any:
    kept.append(0)
    return rng.normal(size=size) + len(kept)


def first_generator(kept: list[Any], rng: Any, size: int) -> Any:
    """Draws from the generator of the first call for ever."""
    kept.append(rng)
    return kept[0].normal(size=size)


def numpys_own(_: list[Any], rng: Any, size: int) -> Any:
    return rng.normal(size=size) + np.random.normal(size=size)  # noqa: NPY002


def secret(_: list[Any], rng: Any, size: int) -> Any:
    return rng.normal(size=size) + np.array([secrets.randbelow(1000) for _ in range(size)])


@pytest.mark.parametrize(
    "function", (last_noise, noise_of_five_before, running_sum, counter, first_generator, numpys_own, secret)
)
def test_what_is_kept_between_outputs_or_comes_from_elsewhere_is_refused(function: Any) -> None:
    with pytest.raises(
        MechanismError, match=r"depends on what the mechanism drew before|equal random tapes gave different outputs"
    ):
        find_rows(trial_of(keeping(function)), True, MANY)


@pytest.mark.parametrize("function", (numpys_own, secret))
def test_randomness_of_its_own_has_weight_one(function: Any) -> None:
    """Where the study says so; E w·1{output ≤ x} is then what both randomnesses make of it."""
    found = find_rows(trial_of(keeping(function)), False, MANY)
    assert found == Ownership(False, checked=False)
    if function is numpys_own:
        np.random.seed(4)  # noqa: NPY002  # so that the test fails every time or never
        check_weights(keeping(function), found, stats.norm(0.0, math.sqrt(2.0)))


def test_a_generator_of_an_earlier_tape_draws_plainly() -> None:
    """Outputs of later tapes are N(0, 1) with weight 1, although the first one is tilted."""
    mechanism = keeping(first_generator)
    own = sampler(mechanism)
    how: dict[str, Any] = {"proposal": tilted(), "by_rows": True}
    own.draw_tape(NOTHING, LAW, "test", 0, 4_000, None, **how)
    outputs, tape = own.draw_tape(NOTHING, LAW, "test", 1, 4_000, None, **how)
    assert stats.kstest(outputs, NORMAL.cdf).pvalue > 1e-6
    assert np.abs(tape.log_weights(np.arange(4_000))[0]).max() < 1e-15


def fails_at_first(kept: list[Any], rng: Any, size: int) -> Any:
    kept.append(rng)
    if len(kept) == 1:
        raise ValueError("not now")
    return kept[0].normal(size=size)


def test_a_generator_of_a_call_that_failed_draws_plainly() -> None:
    own = sampler(keeping(fails_at_first))
    how: dict[str, Any] = {"proposal": tilted(), "by_rows": True}
    with pytest.raises(MechanismError, match="not now"):
        own.draw_tape(NOTHING, LAW, "test", 0, 4_000, None, **how)
    outputs, _ = own.draw_tape(NOTHING, LAW, "test", 1, 4_000, None, **how)
    assert stats.kstest(outputs, NORMAL.cdf).pvalue > 1e-6


@pytest.mark.parametrize("vectorised", (True, False))
@pytest.mark.parametrize("by_rows", (True, False))
def test_mechanisms_that_return_generators_are_refused_or_spelt_and_no_crash(vectorised: bool, by_rows: bool) -> None:
    def lazy(_: Any, rng: Any, size: int = 1) -> Any:
        return (rng.normal() for _ in range(size))

    if by_rows and not vectorised:
        return
    with pytest.raises(MechanismError, match=r"generator|shape \(\)"):
        sampler(lazy, vectorised).draw_tape(NOTHING, LAW, "test", 0, 5, None, proposal=tilted(), by_rows=by_rows)


def test_one_output_a_call() -> None:
    def alone(_: Any, rng: Any) -> Any:
        return rng.normal()

    found = find_rows(trial_of(alone, vectorised=False), True, MANY)
    assert found == Ownership(False)
    check_weights(alone, found, NORMAL, vectorised=False)


def test_looks_reach_the_size_of_a_chunk_and_are_few() -> None:
    sizes: list[int] = []
    find_rows(trial_of(column, sizes=sizes), True)
    assert max(sizes) == 1 << 16
    assert sum(size == 1 << 16 for size in sizes) <= 4


def test_wild_noise_that_a_mechanism_cannot_bear_is_milder() -> None:
    def frail(_: Any, size: int, rng: Any) -> Any:
        x = rng.normal(size=size)
        if (np.abs(x) > 15.0).any():
            raise ValueError("too far")
        return x

    assert find_rows(trial_of(frail), True, MANY) == Ownership(True)


def nothing_ever(_: Any, size: int, rng: Any) -> Any:
    """Asks for noise, and releases nothing."""
    rng.normal(size=size)
    return np.full(size, -1.0)


def test_outputs_that_never_move_are_drawn_as_those_of_another_database() -> None:
    still, moving = (find_rows(trial_of(one), True, MANY) for one in (nothing_ever, nothing_usually))
    assert (still.by_rows, still.has_moved) == (True, False)
    assert same_rows([moving, still]) == same_rows([still, moving]) == Ownership(True, "rows")
    assert not same_rows([still]).by_rows
    assert not same_rows([still, Ownership(False)]).by_rows
    assert same_rows([Ownership(True, "columns"), still]) == Ownership(True, "columns")
    assert not same_rows([Ownership(True, "columns"), moving]).by_rows


def spawned(_: Any, size: int, rng: Any) -> Any:
    """A number that all outputs share, of a stream of its own."""
    return rng.normal(size=size) + rng.spawn(1)[0].normal()


def of_the_bits(_: Any, size: int, rng: Any) -> Any:
    return rng.normal(size=size) + np.random.Generator(rng.bit_generator).normal()


@pytest.mark.parametrize("mechanism", [spawned, of_the_bits])
def test_what_is_drawn_beside_the_generators_methods_may_be_shared(mechanism: Any) -> None:
    """Exchanged entries leave it as it is, so that no look sees it."""
    assert not find_rows(trial_of(mechanism), False, MANY).by_rows


def by_place(_: Any, size: int, rng: Any) -> Any:
    """Row by row another law."""
    return rng.normal(size=size) + 6.0 * (np.arange(size) >= 0.9 * size)


def test_a_place_among_the_outputs_tells_no_component() -> None:
    """The mean over rows is that of all laws, whose components would else be those of one law alone."""
    size = 40_000
    outputs, tape = sampler(by_place).draw_tape(NOTHING, LAW, "test", 3, size, None, proposal=tilted(), by_rows=True)
    logs, _ = tape.log_weights(np.arange(size))
    found = np.exp(logs) * (outputs > 6.0)
    exact = 0.9 * stats.norm.sf(6.0) + 0.1 * 0.5
    assert abs(found.mean() - exact) < 4.0 * found.std() / size**0.5
