"""The audit of a claimed trade-off curve: one test a pair, at a threshold that training alone chose.

Askin et al. (2025), Algorithm 2, in the corrected form: a violation is found exactly when T0(α⁺) > β⁺ at the upper
limits α⁺, β⁺ of both error rates. The false-alarm probability is at most γ for any numbers of samples, any classifier
and any threshold that does not depend on the test outputs (their Theorem 5.2(1)); finite-sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.asked import wrong
from hpcdp.errors import StudyError
from hpcdp.notions.box import Limits, epsilon_lower, error_limits, margins, mu_lower, promises
from hpcdp.notions.resolution import share_level
from hpcdp.results.result import Result
from hpcdp.results.shown import CONSISTENT, NOT_SEPARABLE, VIOLATION, Shown
from hpcdp.store.root import resume_command
from hpcdp.study.claims import Claim, as_claim

if TYPE_CHECKING:
    import pandas as pd


Ints = NDArray[np.int64]
Orientation = Literal["both", "forward", "reverse"]

DELTAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Masses for which a lower bound on ε is printed."""


@dataclass(frozen=True)
class Box:
    """One test: a pair, an orientation, the η that training chose, and where both error rates are.

    orientation: "forward" compares the trade-off curve of (D, D') with the claimed one, "reverse" that of (D', D).
    alpha, beta: shares of M(D) outputs that are rejected and of M(D') outputs that are not. alpha_upper, beta_upper: they
    are at most so large, together, with probability 1 − level (finite-sample). claimed: the least type-II error that the
    claim allows at the upper limit of the type-I error, in this orientation. margin: claimed minus the upper limit of the
    type-II error; above 0 the claim is violated. point_margin: the same at the estimated errors themselves.
    """

    pair: int
    orientation: str
    eta: float
    alpha: float
    beta: float
    alpha_upper: float
    beta_upper: float
    level: float
    claimed: float
    margin: float
    point_margin: float
    violated: bool


@dataclass(frozen=True)
class Bounds:
    """Certified lower bounds that hold for the largest privacy loss of all pairs; each by itself at the confidence.

    mu: of Gaussian DP, from the audit's box and from the limits that hold at every η at once; a fit of a curve is neither.
    epsilon: (δ, from the box, from every η) at several δ.
    """

    mu: tuple[float, float]
    epsilon: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Shown):
    """What an audit found.

    verdict: "violation" (certified); "not separable" when some estimated point lies below the claimed curve, but no box
    does, and when draws depend on each other; else "consistent". The last two say that no violation was found with so many
    samples, which proves no privacy.
    boxes: one a pair and orientation, pair by pair. bounds: lower bounds on ε and μ.
    """

    result: Result
    claim: Claim
    orientation: Orientation
    limits: Limits
    verdict: str
    boxes: Sequence[Box]
    bounds: Bounds

    def __repr__(self) -> str:
        return f"<hpcdp.Audit {self.result.name}: {self.claim.text}: {self.verdict}, confidence {self.result.confidence:g}>"

    def to_dataframe(self) -> pd.DataFrame:
        """Every box as a pandas DataFrame, one a row."""
        import pandas as pd

        return pd.DataFrame([vars(box) for box in self.boxes])

    @property
    def worst(self) -> Box:
        """The box with the largest margin."""
        return max(self.boxes, key=lambda box: box.margin)

    def to_dict(self) -> dict[str, Any]:
        """The object that `audit --format json` prints; all numbers are finite, or null."""
        return {
            "verdict": self.verdict,
            "claim": self.claim.text,
            "confidence": self.result.confidence,
            "name": self.result.name,
            "orientation": self.orientation,
            "limits": self.limits,
            "bounds": {
                "mu": {"box": self.bounds.mu[0], "all": self.bounds.mu[1]},
                "epsilon": [{"delta": d, "box": box, "all": every} for d, box, every in self.bounds.epsilon],
            },
            "cells": [vars(box) for box in self.boxes],
            **self.result.changed_entry,
        }


def audit(result: Result, claim: Claim | str, orientation: Orientation = "both", limits: Limits = "exact") -> Audit:
    """Audit a claim by the counts of a complete result with a grid of η; see `hpcdp.driver.direct.audit`."""
    refuse_unknown(orientation, limits)
    claim = as_claim(claim)
    if result.method.unaudited:
        raise StudyError(result.method.unaudited)
    if "eta" not in result.arrays:
        raise StudyError("estimate.etas: none in this study; an audit needs a grid of thresholds")
    if not result.complete:
        raise StudyError(f"{result.store} is not complete yet; go on with: {resume_command(result.store)}")
    failure, sides = 1.0 - result.confidence, sides_of(claim, orientation)
    test = np.broadcast_to(result["rejected_test"][:, None, :], result["rejected"].shape)
    errors = np.stack([result["rejected"][..., 0], test[..., 1] - result["rejected"][..., 1]], axis=-1)
    shares = result["training_rejected"]
    training = np.stack([shares[..., 0], 1.0 - shares[..., 1]], axis=-1)
    size = np.maximum(1, np.rint(1.0 / (1.0 / test + 1.0 / result.study.estimate.train)).astype(np.int64))
    score = np.stack(
        [promises(claim.tradeoff, turn(training, side), turn(size, side), failure, limits) for side in sides], axis=1
    )
    chosen = score.argmax(axis=2)  # (pair, orientation)
    most = np.take_along_axis(score, chosen[..., None], 2)
    level = share_level(most, (*most.shape[:2], 1), failure)[..., 0]
    etas, known = result["eta"], limits if result.depends is None else None
    boxes = [
        _box(claim, (pair, side), float(etas[column]), errors[pair, column], test[pair, column], level[pair, n], known)
        for pair in range(len(result.pairs))
        for n, (side, column) in enumerate(zip(sides, chosen[pair], strict=True))
    ]
    verdict = CONSISTENT
    if any(box.violated for box in boxes):
        verdict = VIOLATION
    elif result.depends is not None or any(box.point_margin > 0.0 for box in boxes):
        verdict = NOT_SEPARABLE
    return Audit(result, claim, orientation, limits, verdict, boxes, _bounds(result, boxes))


def refuse_unknown(orientation: str, limits: str) -> None:
    """StudyError for a word that is none of those accepted."""
    for name, given, accepted in (("orientation", orientation, Orientation), ("limits", limits, Limits)):
        if given not in get_args(accepted):
            raise wrong(name, given, ", ".join(get_args(accepted)))


def sides_of(claim: Claim, orientation: Orientation) -> list[str]:
    """The orientations in which a claim is tested: one where it says the same in both."""
    if orientation == "both":
        return ["forward"] if claim.is_symmetric else ["forward", "reverse"]
    return [orientation]


def turn(errors: NDArray[Any], side: str) -> NDArray[Any]:
    """Errors (…, 2) of (D, D') as those of an orientation: in reverse the second error comes first."""
    return errors if side == "forward" else errors[..., ::-1]


def _box(
    claim: Claim, place: tuple[int, str], eta: float, errors: Ints, n: Ints, level: float, limits: Limits | None
) -> Box:
    pair, side = place
    over = np.ones(2) if limits is None else error_limits(errors, n, np.asarray(level), limits)
    turned = turn(over, side)
    margin = float(margins(claim.tradeoff, turned))
    return Box(
        pair=pair,
        orientation=side,
        eta=eta,
        alpha=float(errors[0] / n[0]),
        beta=float(errors[1] / n[1]),
        alpha_upper=float(over[0]),
        beta_upper=float(over[1]),
        level=float(level),
        claimed=float(claim.tradeoff(min(1.0, float(turned[0])))),
        margin=margin,
        point_margin=float(margins(claim.tradeoff, turn(errors / n, side))),
        violated=margin > 0.0,
    )


def _bounds(result: Result, boxes: Sequence[Box]) -> Bounds:
    first, second = (np.minimum([getattr(box, name) for box in boxes], 1.0) for name in ("alpha_upper", "beta_upper"))
    alpha, beta = result["alpha_upper"], result["beta_upper"]
    mu = (float(mu_lower(first, second).max()), float(mu_lower(alpha, beta).max()))
    epsilon = tuple(
        (d, float(epsilon_lower(first, second, d).max()), float(epsilon_lower(alpha, beta, d).max())) for d in DELTAS
    )
    return Bounds(mu, epsilon)
