"""The tasks: pure functions of a store's study and of their keys. Each writes its data first and its record last.

A mechanism's failure on one chunk costs that chunk and what depends on it; it is reported, and the rest goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from hpcdp._base.prints import printing_to_stderr
from hpcdp.engine.context import ChunkError, Context, open_context
from hpcdp.engine.last_draw import note_draw, noted_in
from hpcdp.engine.learning import counters_of, learn
from hpcdp.engine.outcomes import Failure, Report, unusable
from hpcdp.engine.sweep import sweep
from hpcdp.errors import MechanismError, StoreError, StudyError
from hpcdp.keys import digest_json, stream
from hpcdp.losses._alone import refuse_batch_dependent
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.mechanisms.slow_draws import naming, reporting
from hpcdp.planning.task import CountItems, Task
from hpcdp.store.arrays import fingerprint
from hpcdp.store.layout import Generation
from hpcdp.store.modes import own_files
from hpcdp.store.records import commit
from hpcdp.store.samples import DamagedBlock, read_blocks, write_block
from hpcdp.store.stages import Stage
from hpcdp.study.problem import LiteralCell, Problem

_TELLING = 1 << 12  # outputs of a chunk in its fingerprint where streams are long: they tell it from others as well


@printing_to_stderr()
@own_files()  # workers of a client of the caller's own have a umask of theirs
def run_task(root: str, version: int, generation: Generation, task: Task) -> Report:
    """Run one task in this process; raises StoreError when the store cannot be written."""
    begin = time.perf_counter()
    report = Report(task.name)
    try:
        context = open_context(root, version, task.sizes).under(generation)
        is_noted = task.is_part and task.kind != "round"  # a chunk of a round is a task of its own
        noted = noted_in(context.layout.last_draw(generation, task.name)) if is_noted else nullcontext()
        with noted, reporting(root, generation):
            _KINDS[task.kind](context, generation, task, report)
    except OSError as error:
        raise unusable(root, error) from error
    except StudyError as error:  # the study was sound when the run began
        raise StoreError(str(error)) from error
    report.seconds = time.perf_counter() - begin
    return report


def _sample(context: Context, generation: Generation, task: Task, report: Report) -> None:
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


def _round(context: Context, generation: Generation, task: Task, report: Report) -> None:
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


def _fit(context: Context, generation: Generation, task: Task, report: Report) -> None:
    numbers, thresholds = task.items
    learn(context, generation, numbers, thresholds, report)


def _count(context: Context, generation: Generation, task: Task, report: Report) -> None:
    items: CountItems = task.items[0]
    problem, chunks = context.problem, range(items.start, items.stop)
    stages = (problem.stage_of("test", items.pairs[0]), problem.stage_of("test", items.pairs[0], 1))
    draws, others = (sum(stage.chunk_size(chunk) for chunk in chunks) for stage in stages)
    if context.layout.record("counts", _counts_name(problem, items, items.pairs, draws)).is_file():
        return  # this task ran before, in a worker that died
    counters = counters_of(context, generation, items.pairs, items.thresholds, report)
    if not counters:
        return
    histograms = {number: np.zeros((2, 2 * len(items.thresholds) + 1), np.int64) for number in counters}
    prints: dict[str, dict[int, str]] = {}
    kept = [stage in problem.kept_stages for stage in stages]

    foreign = context.foreign if items.start == 0 else None
    alone: set[str] = set()  # laws whose first chunk was looked at

    def use(number: int, side: int, outputs: Outputs) -> None:
        law = problem.pair_laws[number][side]
        if foreign is not None and law not in alone:
            alone.add(law)
            refuse_batch_dependent(counters[number], outputs, foreign)
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


def _pilot(context: Context, generation: Generation, task: Task, report: Report) -> None:
    from hpcdp.engine.refining import learn_pilots

    learn_pilots(context, generation, task.items, report)


def _tally(context: Context, generation: Generation, task: Task, report: Report) -> None:
    from hpcdp.engine.refining import tally

    tally(context, generation, task.items[0], report)


def _reuse(context: Context, generation: Generation, task: Task, report: Report) -> None:
    from hpcdp.engine.reuse import reuse

    reuse(context, generation, task.items, report)


def _literal(context: Context, generation: Generation, task: Task, report: Report) -> None:
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
    from hpcdp.losses.knn.literal import count_rejections, testing_risk
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

        def where() -> str:
            return f"{stage} chunk {chunk} of {problem.describe_law(law)}"

        note_draw(where)
        with naming(where):
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


_KINDS: dict[str, Callable[[Context, Generation, Task, Report], None]] = {
    "sample": _sample,
    "round": _round,
    "pilot": _pilot,
    "tally": _tally,
    "fit": _fit,
    "count": _count,
    "reuse": _reuse,
    "literal": _literal,
}
