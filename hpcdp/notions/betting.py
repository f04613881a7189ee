"""Testing by betting whether a claimed trade-off curve holds: a test supermartingale from a classifier's scores.

Let A >= 0 pay on an output of D' and B >= 0 on one of D, both functions of a score L̂ that was learned before. If
E_Q[A] + E_P[B] <= 2 for every pair (P, Q) that meets the claim, then E_Q[A] E_P[B] <= 1, for a geometric mean is at most an
arithmetic one. Wealth that is multiplied by A and B of independent fresh outputs is therefore a supermartingale under
the claim, and exceeds 1/γ at any time with probability at most γ (Ville 1939). Finite-sample, for every classifier, and
however often one looks.

The claim says Q(R) <= δ + η P(R) for every set R (`Lines`), which makes each pair of payoffs of a portfolio fair: w on D' in
R and w η on D outside R, w = 2/(η + δ), for nested sets R of L̂ and all lines. The portfolio is the one that would have grown
fastest in practice. Its wealth is a likelihood ratio of the practised laws against the nearest pair that meets the
claim, the reverse information projection, hence no other bet on the same cells grows faster (Turner, Ly and Grünwald 2024
show so for two cells; Grünwald, de Heide and Koolen 2024 in general). Tests of differential privacy by betting: González,
Dulce-Rubio, Ramdas and Ribero (2025) for (ε, δ); Kutta, Dunsche, Wei and Zikas (2026) audit f-DP sequentially in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, exp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.kernels import kernel
from hpcdp._check import integer, real, refusal
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.notions.box import Lines

Floats = NDArray[np.float64]

_UPDATES, _CLOSE = 2000, 1e-5  # at most so many; nats an output of each side
_CASH = 0.45  # of each side at the start: near the claim's edge the best portfolio is mostly cash
_FORGOTTEN = 1e-40  # less than this of an asset is none, before it gets so small that the processor slows down
_ROUNDING = 1e-12  # payoffs are so much smaller, so that rounding leaves their mean at most 1


class Portfolio(NamedTuple):
    """Shares of the assets, which sum to 1: two kinds of cash, and weights (m − 1, S) of the others.

    Cells ascend in L̂; R_j = {0 … j} is where D' is likelier. Cash pays 2 on one side. An asset of R_j and a line (η, δ) pays w =
    2/(η + δ) on D' in R_j, and w η on D outside: in the mean at most 2 on both sides together under the claim.
    """

    on_q: float
    on_p: float
    weights: Floats


@kernel()
def _grow(q, p, etas, deltas, weights):  # type: ignore[no-untyped-def]
    """Cover's update until the growth is within `_CLOSE` of the largest; fills weights, returns both kinds of cash."""
    sets, lines = weights.shape
    on_q = on_p = _CASH
    weights[:] = (1.0 - 2.0 * _CASH) / max(1, sets * lines)
    pays_q = 2.0 / (etas + deltas)
    pays_p = pays_q * etas
    a, b = np.empty(sets + 1), np.empty(sets + 1)
    for _ in range(_UPDATES):
        total = 0.0
        for i in range(sets, -1, -1):
            if i < sets:
                for s in range(lines):
                    total += weights[i, s] * pays_q[s]
            a[i] = 2.0 * on_q + total
        total = 0.0
        for i in range(sets + 1):
            b[i] = 2.0 * on_p + total
            if i < sets:
                for s in range(lines):
                    total += weights[i, s] * pays_p[s]
        all_q = all_p = 0.0
        for i in range(sets + 1):
            all_q += q[i] / a[i]
            all_p += p[i] / b[i]
        largest = max(all_q, all_p)
        on_q *= all_q
        on_p *= all_p
        inside, outside = 0.0, all_p
        for i in range(sets):
            inside += q[i] / a[i]
            outside -= p[i] / b[i]
            for s in range(lines):
                rate = 0.5 * (pays_q[s] * inside + pays_p[s] * outside)
                largest = max(largest, rate)
                grown = weights[i, s] * rate
                weights[i, s] = grown if grown > _FORGOTTEN else 0.0
        if 2.0 * (largest - 1.0) <= _CLOSE:
            break
    return on_q, on_p


def grow_fastest(q: Floats, p: Floats, etas: Floats, deltas: Floats) -> Portfolio:
    """The portfolio with the largest mean log-payoff of one output of each side, of cell probabilities q and p (m,), all above 0.

    Cover (1984): shares are multiplied by their asset's mean payoff over the portfolio's, which never lowers the concave growth.
    """
    weights = np.empty((q.size - 1, etas.size))
    on_q, on_p = _grow(q, p, etas, deltas, weights)
    total = on_q + on_p + weights.sum()
    return Portfolio(on_q / total, on_p / total, weights / total)


def payoffs(portfolio: Portfolio, etas: Floats, deltas: Floats) -> tuple[Floats, Floats]:
    """What the portfolio pays on an output of D' and of D in each cell, float64 (m,) each."""
    rate = 2.0 / (etas + deltas)
    bought = portfolio.weights @ rate
    spent = portfolio.weights @ (rate * etas)
    on_q = 2.0 * portfolio.on_q + np.append(np.cumsum(bought[::-1])[::-1], 0.0)
    on_p = 2.0 * portfolio.on_p + np.append(0.0, np.cumsum(spent))
    return on_q, on_p


Learner = Callable[[Outputs, Outputs], Callable[[Outputs], Floats]]
"""Learns L̂ = log(p/q) from outputs of D and of D', and returns what scores others; such as `fit` and `score` of a loss."""

Check = Callable[[Callable[[Outputs], Floats], Outputs, Floats], None]
"""Raises where a score (first) does not judge a block of outputs of one side one by one, by the edges of a bet's cells."""


@dataclass(frozen=True)
class Rules:
    """How it is played. None of it may be changed after the first output was seen; the false-alarm rate holds for all.

    Args:
        first: so many outputs per database only teach, >= folds.
        smallest, growth: a block has `growth` times the outputs seen before it, but at least `smallest`.
        folds: parts in which the outputs seen before are held out from learning in turn, to practise on, >= 2.
        practice: after so many held-out outputs per database no further part is held out.
        cells: at most so many intervals of L̂, >= 2.
        prior: outputs per database, spread evenly over the cells, that practice is mixed with, > 0.
        cautions: the wealth starts split evenly among players, one for each number c > 0, who bet the share n/(n + c) of
            theirs after n outputs of practice per database. Small ones win where the claim is far from true, large ones where it
            is near.
    """

    first: int = 24
    smallest: int = 10
    growth: float = 0.15
    folds: int = 8
    practice: int = 4096
    cells: int = 16
    prior: float = 2.0
    cautions: tuple[float, ...] = (20.0, 200.0)


def blocks(past: int, drawn: int, rules: Rules) -> Iterator[tuple[int, int]]:
    """Blocks (start, stop) of outputs past … drawn − 1 to bet on in turn, by sizes alone; those before `start` teach."""
    start = max(past, rules.first)
    while start < drawn:
        stop = min(drawn, start + max(rules.smallest, int(rules.growth * start)))
        yield start, stop
        start = stop


def practise(learn: Learner, p: Outputs, q: Outputs, rules: Rules) -> tuple[Floats, Floats]:
    """L̂ of as many outputs of D and of D' by learners that did not see them: every folds-th is held out in turn."""
    size = p.shape[0]
    parts = min(rules.folds, ceil(rules.folds * rules.practice / size))
    place = np.arange(size) % rules.folds
    score_lists: tuple[list[Floats], list[Floats]] = ([], [])
    for part in range(parts):
        held = place == part
        score = learn(p[~held], q[~held])
        for scores, side in zip(score_lists, (p, q), strict=True):
            scores.append(score(side[held]))
    return np.concatenate(score_lists[0]), np.concatenate(score_lists[1])


@dataclass(frozen=True, eq=False)
class Bet:
    """Factors of the players' wealth, (players, m) for an output of D, of D'; edges (m − 1,) increasing."""

    edges: Floats
    on_p: Floats
    on_q: Floats


@dataclass(frozen=True)
class Wealth:
    """Where a game, or a mean of several, stands: logs of each player's wealth, the largest `log` of all looks, outputs seen."""

    logs: tuple[float, ...] = (0.0,)
    peak: float = 0.0
    samples: int = 0

    @property
    def log(self) -> float:
        """Natural log of the mean wealth of the players."""
        return _log_mean(np.array(self.logs))

    @property
    def p_value(self) -> float:
        """A p-value that holds whenever one looks: under the claim it is ever at most γ with probability at most γ (Ville)."""
        return exp(-min(self.peak, 700.0))  # never 0: it is a figure that the true one is at most

    def moved(self, logs: Sequence[float], samples: int) -> Wealth:
        """The wealth at the next look."""
        now = Wealth(tuple(map(float, logs)), self.peak, samples)
        return replace(now, peak=max(self.peak, now.log))

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it; numbers come back the same."""
        return {"logs": list(self.logs), "peak": self.peak, "samples": self.samples}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Wealth:
        """What `to_dict` gave."""
        if stored.keys() != cls().to_dict().keys() or not isinstance(stored["logs"], list) or not stored["logs"]:
            raise refusal("wealth", stored, "an object with logs, peak and samples")
        logs = tuple(real("logs", value) for value in stored["logs"])
        return cls(logs, real("peak", stored["peak"]), integer("samples", stored["samples"], 0))


def place_bet(lines: Lines, practice_p: Floats, practice_q: Floats, rules: Rules | None = None) -> Bet:
    """The bet on outputs that practice scores (n,) do not depend on: a share on the fastest portfolio, the rest is kept."""
    rules = rules or Rules()
    size, players = practice_p.size, len(rules.cautions)
    ordered = np.sort(np.append(practice_p, practice_q))
    edges = np.unique(ordered[np.arange(1, rules.cells) * ordered.size // rules.cells])
    edges = edges[edges > ordered[0]]
    if not edges.size:  # one cell tells nothing
        return Bet(edges, np.ones((players, 1)), np.ones((players, 1)))
    share = rules.prior / (edges.size + 1)
    p, q = ((count_cells(edges, side) + share) / (size + rules.prior) for side in (practice_p, practice_q))
    portfolio = grow_fastest(q, p, lines.etas, lines.deltas)
    staked = (size / (size + np.array(rules.cautions)))[:, None]
    on_q, on_p = (
        (1.0 - _ROUNDING) * (1.0 - staked + staked * pays) for pays in payoffs(portfolio, lines.etas, lines.deltas)
    )
    return Bet(edges, on_p, on_q)


def settle(bet: Bet, scores_p: Floats, scores_q: Floats) -> Floats:
    """Natural logs, (players,), of what a bet's fresh outputs multiply wealth by; scored by a learner that had not seen them."""
    counts = count_cells(bet.edges, scores_p), count_cells(bet.edges, scores_q)
    return np.log(bet.on_p) @ counts[0] + np.log(bet.on_q) @ counts[1]


def count_cells(edges: Floats, scores: Floats) -> NDArray[np.int64]:
    """How many scores (n,) lie in each cell of a bet's edges (m − 1,), shape (m,), int64."""
    return np.bincount(np.searchsorted(edges, scores, "right"), minlength=edges.size + 1)


def play(
    wealths: Sequence[Wealth],
    claims: Sequence[Lines],
    learn: Learner,
    past: tuple[Outputs, Outputs],
    batch: tuple[Outputs, Outputs],
    rules: Rules | None = None,
    check: Check | None = None,
) -> tuple[Wealth, ...]:
    """Play a batch block by block, in the order drawn; each claim has its own wealth, and all are bet on with the same scores.

    past, batch: outputs of D and of D', (n,) or (n, d). check: called on both sides of each block with each bet's cells.
    """
    rules = rules or Rules()
    seen, new = past[0].shape[0], batch[0].shape[0]
    p, q = ((np.concatenate([before, now]) if seen else now) for before, now in zip(past, batch, strict=True))
    logs = [np.array(wealth.logs) for wealth in wealths]
    for start, stop in blocks(seen, seen + new, rules):
        practice = practise(learn, p[:start], q[:start], rules)
        score = learn(p[:start], q[:start])
        scores = score(p[start:stop]), score(q[start:stop])
        bets = [place_bet(lines, *practice, rules) for lines in claims]
        if check is not None:
            for bet, side in product(bets, (p, q)):
                check(score, side[start:stop], bet.edges)
        gains = [settle(bet, *scores) for bet in bets]
        logs = [before + gain for before, gain in zip(logs, gains, strict=True)]
    return tuple(wealth.moved(new_logs.tolist(), seen + new) for wealth, new_logs in zip(wealths, logs, strict=True))


def average(total: Wealth, parts: Sequence[Wealth]) -> Wealth:
    """The next look at the mean wealth of several games: if all claims are true a supermartingale, as no mean of peaks is."""
    return total.moved([_log_mean(np.array([part.log for part in parts]))], min(part.samples for part in parts))


def is_refuted(wealth: Wealth, gamma: float) -> bool:
    """Whether the wealth was 1/gamma or more at some look; with probability at most gamma if the claim is true."""
    return wealth.peak >= -log(gamma)


def _log_mean(logs: Floats) -> float:
    return float(np.logaddexp.reduce(logs)) - log(logs.size)
