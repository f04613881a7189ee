"""What a pair's samples teach: its counter, and what tells it from other pairs before the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hpcdp.engine.context import Context
from hpcdp.engine.method import Learned, method_of
from hpcdp.engine.outcomes import Report
from hpcdp.engine.series import Series
from hpcdp.engine.sweep import sweep
from hpcdp.engine.tasks import restored
from hpcdp.losses.protocol import Counter, Decides, Densities, Model, Side
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.methods.sample_split.tallying import learn_refined
from hpcdp.notions.perturbed import perturbed_points
from hpcdp.study.problem import Problem

_RANKING_SAMPLES = 1 << 18  # training outputs counted for ranking and for the choice of a bound
_SLOW_RANKING_SAMPLES = 1 << 12


def learn_pair(context: Context, series: Series) -> Learned:
    """A pair's counter at its thresholds, and as facts classes of outputs that are not the test's ("training").

    "perturbed": trade-off points (η, α, β) of a model with densities. "chosen": which candidate decided at each threshold, of a
    refined L̂ and of a loss that chooses.
    """
    problem, number, thresholds = context.problem, series.pair, np.asarray(series.columns)
    if problem.is_refined:
        refined, validation, chosen = learn_refined(context, number, thresholds)
        return Learned(refined, {"training": validation.tolist(), "chosen": chosen})
    d, d_prime = context.sides(number)
    kept = restored(context, series) if method_of(problem).serves_any(context) else None
    if kept is not None:  # thresholds were added to those that it was learned for
        return Learned(kept, _training(kept, d, d_prime))
    model = context.loss_of_pair(number).fit(d, d_prime)
    if problem.is_screened:
        return Learned(
            model.counter(thresholds), records_facts=False
        )  # its record is there, or another task is about to write it
    if isinstance(model, Decides):
        counter, decision = model.decide(thresholds)
        return Learned(counter, {"training": decision.judged.tolist(), "chosen": decision.chosen})
    counter = model.counter(thresholds)
    return Learned(counter, {**_training(counter, d, d_prime), **_perturbed(model, problem.study.estimate.etas)})


def _training(counter: Counter, d: Side, d_prime: Side) -> dict[str, Any]:
    """Classes of training outputs, of a few where they are slowly counted."""
    limit = _RANKING_SAMPLES if counter.state() is not None else _SLOW_RANKING_SAMPLES
    return {"training": [counter.count(side.spread(limit)).tolist() for side in (d, d_prime)]}


def _perturbed(model: Model, etas: Sequence[float]) -> dict[str, Any]:
    """η, α and β of a model that has densities, at each η."""
    if not etas or not isinstance(model, Densities):
        return {}
    return {"perturbed": np.column_stack([etas, *perturbed_points(*model.masses(), np.asarray(etas))]).tolist()}


def screen(
    context: Context,
    learned: Mapping[Series, Learned],
    report: Report,
    describe: Callable[[Problem, Sequence[Series]], str],
) -> dict[Series, Learned]:
    """Count by class the fresh draws that tell which of several pairs lead."""
    problem = context.problem
    histograms = {series: np.zeros((2, 2 * len(series.columns) + 1), np.int64) for series in learned}

    def use(series: Series, side: int, outputs: Outputs) -> None:
        histograms[series][side] += learned[series].counter.count(outputs)

    if not learned:
        return {}
    stage = problem.stage_of("screen", next(iter(learned)).pair)
    laws = {series: series.laws for series in learned}
    whole = sweep(
        context, laws, (stage, stage), range(stage.chunks), use, report, lambda series: describe(problem, series)
    )
    return {series: Learned(learned[series].counter, {"training": histograms[series].tolist()}) for series in whole}
