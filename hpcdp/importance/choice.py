"""What the levels of a random tape choose before any test draw: sizes, bets, cut-offs, whether proposals gain anything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.index import first_of
from hpcdp.importance.bounds import split_level
from hpcdp.importance.kinds import Bools, Floats, Proposal
from hpcdp.importance.levels import Learned
from hpcdp.importance.mixtures import Goal, least_counted
from hpcdp.importance.ownership import Ownership
from hpcdp.importance.plan import CHUNK, FEW, PLAIN, WEIGHING, Bets, Choice, tape_keys
from hpcdp.importance.training import LOOK, Direction, draws_for, leftover_for
from hpcdp.notions.resolution import share_level
from hpcdp.study.problem import Problem

_REST, _REST_CERTIFIED = 1.5, 6.0  # times the relative variance of the aims that other cells may have
_MAIN_CERTIFIED = 0.9  # what aims weigh at least, of all, where a certificate is asked for
_MORE, _ALWAYS = 16, 1 << 22  # times the draws of the aims that this may take, and draws that it may take in any case
_MARGIN = 0.95  # of the error that others may have: training tells errors to some per cent
_GAIN = 1.5  # times the draws of plain counting below which nothing is gained by proposals


def aims_of(problem: Problem, deltas: Floats) -> list[tuple[int, int]]:
    """(direction, column) that most draws are for; deltas: what training tells, (2, epsilons), NaN where nothing."""
    e = problem.study.estimate
    target, directions = e.target, [0, 1]
    if target is not None:
        if target.direction is not None:
            directions = [DIRECTIONS.index(target.direction)]
        if target.epsilon is not None:
            return [(d, e.epsilons.index(target.epsilon)) for d in directions]
        enough = [np.flatnonzero(np.nan_to_num(deltas[d]) >= float(target.delta or 0.0)) for d in directions]
        return [(d, int(columns[-1])) for d, columns in zip(directions, enough, strict=True) if columns.size]
    if e.certify:
        return [(d, e.epsilons.index(epsilon)) for d in directions for epsilon in e.certify]
    return [(d, len(e.epsilons) - 1) for d in directions]


def goal_of(problem: Problem) -> Goal:
    """What draws of a study are for."""
    e, aims = problem.study.estimate, partial(aims_of, problem)
    rest, main = (_REST_CERTIFIED, _MAIN_CERTIFIED) if e.certify else (_REST, 0.0)
    return Goal(np.asarray(e.epsilons), aims, rest, main)


def asked_of(problem: Problem, learned: Learned) -> float:
    """Draws that aims ask for, as a share of the most, 0 without a target; inf where nothing tells δ̂ or explains training."""
    target, directions, asked = problem.study.estimate.target, learned.directions(), 0.0
    for d, j in _aims(problem, directions):
        direction = directions[d]
        if not (direction.p.classes > j).any():
            continue
        if not direction.told(j) > 0.0 or j in direction.unexplained:
            return math.inf
        if target is not None:
            asked = max(asked, direction.draws(j, target.relative_error) / target.most)
    return asked


def _aims(problem: Problem, directions: Sequence[Direction]) -> list[tuple[int, int]]:
    return aims_of(problem, np.stack([np.where(d.delta > 3.0 * d.error, d.delta, np.nan) for d in directions]))


def choose(
    problem: Problem, learned: Learned, way: Ownership, declared: Bools | None, recorded: Choice | None
) -> tuple[Choice, tuple[Proposal, Proposal]]:
    """Sizes, bets, cut-offs and proposals, plain ones where these gain nothing; declared: draws of D where D′ has none."""
    e = problem.study.estimate
    epsilons, chunk = np.asarray(e.epsilons), CHUNK if way.by_rows else FEW
    directions = learned.directions()
    odd = tuple(tuple((j, *told) for j, told in d.unexplained.items()) for d in directions)
    aims = _aims(problem, directions)
    # bounds know of no strata
    gain = max(
        (float(directions[d].plain[j] / max(directions[d].unstratified[j], 1e-300)) for d, j in aims), default=0.0
    )
    if gain < _GAIN:
        learned = replace(learned, sides=(learned.sides[0].plainly(), learned.sides[1].plainly()))
        directions, gain = learned.directions(), 1.0
    bounds = directions
    if declared is not None:
        p, q = directions[0].p, directions[0].q
        inside = replace(p, classes=np.where(declared, p.classes, 0)), replace(q, classes=np.zeros_like(q.classes))
        bounds = [Direction(*inside, epsilons, directions[0].by_loss, is_declared=True), directions[1]]
    levels = _levels(problem, bounds, recorded)
    draws, most = _sizes(problem, bounds, aims, levels, chunk, gain)
    bets, leftover, needed = zip(
        *(
            _bets(direction, levels[d], draws, most, chunk, [j for at, j in aims if at == d])
            for d, direction in enumerate(bounds)
        ),
        strict=True,
    )

    def rows(values: Iterable[Floats]) -> Any:
        return tuple(tuple(row.tolist()) for row in values)

    choice = Choice(
        by_rows=way.by_rows,
        flat=way.flat,
        looked=way.looked,
        draws=draws,
        leftover=leftover,
        bets=bets,
        levels=rows(levels),
        delta=rows(d.delta for d in directions),
        error=rows(d.error for d in directions),
        gain=gain,
        needed=needed,
        declared=declared is not None,
        state="",
        unexplained=odd,
    )
    return choice, (learned.sides[0].proposal, learned.sides[1].proposal)


def _levels(problem: Problem, bounds: Sequence[Direction], recorded: Choice | None) -> Floats:
    """The failure probability of each cell's bounds, (2, epsilons): of the directions on record, or that are asked for."""
    e = problem.study.estimate
    which = [0, 1] if e.certified_direction is None else [DIRECTIONS.index(e.certified_direction)]
    if recorded is not None:
        which = recorded.bounded
    certified = None if e.certify is None else np.isin(e.epsilons, e.certify)
    ranked, error = (np.stack([getattr(bounds[d], name) for d in which])[None] for name in ("delta", "error"))
    levels = np.zeros((2, len(e.epsilons)))
    whole = (1.0 - e.confidence) / len(first_of(problem.once(tape_keys)))
    levels[which] = share_level(ranked, ranked.shape, whole, certified, error)[0]
    return levels


def _sizes(
    problem: Problem, bounds: Sequence[Direction], aims: list[tuple[int, int]], levels: Floats, chunk: int, gain: float
) -> tuple[int, int]:
    """Draws of each distribution from proposals, and plain ones at most."""
    e = problem.study.estimate
    if e.target is None:
        share = max(chunk, e.test // 4 if gain > 1.0 else e.test)
        return -(-share // chunk) * chunk, max(0, e.test - share)
    most, asked, certifies = e.target.most, e.target.relative_error, e.certify is not None
    wanted = [draws_for(bounds[d], j, asked, float(levels[d, j]) or 1e-3, chunk, most, certifies) for d, j in aims]
    least = least_counted(np.array([bounds[d].delta[j] for d, j in aims])) if aims else 0.0
    largest_error = _MARGIN * asked * math.sqrt(goal_of(problem).rest)
    draws = _round_up(max(wanted, default=1 << 20), bounds, largest_error, least, most, chunk)
    if not certifies:  # nobody asked for a certificate: plain draws take as long again as the estimate
        most = min(most, max(LOOK, math.ceil(draws * WEIGHING / PLAIN)))
    return draws, most


def _bets(
    direction: Direction, levels: Floats, draws: int, most: int, chunk: int, aims: list[int]
) -> tuple[Bets, int, float]:
    """Bets of a direction's cells, its plain draws, and after how many a certificate keeps most of δ, −1: not told."""
    columns = [j for j in range(levels.size) if levels[j] > 0.0]
    cutoffs = [direction.cutoff(j, draws, float(levels[j])) for j in columns]
    rates = [direction.bet(j, draws, float(levels[j]), m)[:2] for j, (m, _) in zip(columns, cutoffs, strict=True)]
    beyond = [has for _, has in cutoffs]
    own = sum(float(split_level(levels[j]).leftover) for j, has in zip(columns, beyond, strict=True) if has)
    plain, needed = leftover_for(direction, aims, beyond, columns, max(1e-300, own), most)
    lambdas, kappas = (tuple(rate[k] for rate in rates) for k in (0, 1))
    bets = Bets(tuple(columns), lambdas, kappas, tuple(m for m, _ in cutoffs), tuple(beyond))
    return bets, -(-plain // chunk) * chunk, needed if math.isfinite(needed) else -1.0


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
