"""Random tapes: what proposals draw has their law, and weights make up for it, whatever a mechanism asks for."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hpcdp.mechanisms.tape import drawing
from hpcdp.mechanisms.tape.generator import Tape
from hpcdp.mechanisms.tape.kinds import BINS, MOST_ORDERED, MOST_VALUES, PLAIN
from hpcdp.mechanisms.tape.proposal import Proposal, join

Floats = NDArray[np.float64]

SIZE = 40_000  # outputs of a tape by rows; the shares are whole numbers of them
SHARES = np.array([0.25, 0.25, 0.3, 0.2])
PLACES = 3
RARE = 1e-6  # of a right generator to fail a test, before its cases are counted


def component(rng: np.random.Generator, strength: float = 1.0) -> dict[str, Floats]:
    """Tilts of all kinds at random, strong ones."""
    bins = []
    for _ in range(PLACES):
        edges = np.sort(rng.choice(np.arange(1, 1000), BINS - 1, replace=False)) / 1000
        edges = np.floor(edges * 2.0**53) / 2.0**53
        widths = np.diff(np.concatenate([[0.0], edges, [1.0]]))
        bins.append(np.concatenate([0.5 * rng.dirichlet(np.ones(BINS)) + 0.5 * widths, edges]))
    s = strength
    return {
        "normal": np.stack([rng.normal(0.0, 1.5 * s, PLACES), np.exp(rng.uniform(-0.3, 0.7, PLACES) * s)], axis=1),
        "exponential": np.exp(rng.uniform(-0.5, 1.0, (PLACES, 1)) * s),
        "laplace": np.stack([rng.uniform(0.1, 0.9, PLACES), *np.exp(rng.uniform(-0.4, 0.9, (2, PLACES)) * s)], axis=1),
        "uniform": np.stack(bins),
        "gamma": np.exp(rng.uniform(-0.4, 0.8, (PLACES, 1)) * s),
        "poisson": rng.uniform(-0.8, 0.8, (PLACES, 1)) * s,
        "binomial": rng.uniform(-1.0, 1.0, (PLACES, 1)) * s,
        "choice": rng.normal(0.0, 1.0 * s, (PLACES, MOST_VALUES)),
        "order": rng.normal(0.0, 0.7 * s, (PLACES, MOST_ORDERED)),
    }


def proposal(seed: int = 0, strength: float = 1.0) -> Proposal:
    rng = np.random.default_rng(seed)
    return join([component(rng, strength) for _ in SHARES[1:]], SHARES, PLAIN)


def by_rows(mechanism: Callable[[Any, int], Any], mixture: Proposal, seed: int, size: int = SIZE, **how: Any) -> Any:
    tape = Tape(seed, mixture, size, True, **how)
    out = np.asarray(mechanism(tape, size))
    tape.close()
    return out, tape


def one_by_one(mechanism: Callable[[Any], Any], mixture: Proposal, seed: int, size: int, **how: Any) -> Any:
    tape, out = Tape(seed, mixture, size, False, **how), []
    for number in range(size):
        tape.begin(number)
        out.append(mechanism(tape))
    tape.close()
    return np.asarray(out), tape


def check_mean(values: Floats, exact: float, where: str) -> None:
    """Within 4 standard errors, which a right one is not with probability 6e-5."""
    error = values.std() / math.sqrt(values.size)
    assert abs(values.mean() - exact) <= 4.0 * error + 1e-12, (where, values.mean(), exact, error)


def check_weights(out: Floats, tape: Tape, exact: Any, where: str) -> None:
    logs, errors = tape.log_weights(np.arange(out.shape[0]))
    weights = np.exp(logs)
    assert (errors < 1e-9).all(), where
    assert (weights <= tape.proposal.largest * (1.0 + 1e-9)).all(), where
    assert np.ptp(weights) > 1e-3, where  # it was tilted at all
    check_mean(weights, 1.0, where)
    for function, mean in exact:
        check_mean(weights * function(out), mean, where)


UP = lambda x: x > 1.0  # noqa: E731
LAWS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "normal": (lambda g, n: g.normal(0.5, 2.0, n), stats.norm(0.5, 2.0)),
    "standard_normal": (lambda g, n: g.standard_normal(n), stats.norm()),
    "normal of integers": (lambda g, n: g.normal(1, np.int64(2), n), stats.norm(1.0, 2.0)),
    "exponential": (lambda g, n: g.exponential(1.5, n), stats.expon(scale=1.5)),
    "standard_exponential": (lambda g, n: g.standard_exponential(n), stats.expon()),
    "laplace": (lambda g, n: g.laplace(0.5, 1.5, n), stats.laplace(0.5, 1.5)),
    "random": (lambda g, n: g.random(n), stats.uniform()),
    "uniform": (lambda g, n: g.uniform(-1.0, 3.0, n), stats.uniform(-1.0, 4.0)),
    "gamma": (lambda g, n: g.gamma(2.5, 1.5, n), stats.gamma(2.5, scale=1.5)),
    "standard_gamma": (lambda g, n: g.standard_gamma(0.7, n), stats.gamma(0.7)),
    "geometric": (lambda g, n: g.geometric(0.3, n), stats.geom(0.3)),
    "poisson": (lambda g, n: g.poisson(2.5, n), stats.poisson(2.5)),
    "binomial": (lambda g, n: g.binomial(9, 0.3, n), stats.binom(9, 0.3)),
    "one trial": (lambda g, n: g.binomial(1, 0.3, n), stats.bernoulli(0.3)),
    "integers": (lambda g, n: g.integers(1, 7, n), stats.randint(1, 7)),
    "integers of a type": (lambda g, n: g.integers(-3, 4, n, np.int8, True), stats.randint(-3, 5)),
    "many integers": (lambda g, n: g.integers(0, 1000, n), stats.randint(0, 1000)),
    "huge integers": (lambda g, n: g.random(n) + 0 * g.integers(0, 1 << 40, n), stats.uniform()),
    "choice": (lambda g, n: g.choice(5, n), stats.randint(0, 5)),
    "choice with p": (
        lambda g, n: g.choice(3, n, p=[0.2, 0.5, 0.3]),
        stats.rv_discrete(values=([0, 1, 2], [0.2, 0.5, 0.3])),
    ),
    "choice of many": (
        lambda g, n: g.choice(100, n, p=np.arange(100) / 4950),
        stats.rv_discrete(values=(np.arange(100), np.arange(100) / 4950)),
    ),
    "lognormal": (lambda g, n: g.lognormal(0.2, 0.6, n), stats.lognorm(0.6, scale=math.exp(0.2))),
    "rayleigh": (lambda g, n: g.rayleigh(1.2, n), stats.rayleigh(scale=1.2)),
    "weibull": (lambda g, n: g.weibull(1.7, n), stats.weibull_min(1.7)),
    "gumbel": (lambda g, n: g.gumbel(0.5, 1.5, n), stats.gumbel_r(0.5, 1.5)),
    "logistic": (lambda g, n: g.logistic(0.5, 1.5, n), stats.logistic(0.5, 1.5)),
    "pareto": (lambda g, n: g.pareto(2.5, n), stats.lomax(2.5)),
    "power": (lambda g, n: g.power(2.5, n), stats.powerlaw(2.5)),
    "cauchy": (lambda g, n: g.standard_cauchy(n), stats.cauchy()),
    "chisquare": (lambda g, n: g.chisquare(3.0, n), stats.chi2(3.0)),
    "student": (lambda g, n: g.standard_t(4.0, n), stats.t(4.0)),
    "f": (lambda g, n: g.f(3.0, 5.0, n), stats.f(3.0, 5.0)),
    "beta": (lambda g, n: g.beta(0.6, 1.4, n), stats.beta(0.6, 1.4)),
    "negative binomial": (lambda g, n: g.negative_binomial(2.5, 0.4, n), stats.nbinom(2.5, 0.4)),
    "triangular": (lambda g, n: g.triangular(-1.0, 0.5, 2.0, n), stats.triang(0.5, -1.0, 3.0)),
}
PLAIN_ONLY: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "hypergeometric": (lambda g, n: g.hypergeometric(5, 7, 4, n), stats.hypergeom(12, 5, 4)),
    "logseries": (lambda g, n: g.logseries(0.6, n), stats.logser(0.6)),
    "vonmises": (lambda g, n: g.vonmises(0.5, 2.0, n), stats.vonmises(2.0, 0.5)),
    "wald": (lambda g, n: g.wald(1.0, 2.0, n), stats.invgauss(0.5, scale=2.0)),
    "zipf": (lambda g, n: g.zipf(2.5, n), stats.zipf(2.5)),
    "noncentral_chisquare": (lambda g, n: g.noncentral_chisquare(3.0, 1.5, n), stats.ncx2(3.0, 1.5)),
    "noncentral_f": (lambda g, n: g.noncentral_f(3.0, 5.0, 1.5, n), stats.ncf(3.0, 5.0, 1.5)),
    "single precision": (lambda g, n: g.standard_normal(n, np.float32), stats.norm()),
    "single uniform": (lambda g, n: g.random(n, np.float32), stats.uniform()),
}


def quantiles(law: Any) -> list[tuple[Any, float]]:
    """Events and their exact probabilities."""
    cuts = [float(law.ppf(q)) for q in (0.1, 0.5, 0.8, 0.99)]
    return [(lambda x, cut=cut: x <= cut, float(law.cdf(cut))) for cut in cuts]


def check_law(values: Floats, law: Any, where: str) -> None:
    if hasattr(law, "pdf") and not hasattr(law, "pmf"):
        assert stats.kstest(values, law.cdf).pvalue > RARE, where
        return
    assert (law.pmf(np.unique(values)) > 0.0).all(), where
    edges = np.unique(law.ppf(np.linspace(0.02, 0.98, 49)))
    chances = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    seen = np.bincount(np.searchsorted(edges, values, "left"), minlength=chances.size)
    likely = chances * values.size >= 5.0
    assert seen[chances == 0.0].sum() == 0, where
    seen, chances = (np.append(a[likely], a[~likely].sum()) for a in (seen, chances))
    some = chances > 0.0
    assert stats.chisquare(seen[some], chances[some] / chances.sum() * values.size).pvalue > RARE, where


@pytest.mark.parametrize("name", LAWS)
def test_weights_make_up_for_any_proposal_by_rows(name: str) -> None:
    draw, law = LAWS[name]
    for seed in range(3):
        out, tape = by_rows(draw, proposal(seed), 7 + seed)
        check_weights(out, tape, quantiles(law), name)
        assert tape.shared == 0


@pytest.mark.parametrize("name", LAWS)
def test_weights_make_up_for_any_proposal_one_by_one(name: str) -> None:
    draw, law = LAWS[name]
    out, tape = one_by_one(lambda g: draw(g, None), proposal(3), 11, 4_000)
    check_weights(out, tape, quantiles(law), name)
    out, tape = one_by_one(lambda g: draw(g, 2)[1], proposal(4), 12, 4_000)
    check_weights(out, tape, quantiles(law), name)


@pytest.mark.parametrize("name", {**LAWS, **PLAIN_ONLY})
def test_a_plain_tape_has_the_mechanisms_own_law(name: str) -> None:
    draw, law = {**LAWS, **PLAIN_ONLY}[name]
    for how in ({"proposal": Proposal.plain()}, {"proposal": proposal(1), "is_plain": True}):
        tape = Tape(5, how["proposal"], 60_000, True, how.get("is_plain", False))
        check_law(np.asarray(draw(tape, 60_000)), law, name)
        alone = Tape(6, how["proposal"], 4_000, False, how.get("is_plain", False))
        drawn = []
        for number in range(4_000):
            alone.begin(number)
            drawn.append(draw(alone, None))
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


TILTED: dict[str, Any] = {
    "normal": (lambda g, n: g.standard_normal(n), lambda p: stats.norm(p[0], p[1])),
    "exponential": (lambda g, n: g.standard_exponential(n), lambda p: stats.expon(scale=p[0])),
    "gamma": (lambda g, n: g.standard_gamma(2.5, n), lambda p: stats.gamma(2.5, scale=p[0])),
    "poisson": (lambda g, n: g.poisson(3.0, n), lambda p: stats.poisson(3.0 * math.exp(p[0]))),
    "binomial": (
        lambda g, n: g.binomial(9, 0.3, n),
        lambda p: stats.binom(9, 0.3 * math.exp(p[0]) / (0.7 + 0.3 * math.exp(p[0]))),
    ),
    "choice": (
        lambda g, n: g.choice(5, n),
        lambda p: stats.rv_discrete(values=(np.arange(5), np.exp(p[:5]) / np.exp(p[:5]).sum())),
    ),
}


class LaplaceOf:
    def __init__(self, row: Floats) -> None:
        self.chance, self.above, self.below = row

    def cdf(self, x: Any) -> Any:
        up = 1.0 - self.chance * np.exp(-np.maximum(x, 0.0) / self.above)
        return np.where(x < 0.0, (1.0 - self.chance) * np.exp(np.minimum(x, 0.0) / self.below), up)

    def pdf(self, x: Any) -> Any:
        up = self.chance / self.above * np.exp(-np.maximum(x, 0.0) / self.above)
        return np.where(x < 0.0, (1.0 - self.chance) / self.below * np.exp(np.minimum(x, 0.0) / self.below), up)

    def logpdf(self, x: Any) -> Any:
        return np.log(self.pdf(x))


class StepsOf:
    def __init__(self, row: Floats) -> None:
        self.masses, self.edges = row[:BINS], np.concatenate([[0.0], row[BINS:], [1.0]])

    def cdf(self, x: Any) -> Any:
        return np.interp(x, self.edges, np.append(0.0, np.cumsum(self.masses)))

    def pdf(self, x: Any) -> Any:
        return (self.masses / np.diff(self.edges))[np.searchsorted(self.edges, x, "right") - 1]

    def logpdf(self, x: Any) -> Any:
        return np.log(self.pdf(x))


TILTED["laplace"] = (lambda g, n: g.laplace(size=n), LaplaceOf)
TILTED["uniform"] = (lambda g, n: g.random(n), StepsOf)
ONLY = np.array([1e-3, 1.0 - 1e-3])  # nearly all of one component


@pytest.mark.parametrize("name", TILTED)
def test_what_is_drawn_has_the_law_of_its_component(name: str) -> None:
    """And log-ratios are those of scipy's densities, within 1e-12 of their size and the bound that is told."""
    draw, law_of = TILTED[name]
    own = component(np.random.default_rng(8))
    mixture, size = join([own], ONLY, PLAIN), 50_000
    tape = Tape(4, mixture, size, True)
    for place in range(PLACES):
        values, law = np.asarray(draw(tape, size))[50:], law_of(own[name][place])
        check_law(values, law, f"{name} at {place}")
    tape = Tape(4, mixture, size, True)
    values = np.asarray(draw(tape, size))
    law, plain = law_of(own[name][0]), law_of(PLAIN[name])
    log = "logpmf" if hasattr(law, "pmf") else "logpdf"
    ratio = getattr(law, log)(values) - getattr(plain, log)(values)
    exact = -np.logaddexp(np.log(ONLY[0]), np.log(ONLY[1]) + ratio)
    logs, _ = tape.log_weights(np.arange(size))
    assert np.allclose(logs, exact, rtol=1e-12, atol=1e-12)


def rows_first(g: Any, n: int) -> Any:
    x, e = g.normal(np.zeros(2), np.array([1.0, 2.0]), (n, 2)), g.exponential(1.0, (n, 1))
    return x[:, 0] + x[:, 1] + e[:, 0]


def rows_last(g: Any, n: int) -> Any:
    x, e = g.normal(0.0, np.array([[1.0], [2.0]]), (2, n)), g.exponential(1.0, (1, n))
    return x.sum(axis=0) + e[0]


def flat_rows(g: Any, n: int) -> Any:
    return g.normal(size=2 * n).reshape(n, 2) @ np.array([1.0, 2.0]) + g.exponential(size=n)


def flat_columns(g: Any, n: int) -> Any:
    return np.array([1.0, 2.0]) @ g.normal(size=2 * n).reshape(2, n) + g.exponential(size=n)


def filled(g: Any, n: int) -> Any:
    x, e = np.empty((n, 2)), np.empty(n)
    assert g.standard_normal(out=x) is x
    g.standard_exponential(out=e)
    return x @ np.array([1.0, 2.0]) + e


@pytest.mark.parametrize("style", (rows_first, rows_last, flat_rows, flat_columns, filled))
def test_arrays_of_all_layouts(style: Any) -> None:
    """x + 2y + e of normals and an exponential, whose exact distribution function is that of an exponentially modified normal."""
    flat = "columns" if style is flat_columns else "rows"
    out, tape = by_rows(style, proposal(2), 9, flat=flat)
    check_weights(out, tape, quantiles(stats.exponnorm(1.0 / math.sqrt(5.0), 0.0, math.sqrt(5.0))), style.__name__)
    wrong, _ = by_rows(style, proposal(2), 9, flat="rows" if flat == "columns" else "columns")
    assert np.array_equal(out, wrong) == (not style.__name__.startswith("flat"))


def test_what_a_mechanism_changes_in_place_stays_on_the_tape() -> None:
    means = np.full(SIZE, 2.0)

    def spoiled(g: Any, n: int) -> Any:
        first = [g.standard_normal(n), g.poisson(means, n), g.gamma(means), g.choice(2, n), g.random((n, 2))]
        copies = [array.copy() for array in first]
        for array in first:
            array[...] = 7
        means[...] = 9.0
        return copies[0]

    out, tape = by_rows(spoiled, proposal(5, 0.3), 4)
    check_weights(out, tape, quantiles(stats.norm()), "rows")
    poisson = next(entry for entry in tape.entries() if entry.kind == "poisson")
    assert (poisson.base == 2.0).all()

    def loop(g: Any) -> Any:
        x = g.standard_normal(3)
        found = x[0]
        x[...] = 7.0
        return found

    out, tape = one_by_one(loop, proposal(5), 4, 4_000)
    check_weights(out, tape, quantiles(stats.norm()), "one by one")


def random_number(g: Any) -> Any:
    """The sum of a Poisson number of normals."""
    return float(sum(g.normal() for _ in range(g.poisson(1.5))))


def rejection(g: Any) -> Any:
    """A normal above 0.5, by rejection."""
    while (x := g.normal()) <= 0.5:
        pass
    return x


def mixed(g: Any) -> Any:
    """A coin decides the kind, of which arrays and numbers alternate."""
    if g.integers(0, 2):
        return g.normal() + g.standard_normal(2)[1]
    return g.laplace(0.0, 1.0)


def batch(g: Any) -> Any:
    """Items 0 to 4 of a random number, without replacement; how large the largest is."""
    some = g.choice(5, g.integers(1, 4), replace=False)
    return int(some.max())


def compound(x: float) -> float:
    return sum(stats.poisson(1.5).pmf(k) * (stats.norm(0, math.sqrt(k)).cdf(x) if k else x >= 0.0) for k in range(40))


def test_loops_with_a_random_number_of_variates() -> None:
    cuts = (-1.0, 0.3, 1.7)
    out, tape = one_by_one(random_number, proposal(6, 0.7), 3, 6_000)
    check_weights(out, tape, [(lambda x, c=c: x <= c, compound(c)) for c in cuts], "compound")
    out, tape = one_by_one(rejection, proposal(7, 0.5), 3, 6_000)
    law = stats.truncnorm(0.5, np.inf)
    check_weights(out, tape, quantiles(law), "rejection")
    out, tape = one_by_one(mixed, proposal(8, 0.7), 3, 6_000)
    exact = [
        (lambda x, c=c: x <= c, 0.5 * stats.norm(0, math.sqrt(2)).cdf(c) + 0.5 * stats.laplace.cdf(c)) for c in cuts
    ]
    check_weights(out, tape, exact, "mixed")
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


def test_the_seed_and_nothing_else_decides() -> None:
    for draw, _ in LAWS.values():
        one, _ = by_rows(draw, proposal(), 3, 400)
        again, _ = by_rows(draw, proposal(), 3, 400)
        other, _ = by_rows(draw, proposal(), 4, 400)
        assert np.array_equal(one, again)
        assert not np.array_equal(one, other)


def test_sizes_of_zero_and_wrong_arguments_are_numpys() -> None:
    for rows in (False, True):
        tape = Tape(1, proposal(), 8, rows)
        tape.begin(0)
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
        ):  # fmt: skip
            with pytest.raises(Exception) as numpys:  # noqa: PT011  # whatever NumPy raises
                wrong(np.random.default_rng(1))
            with pytest.raises(numpys.type):
                wrong(tape)


def test_types_are_numpys() -> None:
    numpys = np.random.default_rng(1)
    for rows in (False, True):
        tape = Tape(1, proposal(), 8, rows)
        tape.begin(0)
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


def test_streams_beside_the_tape_are_plain() -> None:
    @numba.njit
    def compiled(g: Any, n: int) -> Any:
        return g.normal(0.0, 1.0, n)

    size, mixture = 20_000, proposal()
    tape = Tape(2, mixture, size, True)
    drawn = [
        tape.standard_normal(size), tape.spawn(1)[0].standard_normal(size), compiled(tape, size),
        np.random.Generator(tape.bit_generator).standard_normal(size),
        np.random.Generator(tape.bit_generator.jumped()).standard_normal(size),
    ]  # fmt: skip
    assert len(tape.entries()) == 1
    for values in drawn[1:]:
        assert stats.kstest(values, stats.norm.cdf).pvalue > RARE
    assert np.unique(np.concatenate(drawn)).size == 5 * size  # none comes twice
    with pytest.raises(TypeError, match="wound back"):
        tape.bit_generator.state = tape.bit_generator.state
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="its call's alone"):
            copied(tape)


def test_whoever_keeps_the_generator_draws_plainly_later() -> None:
    for rows in (False, True):
        tape = Tape(2, proposal(), 400, rows)
        tape.begin(0)
        for draw, _ in LAWS.values():
            draw(tape, 400)
        tape.permutation(5)
        tape.close()
        before, shared = tape.log_weights(np.arange(400))[0], tape.shared
        for name, (draw, law) in {**LAWS, **PLAIN_ONLY}.items():
            draw(tape, None)
            check_law(np.asarray(draw(tape, 20_000)), law, name)
        tape.shuffle(np.arange(5))
        assert stats.chisquare(np.bincount([int(tape.permutation(4)[0]) for _ in range(2_000)])).pvalue > RARE
        assert np.array_equal(before, tape.log_weights(np.arange(400))[0])
        assert shared == tape.shared


def test_no_output_is_weighed_of_none() -> None:
    for rows in (False, True):
        tape = Tape(2, proposal(), 8, rows)
        tape.begin(3)
        for draw, _ in LAWS.values():
            draw(tape, 8)
        logs, errors = tape.log_weights(np.empty(0, np.int64))
        assert logs.size == errors.size == 0
        one, _ = tape.log_weights(np.array([3]))
        assert np.array_equal(one, tape.log_weights(np.arange(8))[0][3:4])


WIDE = np.longdouble


def reference(entries: list[Any], mixture: Proposal, output: int) -> Any:
    """log w of one output in extended precision, literally: densities by the book, one after another."""
    ratios = []
    for c in range(mixture.count):
        total = WIDE(0.0)
        for entry in entries:
            rows = np.arange(entry.values.shape[0]) if entry.rows is None else entry.rows
            for row in np.flatnonzero(rows == output):
                for j in range(min(int(entry.used[row]), 1 if entry.kind == "order" else entry.values.shape[1])):
                    if entry.first + j < mixture.tables[entry.kind].shape[1]:
                        total += literal(entry, int(row), j, mixture.tables[entry.kind][c, entry.first + j])
        ratios.append(total)
    top = max(ratios)
    shares = [WIDE(share) for share in mixture.shares]
    return -top - np.log(sum(share * np.exp(ratio - top) for share, ratio in zip(shares, ratios, strict=True)))


def literal(entry: Any, row: int, j: int, given: Floats) -> Any:
    """log g/f of one entry."""
    x, p = entry.values[row] if entry.kind == "order" else WIDE(entry.values[row, j]), given.astype(WIDE)
    one = WIDE(1.0)

    def base(part: Any) -> Any:
        return WIDE(np.broadcast_to(part, entry.values.shape)[row, j])

    match entry.kind:
        case "normal":
            return -np.log(p[1]) + (x * x - ((x - p[0]) / p[1]) ** 2) / 2
        case "exponential":
            return x - x / p[0] - np.log(p[0])
        case "laplace":
            chance, scale = (p[0], p[1]) if x >= 0 else (one - p[0], p[2])
            return np.log(2 * chance / scale) + abs(x) - abs(x) / scale
        case "uniform":
            edges = np.concatenate([[WIDE(0.0)], p[BINS:], [one]])
            b = int(np.searchsorted(edges, x, "right")) - 1
            return np.log(p[b] / (edges[b + 1] - edges[b]))
        case "gamma":
            return x - x / p[0] - base(entry.base) * np.log(p[0])
        case "poisson":
            return x * p[0] - base(entry.base) * np.expm1(p[0])
        case "binomial":
            n, chance = (base(part) for part in entry.base)
            grown = chance * np.expm1(p[0])
            return x * p[0] - n * (np.log1p(grown) if grown > -0.5 else np.log(one - chance + chance * np.exp(p[0])))
        case "choice":
            masses = entry.base.astype(WIDE)
            return p[int(x)] - np.log((masses * np.exp(p[: masses.size])).sum() / masses.sum())
    assert entry.kind == "order"
    left, total = list(range(entry.base)), WIDE(0.0)
    for item in x:
        total += p[item] - np.log(sum(np.exp(p[k]) for k in left)) + np.log(WIDE(len(left)))
        left.remove(int(item))
    return total


def all_kinds(g: Any, n: Any, times: int) -> None:
    for _ in range(times):
        for draw in (
            lambda: g.normal(size=n), lambda: g.exponential(size=n), lambda: g.laplace(size=n), lambda: g.random(n),
            lambda: g.gamma(300.0, size=n), lambda: g.gamma(0.5, size=n),
            lambda: g.poisson(200.0, n), lambda: g.poisson(0.01, n),
            lambda: g.binomial(1000, 0.999, n), lambda: g.binomial(1, 0.5, n),
            lambda: g.choice(50, n), lambda: g.choice(2, n, p=[0.999, 0.001]),
        ):  # fmt: skip
            draw()
        if n is None:
            g.permutation(20)
            g.choice(200, 5, replace=False)


@pytest.mark.parametrize("strength", (1e-6, 0.05, 0.5, 3.0))
@pytest.mark.parametrize("rows", (True, False))
def test_log_weights_are_exact_within_the_bound_that_is_told(strength: float, rows: bool) -> None:
    """Against extended precision, of tilts so slight that terms cancel and so strong that masses vanish; 40 outputs each."""
    size = 40
    for seed in range(2):
        mixture = proposal(seed, strength)
        longer = {kind: np.tile(table, (1, 20, 1)) for kind, table in mixture.tables.items()}
        for times, mixed_ in ((1, mixture), (15, Proposal(mixture.shares, longer))):
            tape = Tape(seed, mixed_, size, rows)
            if rows:
                all_kinds(tape, size, times)
            else:
                for number in range(0, size, 4):
                    tape.begin(number)
                    all_kinds(tape, None, times)
            which = np.arange(0, size, 4)
            logs, bounds = tape.log_weights(which)
            entries = tape.entries()
            exact = np.array([reference(entries, mixed_, int(i)) for i in which])
            off = np.abs(logs.astype(WIDE) - exact)
            assert (off <= bounds).all()
            assert (bounds > 0.0).all()
            assert (
                bounds < (1e-9, 1e-7)[times > 1]
            ).all()  # of the weight; worst cases of 13 and 195 terms, some of thousands


def test_the_bound_of_a_few_normals_is_far_below_what_sums_are_rounded_to() -> None:
    """Units of M · 2^-40, 9e-13 of the largest weight."""
    tape = Tape(1, proposal(), 1_000, True)
    tape.normal(size=(1_000, 3))
    assert tape.log_weights(np.arange(1_000))[1].max() < 2.0**-40


@pytest.mark.parametrize("rows", (True, False))
@pytest.mark.parametrize(
    "kind, draw, row",
    (
        ("gamma", lambda g, n: g.standard_gamma(1e6, n), np.array([1.0 + 1e-6])),
        ("binomial", lambda g, n: g.binomial(1_000, 1.0 - 1e-12, n), np.array([-25.0])),
        ("binomial", lambda g, n: g.binomial(10**6, 1e-9, n), np.array([1e-3])),
        ("poisson", lambda g, n: g.poisson(1e6, n), np.array([1e-7])),
        ("exponential", lambda g, n: g.standard_exponential(n), np.array([1.0 + 1e-9])),
        ("normal", lambda g, n: g.standard_normal(n), np.array([1e-9, 1.0 - 1e-9])),
        ("laplace", lambda g, n: g.laplace(0.0, 1.0, n), np.array([0.5 + 1e-9, 1.0 + 1e-9, 1.0 - 1e-9])),
    ),
)
def test_the_bound_holds_where_terms_of_one_kind_cancel(kind: str, draw: Any, row: Floats, rows: bool) -> None:
    mixture, size = join([{kind: row[None]}], np.array([0.5, 0.5]), PLAIN), 40
    tape = Tape(1, mixture, size, rows)
    if rows:
        draw(tape, size)
    else:
        for number in range(size):
            tape.begin(number)
            draw(tape, None)
    logs, bounds = tape.log_weights(np.arange(size))
    exact = np.array([reference(tape.entries(), mixture, i) for i in range(size)])
    assert (np.abs(logs.astype(WIDE) - exact) <= bounds).all()


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


def test_places_beyond_those_that_are_kept_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a mechanism that draws a million numbers for an output does not fill the memory."""
    monkeypatch.setattr(drawing, "_MOST_KEPT", 1)
    for out, tape in (
        by_rows(many_places, proposal(2), 3),
        one_by_one(lambda g: many_places(g, None), proposal(2), 3, 3_000),
    ):
        check_weights(out, tape, quantiles(stats.norm(0.0, math.sqrt(2.0))), "kept")
        for entry in tape.entries():
            assert entry.first < PLACES
            assert entry.used.max() <= PLACES
