"""Random tapes: what proposals draw has their law, and weights make up for it, whatever a mechanism asks for."""

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
    PLACES,
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
from hpcdp.importance import tape as noted
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


@pytest.mark.parametrize("size", [-1, (2, -3), 1 << 58])
@pytest.mark.parametrize("rows", [False, True])
def test_what_could_not_be_drawn_takes_no_place(rows: bool, size: Any) -> None:
    """A mechanism that catches the error of a size goes on with variates that it has not had."""
    asked = (4,) if rows else None

    def drawn(has_tried: bool) -> list[Any]:
        whole = Tape(3, proposal(), 4, rows)
        tape = whole.generator(0)
        found = [tape.normal(size=asked)]
        if has_tried:
            with pytest.raises((ValueError, MemoryError)):
                tape.normal(size=size)
        found.append(tape.normal(size=asked))
        tape.close()
        assert whole.entries()[0].used[0] == 2
        return np.asarray(found).tolist()

    assert drawn(True) == drawn(False)


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


def test_no_output_is_weighed_of_none() -> None:
    for rows in (False, True):
        tape = Tape(2, proposal(), 8, rows)
        generator = tape.generator(3)
        for draw, _ in LAWS.values():
            draw(generator, 8)
        generator.close()
        logs, errors = tape.log_weights(np.empty(0, np.int64))
        assert logs.size == errors.size == 0
        one, _ = tape.log_weights(np.array([3]))
        assert np.array_equal(one, tape.log_weights(np.arange(8))[0][3:4])


def many_places(g: Any, n: Any) -> Any:
    """The sum of the 2nd and the 10th of ten normals; a permutation and coins beside them."""
    x = [g.normal(size=n) for _ in range(10)]
    if n is None:
        for _ in range(10):
            g.permutation(3)
            g.gamma(2.0)
    for _ in range(10):
        g.integers(0, 2, n)
    return x[1] + x[9]


@pytest.mark.slow
def test_places_beyond_those_that_are_kept_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a mechanism that draws a million numbers for an output does not fill the memory."""
    monkeypatch.setattr(noted, "_MOST_KEPT", 1)
    for out, tape in (
        by_rows(many_places, proposal(2), 3),
        one_by_one(lambda g: many_places(g, None), proposal(2), 3, 3_000),
    ):
        check_weights(out, tape, quantiles(stats.norm(0.0, math.sqrt(2.0))), "kept")
        for entry in tape.entries():
            assert entry.used.max() <= PLACES
