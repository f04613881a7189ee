"""Random tapes: what proposals draw has its law, weights make up for it, and each output gets what is its own."""

from __future__ import annotations

import copy
import math
import pickle
from functools import partial
from typing import Any

import numba
import numpy as np
import pytest
from scipy import stats
from some_slow import some_slow
from tapes import (
    LAWS,
    PLAIN_ONLY,
    RARE,
    by_rows,
    check_law,
    check_weights,
    one_by_one,
    proposal,
    quantiles,
)

from hpcdp.errors import MechanismError
from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import Proposal

SLOW = ("f", "beta", "student", "negative binomial", "chisquare", "gamma")


@pytest.mark.few
@pytest.mark.parametrize("name", LAWS)
def test_weights_make_up_for_any_proposal_by_rows(name: str) -> None:
    draw, law = LAWS[name]
    for seed in range(3):
        out, tape = by_rows(draw, proposal(seed), 7 + seed)
        check_weights(out, tape, quantiles(law), name)
        assert tape.shared == 0


@pytest.mark.few
@pytest.mark.parametrize("name", some_slow(LAWS, SLOW.__contains__))
def test_weights_make_up_for_any_proposal_one_by_one(name: str) -> None:
    draw, law = LAWS[name]
    out, tape = one_by_one(lambda g: draw(g, None), proposal(3), 11, 4_000)
    check_weights(out, tape, quantiles(law), name)
    out, tape = one_by_one(lambda g: draw(g, 2)[1], proposal(4), 12, 4_000)
    check_weights(out, tape, quantiles(law), name)


@pytest.mark.few
@pytest.mark.parametrize("name", some_slow({**LAWS, **PLAIN_ONLY}, SLOW.__contains__))
def test_a_plain_tape_has_the_mechanisms_own_law(name: str) -> None:
    draw, law = {**LAWS, **PLAIN_ONLY}[name]
    for how in ({"proposal": Proposal.plain()}, {"proposal": proposal(1), "is_plain": True}):
        tape = Tape(5, how["proposal"], 60_000, True, how.get("is_plain", False))
        check_law(np.asarray(draw(tape, 60_000)), law, name)
        alone = Tape(6, how["proposal"], 4_000, False, how.get("is_plain", False))
        drawn = []
        for number in range(4_000):
            drawn.append(draw(alone.generator(number), None))
        check_law(np.asarray(drawn), law, name)


@pytest.mark.parametrize("name", PLAIN_ONLY)
def test_what_has_no_proposal_has_weight_one(name: str) -> None:
    draw, law = PLAIN_ONLY[name]
    out, tape = by_rows(draw, proposal(), 3, 60_000)
    check_law(out, law, name)
    assert not tape.entries()
    assert not tape.shared
    assert np.abs(tape.log_weights(np.arange(60_000))[0]).max() < 1e-15
    draw(tape := Tape(3, proposal(), 8, True), None)
    assert tape.shared == 1


@pytest.mark.parametrize("shape", [1e-3, 1e-5])
def test_gammas_of_small_shapes_are_0_as_often_as_numpys(shape: float) -> None:
    """What is too small for a float is 0 whatever the scale is: an atom elsewhere would tell scales apart."""
    size, zeros = 4000, (np.random.default_rng(6).standard_gamma(shape, 100_000) == 0.0).mean()
    for scale in (1.0, 2.0):
        drawn, _ = by_rows(partial(_gammas, shape, scale), Proposal.plain(), 5, size)
        assert abs((drawn == 0.0).mean() - zeros) < 5.0 * math.sqrt(zeros * (1.0 - zeros) / size)
        assert np.unique(drawn[drawn > 0.0]).size > 0.99 * (drawn > 0.0).sum()  # but for a few next to 0


def _gammas(shape: float, scale: float, rng: Any, size: int) -> Any:
    return rng.gamma(shape, scale, size)


def test_the_seed_and_nothing_else_decides() -> None:
    for draw, _ in LAWS.values():
        one, _ = by_rows(draw, proposal(), 3, 400)
        again, _ = by_rows(draw, proposal(), 3, 400)
        other, _ = by_rows(draw, proposal(), 4, 400)
        assert np.array_equal(one, again)
        assert not np.array_equal(one, other)


def test_sizes_of_zero_and_wrong_arguments_are_numpys() -> None:
    for rows in (False, True):
        tape = Tape(1, proposal(), 8, rows).generator(0)
        for draw, _ in LAWS.values():
            found = draw(tape, 0)
            assert found.shape == (0,)
            assert draw(tape, (0, 8)).shape == (0, 8)
        assert tape.choice(5, 0, replace=False).size == 0
        assert tape.permutation(0).size == 0
        for wrong in (
            lambda g: g.normal(0.0, -1.0), lambda g: g.normal([0.0, 1.0], 1.0, 3),
            lambda g: g.gamma(-1.0), lambda g: g.poisson(-1.0),
            lambda g: g.binomial(3, 1.5), lambda g: g.binomial(-3, 0.5),
            lambda g: g.geometric(0.0), lambda g: g.integers(0), lambda g: g.choice(0),
            lambda g: g.choice(3, p=[0.5, 0.6, 0.1]),
            lambda g: g.choice(3, 5, replace=False), lambda g: g.choice(3, p=[-0.5, 1.0, 0.5]),
            lambda g: g.multinomial(1, [-0.5, 1.5]), lambda g: g.integers(0, 300, dtype=np.uint8), lambda g: g.laplace("x"),
            lambda g: g.standard_t(-1.0), lambda g: g.beta(0.0, 1.0), lambda g: g.exponential(-1),
            lambda g: g.geometric([[0.5] * 2] * 2, 2),
            lambda g: g.standard_normal(3, out=np.empty(2)), lambda g: g.weibull(-1.0),
            lambda g: g.gumbel(0.0, -1.0), lambda g: g.triangular(1.0, 0.0, 2.0), lambda g: g.negative_binomial(0, 0.5),
            *(lambda g, size=size, draw=draw: draw(g, size) for size in (-1, -8, (8, -1)) for draw, _ in LAWS.values()),
            *(lambda g, size=size: g.choice(5, size, replace=False) for size in (-1, (-1, -2))),
        ):  # fmt: skip
            with pytest.raises(Exception) as numpys:  # noqa: PT011  # whatever NumPy raises
                wrong(np.random.default_rng(1))
            with pytest.raises(numpys.type):
                wrong(tape)


def test_types_are_numpys() -> None:
    numpys = np.random.default_rng(1)
    for rows in (False, True):
        tape = Tape(1, proposal(), 8, rows).generator(0)
        for name, (draw, _) in {**LAWS, **PLAIN_ONLY}.items():
            for size in (None, (), 8, (3, 8)):
                if size in (None, ()) and name == "huge integers":
                    continue
                one, other = draw(numpys, size), draw(tape, size)
                assert np.shape(one) == np.shape(other), (name, size)
                assert np.asarray(one).dtype == np.asarray(other).dtype, (name, size)
        for call in (
            lambda g: g.integers(0, 5, dtype=int),
            lambda g: g.integers(0, 2, dtype=bool), lambda g: g.integers(0, 200, dtype=np.uint8),
            lambda g: g.integers(5), lambda g: g.choice(["a", "b"]),
            lambda g: g.choice(5, 3, replace=False), lambda g: g.normal([0.0, 1.0], 2),
            lambda g: g.integers(0, 2, 8, dtype=bool),
            lambda g: g.integers(250, 256, 8, dtype=np.uint8), lambda g: g.bytes(3),
            lambda g: g.permuted(np.arange(6).reshape(2, 3), axis=1), lambda g: g.multinomial(3, [0.5, 0.5], 8),
            lambda g: g.multinomial([1, 2], [0.5, 0.5]), lambda g: g.integers([3, 4]), lambda g: g.dirichlet([1.0, 2.0], 8),
            lambda g: g.multivariate_hypergeometric([3, 4], 2, 8), lambda g: g.choice(np.arange(6).reshape(2, 3), 2, axis=1),
            lambda g: g.integers(2**63, 2**63 + 5, 8, dtype=np.uint64), lambda g: g.integers(-5, 5, 8, dtype=np.int8),
        ):  # fmt: skip
            one, other = call(numpys), call(tape)
            assert type(one) is type(other)
            assert np.shape(one) == np.shape(other)
            assert np.asarray(one).dtype == np.asarray(other).dtype or isinstance(one, bytes)


@pytest.mark.slow
def test_streams_beside_the_tape_are_plain() -> None:
    @numba.njit
    def compiled(g: Any, n: int) -> Any:
        return g.normal(0.0, 1.0, n)

    size, mixture = 20_000, proposal()
    tape = Tape(2, mixture, size, True)
    drawn = [
        tape.standard_normal(size), tape.spawn(1)[0].standard_normal(size), compiled(tape, size),
        np.random.Generator(tape.bit_generator).standard_normal(size),
        np.random.default_rng(tape.bit_generator.seed_seq).standard_normal(size),
    ]  # fmt: skip
    assert len(tape.entries()) == 1
    for values in drawn[1:]:
        assert stats.kstest(values, stats.norm.cdf).pvalue > RARE
    assert np.unique(np.concatenate(drawn)).size == 5 * size  # none comes twice
    with pytest.raises(TypeError, match="wound back"):
        tape.bit_generator.state = np.random.PCG64(1).state
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="its call's alone"):
            copied(tape)
        for taken in (tape.bit_generator, np.random.Generator(tape.bit_generator)):
            if copied is not copy.copy or taken is tape.bit_generator:  # a Generator's shares the bits
                with pytest.raises(TypeError, match=r"copied: .* accepted: rng\.spawn\(1\)"):
                    copied(taken)
    for moved in (lambda bits: bits.state, lambda bits: bits.jumped(), lambda bits: bits.advance(-9)):
        with pytest.raises(TypeError, match=r"accepted: rng\.spawn\(1\)"):
            moved(tape.bit_generator)


@pytest.mark.parametrize("name", [name for name in dir(np.random.Generator) if not name.startswith("_")])
def test_whatever_is_asked_of_a_generator_whose_outputs_are_there_is_refused(name: str) -> None:
    for rows in (False, True):
        generator = Tape(2, proposal(), 400, rows).generator(0)
        generator.normal()
        generator.close()
        for asked in (lambda one: getattr(one, name), lambda one: one.kept, copy.copy, pickle.dumps):
            with pytest.raises(MechanismError, match="rng of an earlier output"):
                asked(generator)


def random_number(g: Any) -> Any:
    """The sum of a Poisson number of normals."""
    return float(sum(g.normal() for _ in range(g.poisson(1.5))))


def rejection(g: Any) -> Any:
    """A normal above 0.5, by rejection."""
    while (x := g.normal()) <= 0.5:
        pass
    return x


def batch(g: Any) -> Any:
    """Items 0 to 4 of a random number, without replacement; how large the largest is."""
    some = g.choice(5, g.integers(1, 4), replace=False)
    return int(some.max())


def compound(x: float) -> float:
    return sum(stats.poisson(1.5).pmf(k) * (stats.norm(0, math.sqrt(k)).cdf(x) if k else x >= 0.0) for k in range(40))


@pytest.mark.slow
def test_loops_with_a_random_number_of_variates() -> None:
    cuts = (-1.0, 0.3, 1.7)
    out, tape = one_by_one(random_number, proposal(6, 0.7), 3, 6_000)
    check_weights(out, tape, [(lambda x, c=c: x <= c, compound(c)) for c in cuts], "compound")
    out, tape = one_by_one(rejection, proposal(7, 0.5), 3, 6_000)
    law = stats.truncnorm(0.5, np.inf)
    check_weights(out, tape, quantiles(law), "rejection")
    out, tape = one_by_one(batch, proposal(9, 0.7), 3, 6_000)
    exact = [
        (lambda x, c=c: x <= c, float(np.mean([math.comb(c + 1, k) / math.comb(5, k) for k in (1, 2, 3)])))
        for c in (1, 2, 3)
    ]
    check_weights(out, tape, exact, "batch")


def first_of(g: Any) -> Any:
    return g.permutation(4)[0]


def first_shuffled(g: Any) -> Any:
    items = np.arange(8).reshape(2, 4)
    g.shuffle(items, axis=1)
    return items[1, 0] - 4


def first_of_list(g: Any) -> Any:
    items = [0, 1, 2, 3]
    g.shuffle(items)
    return items[0]


def first_permuted(g: Any) -> Any:
    return g.permuted(np.arange(4))[0]


def of_one_trial(g: Any) -> Any:
    return int(g.multinomial(1, [0.25] * 4).argmax())


@pytest.mark.slow
@pytest.mark.parametrize("style", (first_of, first_shuffled, first_of_list, first_permuted, of_one_trial))
def test_orders(style: Any) -> None:
    out, tape = one_by_one(style, proposal(3), 5, 5_000)
    check_weights(out, tape, [(lambda x, k=k: x == k, 0.25) for k in range(4)], style.__name__)
    plain, _ = one_by_one(style, Proposal.plain(), 5, 8_000)
    assert stats.chisquare(np.bincount(plain, minlength=4)).pvalue > RARE


def test_orders_and_trials_by_rows() -> None:
    def permuted(g: Any, n: int) -> Any:
        return g.permuted(np.tile(np.arange(4), (n, 1)), axis=1) @ np.array([1, 10, 100, 1000])

    out, tape = by_rows(permuted, proposal(3), 5)
    values = np.unique(out)
    assert values.size == 24
    check_weights(out, tape, [(lambda x, v=v: x == v, 1.0 / 24.0) for v in values[:5]], "permuted")
    out, tape = by_rows(lambda g, n: g.multinomial(1, [0.2, 0.3, 0.5], n) @ np.arange(3), proposal(3), 5)
    check_weights(out, tape, [(lambda x: x == 1, 0.3), (lambda x: x == 2, 0.5)], "multinomial")
    out, tape = by_rows(
        lambda g, n: g.multivariate_normal([0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]], n).sum(axis=1), proposal(3), 5
    )
    check_weights(out, tape, quantiles(stats.norm(1.0, math.sqrt(6.0))), "multivariate_normal")
    out, tape = by_rows(lambda g, n: g.dirichlet([0.5, 1.0, 1.5], n)[:, 0], proposal(3), 5)
    check_weights(out, tape, quantiles(stats.beta(0.5, 2.5)), "dirichlet")


def test_weights_of_two_laws_of_their_own_for_each_row() -> None:
    """Means and chances that differ from row to row, and depend on what was drawn before."""

    def chained(g: Any, n: int) -> Any:
        shape = n if n else None
        return g.poisson(np.exp(0.3 * g.normal(size=shape)))

    exact = [
        (lambda x, k=k: x <= k, float(stats.norm().expect(lambda z, k=k: stats.poisson.cdf(k, np.exp(0.3 * z)))))
        for k in (0, 1, 3)
    ]
    out, tape = by_rows(chained, proposal(2), 8)
    check_weights(out, tape, exact, "rows")
    out, tape = one_by_one(lambda g: chained(g, 0), proposal(2), 8, 5_000)
    check_weights(out, tape, exact, "one by one")
