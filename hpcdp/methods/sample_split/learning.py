"""Tasks that learn: a pair's counter, what tells its pair from the others before the test, and the records of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Failure, NewFile, Report
from hpcdp.engine.sweep import sweep
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.losses.protocol import Counter, Decides, Densities, Model
from hpcdp.losses.refined.refined import restore_counter
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.methods.sample_split.plan import Learn
from hpcdp.methods.sample_split.tallying import learn_refined
from hpcdp.notions.perturbed import perturbed_points
from hpcdp.store.copies import MOST_SENT
from hpcdp.store.states import bytes_of, read_state
from hpcdp.study.problem import describe_pairs

_RANKING_SAMPLES = 1 << 18  # training outputs counted for ranking and for the choice of a bound
_SLOW_RANKING_SAMPLES = 1 << 12


def learn(context: Context, work: Learn, report: Report) -> None:
    """Learn pairs at these thresholds: store their counters where tasks share them, and record what they show."""
    numbers, thresholds = work.pairs, work.thresholds
    if context.problem.is_screened:
        _screen(context, numbers, thresholds, report)
        return
    entries: list[dict[str, Any]] = []
    files = []
    for number in numbers:
        try:
            counter, seen = _learn(context, number, thresholds)
        except (MechanismError, DamagedError) as error:
            report.failures.append(_pair_failure(context, number, error))
            continue
        state = counter.state()
        if state is not None and context.layout.is_copy and bytes_of(state) > MOST_SENT:
            state = None  # it is learned again where it is needed, from the same draws
        if state is not None:
            files.append(NewFile.of_state(context.layout, _path_of(context, number, thresholds), state))
        entries.append(_fit_entry(context, number, seen, stored=state is not None))
    _add_fits(context, thresholds, numbers, entries, report, files)


def _screen(context: Context, numbers: Sequence[int], thresholds: tuple[float, ...], report: Report) -> None:
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
    _add_fits(context, thresholds, whole, entries, report)


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
    counter, perturbed = _restore(context, number, thresholds) if _serves_any(context) else None, []
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


def _add_fits(
    context: Context,
    thresholds: tuple[float, ...],
    numbers: Sequence[int],
    entries: list[dict[str, Any]],
    report: Report,
    files: Sequence[NewFile] = (),
) -> None:
    """Record what was learned of some of these pairs."""
    if not entries:
        return
    name = Learn((), thresholds).name([(e["model"], e["stored"]) for e in entries])
    models = {e["model"] for e in entries}
    learned = (number for number in numbers if context.problem.model_key(number) in models)
    laws = {law for number in learned for law in context.problem.pair_laws[number]}
    prints = {law: context.training_prints[law] for law in sorted(laws) if law in context.training_prints}
    body = {"thresholds": list(thresholds), "entries": entries, "fingerprints": prints}
    report.add("fits", name, body, files)


def _pair_failure(context: Context, number: int, error: Exception) -> Failure:
    return Failure.of(describe_pairs(context.problem, [number]), error)


def counters_of(
    context: Context, numbers: Sequence[int], thresholds: tuple[float, ...], report: Report
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
    _add_fits(context, thresholds, numbers, entries, report)
    return counters


def _serves_any(context: Context) -> bool:
    """Whether what is stored of a learned loss serves all thresholds."""
    return not context.problem.is_refined and getattr(context.loss, "serves_any_thresholds", False)


def _path_of(context: Context, number: int, thresholds: tuple[float, ...]) -> Path:
    """Where a pair's counter lies for these thresholds."""
    return context.layout.counter(context.problem.model_key(number), () if _serves_any(context) else thresholds)


def _restore(context: Context, number: int, thresholds: tuple[float, ...]) -> Counter | None:
    """The pair's counter that was stored for these thresholds."""
    assert context.loss is not None
    try:
        state = read_state(_path_of(context, number, thresholds))
    except DamagedError:
        return None  # there is none, or it can be learned again
    if context.problem.is_refined:
        return restore_counter(state, context.loss)
    return context.loss.restore(state, np.asarray(thresholds))
