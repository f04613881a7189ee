"""What a pair's samples teach: its counter, and what tells it from other pairs before the test;
where L̂ is refined, by pilots and by tallies of fresh draws by cell (see `hpcdp.losses.refined`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.context import Context, sweep
from hpcdp.engine.index import disjoint, gaps
from hpcdp.engine.method import Learned, method_of
from hpcdp.engine.outcomes import Failure, NewFile, Report
from hpcdp.engine.series import Series
from hpcdp.engine.tasks import restored
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.losses.protocol import Counter, Densities, Model, Side, decided
from hpcdp.losses.refined import CellTally, Pilot, refine
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.methods.sample_split.tally_plan import LearnPilots, Tally
from hpcdp.notions.perturbed import perturbed_points
from hpcdp.store.arrays import fingerprint, read_state
from hpcdp.store.stages import Stage
from hpcdp.store.tallies import BOTH, DamagedRecord, TallySpan, stored_tallies, sum_tallies
from hpcdp.study.problem import Problem, describe_pairs

TELLING = 1 << 12
"""Outputs of a chunk in its fingerprint where streams are long: they tell it from others as well."""


def learn_pilots(context: Context, work: LearnPilots, report: Report) -> None:
    """Learn and store the pilots of these pairs."""
    problem = context.problem
    for number in work.pairs:
        key = problem.pilot_keys[number]
        try:
            laws = problem.pair_laws[number]
            p, q = (context.training(law) for law in laws)
            pilot = Pilot.learn(context.loss, p, q, context.others)
        except (MechanismError, DamagedError) as error:
            report.failures.append(Failure.of(describe_pairs(problem, [number]), error))
            continue
        prints = {law: context.training_prints[law] for law in laws if law in context.training_prints}
        file = NewFile.of_state(context.layout, context.layout.pilot(key), pilot.state())
        report.add("pilots", key, {"laws": list(laws), "fingerprints": prints}, [file])


def tally(context: Context, items: Tally, report: Report) -> None:
    """Draw a span of chunks of both sides of each pair, and store how many outputs lie in each cell."""
    problem = context.problem
    stages = [problem.stage_of(items.stage, items.pairs[0], side) if side in items.sides else None for side in BOTH]
    pilots: dict[int, Pilot] = {}
    for number in items.pairs:
        try:
            pilots[number] = restore_pilot(context, number)
        except DamagedError as error:
            report.failures.append(Failure.of(describe_pairs(problem, [number]), error))
    counts = {n: np.zeros((2, pilot.losses.shape[1]), np.int64) for n, pilot in pilots.items()}

    def use(number: int, side: int, outputs: Outputs) -> None:
        counts[number][side] += pilots[number].tally(outputs)

    prints: dict[str, dict[int, str]] = {}

    def see(law: str, _: int, chunk: int, outputs: Outputs) -> None:
        prints.setdefault(law, {})[chunk] = fingerprint(outputs[:TELLING])

    laws, chunks = {number: problem.pair_laws[number] for number in pilots}, range(items.start, items.stop)
    for number in sweep(context, laws, stages, chunks, use, report, partial(describe_pairs, problem), see):
        span = items.span(problem, number)
        target = context.layout.tally(span.pilot, span.name)
        file = NewFile.of_state(context.layout, target, {"counts": counts[number]})
        own = {law: [*prints[law].values()] for law in laws[number] if len(prints.get(law, ())) == len(chunks)}
        body = {"stage": items.stage, "start": items.start, "laws": list(laws[number]), "fingerprints": own}
        report.add(span.kind, span.name, body, [file])


def restore_pilot(context: Context, number: int) -> Pilot:
    """A pair's stored pilot; DamagedRecord where its bytes changed."""
    key = context.problem.pilot_keys[number]
    try:
        state = read_state(context.layout.pilot(key))
    except DamagedError as error:
        raise DamagedRecord(("pilots", key), f"{error}; it is learned again") from None
    return Pilot.restore(state, context.loss)


def learn_refined(
    context: Context, number: int, thresholds: NDArray[np.float64]
) -> tuple[Counter, NDArray[np.int64], list[str]]:
    """A pair's counter from its tallies, what to expect of fresh outputs, by class, and who decided at each threshold."""
    pilot = restore_pilot(context, number)
    stages = ([context.problem.stage_of(name, number, side) for side in BOTH] for name in ("refine", "validation"))
    known = stored_tallies(context.layout, context.problem.pilot_keys[number])
    learned, validation = (_read(context, known, stage, pilot) for stage in stages)
    refined = refine(pilot, learned, validation, thresholds)
    return refined.counter(pilot, thresholds), refined.judged, refined.chosen


def _read(context: Context, known: Sequence[TallySpan], stages: Sequence[Stage], pilot: Pilot) -> CellTally:
    """What is tallied of a stage of D and of D'."""
    spans = [
        disjoint([span for span in known if span.stage == stage.name and side in span.sides], stage)
        for side, stage in enumerate(stages)
    ]
    if any(gaps(side_spans, stage) for side_spans, stage in zip(spans, stages, strict=True)):
        raise DamagedError(f"some tallies of the {stages[0].name} stage are missing; they are counted again")
    counts = sum_tallies(context.layout, spans, pilot.losses.shape[1])
    return CellTally(counts[0], counts[1], stages[0].total, stages[1].total)


_RANKING_SAMPLES = 1 << 18  # training outputs counted for ranking and for the choice of a bound
_SLOW_RANKING_SAMPLES = 1 << 12


def learn_pair(context: Context, series: Series) -> Learned:
    """A pair's counter, and facts: "training", classes of other outputs; "perturbed", a density's points; "chosen"."""
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
    counter, decision = decided(model, thresholds)
    if decision is not None:
        return Learned(counter, {"training": decision.judged.tolist(), "chosen": decision.chosen})
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
