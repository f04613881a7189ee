"""L̂ refined by tallies: a pilot cuts the line into cells, fresh draws are counted by cell, and the counts teach L̂.

Nothing but the counts is kept, so refining takes as many draws as one can pay for. Outputs that are vectors are brought to
the line by the pilot's own score first; of strings, sequences and other discrete outputs the values are cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses._sort import ascending
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.frequency.distinct import Distinct
from hpcdp.losses.frequency.frequency import FrequencyCounter, FrequencyModel
from hpcdp.losses.line.cells import LineCells
from hpcdp.losses.line.projected import (
    ProjectedCounter,
    Projection,
    projection_state,
    restore_projection,
    restore_steps,
)
from hpcdp.losses.line.step import StepCounter
from hpcdp.losses.protocol import Counter, Loss, Outputs, Side
from hpcdp.losses.refined.choice import Bools, CellTally, Fold, best_sets, choose, join_sets
from hpcdp.losses.smooth._spline import fit_log_ratio

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pilot:
    """What training samples teach before refining: cells of the line, or values, and each loss's own L̂ there.

    losses: (losses, cells) natural log, ±inf allowed. projection: of vector outputs, None of scalars.
    """

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
                restore_projection(state, restore=getattr(loss, "restore_projection", None)),
            )
        return cls(Distinct.restore(state), state["losses"], None)


def restore_counter(state: Mapping[str, NDArray[Any]], loss: Loss) -> Counter:
    """The refined counter whose `state` this is."""
    if "starts" in state:
        return restore_steps(state, getattr(loss, "restore_projection", None))
    return FrequencyCounter.restore(state)


@dataclass(frozen=True, eq=False)
class Refined:
    """What the tallies teach.

    classes: each cell's class of the final L̂, (cells,) int64 from 0 to 2T. chosen: which candidate decided each threshold.
    judged: the tallies of both stages by class, (2, 2T + 1) int64, each by sets that were learned from the other stage, so
    that they tell what to expect of fresh outputs.
    """

    classes: Ints
    chosen: list[str]
    judged: Ints

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
    """What draws teach of cells.

    losses: L̂ that other losses learned, (cells,) each, natural log, ±inf allowed, by name.
    """

    tally: CellTally
    losses: Mapping[str, Floats]


def refine(pilot: Pilot, learned: CellTally, validation: CellTally, thresholds: Floats) -> Refined:
    """L̂ on the cells, from the tallies of the refining and of the validation draws.

    Its own candidates are those of `decide`, and the L̂ of each of the pilot's losses ("pilot 0" and so on).
    """
    own = {f"pilot {at}": losses for at, losses in enumerate(pilot.losses)}
    halves = Taught(learned, own), Taught(validation, own)
    return decide(pilot.cells, halves, Taught(learned + validation, own), thresholds)


def decide(cells: LineCells | Distinct, halves: tuple[Taught, Taught], whole: Taught, thresholds: Floats) -> Refined:
    """L̂ on the cells, from what two halves of some draws teach, and what both together do.

    The default is a smoothing spline of the log-ratio, or the counts themselves where cells are values. Candidates are the
    empirically best half-lines and intervals, and the L̂ of other losses. Each half judges what the other one teaches; at
    each threshold another than the default is taken only where both together resolve that it is better
    (`hpcdp.losses.refined.choice`). What was chosen is then what both teach.
    """
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
