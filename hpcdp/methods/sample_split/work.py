"""Work of the counted way: learn, tally where it is refined, count."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Report
from hpcdp.engine.sweep import sweep
from hpcdp.losses._alone import refuse_batch_dependent
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.methods.sample_split.learning import counters_of
from hpcdp.methods.sample_split.plan import Count
from hpcdp.notions.dependence import COLUMNS, count_in_order, looked_thresholds
from hpcdp.store.arrays import fingerprint

_TELLING = 1 << 12  # outputs of a chunk in its fingerprint where streams are long: they tell it from others as well


def count(context: Context, items: Count, report: Report) -> None:
    """Count a range of test chunks of some pairs, and record what each that got all of them counted."""
    problem, chunks = context.problem, range(items.start, items.stop)
    stages = (problem.stage_of("test", items.pairs[0]), problem.stage_of("test", items.pairs[0], 1))
    counters = counters_of(context, items.pairs, items.thresholds, report)
    if not counters:
        return
    histograms = {number: np.zeros((2, 2 * len(items.thresholds) + 1), np.int64) for number in counters}
    sets = looked_thresholds(len(items.thresholds)).size
    orders = {number: np.zeros((2, sets, COLUMNS), np.int64) for number in counters}
    prints: dict[str, dict[int, str]] = {}
    kept = [stage in problem.kept_stages for stage in stages]

    foreign = context.foreign if items.start == 0 else None
    alone: set[str] = set()  # laws whose first chunk was looked at

    def use(number: int, side: int, outputs: Outputs) -> None:
        law = problem.pair_laws[number][side]
        if foreign is not None and law not in alone:
            alone.add(law)
            refuse_batch_dependent(counters[number], outputs, foreign)
        counts = histograms[number][side], orders[number][side]
        count_in_order(counters[number], outputs, stages[side].chunk, *counts)

    def see(law: str, side: int, chunk: int, outputs: Outputs) -> None:
        if not kept[side]:
            # streams of refined losses are long, and their beginnings tell them apart as well
            compared = outputs[:_TELLING] if problem.is_refined else outputs
            prints.setdefault(law, {})[chunk] = fingerprint(compared)

    whole: list[int] = []
    for _, some in groupby(counters, key=lambda number: problem.pair_laws[number][0]):
        whole += sweep(context, stages, list(some), chunks, use, report, see)
    entries = [
        {"model": problem.model_key(n), "counts": histograms[n].tolist(), "order": orders[n].tolist()} for n in whole
    ]
    draws = list(items.draws(problem))
    body = {
        "start": items.start,
        "stop": items.stop,
        "thresholds": list(items.thresholds),
        "draws": draws,
        "accepted": draws,
        "entries": entries,
        "fingerprints": {law: list(found.values()) for law, found in prints.items() if len(found) == len(chunks)},
    }
    if entries:
        report.add("counts", items.name(problem, whole), body)
