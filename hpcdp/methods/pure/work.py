"""Work of pure ε: choose by training samples, test by fresh ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.engine.sweep import sweep
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.losses._alone import refuse_batch_dependent
from hpcdp.losses.local import find_peak, has_densities, in_region, inside, weigh
from hpcdp.losses.protocol import Loss, Model, Side
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.methods.pure.plan import Choice, Choose, TestRegion
from hpcdp.notions.dependence import COLUMNS, count_in_order
from hpcdp.notions.region import choose_regions
from hpcdp.store.arrays import fingerprint
from hpcdp.study.problem import Problem, describe_pairs


def choose(context: Context, work: Choose, report: Report) -> None:
    """Learn these pairs, and record what training chooses of each."""
    problem, chosen = context.problem, {}
    for number in work.pairs:
        try:
            chosen[number] = choose_of(context, number)
        except ValueError as error:
            failed = MechanismError(str(error))
            report.failures.append(Failure.of(describe_pairs(problem, [number]), failed))
        except (MechanismError, DamagedError) as error:
            report.failures.append(Failure.of(describe_pairs(problem, [number]), error))
    if not chosen:
        return
    size = problem.study.estimate.train
    entries = [
        {"model": problem.pure_keys[n], "training": [[size], [size]], "stored": False, "choice": choice.to_dict()}
        for n, choice in chosen.items()
    ]
    laws = {law for number in chosen for law in problem.pair_laws[number]}
    prints = {law: context.training_prints[law] for law in sorted(laws) if law in context.training_prints}
    body = {"thresholds": [], "entries": entries, "fingerprints": prints}
    report.add("fits", work.name(problem, [*chosen]), body)


def choose_of(context: Context, number: int) -> Choice:
    """What a pair's training samples choose."""
    assert context.loss is not None
    p, q = context.sides(number)
    return choose_from(context.problem, context.loss, p, q)


def choose_from(problem: Problem, loss: Loss, p: Side, q: Side) -> Choice:
    """What training samples of a pair of such a study choose; loss: of the study."""
    pure, e = problem.study.pure, problem.study.estimate
    assert pure is not None
    rule = e.parameters.get("bandwidth", "silverman") if e.default_loss == "kde" else "silverman"
    if pure.within is not None and not any(inside(side, pure.within).shape[0] for side in (p, q)):
        given = [list(interval) for interval in pure.within]
        raise ValueError(
            f"pure.within: accepted where training outputs lie, and none of either database does; given: {given}"
        )
    peak, model = None, loss.fit(p, q)
    if has_densities((p, q)):
        known = model if e.default_loss == "kde" else None
        peak = find_peak(p, q, pure.floor_of(e.train), pure.within, e.test, rule, known)
    regions = choose_regions(model, p, q, pure.within, e.test, 1.0 - e.confidence)
    return Choice(max(regions, key=lambda region: region.promised), peak)


def _learn(context: Context, number: int) -> Model:
    assert context.loss is not None
    p, q = context.sides(number)
    return context.loss.fit(p, q)


def named_points(problem: Problem, choice: Choice) -> list[tuple[Any, tuple[float, ...]]]:
    """The outputs at which weights are summed, with their bandwidths: t̂, then those of the study."""
    pure = problem.study.pure
    assert pure is not None
    if choice.peak is None:
        return []
    points = [choice.peak.at, *(list(p) if isinstance(p, tuple) else p for p in pure.at)]
    return [(point, choice.peak.bandwidths) for point in points]


def test_region(context: Context, work: TestRegion, report: Report) -> None:
    """Count a range of test chunks of both laws of a pair."""
    problem, chunks = context.problem, range(work.start, work.stop)
    pure, stage = problem.study.pure, problem.test
    assert pure is not None
    threshold = work.choice.region.threshold
    try:
        counter = _learn(context, work.pair).counter(np.array([threshold]))
    except (MechanismError, DamagedError) as error:
        report.failures.append(Failure.of(work.describe(problem), error))
        return
    points = named_points(problem, work.choice)
    histograms = np.zeros((2, 3), np.int64)
    orders, sums = np.zeros((2, 1, COLUMNS), np.int64), [[0, 0] for _ in points]
    prints: dict[str, list[str]] = {}
    foreign = context.foreign if work.start == 0 else None
    looked: set[int] = set()

    def use(_: int, side: int, outputs: Outputs) -> None:
        inside = outputs if pure.within is None else outputs[in_region(outputs, pure.within)]
        if foreign is not None and side not in looked and inside.shape[0]:
            looked.add(side)
            refuse_batch_dependent(counter, inside, foreign)
        if inside.shape[0]:
            count_in_order(counter, inside, stage.chunk, histograms[side], orders[side])
        for place, (point, bandwidths) in enumerate(points):
            sums[place][side] += weigh(outputs, point, bandwidths)

    def see(law: str, _: int, __: int, outputs: Outputs) -> None:
        prints.setdefault(law, []).append(fingerprint(outputs))

    if sweep(context, (stage, stage), [work.pair], chunks, use, report, see):
        size = sum(stage.chunk_size(chunk) for chunk in chunks)
        found = {"counts": histograms.tolist(), "order": orders.tolist(), "sums": sums}
        entry = {"model": problem.pure_keys[work.pair], **found}
        body = {
            "start": work.start,
            "stop": work.stop,
            "thresholds": [threshold],
            "draws": [size, size],
            "accepted": [size, size],
            "entries": [entry],
            "fingerprints": prints,
        }
        report.add("counts", work.name(problem), body)
