"""A result against a claim: violated (certified), consistent, or not separable at this number of test samples."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hpcdp._base.asked import wrong
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.errors import StudyError
from hpcdp.results.levels import INTEGRAL
from hpcdp.results.result import Result, finite, rows_of
from hpcdp.results.shown import CONSISTENT, NOT_SEPARABLE, VIOLATION, Shown
from hpcdp.study.claims import Claim, as_claim

if TYPE_CHECKING:
    import pandas as pd


Floats = NDArray[np.float64]

CELLS, PURE = "delta", "pure"
"""Families of bounds, each of which holds together at the study's confidence."""

_FEW_ERRORS = 2.0  # a gap of fewer standard errors is chance, however few cells there are


@dataclass(frozen=True)
class Separation:
    """The cell whose estimate is furthest above the claim, in standard errors.

    gap: δ̂ − claimed. standard_error: asymptotic. chance: at most this is the probability that noise alone gives so many
    standard errors at one of the cells (normal tail times cells, so asymptotic). test: test samples per database at which
    a bound of that cell would pass the claim at the estimated rates (asymptotic), two digits, rounded up; None beyond 2^50,
    and in a cell that `estimate.certify` leaves out. now: test samples there are. Both count all samples where every one teaches
    and tests; of random tapes both are draws from proposals. leftover: of random tapes, how many plain draws without a hit
    the bound takes beside these; None of others, and where plain draws hit the leftover.
    """

    pair: int
    direction: str
    epsilon: float
    gap: float
    standard_error: float
    chance: float
    is_chance: bool
    test: int | None
    now: int
    leftover: int | None = None


@dataclass(frozen=True)
class CertifiedOrder:
    """What is certified of the divergence that a claim limits. **Finite-sample**, by the same event as all bounds on δ.

    order: of a claim about ρ the one that shows most. lower: of D, or of ρ for such a claim; claimed: what it allows. pair,
    direction: whose bound it is, None where it is 0. estimate: of D, asymptotic, None where it is not resolved, and of ρ.
    """

    order: float | None
    lower: float
    claimed: float
    violated: bool
    pair: int | None
    direction: str | None
    estimate: float | None = None


@dataclass(frozen=True)
class CertifiedPure:
    """What is certified of pure ε, of a study with [pure] or of a histogram. **Finite-sample**, a family of its own.

    It holds at the study's confidence. pair, direction: whose limit is the largest. estimate: the largest ln of the ratio of a
    tested set's shares, of `estimate_pair`; a point estimate, infinite where no output of the other database lies in the set;
    of a histogram the published one. Pairs are −1 of a domain, of which none is enumerated.
    """

    lower: float
    estimate: float
    claimed: float
    violated: bool
    pair: int
    direction: str
    estimate_pair: int


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Shown):
    """What a result says of a claim. verdict: "violation", "not separable" or "consistent".

    known, claimed, standard_error: whether each cell (pair, direction, epsilon) has all its counts, δ that the claim
    allows there, and the standard error of its estimate. separation: of a claim that is not separable, else None. order: of a
    claim about Rényi divergences, what is certified of them, else None. pure: of a claim of pure ε against a study with [pure],
    what is certified of that, which alone decides, so that no confidence goes to cells; None while no pair is tested, and else.
    family: of which bounds the confidence is: "delta", or "pure".
    """

    result: Result
    claim: Claim
    verdict: str
    known: NDArray[np.bool_]
    claimed: Floats
    standard_error: Floats
    separation: Separation | None
    order: CertifiedOrder | None = None
    pure: CertifiedPure | None = None
    family: str = CELLS

    def __repr__(self) -> str:
        return f"<hpcdp.Verdict {self.result.name}: {self.claim.text}: {self.verdict}, confidence {self.result.confidence:g}>"

    def to_dataframe(self) -> pd.DataFrame:
        """Every cell that has all its counts beside what is claimed, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.cells())

    @property
    def is_judged(self) -> bool:
        """Whether anything that the claim is judged by has all its counts."""
        return bool(self.known.any()) if self.family == CELLS else self.pure is not None

    @property
    def text(self) -> str:
        """The verdict in a text, where a claim may be undecided since nothing is counted yet."""
        return self.verdict if self.is_judged else "not judged yet"

    @property
    def bound(self) -> str | None:
        """Which bound is above the claim: "pure", one on "delta", or the "integral" of those; None where none is."""
        if self.verdict != VIOLATION:
            return None
        if self.family == PURE:
            return PURE
        return CELLS if (self.result["lower"][self.known] > self.claimed[self.known]).any() else INTEGRAL

    @property
    def cells_words(self) -> str:
        """How many cells were judged, of how many."""
        if self.family == PURE:
            return f"{int((~np.isnan(self.result['pure_certified'])).sum()):,} pairs"
        return f"{int(self.known.sum()):,} of {self.known.size:,} entries"

    def cells(self) -> list[dict[str, Any]]:
        """Every cell that has all its counts, pair by pair, forward before reverse, ε as in the study."""
        place = np.nonzero(self.known)
        delta, lower, claimed = (a[place] for a in (self.result["delta"], self.result["lower"], self.claimed))
        return rows_of(
            {
                "pair": place[0],
                "direction": np.array(DIRECTIONS)[place[1]],
                "epsilon": self.result["epsilon"][place[2]],
                "delta": delta,
                "lower": lower,
                "claimed": claimed,
                "gap": delta - claimed,
                "standard_error": self.standard_error[place],
                "violated": lower > claimed,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """The object that `verify --format json` prints for one claim; all numbers are finite, or null."""
        separation = None if self.separation is None else {**vars(self.separation)}
        if separation and not self.result.method.further_bounds:
            del separation["leftover"]
        return {
            "verdict": self.verdict,
            "claim": self.claim.text,
            "confidence": self.result.confidence,
            "name": self.result.name,
            "complete": self.result.complete,
            **self.result.declared,
            "cells_known": int(self.known.sum()),
            "cells_planned": self.known.size,
            "family": self.family,
            "bound": self.bound,
            "separation": separation,
            **({} if self.order is None else {"certified_order": vars(self.order)}),
            **({} if self.pure is None else {"certified_pure": finite(vars(self.pure))}),
            "cells": self.cells(),
            **self.result.changed_entry,
        }


def verify(result: Result, claim: Claim | str | None = None) -> Verdict:
    """Judge a claim by all cells of a result that have all their counts, both directions of every pair.

    Violation: a certified lower bound (finite-sample, all cells together) lies above the claim. Not separable: none does,
    but an estimate lies above it, of δ or of the divergence that it limits, or no cell is known, or draws depend on each other.
    Consistent: no estimate does,
    which proves no privacy. The claim is compared at the levels of the study; `Claim.implied` says what it claims there. A
    claim about Rényi divergences is compared with their certified bounds too, which hold by the same event as those on δ: no
    confidence is spent. A claim of pure ε is compared with the certified limit on that alone where the study has [pure] or a
    histogram: by its form, not by what is larger.

    Args:
        result: complete or not; see `Result.complete`.
        claim: a claim, or its text such as "laplace(epsilon=1)", with paths relative to the current folder; None: the study's.

    Raises:
        StudyError: the text is no claim, none is given and the study makes none, or cells are needed and the study counts none.
    """
    if not isinstance(result, Result):
        raise wrong("result", result, "a Result, such as that of hpcdp.run or hpcdp.load_result")
    given = result.claim if claim is None else claim
    if given is None:
        raise wrong("claim", None, "a text such as 'dp(epsilon=1)', since the study makes no claim")
    claim = as_claim(given)
    if claim.pure_level is not None and {"pure", "interval"} & {*result.notions}:
        return _verify_pure(result, claim, claim.pure_level)
    if result.study.at_risk is not None:
        raise StudyError(
            f"claim {claim.text}: given for a study with [at_risk], which has no δ to compare with a claim; accepted: a store of "
            "a study without [at_risk]"
        )
    if "spectrum" not in result.notions:
        raise StudyError(
            f"claim {claim.text}: compared with counts by ε, which this store has not: a study with [pure] has them "
            "with epsilons and "
            'test = "all", one of a histogram with epsilons; accepted of these without: dp(epsilon=…)'
        )
    known = ~np.isnan(result["delta"])
    claimed = np.broadcast_to(claim.implied(result["epsilon"]), known.shape)
    error = careful_error(result)
    separation, order = None, _certified_order(result, claim)
    if (result["lower"][known] > claimed[known]).any() or (order is not None and order.violated):
        verdict = VIOLATION
    elif (result["delta"][known] > claimed[known]).any():
        verdict = NOT_SEPARABLE
        separation = _separate(result, claimed, error)
    else:
        is_above = order is not None and order.estimate is not None and order.estimate > order.claimed
        verdict = CONSISTENT if known.any() and not is_above and result.depends is None else NOT_SEPARABLE
    return Verdict(result, claim, verdict, known, claimed, error, separation, order)


def judge(result: Result, claim: Claim | None) -> Verdict | None:
    """What the result says of a claim; None of one that cannot be judged by these results."""
    with suppress(StudyError):
        return None if claim is None else verify(result, claim)
    return None


def _verify_pure(result: Result, claim: Claim, claimed: float) -> Verdict:
    """By the limit of the set that training chose of each pair, whatever the cells show."""
    known = ~np.isnan(result["delta"])
    allowed = np.broadcast_to(claim.implied(result["epsilon"]), known.shape)
    certified = _certified_pure(result, claimed)
    if certified is not None and certified.violated:
        verdict = VIOLATION
    else:
        is_below = certified is not None and certified.estimate <= claimed
        verdict = CONSISTENT if is_below and result.depends is None else NOT_SEPARABLE
    return Verdict(result, claim, verdict, known, allowed, careful_error(result), None, None, certified, PURE)


def _certified_pure(result: Result, claimed: float) -> CertifiedPure | None:
    """Of the pair with the largest limit: where all are tested their limits hold together."""
    pure = result.pure
    if pure is None:
        return None
    entries = pure["rows"] or [pure]
    best = max(entries, key=lambda entry: float(entry["certified"]))
    top = max(entries, key=_pure_estimate)
    lower, pair = float(best["certified"]), best.get("pair", -1)
    direction = best.get("direction", DIRECTIONS[0])
    return CertifiedPure(lower, _pure_estimate(top), claimed, lower > claimed, pair, direction, top.get("pair", -1))


def _pure_estimate(entry: Mapping[str, Any]) -> float:
    """What a pair's outputs say of pure ε: ln of the ratio of the tested set's shares; of a histogram the published estimate."""
    lower = float(entry["certified"])
    if "region" not in entry:
        return max(lower, entry["published"] or 0.0)
    inside, other = entry["region"]["exceed"]
    if not inside:
        return lower
    return max(lower, math.log(inside / other)) if other else math.inf


def _certified_order(result: Result, claim: Claim) -> CertifiedOrder | None:
    if claim.limit is None:
        return None
    order, most = claim.limit.order, claim.limit.most
    if order is None:
        rho = result.zcdp()
        return CertifiedOrder(rho.order, rho.lower, most, rho.lower > most, rho.pair, rho.direction)
    level = result.renyi([order])[0]
    return CertifiedOrder(order, level.lower, most, level.lower > most, level.pair, level.direction, level.estimate)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The first of those with the worst verdict."""
    return min(verdicts, key=lambda v: (VIOLATION, NOT_SEPARABLE, CONSISTENT).index(v.verdict))


def careful_error(result: Result, column: int | None = None) -> Floats:
    """Standard errors with (x + 1)/(n + 2) put in, so never 0, since e^ε times no output is 0; asymptotic; column: of one ε."""
    arrays = result.arrays
    if column is not None:
        arrays = {
            name: (dims, values.take([column], dims.index("epsilon")) if "epsilon" in dims else values)
            for name, (dims, values) in arrays.items()
        }
    return result.method.careful_error(arrays)


def _separate(result: Result, claimed: Floats, error: Floats) -> Separation:
    gap = result["delta"] - claimed
    with np.errstate(divide="ignore", invalid="ignore"):  # a cell in whose set no draw fell has no error
        score = np.where(np.isnan(gap) | ~(error > 0.0), -np.inf, gap / error)
    pair, direction, column = (int(i) for i in np.unravel_index(int(score.argmax()), score.shape))
    place = (pair, direction, column)
    most = float(score[place])
    chance = int((score > -np.inf).sum()) * max(float(ndtr(-most)), sys.float_info.min)  # no probability is at most 0
    needed = None
    if result.has_bound(place):
        needed = result.method.needed_to_pass(result.arrays, place, float(claimed[place]))
    return Separation(
        pair=pair,
        direction=DIRECTIONS[direction],
        epsilon=float(result["epsilon"][column]),
        gap=float(gap[place]),
        standard_error=float(error[place]),
        chance=min(1.0, chance),
        is_chance=most < _FEW_ERRORS or chance > 1.0 - result.confidence,
        test=None if needed is None else round_up(needed),
        now=result.method.tests_at(result.arrays, place),
        leftover=None if needed is None else result.method.leftover_needed(result.arrays, place, float(claimed[place])),
    )


def round_up(value: float) -> int:
    """A positive number rounded up to two significant digits."""
    unit = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit
