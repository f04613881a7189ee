"""The tasks: pure functions of a store's study and of their keys. Each writes its data first and its record last.

A mechanism's failure on one chunk costs that chunk and what depends on it; it is reported, and the rest goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from hpcdp.context import ChunkError, Context, open_context
from hpcdp.errors import DamagedError, MechanismError, StoreError, StudyError
from hpcdp.keys import digest_json, stream
from hpcdp.losses._protocol import Counter, Densities, Model
from hpcdp.outcomes import Failure, Report, unusable
from hpcdp.outputs import Outputs
from hpcdp.problem import LiteralCell, Problem, describe_pairs
from hpcdp.schedule import CountItems, Task
from hpcdp.stages import Stage
from hpcdp.store.arrays import fingerprint
from hpcdp.store.records import commit, read_records
from hpcdp.store.samples import DamagedBlock, read_blocks, write_block
from hpcdp.store.states import has_state, read_state, write_state
from hpcdp.sweep import sweep

_RANKING_SAMPLES = 1 << 18  # training outputs counted for ranking and for the choice of a bound
_SLOW_RANKING_SAMPLES = 1 << 12
_TELLING = 1 << 12  # outputs of a chunk in its fingerprint where streams are long: they tell it from others as well


def run_task(root: str, version: int, generation: int, task: Task) -> Report:
    """Run one task in this process; raises StoreError when the store cannot be written."""
    begin = time.perf_counter()
    report = Report(task.name)
    try:
        context = open_context(root, version, task.sizes)
        _KINDS[task.kind](context, generation, task, report)
    except OSError as error:
        raise unusable(root, error) from error
    except StudyError as error:  # the study was sound when the run began
        raise StoreError(str(error)) from error
    report.seconds = time.perf_counter() - begin
    return report


def _sample(context: Context, generation: int, task: Task, report: Report) -> None:
    problem = context.problem
    stages = {stage.name: stage for stage in problem.kept_stages}
    for law, name, block in task.items:
        stage = stages[name]
        record = stage.name_of(law, block)
        if context.layout.record("samples", record).is_file():
            continue  # this task ran before, in a worker that died

        def draw(chunk: int, law: str = law, stage: Stage = stage) -> Outputs:
            return context.draw(stage, law, chunk)

        try:
            write_block(context.layout, stage, law, block, problem.schema, generation, draw)
        except ChunkError as error:  # whoever needs this block will miss its record
            report.failures.append(Failure(error.where, error.reason, record))


def _round(context: Context, generation: int, task: Task, report: Report) -> None:
    """Chunks of a sequential audit's batches; each is a block of its own, so that none waits for another."""
    problem = context.problem
    for law, chunk, size in task.items:
        stage = Stage.endless(size)
        record = stage.name_of(law, chunk)
        if context.layout.record("samples", record).is_file():
            continue  # this task ran before, in a worker that died

        def draw(number: int, law: str = law, stage: Stage = stage) -> Outputs:
            return context.draw(stage, law, number)

        try:
            write_block(context.layout, stage, law, chunk, problem.schema, generation, draw)
        except ChunkError as error:
            report.failures.append(Failure(error.where, error.reason, record))


def _fit(context: Context, generation: int, task: Task, report: Report) -> None:
    numbers, thresholds = task.items
    if _is_fitted(context, numbers, thresholds):
        return  # this task ran before, in a worker that died
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
            write_state(context.layout.counter(context.problem.model_key(number), thresholds), state)
        entries.append(_fit_entry(context, number, seen, stored=state is not None))
    _commit_fits(context, generation, thresholds, numbers, entries)


def _screen(
    context: Context, generation: int, numbers: Sequence[int], thresholds: tuple[float, ...], report: Report
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
    d, d_prime = (context.training(law) for law in context.problem.pair_laws[number])
    return context.loss.fit(d, d_prime).counter(np.asarray(thresholds))


@dataclass(frozen=True)
class Seen:
    """What a pair's learned L̂ says of outputs that are not the test's.

    training: classes of its own training outputs, or of those that screened or validated it. perturbed: trade-off points, if
    any. chosen: of a refined L̂, which candidate decided at each threshold.
    """

    training: list[list[int]]
    perturbed: list[list[float]]
    chosen: list[str] = field(default_factory=list)


def _learn(context: Context, number: int, thresholds: tuple[float, ...]) -> tuple[Counter, Seen]:
    """A pair's counter, and what its training shows."""
    problem = context.problem
    assert context.loss is not None
    if problem.is_refined:
        from hpcdp.tallying import learn_refined

        refined, validation, chosen = learn_refined(context, number, np.asarray(thresholds))
        return refined, Seen(validation.tolist(), [], chosen)
    d, d_prime = (context.training(law) for law in problem.pair_laws[number])
    counter, perturbed = _restore_other(context, number, thresholds), []
    if counter is None:
        model = context.loss.fit(d, d_prime)
        counter = model.counter(np.asarray(thresholds))
        perturbed = _perturbed(model, problem.study.estimate.etas)
    limit = _RANKING_SAMPLES if counter.state() is not None else _SLOW_RANKING_SAMPLES
    return counter, Seen([counter.count(side.spread(limit)).tolist() for side in (d, d_prime)], perturbed)


def _perturbed(model: Model, etas: Sequence[float]) -> list[list[float]]:
    """η, α and β of a model that has densities, at each η."""
    if not etas or not isinstance(model, Densities):
        return []
    from hpcdp.notions.perturbed import perturbed_points

    return np.column_stack([etas, *perturbed_points(*model.masses(), np.asarray(etas))]).tolist()


def _fit_entry(context: Context, number: int, seen: Seen, stored: bool) -> dict[str, Any]:
    found = {"model": context.problem.model_key(number), "training": seen.training, "stored": stored}
    found |= {"perturbed": seen.perturbed} if seen.perturbed else {}
    return found | ({"chosen": seen.chosen} if seen.chosen else {})


def _commit_fits(
    context: Context,
    generation: int,
    thresholds: tuple[float, ...],
    numbers: Sequence[int],
    entries: list[dict[str, Any]],
) -> None:
    """Record what was learned of some of these pairs."""
    if not entries:
        return
    name = _fits_name(thresholds, [(e["model"], e["stored"]) for e in entries])
    if context.layout.record("fits", name).is_file():
        return  # learned again only to count; a record that is there stays as it is
    models = {e["model"] for e in entries}
    learned = (number for number in numbers if context.problem.model_key(number) in models)
    laws = {law for number in learned for law in context.problem.pair_laws[number]}
    prints = {law: context.training_prints[law] for law in sorted(laws) if law in context.training_prints}
    body = {"thresholds": list(thresholds), "entries": entries, "fingerprints": prints}
    commit(context.layout, "fits", name, body, generation)


def _fits_name(thresholds: Sequence[float], models: Sequence[tuple[str, bool]]) -> str:
    return digest_json(["fits", list(thresholds), [list(model) for model in models]])


def _is_fitted(context: Context, numbers: Sequence[int], thresholds: tuple[float, ...]) -> bool:
    """Whether these pairs have a record together, and each its stored counter, unless they race."""
    models, stores = [context.problem.model_key(number) for number in numbers], not context.problem.is_screened
    name = _fits_name(thresholds, [(model, stores) for model in models])
    whole = not stores or all(has_state(context.layout.counter(model, thresholds)) for model in models)
    return whole and context.layout.record("fits", name).is_file()


def _pair_failure(context: Context, number: int, error: Exception) -> Failure:
    return Failure.of(describe_pairs(context.problem, [number]), error)


def _count(context: Context, generation: int, task: Task, report: Report) -> None:
    items: CountItems = task.items[0]
    problem, chunks = context.problem, range(items.start, items.stop)
    stages = (problem.stage_of("test", items.pairs[0]), problem.stage_of("test", items.pairs[0], 1))
    draws, others = (sum(stage.chunk_size(chunk) for chunk in chunks) for stage in stages)
    if context.layout.record("counts", _counts_name(problem, items, items.pairs, draws)).is_file():
        return  # this task ran before, in a worker that died
    counters = _counters(context, generation, items, report)
    if not counters:
        return
    histograms = {number: np.zeros((2, 2 * len(items.thresholds) + 1), np.int64) for number in counters}
    prints: dict[str, dict[int, str]] = {}
    kept = [stage in problem.kept_stages for stage in stages]

    def use(number: int, side: int, outputs: Outputs) -> None:
        histograms[number][side] += counters[number].count(outputs)

    def see(law: str, side: int, chunk: int, outputs: Outputs) -> None:
        if not kept[side]:
            # streams of refined losses are long, and their beginnings tell them apart as well
            told = outputs[:_TELLING] if problem.is_refined else outputs
            prints.setdefault(law, {})[chunk] = fingerprint(told)

    whole = sweep(context, stages, list(counters), chunks, use, report, see)
    entries = [{"model": problem.model_key(n), "counts": histograms[n].tolist()} for n in whole]
    body = {
        "start": items.start,
        "stop": items.stop,
        "thresholds": list(items.thresholds),
        "draws": [draws, others],
        "accepted": [draws, others],
        "entries": entries,
        "fingerprints": {law: list(found.values()) for law, found in prints.items() if len(found) == len(chunks)},
    }
    if entries:
        commit(context.layout, "counts", _counts_name(problem, items, whole, draws), body, generation)


def _counts_name(problem: Problem, items: CountItems, numbers: Sequence[int], draws: int) -> str:
    models = [problem.model_key(number) for number in numbers]
    return digest_json(["counts", items.start, items.stop, draws, list(items.thresholds), models])


def _counters(context: Context, generation: int, items: CountItems, report: Report) -> dict[int, Counter]:
    """Counters of the block's pairs, restored where a fit task stored them, else learned here (and recorded)."""
    counters: dict[int, Counter] = {}
    entries = []
    for number in items.pairs:
        try:
            if context.problem.is_screened:  # its record is there, or a fit task is about to write it
                counters[number] = _plain_counter(context, number, items.thresholds)
                continue
            counter = _restore(context, number, items.thresholds)
            if counter is None:
                counter, seen = _learn(context, number, items.thresholds)
                entries.append(_fit_entry(context, number, seen, stored=False))
        except (MechanismError, DamagedError) as error:
            report.failures.append(_pair_failure(context, number, error))
            continue
        counters[number] = counter
    _commit_fits(context, generation, items.thresholds, items.pairs, entries)
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
        from hpcdp.losses._refined import restore_counter

        return restore_counter(state, context.loss)
    return context.loss.restore(state, np.asarray(thresholds if wanted is None else wanted))


def _pilot(context: Context, generation: int, task: Task, report: Report) -> None:
    from hpcdp.tallying import learn_pilots

    learn_pilots(context, generation, task.items, report)


def _tally(context: Context, generation: int, task: Task, report: Report) -> None:
    from hpcdp.tallying import tally

    tally(context, generation, task.items[0], report)


def _reuse(context: Context, generation: int, task: Task, report: Report) -> None:
    from hpcdp.reusing import reuse

    reuse(context, generation, task.items, report)


def _literal(context: Context, generation: int, task: Task, report: Report) -> None:
    problem = context.problem
    keys = [problem.cell_key(cell) for cell in task.items]
    if context.layout.record("cells", digest_json(["cells", keys])).is_file():
        return  # this task ran before, in a worker that died
    entries = []
    for cell, key in zip(task.items, keys, strict=True):
        try:
            entries.append({"cell": key, **_count_literal(context, cell, key)})
        except MechanismError as error:
            report.failures.append(Failure.of(cell.describe(), error))
    if entries:
        commit(
            context.layout,
            "cells",
            digest_json(["cells", [e["cell"] for e in entries]]),
            {"entries": entries},
            generation,
        )


def _count_literal(context: Context, cell: LiteralCell, key: str) -> dict[str, Any]:
    """The integer counts of one literal cell, as its record holds them."""
    from hpcdp.losses.literal_knn import count_rejections, testing_risk
    from hpcdp.losses.parameters import LiteralKnnParameters

    problem = context.problem
    estimate, laws = problem.study.estimate, problem.pair_laws[cell.pair]
    coins = stream(problem.study.seed, key, "train", 0)
    parameters = LiteralKnnParameters.model_validate(estimate.parameters)
    settings = (coins, cell.level, estimate.train, estimate.test, parameters, estimate.chunk)
    if cell.is_point:
        p, q = (_redraw(context, law, key, side) for law, side in zip(laws, ("d", "d_prime"), strict=True))
        return {"rejected": list(count_rejections(p, q, *settings)), "test": [estimate.test, estimate.test]}
    first, second = laws if cell.direction == "forward" else laws[::-1]
    errors, tests = testing_risk(
        _redraw(context, first, key, "thinned"), _redraw(context, second, key, "whole"), *settings
    )
    return {"errors": errors, "tests": tests}


def _redraw(context: Context, law: str, cell: str, side: str) -> Callable[[str, int], Outputs]:
    """Draws of a law that belong to one literal cell alone; each call is the next chunk of its stage."""
    key = digest_json([cell, law, side])
    calls = {"train": 0, "test": 0}
    problem = context.problem

    def draw(stage: str, size: int) -> Outputs:
        chunk = calls[stage]
        calls[stage] += 1
        return problem.sampler.draw_from(problem.laws[law], key, stage, chunk, size, problem.schema)

    return draw


def check_blocks(root: str, version: int, items: tuple[tuple[str, str, int], ...]) -> list[tuple[str, str]]:
    """Read stored blocks and compare their checksums; (record, message) of each that is damaged or missing."""
    context = open_context(root, version)
    stages = {stage.name: stage for stage in context.problem.kept_stages}
    damaged = []
    for law, name, block in items:
        stage = stages[name]
        try:
            for _ in read_blocks(context.layout, stage, law, context.problem.schema, stage.block_chunks(block)):
                pass
        except DamagedBlock as error:
            damaged.append((error.record, f"{error} ({context.problem.describe_law(law)})"))
        except OSError as error:
            raise unusable(root, error) from error
    return damaged


_KINDS: dict[str, Callable[[Context, int, Task, Report], None]] = {
    "sample": _sample,
    "round": _round,
    "pilot": _pilot,
    "tally": _tally,
    "fit": _fit,
    "count": _count,
    "reuse": _reuse,
    "literal": _literal,
}
