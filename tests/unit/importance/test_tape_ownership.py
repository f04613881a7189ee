"""Which entries of a random tape belong to which output is found out, refused, or needs no finding; never wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from scipy import stats
from some_slow import some_slow

from hpcdp.errors import MechanismError
from hpcdp.importance.generator import Tape, draw_tape
from hpcdp.importance.kinds import Proposal, join
from hpcdp.importance.ownership import Ownership, find_rows
from hpcdp.mechanisms._callable import CallableMechanism
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.study.sampler import Sampler

LAW = "0" * 32
NOTHING = np.zeros((1, 1))
MANY, FEW = 4_096, 256  # outputs of a chunk, and of a sequence of calls for one


def sampler(function: Callable[..., Any], vectorised: bool = True) -> Sampler:
    mechanism = CallableMechanism(function, {}, vectorised)
    return Sampler(1, "tests:it", {}, mechanism, "", MANY)


def trial_of(function: Callable[..., Any], vectorised: bool = True, sizes: list[int] | None = None) -> Any:
    own = sampler(function, vectorised)

    def trial(size: int, seed: int, **how: Any) -> tuple[Outputs, Tape]:
        how.setdefault("proposal", Proposal.plain())
        if sizes is not None:
            sizes.append(size)
        return draw_tape(own, NOTHING, LAW, None, seed, size, None, **how)

    return trial


def tilted() -> Proposal:
    """Far out in both directions, of three places of normals and one of uniforms."""
    ways = [
        {"normal": np.array([[s, 1.2], [0.5 * s, 1.0], [-s, 1.1]]), "laplace": np.array([[0.5 + 0.2 * s, 1.5, 1.5]])}
        for s in (1.5, -1.5)
    ]
    return join(ways, np.array([0.5, 0.25, 0.25]))  # type: ignore[arg-type]


def check_weights(function: Callable[..., Any], found: Ownership, law: Any, vectorised: bool = True) -> None:
    """E w = 1 and E w·1{output ≤ x} = P(output ≤ x), within 4 standard errors, drawn as was found."""
    size = 40_000 if found.by_rows else 4_000
    outputs, tape = draw_tape(
        sampler(function, vectorised),
        NOTHING,
        LAW,
        "test",
        3,
        size,
        None,
        proposal=tilted(),
        by_rows=found.by_rows,
        flat=found.flat,
    )
    assert not tape.shared
    weights = np.exp(tape.log_weights(np.arange(size))[0])
    assert np.ptp(weights) > 0.1
    pairs = [(weights, 1.0)] + [(weights * (outputs <= law.ppf(q)), law.cdf(law.ppf(q))) for q in (0.05, 0.5, 0.95)]
    for values, exact in pairs:
        assert abs(values.mean() - exact) <= 4.0 * values.std() / math.sqrt(size)


NORMAL = stats.norm()


def flat_columns(_: Any, size: int, rng: Any) -> Any:
    return np.array([2.0, 1.0, 2.0]) @ rng.normal(size=size * 3).reshape(3, size) / 3.0


def filled(_: Any, size: int, rng: Any) -> Any:
    """Into arrays of its own, which it changes afterwards."""
    x = np.empty((size, 4))
    assert rng.standard_normal(out=x) is x
    y = x.sum(axis=1) / 2.0
    x[...] = 9.0
    return y


def nothing_usually(_: Any, size: int, rng: Any) -> Any:
    """Released above 6 only."""
    x = rng.normal(size=size)
    return np.where(x > 6.0, x, -1.0)


BY_ROWS: dict[str, tuple[Callable[..., Any], Any]] = {
    "column": (lambda _, size, rng: rng.normal(size=size), NORMAL),
    "rows first": (lambda _, size, rng: rng.normal(size=(size, 4)).sum(axis=1) / 2.0, NORMAL),
    "rows last": (lambda _, size, rng: rng.normal(size=(4, size)).sum(axis=0) / 2.0, NORMAL),
    "flat rows": (
        lambda _, size, rng: rng.normal(size=size * 3).reshape(size, 3) @ np.array([2.0, 1.0, 2.0]) / 3.0,
        NORMAL,
    ),
    "filled": (filled, NORMAL),
    "noise without a proposal beside it": (
        lambda _, size, rng: rng.normal(size=size) + 1e-9 * rng.hypergeometric(5, 5, 5, size),
        NORMAL,
    ),
    "vectors": (lambda _, size, rng: rng.normal(size=(size, 2)), None),
    "strings": (lambda _, size, rng: ["high" if x > 1.0 else "low" for x in rng.normal(size=size)], None),
    "mixed lengths": (lambda _, size, rng: [(float(x),) * int(1 + (x > 0.0)) for x in rng.normal(size=size)], None),
    "student": (lambda _, size, rng: rng.standard_t(3, size=size), None),
    "nothing usually": (nothing_usually, None),
}
"""Mechanisms whose outputs are functions of their rows, and the law of those that are weighed."""


@pytest.mark.parametrize("name", some_slow(BY_ROWS, "mixed lengths".__eq__))
def test_rows_are_found(name: str) -> None:
    assert find_rows([trial_of(BY_ROWS[name][0])], MANY) == Ownership(True, "rows", MANY)


@pytest.mark.parametrize("name", [name for name, (_, law) in BY_ROWS.items() if law])
def test_rows_are_weighed_right(name: str) -> None:
    check_weights(BY_ROWS[name][0], Ownership(True, "rows", MANY), BY_ROWS[name][1])


def test_columns_are_found() -> None:
    found = find_rows([trial_of(flat_columns)], MANY)
    assert found == Ownership(True, "columns", MANY)
    check_weights(flat_columns, found, NORMAL)


def rolled(_: Any, size: int, rng: Any) -> Any:
    return np.roll(rng.normal(size=size), 1)


def rolled_when_both_far(_: Any, size: int, rng: Any) -> Any:
    x = rng.normal(size=(size, 2))
    next_ = np.roll(x, 1, axis=0)
    return np.where((next_[:, 0] > 3.5) & (next_[:, 1] < -3.5), next_[:, 0], x[:, 0])


def of_the_mean(_: Any, size: int, rng: Any) -> Any:
    x = rng.normal(size=size)
    return x - x.mean() if size > 1 else x


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


SAME = np.empty((1, 2))


def reuses_its_array(_: Any, size: int, rng: Any) -> Any:
    if size > 1:
        return [reuses_its_array(None, 1, rng).copy()[0] for _ in range(size)]
    rng.standard_normal(out=SAME)
    return SAME


TRUNCATED = stats.truncnorm(-3.0, 3.0)
ONE_BY_ONE: dict[str, tuple[Callable[..., Any], Any]] = {
    "rolled": (rolled, NORMAL),
    "rolled when both far": (rolled_when_both_far, NORMAL),
    "of the mean": (of_the_mean, NORMAL),
    "a shared number": (lambda _, size, rng: 0.6 * rng.normal() + 0.8 * rng.normal(size=size), NORMAL),
    "a loop inside": (lambda _, size, rng: [rng.normal() for _ in range(size)], NORMAL),
    "redraws": (redraws, TRUNCATED),
    "redraws all": (redraws_all, TRUNCATED),
    "permuted rows": (lambda _, size, rng: rng.normal(size=size)[rng.permutation(size)], NORMAL),
    "the next output's above 6 only": (lambda _, size, rng: rolled(_, size, rng).clip(6.0), None),
    "reuses its array": (reuses_its_array, None),
}


@pytest.mark.few
@pytest.mark.parametrize("name", some_slow(ONE_BY_ONE, "permuted rows".__eq__))
def test_what_is_no_function_of_its_row_is_drawn_one_by_one(name: str) -> None:
    assert find_rows([trial_of(ONE_BY_ONE[name][0])], MANY, FEW) == Ownership(False, looked=FEW)


@pytest.mark.few
@pytest.mark.parametrize("name", [name for name, (_, law) in ONE_BY_ONE.items() if law])
def test_what_is_drawn_one_by_one_is_weighed_right(name: str) -> None:
    check_weights(ONE_BY_ONE[name][0], Ownership(False, looked=FEW), ONE_BY_ONE[name][1])


def test_an_array_that_is_filled_again_is_copied() -> None:
    outputs, tape = draw_tape(
        sampler(reuses_its_array), NOTHING, LAW, "test", 3, 50, None, proposal=Proposal.plain(), by_rows=False
    )
    assert np.array_equal(outputs, tape.entries()[0].values)


def keeping(function: Callable[[list[Any], Any, int], Any]) -> Callable[..., Any]:
    kept: list[Any] = []

    def mechanism(_: Any, size: int, rng: Any) -> Any:
        return function(kept, rng, size)

    mechanism.__name__ = function.__name__
    return mechanism


def noise_of_five_before(kept: list[Any], rng: Any, size: int) -> Any:
    kept.append(rng.normal(size=size))
    return kept[-6] if len(kept) > 5 and kept[-6].size == size else kept[-1]


def counter(kept: list[Any], rng: Any, size: int) -> Any:
    kept.append(0)
    return rng.normal(size=size) + len(kept)


def numpys_own(_: list[Any], rng: Any, size: int) -> Any:
    return rng.normal(size=size) + np.random.normal(size=size)  # noqa: NPY002


class Source:
    """Normals of one generator, ahead of their use."""

    def __init__(self, rng: Any, block: int) -> None:
        self.rng, self.block, self.ready = rng, block, []  # type: ignore[var-annotated]

    def normal(self) -> float:
        if not self.ready:
            self.ready = self.rng.normal(size=self.block).tolist()[::-1]
        return float(self.ready.pop())


def swallowing(kept: list[Any], rng: Any, size: int) -> Any:
    """Draws from the generator of the call before, and catches what that raises."""
    kept.append(rng)
    with suppress(Exception):
        return kept[-2].normal(size=size)
    return rng.normal(size=size)


@pytest.mark.parametrize(
    "function",
    (noise_of_five_before, counter, numpys_own, swallowing),
)
def test_what_is_kept_between_outputs_or_comes_from_elsewhere_is_refused(function: Any) -> None:
    with pytest.raises(
        MechanismError, match=r"noise of other outputs|equal random tapes|rng of an earlier|StopIteration"
    ):
        find_rows([trial_of(keeping(function))], MANY, FEW)


def as_an_attribute(_: Any, rng: Any) -> Any:
    if not hasattr(rng, "source"):
        rng.source = Source(rng, 4)
    return rng.normal() + rng.source.normal()


def test_what_hangs_on_a_generator_is_its_outputs_alone() -> None:
    """N(0, 2) with the weights of the normals that an output drew, each of which is used by that output alone."""
    found = find_rows([trial_of(as_an_attribute, vectorised=False)], MANY, FEW)
    assert found == Ownership(False, looked=FEW)
    check_weights(as_an_attribute, found, stats.norm(0.0, math.sqrt(2.0)), vectorised=False)


def test_each_two_outputs_of_a_chunk_are_exchanged_without_each_other() -> None:
    """A dependence between any two of 2¹⁶ outputs is seen, also where no other shows any."""
    size = 1 << 16
    for one, other in ((0, 1), (5, 65_535), (40_000, 40_001), (32_767, 32_768)):

        def paired(_: Any, size: int, rng: Any, one: int = one, other: int = other) -> Any:
            x = rng.normal(size=size)
            if size > other:
                x[one] += 1e-9 * x[other]
            return x

        assert not find_rows([trial_of(paired)], size, 64).by_rows


def test_wild_noise_that_a_mechanism_cannot_bear_is_milder() -> None:
    def frail(_: Any, size: int, rng: Any) -> Any:
        x = rng.normal(size=size)
        if (np.abs(x) > 15.0).any():
            raise ValueError("too far")
        return x

    assert find_rows([trial_of(frail)], MANY) == Ownership(True, "rows", MANY)


@pytest.mark.slow
def test_what_is_drawn_beside_the_generators_methods_may_be_shared() -> None:
    """Exchanged entries leave it as it is, so that no look sees it."""
    spawned = trial_of(lambda _, size, rng: rng.normal(size=size) + rng.spawn(1)[0].normal())
    of_the_bits = trial_of(lambda _, size, rng: rng.normal(size=size) + np.random.Generator(rng.bit_generator).normal())
    assert not any(find_rows([trial], MANY, FEW).by_rows for trial in (spawned, of_the_bits))


def by_place(_: Any, size: int, rng: Any) -> Any:
    """Row by row another law."""
    return rng.normal(size=size) + 6.0 * (np.arange(size) >= 0.9 * size)


def test_a_place_among_the_outputs_tells_no_component() -> None:
    """The mean over rows is that of all laws, whose components would else be those of one law alone."""
    size = 40_000
    outputs, tape = draw_tape(sampler(by_place), NOTHING, LAW, "test", 3, size, None, proposal=tilted(), by_rows=True)
    logs, _ = tape.log_weights(np.arange(size))
    found = np.exp(logs) * (outputs > 6.0)
    exact = 0.9 * stats.norm.sf(6.0) + 0.1 * 0.5
    assert abs(found.mean() - exact) < 4.0 * found.std() / size**0.5
