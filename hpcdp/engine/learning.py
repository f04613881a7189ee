"""Tasks that learn: a pair's counter, what tells its pair from the others before the test, and the records of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.engine.refining import learn_refined
from hpcdp.engine.sweep import sweep
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.losses.protocol import Counter, Decides, Densities, Model
from hpcdp.losses.refined.refined import restore_counter
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.notions.perturbed import perturbed_points
from hpcdp.planning.counted import Learn
from hpcdp.store.layout import Generation
from hpcdp.store.records import commit, read_records
from hpcdp.store.states import read_state, write_state
from hpcdp.study.problem import describe_pairs

_RANKING_SAMPLES = 1 << 18  # training outputs counted for ranking and for the choice of a bound
_SLOW_RANKING_SAMPLES = 1 << 12


def learn(context: Context, generation: Generation, work: Learn, report: Report) -> None:
    """Learn pairs at these thresholds: store their counters where tasks share them, and record what they show."""
    numbers, thresholds = work.pairs, work.thresholds
    if context.problem.is_screened:
        _screen(context, generation, numbers, thresholds, report)
        return
    entries = []
    for number in numbers:
        try:
            counter, seen = _learn(context, number, thresholds)
        except (MechanismError, DamagedError) as error:
            report.failures.append(_pair_failure(context, number, error))
            continue
        state = counter.state()
        if state is not None:
            folder = context.layout.counter(context.problem.model_key(number), thresholds)
            write_state(context.layout, folder, state, generation)
        entries.append(_fit_entry(context, number, seen, stored=state is not None))
    _commit_fits(context, generation, thresholds, numbers, entries)


def _screen(
    context: Context, generation: Generation, numbers: Sequence[int], thresholds: tuple[float, ...], report: Report
) -> None:
    """Learn pairs that race, and count by class the fresh draws that tell which of them lead; nothing learned is stored."""
    counters: dict[int, Counter] = {}
    for number in numbers:
        try:
            counters[number] = _plain_counter(context, number, thresholds)
        except (MechanismError, DamagedError) as error:
            report.failures.append(_pair_failure(context, number, error))
    histograms = {number: np.zeros((2, 2 * len(thresholds) + 1), np.int64) for number in counters}

    def use(number: int, side: int, outputs: Outputs) -> None:
        histograms[number][side] += counters[number].count(outputs)

    whole = []
    for _, some in groupby(counters, key=lambda number: context.problem.pair_laws[number][0]):
        group = list(some)
        stage = context.problem.stage_of("screen", group[0])
        whole += sweep(context, (stage, stage), group, range(stage.chunks), use, report)
    entries = [_fit_entry(context, n, Seen(histograms[n].tolist(), []), stored=False) for n in whole]
    _commit_fits(context, generation, thresholds, whole, entries)


def _plain_counter(context: Context, number: int, thresholds: tuple[float, ...]) -> Counter:
    """The counter of what training taught, of a pair that is not refined."""
    assert context.loss is not None
    d, d_prime = context.sides(number)
    return context.loss.fit(d, d_prime).counter(np.asarray(thresholds))


@dataclass(frozen=True)
class Seen:
    """What a pair's learned L̂ says of outputs that are not the test's.

    training: classes of its own training outputs, or of those that screened or validated it. perturbed: trade-off points, if
    any. chosen: of a refined L̂, and of a loss that chooses, which candidate decided at each threshold.
    """

    training: list[list[int]]
    perturbed: list[list[float]]
    chosen: list[str] = field(default_factory=list)


def _learn(context: Context, number: int, thresholds: tuple[float, ...]) -> tuple[Counter, Seen]:
    """A pair's counter, and what its training shows."""
    problem = context.problem
    assert context.loss is not None
    if problem.is_refined:
        refined, validation, chosen = learn_refined(context, number, np.asarray(thresholds))
        return refined, Seen(validation.tolist(), [], chosen)
    d, d_prime = context.sides(number)
    counter, perturbed = _restore_other(context, number, thresholds), []
    if counter is None:
        model = context.loss.fit(d, d_prime)
        if isinstance(model, Decides):
            counter, decision = model.decide(np.asarray(thresholds))
            return counter, Seen(decision.judged.tolist(), [], decision.chosen)
        counter = model.counter(np.asarray(thresholds))
        perturbed = _perturbed(model, problem.study.estimate.etas)
    limit = _RANKING_SAMPLES if counter.state() is not None else _SLOW_RANKING_SAMPLES
    return counter, Seen([counter.count(side.spread(limit)).tolist() for side in (d, d_prime)], perturbed)


def _perturbed(model: Model, etas: Sequence[float]) -> list[list[float]]:
    """η, α and β of a model that has densities, at each η."""
    if not etas or not isinstance(model, Densities):
        return []
    return np.column_stack([etas, *perturbed_points(*model.masses(), np.asarray(etas))]).tolist()


def _fit_entry(context: Context, number: int, seen: Seen, stored: bool) -> dict[str, Any]:
    found = {"model": context.problem.model_key(number), "training": seen.training, "stored": stored}
    found |= {"perturbed": seen.perturbed} if seen.perturbed else {}
    return found | ({"chosen": seen.chosen} if seen.chosen else {})


def _commit_fits(
    context: Context,
    generation: Generation,
    thresholds: tuple[float, ...],
    numbers: Sequence[int],
    entries: list[dict[str, Any]],
) -> None:
    """Record what was learned of some of these pairs."""
    if not entries:
        return
    name = Learn((), thresholds).name([(e["model"], e["stored"]) for e in entries])
    if context.layout.record("fits", name).is_file():
        return  # learned again only to count; a record that is there stays as it is
    models = {e["model"] for e in entries}
    learned = (number for number in numbers if context.problem.model_key(number) in models)
    laws = {law for number in learned for law in context.problem.pair_laws[number]}
    prints = {law: context.training_prints[law] for law in sorted(laws) if law in context.training_prints}
    body = {"thresholds": list(thresholds), "entries": entries, "fingerprints": prints}
    commit(context.layout, "fits", name, body, generation)


def _pair_failure(context: Context, number: int, error: Exception) -> Failure:
    return Failure.of(describe_pairs(context.problem, [number]), error)


def counters_of(
    context: Context, generation: Generation, numbers: Sequence[int], thresholds: tuple[float, ...], report: Report
) -> dict[int, Counter]:
    """Counters of pairs, restored where a fit task stored them, else learned here (and recorded)."""
    counters: dict[int, Counter] = {}
    entries = []
    for number in numbers:
        try:
            if context.problem.is_screened:  # its record is there, or a fit task is about to write it
                counters[number] = _plain_counter(context, number, thresholds)
                continue
            counter = _restore(context, number, thresholds)
            if counter is None:
                counter, seen = _learn(context, number, thresholds)
                entries.append(_fit_entry(context, number, seen, stored=False))
        except (MechanismError, DamagedError) as error:
            report.failures.append(_pair_failure(context, number, error))
            continue
        counters[number] = counter
    _commit_fits(context, generation, thresholds, numbers, entries)
    return counters


def _restore_other(context: Context, number: int, thresholds: tuple[float, ...]) -> Counter | None:
    """The pair's counter from what was stored for other thresholds, where the loss stores nothing that depends on them."""
    if context.problem.is_refined or not getattr(context.loss, "serves_any_thresholds", False):
        return None
    model = context.problem.model_key(number)
    for _, body in read_records(context.layout, "fits"):
        if isinstance(body, DamagedError):
            continue
        if any(entry["model"] == model and entry["stored"] for entry in body["entries"]):
            counter = _restore(context, number, tuple(body["thresholds"]), thresholds)
            if counter is not None:
                return counter
    return None


def _restore(
    context: Context, number: int, thresholds: tuple[float, ...], wanted: tuple[float, ...] | None = None
) -> Counter | None:
    """The pair's counter that was stored for these thresholds, for the wanted ones (None: the same)."""
    assert context.loss is not None
    try:
        state = read_state(context.layout.counter(context.problem.model_key(number), thresholds))
    except DamagedError:
        return None  # there is none, or it can be learned again
    if context.problem.is_refined:
        return restore_counter(state, context.loss)
    return context.loss.restore(state, np.asarray(thresholds if wanted is None else wanted))
