"""L̂ refined by tallies: a pilot cuts the line into cells, fresh draws are counted by cell, and the counts teach L̂.

Nothing but the counts is kept, so refining takes as many draws as one can pay for. Outputs that are vectors are brought to
the line by the pilot's own score first; of strings, sequences and other discrete outputs the values are cells.

Of several candidates one decides at each threshold of L̂, by tallies it did not see. Some candidates are the empirically best
sets of ordered cells. For each threshold t of L the best set maximises P(S) − e^t Q(S), so the set that maximises it over
tallies is the minimum of the empirical risk (Lu et al. 2024, Theorem 4) over its family: half-lines, two half-lines and
intervals. These have few parameters, so that many draws tell even small gains, such as those beside a plateau of L.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._spline import fit_log_ratio
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.distinct import Distinct
from hpcdp.losses.frequency import FrequencyCounter, FrequencyModel
from hpcdp.losses.line.cells import LineCells
from hpcdp.losses.line.step import (
    ProjectedCounter,
    Projection,
    StepCounter,
    projection_state,
    restore_projection,
    restore_steps,
)
from hpcdp.losses.protocol import Counter, Loss, Outputs, Side, ascending

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_RESOLVED = 2.0  # standard errors by which a candidate must be better than the default


@dataclass(frozen=True, eq=False)
class CellTally:
    """How many of n0 draws of D and of n1 of D' lie in each cell: p, q (cells,) int64."""

    p: Ints
    q: Ints
    n0: int
    n1: int

    def __add__(self, other: CellTally) -> CellTally:
        return CellTally(self.p + other.p, self.q + other.q, self.n0 + other.n0, self.n1 + other.n1)


@dataclass(frozen=True, eq=False)
class Fold:
    """Sets {L̂ > t} of candidates learned elsewhere, (T, cells) by name, the default first, and the tally that judges them."""

    candidates: Mapping[str, Bools]
    tally: CellTally


def choose(folds: Sequence[Fold], thresholds: Floats) -> list[str]:
    """The name of the candidate that decides at each threshold. Heuristic: a choice among sets that fresh outputs certify."""
    default, *others = folds[0].candidates
    chosen = [default] * thresholds.size
    for row, t in enumerate(thresholds):
        best = 0.0
        for name in others:
            gain, error = _difference(folds, name, default, row, float(np.exp(t)))
            if gain > max(best, _RESOLVED * error):
                best, chosen[row] = gain, name
    return chosen


def resolved_better(folds: Sequence[Fold], one: str, other: str, thresholds: Floats) -> int:
    """At how many thresholds one candidate is resolved, as in `choose`, to be better, less those at which it is worse."""
    balance = 0
    for row, t in enumerate(thresholds):
        gain, error = _difference(folds, one, other, row, float(np.exp(t)))
        balance += int(np.sign(gain)) * (abs(gain) > _RESOLVED * error)
    return balance


def _difference(folds: Sequence[Fold], one: str, other: str, row: int, inflation: float) -> tuple[float, float]:
    """By how much P(S) − e^t Q(S) is larger in one candidate's sets than in the other's, and the standard error of that."""
    p, q = np.zeros(2), np.zeros(2)  # outputs that only the one has, and only the other
    for fold in folds:
        first, second = fold.candidates[one][row], fold.candidates[other][row]
        for at, where in enumerate((first & ~second, second & ~first)):
            p[at] += fold.tally.p[where].sum()
            q[at] += fold.tally.q[where].sum()
    n0, n1 = sum(fold.tally.n0 for fold in folds), sum(fold.tally.n1 for fold in folds)
    # one count more than there is: none at all is no knowledge
    spread = (p.sum() + 1.0) / n0**2 + inflation**2 * (q.sum() + 1.0) / n1**2
    return float((p[0] - p[1]) / n0 - inflation * (q[0] - q[1]) / n1), float(np.sqrt(spread))


def join_sets(sets: Bools, thresholds: Floats) -> Ints:
    """The class of each cell of one L̂ with about these sets {L̂ > t}, (T, cells), which it nests."""
    # of t >= 0 the union of all at higher thresholds, of t < 0 of complements at lower ones; the former win where both hold
    above = sets.copy()
    negative = thresholds < 0.0
    above[negative] = np.logical_and.accumulate(above[negative], axis=0)
    above = np.logical_or.accumulate(above[::-1], axis=0)[::-1]
    return np.asarray(2 * above.sum(axis=0), np.int64)


def best_sets(p: Floats, q: Floats, thresholds: Floats) -> Bools:
    """For each threshold the half-line, two of them or interval with the largest sum of p − e^t·q, (T, cells). Heuristic."""
    return np.array([_best(p - np.exp(t) * q) for t in thresholds]).reshape(thresholds.size, p.size)


def _best(gain: Floats) -> Bools:
    best = np.zeros(gain.size, np.bool_)
    upto = np.concatenate([[0.0], np.cumsum(gain)])
    left, right = _middle(-upto)  # two half-lines, of which either may be empty: what is left of the least interval
    if right <= left:
        left = right = gain.size
    first, last = _middle(upto)
    ends = upto[left] + upto[-1] - upto[right]
    if upto[last] - upto[first] > ends:
        best[first:last] = True
    else:
        best[:left] = True
        best[right:] = True
    return best


def _middle(upto: Floats) -> tuple[int, int]:
    """The interval of cells with the largest sum, from cumulated sums that start with 0 (Kadane)."""
    lowest = np.minimum.accumulate(upto)
    last = int((upto - lowest).argmax())
    first = int(upto[: last + 1].argmin())
    return first, last


@dataclass(frozen=True, eq=False)
class Pilot:
    """What training teaches before refining: cells or values, each loss's L̂ there, and what brings vectors to the line."""

    cells: LineCells | Distinct
    losses: Floats
    projection: Projection | None

    @classmethod
    def learn(cls, loss: Loss, p: Side, q: Side, others: Sequence[Loss] = ()) -> Pilot:
        """From training outputs of D (p) and D' (q); others: further losses, of outputs that are numbers."""
        model = loss.fit(p, q)
        if p.dtype != object and (p.outputs.ndim == 1 or p.outputs.shape[1] == 1):
            cells = LineCells.of(p.ascending, q.ascending)
            models = [model, *(other.fit(p, q) for other in others)]
            return cls(cells, np.stack([fitted.score(cells.centres) for fitted in models]), None)
        if isinstance(model, FrequencyModel):
            return cls(model.distinct, model.losses[None], None)
        projection: Projection = model.projection()  # type: ignore[attr-defined]  # `refuse_unrefinable` saw to it
        cells = LineCells.of(*(ascending(projection.coordinate(side.outputs)) for side in (p, q)))
        return cls(cells, cells.centres[None], projection)  # the coordinate is a log-ratio itself

    def tally(self, outputs: Outputs) -> Ints:
        """How many outputs lie in each cell, (cells,) int64; it adds up over chunks."""
        if isinstance(self.cells, Distinct):  # what the pilot did not see is the last cell
            return np.roll(np.bincount(self.cells.find(outputs) + 1, minlength=self.cells.size + 1), -1)
        return self.cells.tally(outputs if self.projection is None else self.projection.coordinate(outputs))

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that `restore` needs."""
        projected = {} if self.projection is None else projection_state(self.projection)
        return {**self.cells.state(), "losses": self.losses, **projected}

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], loss: Loss) -> Pilot:
        """The pilot whose `state` this is."""
        if "starts" in state:
            return cls(
                LineCells.restore(state),
                state["losses"],
                restore_projection(state, getattr(loss, "restore_projection", None)),
            )
        return cls(Distinct.restore(state), state["losses"], None)


def restore_counter(state: Mapping[str, NDArray[Any]], loss: Loss) -> Counter:
    """The refined counter whose `state` this is."""
    if "starts" in state:
        return restore_steps(state, getattr(loss, "restore_projection", None))
    return FrequencyCounter.restore(state)


@dataclass(frozen=True, eq=False)
class Refined:
    """What the tallies teach."""

    classes: Ints  # (cells,), each cell's class of the final L̂, from 0 to 2T
    chosen: list[str]  # which candidate decided each threshold
    judged: Ints  # (2, 2T + 1), tallies of both stages by sets that were learned from the other stage, as fresh outputs would be

    def counter(self, pilot: Pilot, thresholds: Floats) -> Counter:
        """The counter of these classes."""
        if isinstance(pilot.cells, Distinct):
            return FrequencyCounter(pilot.cells, self.classes.astype(np.int32), 2 * thresholds.size + 1)
        steps = StepCounter.merged(pilot.cells.starts, self.classes, thresholds)
        return steps if pilot.projection is None else ProjectedCounter(pilot.projection, steps)


def by_class(classes: Ints, tally: CellTally, thresholds: Floats) -> Ints:
    """A tally by class, (2, 2T + 1)."""
    return np.stack([np.bincount(classes, x, 2 * thresholds.size + 1) for x in (tally.p, tally.q)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Taught:
    """What draws teach of cells: their tally, and by name L̂ that other losses learned, (cells,) each."""

    tally: CellTally
    losses: Mapping[str, Floats]


def refine(pilot: Pilot, learned: CellTally, validation: CellTally, thresholds: Floats) -> Refined:
    """L̂ on the cells from tallies of refining and validation draws; the pilot's losses ("pilot 0", …) are candidates."""
    own = {f"pilot {at}": losses for at, losses in enumerate(pilot.losses)}
    halves = Taught(learned, own), Taught(validation, own)
    return decide(pilot.cells, halves, Taught(learned + validation, own), thresholds)


def decide(cells: LineCells | Distinct, halves: tuple[Taught, Taught], whole: Taught, thresholds: Floats) -> Refined:
    """L̂ on the cells: each half judges what the other one teaches; what both resolve is taken as both teach it."""
    one, other = halves
    folds = [Fold(_candidates(cells, a, thresholds), b.tally) for a, b in ((one, other), (other, one))]
    chosen = choose(folds, thresholds)
    classes = join_sets(_pick(_candidates(cells, whole, thresholds), chosen), thresholds)
    judged = [by_class(join_sets(_pick(f.candidates, chosen), thresholds), f.tally, thresholds) for f in folds]
    return Refined(classes, chosen, judged[0] + judged[1])


def _candidates(cells: LineCells | Distinct, taught: Taught, thresholds: Floats) -> dict[str, Bools]:
    tally = taught.tally
    own = {name: losses > thresholds[:, None] for name, losses in taught.losses.items()}
    if isinstance(cells, Distinct):
        return {"counts": log_ratios(tally.p, tally.q, tally.n0, tally.n1) > thresholds[:, None], **own}
    smooth = fit_log_ratio(cells.centres, tally.p, tally.q, tally.n0, tally.n1, cells.atoms)
    return {
        "smooth": smooth > thresholds[:, None],
        "best": best_sets(tally.p / tally.n0, tally.q / tally.n1, thresholds),
        **own,
    }


def _pick(candidates: Mapping[str, Bools], chosen: Sequence[str]) -> Bools:
    return np.stack([candidates[name][row] for row, name in enumerate(chosen)])
