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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._check import integer, real, refusal
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.notions._lines import Lines, Orientation, lines_from_delta, lines_of
from hpcdp.notions._portfolio import grow_fastest, payoffs
from hpcdp.notions._rounds import Check, Learner, Rules, blocks, practise

__all__ = [
    "Bet",
    "Check",
    "Learner",
    "Lines",
    "Orientation",
    "Rules",
    "Wealth",
    "average",
    "blocks",
    "count_cells",
    "is_refuted",
    "largest_refuted",
    "lines_from_delta",
    "lines_of",
    "place_bet",
    "play",
    "practise",
    "settle",
]

Floats = NDArray[np.float64]

_ROUNDING = 1e-12  # payoffs are so much smaller, so that rounding leaves their mean at most 1


@dataclass(frozen=True, eq=False)
class Bet:
    """Factors of the players' wealth. edges: (m − 1,) increasing; cell 0 is L̂ < edges[0], the last L̂ >= edges[-1].

    on_p, on_q: for an output of D, of D' in each cell, (players, m).
    """

    edges: Floats
    on_p: Floats
    on_q: Floats


@dataclass(frozen=True)
class Wealth:
    """Where a game stands: that of one claim, or the mean of several games.

    logs: natural logs of the wealth of each player, all 0 at the start; one number stands for players that have the same. peak:
    the largest `log` of all looks, at least 0. samples: outputs per database that were seen.
    """

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
        """What `to_dict` gave.

        Raises:
            ValueError: something else.
        """
        if stored.keys() != cls().to_dict().keys() or not isinstance(stored["logs"], list) or not stored["logs"]:
            raise refusal("wealth", stored, "an object with logs, peak and samples")
        logs = tuple(real("logs", value) for value in stored["logs"])
        return cls(logs, real("peak", stored["peak"]), integer("samples", stored["samples"], 0))


def place_bet(lines: Lines, practice_p: Floats, practice_q: Floats, rules: Rules | None = None) -> Bet:
    """The bet on the next outputs: each player puts a share on the fastest portfolio in practice, and keeps the rest.

    Any scores keep it fair, as long as they do not depend on the outputs that are bet on.

    Args:
        lines: of the claim.
        practice_p, practice_q: L̂ of outputs of D and of D' by learners that did not see them, float64 (n,), n >= 1.

    Raises:
        ValueError: a NaN, no scores, or unequal numbers.
    """
    rules = rules or Rules()
    _require_scores(practice_p, practice_q)
    size, players = practice_p.size, len(rules.cautions)
    if not size:
        raise refusal("practice", "no score", "one or more of each side")
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
    """The natural log of the factor by which fresh outputs multiply each player's wealth, shape (players,).

    Args:
        bet: placed before these outputs were seen.
        scores_p, scores_q: L̂ of independent outputs of D and of D', float64 (n,) each, by one learner that had not seen them.

    Raises:
        ValueError: a NaN, or unequal numbers.
    """
    _require_scores(scores_p, scores_q)
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
    """Play a batch, block by block; each claim has its own wealth, and all are bet on with the same scores.

    Args:
        wealths: of each claim, before the batch.
        claims: the lines of each.
        learn: see `Learner`; it gets at least 7/8 of `rules.first` outputs per database (with 8 folds).
        past: outputs of D and of D' that were seen, in the order in which they were drawn, (n,) or (n, d) each.
        batch: the next ones; in the order in which they were drawn, for in a sorted batch blocks are not alike.
        check: called on both sides of each block with the cells of each bet, before it is settled.

    Returns:
        the wealths after the batch.

    Raises:
        ValueError: sides of unequal numbers, or wealths that have not seen `past`.
    """
    rules = rules or Rules()
    seen, new = (_pair_size(name, sides) for name, sides in (("past", past), ("batch", batch)))
    if len(wealths) != len(claims) or any(wealth.samples != seen for wealth in wealths):
        raise refusal("wealths", list(wealths), f"one for each of {len(claims)} claims, after {seen} samples")
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
    return tuple(wealth.moved(found.tolist(), seen + new) for wealth, found in zip(wealths, logs, strict=True))


def average(total: Wealth, parts: Sequence[Wealth]) -> Wealth:
    """The next look at the mean wealth of several games, such as of several pairs of databases.

    It is a supermartingale when every claim is true, so it refutes that all are. (The mean of peaks would not be one.)

    Args:
        total: the mean at the look before; `Wealth()` at the first.
        parts: the games now, one or more.
    """
    return total.moved([_log_mean(np.array([part.log for part in parts]))], min(part.samples for part in parts))


def is_refuted(wealth: Wealth, gamma: float) -> bool:
    """Whether the wealth was 1/gamma or more at some look; with probability at most gamma if the claim is true.

    Raises:
        ValueError: gamma is not above 0 and below 1.
    """
    if not 0.0 < real("gamma", gamma) < 1.0:
        raise refusal("gamma", gamma, "a number above 0 and below 1")
    return wealth.peak >= -log(gamma)


def largest_refuted(levels: Sequence[float], wealths: Sequence[Wealth], gamma: float) -> float:
    """A lower confidence limit that holds at all looks at once, from a family of claims that grow weaker.

    With claims gaussian(mu=m) it is one on μ of Gaussian DP, with dp(epsilon=e, delta=d) for one d on ε. It is wrong
    only if the first claim that is true is refuted: probability at most gamma, however many claims there are.

    Args:
        levels: of the claims, increasing; what meets one meets the next.
        wealths: of each.
        gamma: failure probability.

    Returns:
        the last level up to which all claims are refuted; −inf when the first is not.
    """
    found = -inf
    for level, wealth in zip(levels, wealths, strict=True):
        if not is_refuted(wealth, gamma):
            break
        found = level
    return found


def _log_mean(logs: Floats) -> float:
    return float(np.logaddexp.reduce(logs)) - log(logs.size)


def _pair_size(name: str, sides: tuple[Outputs, Outputs]) -> int:
    size = int(sides[0].shape[0])
    if sides[1].shape[0] != size:
        raise refusal(f"{name}: outputs of D and of D'", (size, int(sides[1].shape[0])), "two equal numbers")
    return size


def _require_scores(p: Floats, q: Floats) -> None:
    if p.shape != q.shape or p.ndim != 1:
        raise refusal("scores of D and of D'", (p.shape, q.shape), "two shapes (n,), the same")
    if np.isnan(p).any() or np.isnan(q).any():
        raise refusal("scores", "a NaN", "numbers, or infinity")
