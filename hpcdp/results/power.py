"""How many outputs refute a claim when the truth is another: an audit's test and a sequential audit's bets with the exact L̂."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import StudyError
from hpcdp.losses.counts import audit_etas, eta_thresholds
from hpcdp.notions._lines import Lines, lines_of
from hpcdp.notions._product import Outcomes
from hpcdp.notions.betting import Rules, Wealth, is_refuted, play
from hpcdp.notions.box import error_limits, margins, promises
from hpcdp.notions.tensor import polygon
from hpcdp.results.audit import sides_of, turn
from hpcdp.study.claims import Claim
from hpcdp.study.file import Study

Floats = NDArray[np.float64]

_MOST_TESTS = 1 << 40  # outputs per database
_MOST_PLAYED = 1 << 17  # outputs per database of a game that is played out
_GAMES = 15  # of which most must refute
_SEED = 20261122


@dataclass(frozen=True)
class Power:
    """Outputs per database at which about half of all audits refute a claim, if the truth is known and L̂ is exact; heuristic.

    audit: test outputs, with as many to learn from and choose η by; None where 2^40 are not enough at the η of the study.
    sequential: outputs in all, training included, the median of 15 games; None where most do not refute within 2^17 outputs.
    """

    claim: Claim
    truth: Claim
    audit: int | None
    sequential: int | None

    def __str__(self) -> str:
        audit = (
            f"not with {_MOST_TESTS:,} test outputs per database at the study's η"
            if self.audit is None
            else f"about {self.audit:,} test outputs per database, as many to train"
        )
        games = (
            f"not within {_MOST_PLAYED:,} outputs per database in most of {_GAMES} games"
            if self.sequential is None
            else f"about {self.sequential:,} outputs per database in all"
        )
        return (
            f"{self.claim.text}, if {self.truth.text} is exact: audit {audit}; audit --sequential {games} "
            "(heuristic: half of all audits with the exact L̂; a learned one takes more)"
        )


def find_power(study: Study, claim: Claim, truth: Claim, pairs: int) -> Power:
    """What it takes to refute a claim about all of some pairs, when one of them is as the truth says.

    The audit is `hpcdp.audit` at the expected counts, so that about half of all audits refute; the sequential one is played
    with draws of the truth's losses. Both know L̂, so that these are least numbers; heuristic.

    Args:
        study: its η, or those of an audit, and its confidence.
        claim: what is to be refuted, of both directions.
        truth: the exact curve of a pair.
        pairs: how many share the failure probability, >= 1.
    """
    try:
        losses = polygon(truth.bound).convex()
    except ValueError as error:
        raise StudyError(f"--truth {truth.text}: {error}") from None
    outcomes, failure = Outcomes.of(losses.alpha, losses.beta), 1.0 - study.estimate.confidence
    etas = np.array(study.estimate.etas or audit_etas())
    audit = _tests(claim, _errors(outcomes, etas), failure, pairs)
    # bets choose sets of their own, not those of the study's η: the audit's number says nothing of them
    return Power(claim, truth, audit, _played(claim, outcomes, failure / pairs))


def _errors(outcomes: Outcomes, etas: Floats) -> Floats:
    """Both errors of the tests that reject P where q/p > η, shape (η, 2)."""
    place = np.searchsorted(outcomes.loss, eta_thresholds(etas))  # rejected: loss below −log η
    rejected = (np.append(0.0, np.cumsum(law))[place] for law in (outcomes.p, outcomes.q))
    first, second = (np.clip(share, 0.0, 1.0) for share in rejected)
    return np.stack([first, 1.0 - second], axis=-1)


def _tests(claim: Claim, errors: Floats, failure: float, pairs: int) -> int | None:
    """Test outputs per database at which a box of the expected counts violates the claim, to 1 % and two digits."""
    sides = sides_of(claim, "both")
    level = 0.5 * failure * (1.0 + 1.0 / (pairs * len(sides)))  # of the box that training ranks first

    def is_found(size: int) -> bool:
        half = np.full(errors.shape, max(1, size // 2))  # what η is chosen for: 1/n = 1/train + 1/test
        for side in sides:
            turned = turn(errors, side)
            best = turned[int(promises(claim.tradeoff, turned, half, failure).argmax())]
            counts, tests = np.rint(best * size).astype(np.int64), np.full(2, size)
            if float(margins(claim.tradeoff, error_limits(counts, tests, np.asarray(level)))) > 0.0:
                return True
        return False

    many = 2
    while not is_found(many):
        many *= 2
        if many > _MOST_TESTS:
            return None
    few = many // 2
    while many > 1.01 * few and many > few + 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_found(middle) else (middle, many)
    return _rounded(many)


def _played(claim: Claim, outcomes: Outcomes, failure: float) -> int | None:
    """Outputs per database after which most of some games have refuted the claim; None where most never do.

    Draws are losses, and the learner knows them.
    """
    rng, lines = np.random.default_rng(_SEED), lines_of(claim.convex_tradeoff)
    loss = np.clip(outcomes.loss, -1e3, 1e3)  # what only one law can give is beyond every other
    stops: list[float] = []
    while len(stops) < _GAMES:
        stops.append(_game(rng, outcomes, loss, lines, failure))
        if 2 * stops.count(np.inf) > _GAMES:
            return None
    return _rounded(float(np.median(stops)))


def _game(rng: np.random.Generator, outcomes: Outcomes, loss: Floats, lines: Lines, failure: float) -> float:
    """Outputs per database until a look refutes the claim; infinite where none of so many does."""
    rules, wealth, seen = Rules(), Wealth(), 0
    past: tuple[Floats, Floats] = np.empty(0), np.empty(0)
    laws = [np.cumsum(law) / law.sum() for law in (outcomes.p, outcomes.q)]

    def draw(law: Floats, size: int) -> Floats:
        return loss[np.minimum(np.searchsorted(law, rng.random(size)), loss.size - 1)]

    while seen < _MOST_PLAYED:
        size = max(rules.first + rules.smallest, seen // 4) if not seen else max(rules.smallest, seen // 4)
        size = min(size, _MOST_PLAYED - seen)
        batch = draw(laws[0], size), draw(laws[1], size)
        (wealth,) = play([wealth], [lines], lambda *_: lambda scores: scores, past, batch, rules)
        past = np.append(past[0], batch[0]), np.append(past[1], batch[1])
        seen += size
        if is_refuted(wealth, failure):
            return float(seen)
    return np.inf


def _rounded(value: float) -> int:
    """To two significant digits."""
    return int(float(f"{value:.1e}"))
