"""δ̂ and trade-off points against exact values, at parameters, sizes and seeds that were fixed beforehand.

The pass rule of a cell: truth − 5 se − reg ≤ δ̂ ≤ truth + 5 se. se is the standard error of the low-variance estimator at
the truth: the exact P(S*) and Q(S*) of the set S* = {L > ε} (reverse: {L < −ε}) and the number of test outputs. Where S*
is empty, it is S* of the last ε below the plateau, which bounds what any set within the plateau can give.

reg allows for the classifier's regret: 0.004 up to ε = 0.5 and 0.015 above; Gaussian pairs, which have no plateau, 0.004
throughout; three outcomes 0.001. Within three standard deviations s = 1/√(k π0 π1) of L̂ from a plateau at ε0, at least
0.1 s, with π0 = e^ε0/(1 + e^ε0): half the outputs lie on the plateau, and ½ d Φ(−d/s) is at most 0.085 s.
"""

import numpy as np
import pytest
from studies import learn_and_count, make_study, pose, run

from hpcdp.analytic import Discrete, LaplaceShift, exact
from hpcdp.losses.parameters import choose_k
from hpcdp.mechanisms.outputs import Schema
from hpcdp.results.load import assemble
from hpcdp.study.databases import enumerate_pairs, load_databases

SIZE = 200_000
SEED = 3
SEEDS = [SEED, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (14, 159, 2653, 58979))]
EPSILONS = [0.0, 0.05, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 1.7, 1.9]
ETAS = [0.25, 0.4, 0.5, 0.7, 0.8, 0.95, 1.0, 1.1, 1.25, 1.5, 2.0, 2.7, 4.0]
DIRECTIONS = ("forward", "reverse")

PAIRS = {
    "laplace": ({"epsilon": 1.0}, [([0.0], [0.6]), ([0.0], [1.7]), ([2.5], [1.25])]),
    "gaussian": ({"sigma": 2.0}, [([0.0], [0.7]), ([1.0], [-0.8])]),
    "calibrated at 1": ({"epsilon": 1.0, "delta": 1e-5}, [([0.0], [1.0])]),
    "calibrated at 0.7": ({"epsilon": 0.7, "delta": 1e-3, "sensitivity": 3.0}, [([1.0], [4.0])]),
}
"""Laplace pairs of ε0 = 0.6, 1.7, 1.25; Gaussian ones of μ = 0.35, 0.9 and of the classical calibration."""


def plateau_of(curve):
    """The largest |L|, where half the outputs of a Laplace pair have it; infinite of a Gaussian pair."""
    return curve.epsilon0 if isinstance(curve, LaplaceShift) else np.inf


def masses(curve, epsilon, direction):
    """Exact P and Q (the side that is not inflated first) of the best set at ε, or of the last one that is not empty."""
    level = min(epsilon, plateau_of(curve) * (1 - 1e-9))
    alpha, beta = (float(x) for x in curve.point(np.exp(-level if direction == "forward" else level)))
    return (1 - alpha, beta) if direction == "forward" else (1 - beta, alpha)


def noise(a, b, epsilon, size):
    """Standard error of a − e^ε b, at least that of one output."""
    return max(1 / size, np.sqrt((a * (1 - a) + np.exp(2 * epsilon) * b * (1 - b)) / size))


def truth_error(curve, epsilon, direction, size):
    """Standard error of the low-variance estimator at the truth."""
    return noise(*masses(curve, epsilon, direction), epsilon, size)


def allowance(curve, epsilon, k):
    """reg of the pass rule."""
    if isinstance(curve, Discrete):
        return 0.001
    plateau = plateau_of(curve)
    if not np.isfinite(plateau):
        return 0.004
    odds = np.exp(plateau)
    spread = (1 + odds) / np.sqrt(k * odds)
    plain = 0.004 if epsilon <= 0.5 else 0.015
    return max(plain, 0.1 * spread) if abs(epsilon - plateau) < 3 * spread else plain


def scores(delta, curve, epsilons, size, k):
    """How many se each cell (2, epsilons) of one pair is above the truth, and below it after reg: the rule is ≤ 5."""
    above, below = [], []
    for side, direction in enumerate(DIRECTIONS):
        for column, epsilon in enumerate(epsilons):
            error, truth = truth_error(curve, epsilon, direction, size), float(curve.delta(epsilon, direction))
            below.append((truth - allowance(curve, epsilon, k) - delta[side, column]) / error)
            above.append((delta[side, column] - truth) / error)
    return max(above), max(below)


def point_scores(alpha, beta, curve, etas, size, k):
    """The same of the trade-off points: their weighted risk η α + β or α + β/η, whose least value is the exact point's."""
    above, below = [], []
    for column, eta in enumerate(etas):
        level = abs(np.log(eta))
        weights = np.array([min(1.0, eta), min(1.0, 1 / eta)])
        point, found = np.array([float(x) for x in curve.point(eta)]), np.array([alpha[column], beta[column]])
        # the risk is min(η, 1/η)·(1 − δ) of the sets {L̂ ≥ −log η} of D, or {L̂ < −log η} of D' where η > 1
        risk_error = truth_error(curve, level, "forward" if eta <= 1 else "reverse", size)
        gain = float(weights @ (point - found)) / weights.min()
        above.append(gain / risk_error)
        below.append((-gain - allowance(curve, level, k)) / risk_error)
    return max(above), max(below)


def study_of(name, rule, seed, **more):
    parameters, pairs = PAIRS[name]
    call = "laplace" if name == "laplace" else "gaussian"
    estimate = dict(epsilons=EPSILONS, etas=ETAS, train=SIZE, test=SIZE, chunk=1 << 16, keep="none") | more
    return make_study(call, parameters, pairs, seed=seed, loss_parameters={"k": rule}, **estimate)


def worst_scores(arrays, study):
    """Worst scores of all cells (2) and of all points (2) of a study on Laplace or Gaussian pairs; they are printed."""
    k = choose_k(study.estimate.parameters["k"], 2 * study.estimate.train)
    found = []
    for pair in enumerate_pairs(study, load_databases(study)):
        curve = exact(study.mechanism.call, study.mechanism.parameters, pair.d, pair.d_prime)
        delta, alpha, beta = (arrays[name][1][pair.number] for name in ("delta", "alpha", "beta"))
        cells = scores(delta, curve, study.estimate.epsilons, study.estimate.test, k)
        found.append(cells + point_scores(alpha, beta, curve, study.estimate.etas, study.estimate.test, k))
    worst = np.max(found, axis=0)
    tell("cells above, below, points above, below", worst)
    return worst


def tell(what, worst):
    """Print worst scores, so that a log shows how near the limit of 5 they come."""
    print(f"worst score in se ({what}): {', '.join(f'{score:z.2f}' for score in np.atleast_1d(worst))}")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rule", ["sqrt", "10sqrt"])
@pytest.mark.parametrize("name", PAIRS)
def test_noise(name, rule, seed):
    study = study_of(name, rule, seed)
    problem = pose(study)
    arrays = assemble(problem, learn_and_count(problem)[0])
    assert (worst_scores(arrays, study) <= 5.0).all()


MODE = np.exp(np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 0.0], [0.0, 2.0, 0.0]]))
MODE /= MODE.sum(axis=1, keepdims=True)
"""The exponential mechanism of ε0 = 2 for the most frequent of 0, 1, 2, on {0,1,1}, {0,1} and {1,1}."""

MODE_EPSILONS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]


def mode_study(pairs, loss, seed, **more):
    estimate = dict(epsilons=MODE_EPSILONS, etas=[0.5, 0.8, 1.25, 2.0], train=SIZE, test=SIZE, chunk=1 << 16)
    parameters = {"outcomes": [0, 1, 2], "table": MODE.tolist()}
    return make_study("pmf", parameters, pairs, seed=seed, loss=loss, **(estimate | more))


def mode_arrays(pairs, loss, seed):
    problem = pose(mode_study(pairs, loss, seed, keep="none"), Schema("int", None))
    return {name: array for name, (_, array) in assemble(problem, learn_and_count(problem)[0]).items()}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loss", ["knn", "frequency"])
def test_forward_and_reverse_of_an_asymmetric_pair(loss, seed):
    p, q = MODE[0], MODE[1]
    growth = np.exp(MODE_EPSILONS)
    truth = np.array([np.maximum(0, p[1] - growth * q[1]), np.maximum(0, q[0] + q[2] - growth * (p[0] + p[2]))])
    a, b = np.array([p[1], q[0] + q[2]])[:, None], np.array([q[1], p[0] + p[2]])[:, None]
    error = np.sqrt((a * (1 - a) + growth**2 * b * (1 - b)) / SIZE)
    delta = mode_arrays([([0], [1])], loss, seed)["delta"][0]
    above, below = ((delta - truth) / error).max(), ((truth - 0.001 - delta) / error).max()
    tell("cells above, below", [above, below])
    assert max(above, below) <= 5.0
    told_apart = np.abs(truth[0] - truth[1]) > 10 * error.max(axis=0) + 0.002
    assert told_apart[3:5].all()  # there the other orientation would not pass


@pytest.mark.parametrize("loss", ["knn", "frequency"])
def test_type_1_and_type_2_errors_of_an_asymmetric_pair(loss):
    arrays = mode_arrays([([0], [1])], loss, SEED)
    alpha, beta = arrays["alpha"][0], arrays["beta"][0]
    p, q = MODE[0], MODE[1]  # q/p is 1.7257, 0.6349, 1.7257: reject at 0 and 2, where η lies between
    np.testing.assert_array_equal([alpha[0], beta[0], alpha[3], beta[3]], [1.0, 0.0, 0.0, 1.0])
    wanted = np.array([p[0] + p[2], q[1]])
    np.testing.assert_array_equal(np.transpose(Discrete(p, q).point([0.8, 1.25])), [wanted, wanted])
    error = np.sqrt(wanted * (1 - wanted) / SIZE)
    off = [np.abs([alpha[column], beta[column]] - wanted) / error for column in (1, 2)]
    tell("points", np.max(off))
    assert np.max(off) <= 5.0


@pytest.mark.parametrize("loss", ["knn", "frequency"])
def test_exceeding_is_strict(loss):
    parameters = {"outcomes": [0], "table": [[1.0], [1.0]]}
    study = make_study("pmf", parameters, [([0], [1])], seed=1, loss=loss, epsilons=[0.0], etas=[1.0], train=100, test=100,
                       keep="none")  # fmt: skip
    problem = pose(study, Schema("int", None))
    arrays = {name: array for name, (_, array) in assemble(problem, learn_and_count(problem)[0]).items()}
    assert not arrays["exceed"].any()  # L̂ = 0 is above 0 in neither direction
    wanted = Discrete([1.0], [1.0]).point(1.0)
    assert (arrays["alpha"].item(), arrays["beta"].item()) == wanted == (0.0, 1.0)


@pytest.mark.slow
def test_relative_spectrum(client, tmp_path):
    """A sum with Gaussian noise, of values beyond the limits too."""
    parameters = {"lower": -1.0, "upper": 0.5, "epsilon": 1.5, "delta": 1e-2, "noise": "gaussian"}
    databases = {"databases": [[0.3, -7.0, 9.0], [0.1, 0.2, -0.6]]}
    sizes = {"epsilons": EPSILONS, "train": SIZE, "test": SIZE, "chunk": 1 << 16}
    study = make_study("bounded_sum", parameters, databases, seed=271, **sizes)
    curves = [exact("bounded_sum", parameters, p.d, p.d_prime) for p in enumerate_pairs(study, load_databases(study))]
    result = run(study, tmp_path / "store", client)
    assert len(curves) == len(result.pairs) == 6
    k = choose_k("sqrt", 2 * SIZE)
    found = np.array([scores(result["delta"][n], curve, EPSILONS, SIZE, k) for n, curve in enumerate(curves)])
    tell("cells above, below", found.max(axis=0))
    assert (found <= 5.0).all()
    check_maximum(result, curves, k)


def check_maximum(result, curves, k):
    """The maximum and who leads, wherever the exact lead is more than noise and regret can turn."""
    leaders = set()
    for column, epsilon in enumerate(result["epsilon"]):
        truth = np.array([[float(c.delta(epsilon, side)) for side in DIRECTIONS] for c in curves])
        error = np.array([[truth_error(c, epsilon, side, SIZE) for side in DIRECTIONS] for c in curves])
        regret = np.array([[allowance(c, epsilon, k)] * 2 for c in curves])
        pair, side = result["spectrum_pair"][column], result["spectrum_direction"][column]
        largest = result["spectrum_delta"][column]
        assert largest == result["delta"][pair, side, column] == result["delta"][..., column].max()
        assert (truth - 5 * error - regret).max() <= largest <= (truth + 5 * error).max()
        best = np.unravel_index(truth.argmax(), truth.shape)[0]
        others = np.delete(truth + 5 * error, best, axis=0)
        if (truth - 5 * error - regret)[best].max() > others.max(initial=0.0):
            leaders.add(int(best))
            assert pair == best
    assert leaders
