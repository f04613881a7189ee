"""Runs without a store, for figures that need hundreds: the same draws, estimates and counts as `hpcdp run` of that seed.

The functions that tasks call take the study as JSON text, which worker processes resolve once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from paper_figures.seeds import draw, resolved, with_seed

from hpcdp.analytic import Curve, exact
from hpcdp.losses import make_loss
from hpcdp.losses.counts import below, eta_thresholds
from hpcdp.losses.protocol import Model, Side
from hpcdp.notions.bounds import hoeffding_radius
from hpcdp.notions.box import Limits, margins
from hpcdp.notions.curve import TradeOffCurve
from hpcdp.notions.perturbed import Points, error, most_vulnerable, perturbed_points
from hpcdp.notions.tradeoff import make_tradeoff
from hpcdp.results.audit import audit
from hpcdp.results.result import Result
from hpcdp.store.results import Arrays
from hpcdp.study.claims import Claim, parse_claim
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem

Floats = NDArray[np.float64]

PROCEDURES = ("published", "hoeffding", "exact")
"""How an audit is done: Algorithm 2 as it is published (corrected), or hpcdp's own with Hoeffding's or exact limits."""

_TOLERANCE = 1e-6  # of the polygon that stands for an exact curve; errors are 1000 times as large


def with_sizes(study: Study, train: int, test: int | None = None, confidence: float | None = None) -> Study:
    """The study with other numbers of samples, and another confidence."""
    body = study.to_dict()
    body["estimate"] |= {"train": train}
    body["estimate"] |= {} if test is None else {"test": test}
    body["estimate"] |= {} if confidence is None else {"confidence": confidence}
    return Study.from_dict(body, study.folder)


@dataclass(frozen=True, eq=False)
class Learned:
    """What training tells of the first pair: L̂, its perturbed trade-off points at the study's η, and what it saw, D first."""

    model: Model
    points: Points
    training: list[NDArray[Any]]


def learn(problem: Problem) -> Learned:
    """Draw the training samples and learn from them."""
    e = problem.study.estimate
    training = [draw(problem, problem.train, law) for law in problem.pair_laws[0]]
    model: Any = make_loss(e.loss, e.parameters, problem.study.folder).fit(*(Side(x, e.train) for x in training))
    p, q = model.masses()
    return Learned(model, perturbed_points(p, q, np.asarray(e.etas)), training)


def measure(problem: Problem, learned: Learned) -> Arrays:
    """What an audit needs of a run's result: how many training and test outputs of both sides each η rejects."""
    etas = np.asarray(problem.study.estimate.etas)
    thresholds = problem.thresholds
    columns = np.searchsorted(thresholds, eta_thresholds(etas))
    counter = learned.model.counter(thresholds)
    test = [draw(problem, problem.test, law) for law in problem.pair_laws[0]]
    seen, fresh = (
        np.stack([below(counter.count(x))[columns] for x in sides], axis=-1)[None] for sides in (learned.training, test)
    )
    return {
        "eta": (("eta",), etas),
        "rejected": (("pair", "eta", "side"), fresh),
        "rejected_test": (("pair", "side"), np.full((1, 2), problem.study.estimate.test)),
        "training_rejected": (("pair", "eta", "side"), seen / problem.study.estimate.train),
        "training_alpha": (("pair", "eta"), learned.points[0][None]),
        "training_beta": (("pair", "eta"), learned.points[1][None]),
    }


def make_result(study: Study, measured: Arrays) -> Result:
    """What was measured, with limits at the study's confidence."""
    points = make_tradeoff(measured["rejected"][1], measured["rejected_test"][1], study.estimate.confidence)
    names = ("alpha", "beta", "radius", "alpha_upper", "beta_upper")
    limits: Arrays = {name: (("pair", "eta"), getattr(points, name)) for name in names}
    return Result(study, study.folder, True, [{"pair": 0}], measured | limits, [])


def audit_box(result: Result, claim: Claim, procedure: str) -> dict[str, Any]:
    """η, both errors there, their upper limits, and whether an audit of T0 of (D, D′) finds a violation.

    "published" is Algorithm 2 of Askin et al. (2025) to the letter, but for its errata: η* has the largest gap to the claim
    on training samples (equation 7), and w = √(ln(4/γ)/(2n)) is added to both errors there (equation 20).
    """
    if procedure != "published":
        limits: Limits = "exact" if procedure == "exact" else "hoeffding"
        return dict(vars(audit(result, claim, "forward", limits).worst))
    best = most_vulnerable(result["training_alpha"][0], result["training_beta"][0], claim)
    radius = float(hoeffding_radius(result.study.estimate.test, 1.0 - result.confidence))
    alpha, beta = (float(result[name][0, best]) for name in ("alpha", "beta"))
    margin = float(margins(claim.tradeoff, np.array([alpha + radius, beta + radius])))
    box = {"eta": float(result["eta"][best]), "alpha": alpha, "beta": beta, "violated": margin > 0.0}
    return box | {"alpha_upper": alpha + radius, "beta_upper": beta + radius}


def symmetrised_error(points: Points, truth: TradeOffCurve) -> float:
    """Error_T of the symmetrised estimate, C[T̂], at its corners; truth: C[T]."""
    both = TradeOffCurve.from_points(*points).symmetrise()
    return error((both.alpha, both.beta), truth)


def exact_pair(problem: Problem) -> Curve:
    """The exact curve of the first pair.

    Raises:
        ValueError: none is known.
    """
    pair, mechanism = problem.pairs[0], problem.study.mechanism
    curve = exact(str(mechanism.call), mechanism.parameters, np.asarray(pair.d), np.asarray(pair.d_prime))
    if curve is None:
        raise ValueError(f"{problem.study.name}: no exact curve is known of its pair")
    return curve


def measure_errors(text: str, folder: str, seeds: Sequence[int]) -> list[tuple[float, float]]:
    """Error_T of each seed, of the estimate and of the symmetrised one."""
    problem = resolved(text, folder)
    truth = TradeOffCurve.from_curve(exact_pair(problem), _TOLERANCE)
    both = truth.symmetrise()
    found = []
    for seed in seeds:
        points = learn(with_seed(problem, seed)).points
        found.append((error(points, truth), symmetrised_error(points, both)))
    return found


def count_violations(text: str, folder: str, seeds: Sequence[int], gammas: Sequence[float]) -> list[list[int]]:
    """How many audits of the study's claim find a violation: for each γ, by each of the procedures."""
    problem = resolved(text, folder)
    claim = parse_claim(str(problem.study.study.claim), problem.study.folder)
    estimate = problem.study.estimate
    studies = [
        problem.study.model_copy(update={"estimate": estimate.model_copy(update={"confidence": 1.0 - gamma})})
        for gamma in gammas
    ]
    found = np.zeros((len(gammas), len(PROCEDURES)), np.int64)
    for seed in seeds:
        seeded = with_seed(problem, seed)
        measured = measure(seeded, learn(seeded))
        for row, study in zip(found, studies, strict=True):
            result = make_result(study, measured)
            row += [audit_box(result, claim, procedure)["violated"] for procedure in PROCEDURES]
    return found.tolist()
