"""What the levels of a random tape choose before any test draw: sizes, bets, cut-offs, whether proposals gain anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.importance.bounds import split_level
from hpcdp.importance.curve import delta_by_loss
from hpcdp.importance.kinds import Proposal
from hpcdp.importance.levels import Learned
from hpcdp.importance.ownership import Ownership
from hpcdp.importance.plan import CHUNK, FEW, PLAIN, WEIGHING, Bets, Choice
from hpcdp.importance.shares import least_counted
from hpcdp.importance.training import LOOK, Direction, Taught, draws_for, leftover_for
from hpcdp.notions.levels import share_level
from hpcdp.planning.index import first_of
from hpcdp.study.problem import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_REST, _REST_CERTIFIED = 1.5, 6.0  # times the relative variance of the aims that other cells may have
_MAIN_CERTIFIED = 0.9  # what aims weigh at least, of all, where a certificate is asked for
_MORE, _ALWAYS = 16, 1 << 22  # times the draws of the aims that this may take, and draws that it may take in any case
_MARGIN = 0.95  # of the error that others may have: training tells errors to some per cent
_GAIN = 1.5  # times the draws of plain counting below which nothing is gained by proposals


def aims_of(problem: Problem, deltas: Floats) -> list[tuple[int, int]]:
    """(direction, column) that most draws are for: of the target, of the certificate, or the last that is told at all.

    deltas: what training tells, (2, epsilons); NaN where nothing.
    """
    e = problem.study.estimate
    target, directions = e.target, [0, 1]
    if target is not None:
        if target.direction is not None:
            directions = [DIRECTIONS.index(target.direction)]
        if target.epsilon is not None:
            return [(d, e.epsilons.index(target.epsilon)) for d in directions]
        enough = [np.flatnonzero(np.nan_to_num(deltas[d]) >= float(target.delta or 0.0)) for d in directions]
        return [(d, int(some[-1])) for d, some in zip(directions, enough, strict=True) if some.size]
    if e.certify:
        return [(d, e.epsilons.index(epsilon)) for d in directions for epsilon in e.certify]
    return [(d, len(e.epsilons) - 1) for d in directions]


def bounded_of(problem: Problem, recorded: Choice | None = None) -> list[int]:
    """The directions whose cells share the level: the one that is asked for, else both; those of a choice that is on record."""
    if recorded is not None:
        return recorded.bounded
    asked = problem.study.estimate.certified_direction
    return [0, 1] if asked is None else [DIRECTIONS.index(asked)]


def rest_of(problem: Problem) -> float:
    """Times the relative variance of the aims that other cells may have."""
    return _REST_CERTIFIED if problem.study.estimate.certify else _REST


def main_of(problem: Problem) -> float:
    """What the aims weigh at least when draws are shared out, of all cells."""
    return _MAIN_CERTIFIED if problem.study.estimate.certify else 0.0


def asked_of(problem: Problem, learned: Learned, classes: Ints) -> float:
    """Draws that the aims ask for, as a share of those that may be drawn; without a target 0.

    inf where nothing tells δ̂ though draws are in the set of an aim, or where training cannot explain what it saw; 0 where none
    are. classes: of cells, (2, cells).
    """
    e = problem.study.estimate
    directions = directions_of(learned, classes, np.asarray(e.epsilons))
    found = 0.0
    for d, j in _aims(problem, directions):
        one = directions[d]
        if not (one.p.classes > j).any():
            continue
        if not one.told(j) > 0.0 or j in one.unexplained:
            return math.inf
        if e.target is not None:
            found = max(found, one.draws(j, e.target.relative_error) / e.target.most)
    return found


def _aims(problem: Problem, directions: Sequence[Direction]) -> list[tuple[int, int]]:
    return aims_of(problem, np.stack([np.where(d.delta > 3.0 * d.error, d.delta, np.nan) for d in directions]))


def choose(
    problem: Problem,
    learned: Learned,
    classes: Ints,
    way: Ownership,
    declared: Bools | None,
    bounded: Sequence[int],
) -> tuple[Choice, tuple[Proposal, Proposal]]:
    """Sizes, bets and cut-offs, and the proposals; plain ones where they gain nothing.

    declared: which draws of D are where D′ has no output, as the study declares; None where it declares nothing. bounded: the
    directions that share the level; the other one gets no bets and no plain draws.
    """
    e = problem.study.estimate
    epsilons, chunk = np.asarray(e.epsilons), CHUNK if way.by_rows else FEW
    directions = directions_of(learned, classes, epsilons)
    aims = _aims(problem, directions)
    gain = max(
        (float(directions[d].plain[j] / max(directions[d].unstratified[j], 1e-300)) for d, j in aims),
        default=0.0,
    )  # bounds know of no strata
    proposals = learned.proposals
    if gain < _GAIN:
        learned = learned.plainly()
        proposals, directions, gain = learned.proposals, directions_of(learned, classes, epsilons), 1.0
    bounds = directions
    if declared is not None:
        bounds = [_declared(directions[0], declared), directions[1]]
    certified = None if e.certify is None else np.isin(epsilons, e.certify)
    ranked = np.stack([bounds[d].delta for d in bounded])[None]
    error = np.stack([bounds[d].error for d in bounded])[None]
    levels = np.zeros((2, epsilons.size))
    levels[bounded] = share_level(
        ranked, ranked.shape, (1.0 - e.confidence) / len(first_of(problem.tape_keys)), certified, error
    )[0]
    if e.target is None:
        share = max(chunk, e.test // 4 if gain > 1.0 else e.test)
        draws, most = -(-share // chunk) * chunk, max(0, e.test - share)
    else:
        most = e.target.most
        asked, certifies = e.target.relative_error, e.certify is not None
        wanted = [draws_for(bounds[d], j, asked, float(levels[d, j]) or 1e-3, chunk, most, certifies) for d, j in aims]
        least = least_counted(np.array([bounds[d].delta[j] for d, j in aims])) if aims else 0.0
        largest_error = _MARGIN * asked * math.sqrt(rest_of(problem))
        draws = _round_up(max(wanted, default=1 << 20), bounds, largest_error, least, most, chunk)
        if not certifies:  # nobody asked for a certificate: plain draws take as long again as the estimate
            most = min(most, max(LOOK, math.ceil(draws * WEIGHING / PLAIN)))
    bets, leftover, needed = [], [], []
    for d, direction in enumerate(bounds):
        columns = [j for j in range(epsilons.size) if levels[d, j] > 0.0]
        cutoffs = [direction.cutoff(j, draws, float(levels[d, j])) for j in columns]
        rates = [
            direction.bet(j, draws, float(levels[d, j]), m)[:2] for j, (m, _) in zip(columns, cutoffs, strict=True)
        ]
        beyond = [has for _, has in cutoffs]
        own = [float(split_level(levels[d, j]).leftover) for j, has in zip(columns, beyond, strict=True) if has]
        found = leftover_for(direction, [j for at, j in aims if at == d], beyond, columns, max(1e-300, sum(own)), most)
        leftover.append(-(-found[0] // chunk) * chunk)
        needed.append(found[1] if math.isfinite(found[1]) else -1.0)
        bets.append(
            Bets(
                tuple(columns),
                tuple(r for r, _ in rates),
                tuple(k for _, k in rates),
                tuple(m for m, _ in cutoffs),
                tuple(beyond),
            )
        )

    def rows(name: str) -> Any:
        return tuple(tuple(getattr(d, name).tolist()) for d in directions)

    forward, reverse = (tuple(row) for row in levels.tolist())

    choice = Choice(
        way.by_rows, way.flat, way.looked, int(draws), (int(leftover[0]), int(leftover[1])), (bets[0], bets[1]),
        (forward, reverse), rows("delta"), rows("error"), gain, (needed[0], needed[1]),
        declared is not None, "",
    )  # fmt: skip
    return choice, proposals


def _round_up(
    aimed: int, bounds: Sequence[Direction], largest_error: float, least: float, most: int, chunk: int
) -> int:
    """Draws that aims ask for, more where another δ̂ of at least `least` would have a larger relative error; whole chunks."""
    others = 0.0
    for bound in bounds:
        told = (bound.delta > 3.0 * bound.error) & (bound.delta >= least)
        deltas = bound.delta[told]
        if bound.by_loss is not None:  # what is told too large would have too few draws
            deltas = np.minimum(deltas, np.where(bound.by_loss > 0.0, bound.by_loss, np.inf)[told])
        with np.errstate(over="ignore", under="ignore", divide="ignore"):  # of a tiny δ̂; `most` is the limit
            ratios = np.sqrt(bound.variance[told]) / (largest_error * deltas)
            others = max(others, float((ratios * ratios).max(initial=0.0)))
    wanted = max(aimed, math.ceil(min(others, max(_MORE * aimed, _ALWAYS), most)))
    return -(-wanted // chunk) * chunk


def directions_of(learned: Learned, classes: Ints, epsilons: Floats) -> list[Direction]:
    """Both directions, as training draws tell of them. classes: of cells, (2, cells)."""
    found = []
    for d in (0, 1):
        taught = [
            Taught(
                classes[d][learned.cells_of[s]],
                learned.weights[s],
                learned.shares[s],
                learned.proposals[s].largest,
                learned.within[s][d],
            )
            for s in (0, 1)
        ]
        loss = (1.0 if d == 0 else -1.0) * learned.losses[learned.cells_of[d]]
        which = np.flatnonzero(loss > epsilons[0])
        density = (learned.shares[d] * learned.weights[d])[which]
        by_loss = np.array([delta_by_loss(loss[which], density, e) for e in epsilons])
        found.append(Direction(taught[d], taught[1 - d], epsilons, by_loss))
    return found


def _declared(direction: Direction, inside: Bools) -> Direction:
    """The forward direction with its sets within what is declared to be impossible for D′."""
    p, q = direction.p, direction.q
    return Direction(
        replace(p, classes=np.where(inside, p.classes, 0)),
        replace(q, classes=np.zeros_like(q.classes)),
        direction.epsilons,
        direction.by_loss,
        is_declared=True,
    )
