"""Tasks of refined losses: pilots, tallies of fresh draws by cell, and what those teach (see `hpcdp.losses.refined.refined`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Failure, NewFile, Report
from hpcdp.engine.spans import disjoint, gaps
from hpcdp.engine.sweep import sweep
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.losses.protocol import Counter
from hpcdp.losses.refined.choice import CellTally
from hpcdp.losses.refined.refined import Pilot, refine
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.methods.sample_split.tally_plan import LearnPilots, Tally
from hpcdp.store.arrays import fingerprint, read_state
from hpcdp.store.stages import Stage
from hpcdp.store.tallies import BOTH, DamagedRecord, TallySpan, stored_tallies, sum_tallies
from hpcdp.study.problem import describe_pairs

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
