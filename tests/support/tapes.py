"""Random tapes of tests: proposals at random, laws that mechanisms draw, and checks against them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import BINS, Proposal, join

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
    }


def proposal(seed: int = 0, strength: float = 1.0) -> Proposal:
    rng = np.random.default_rng(seed)
    return join([component(rng, strength) for _ in SHARES[1:]], SHARES)


def by_rows(mechanism: Callable[[Any, int], Any], mixture: Proposal, seed: int, size: int = SIZE, **how: Any) -> Any:
    tape = Tape(seed, mixture, size, True, **how)
    generator = tape.generator()
    out = np.asarray(mechanism(generator, size))
    generator.close()
    return out, tape


def one_by_one(mechanism: Callable[[Any], Any], mixture: Proposal, seed: int, size: int, **how: Any) -> Any:
    tape, out = Tape(seed, mixture, size, False, **how), []
    for number in range(size):
        generator = tape.generator(number)
        out.append(mechanism(generator))
        generator.close()
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
