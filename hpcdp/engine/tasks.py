"""The tasks: pure functions of a store's study and of their keys. They return what they found, which the driver commits.

A mechanism's failure on one chunk costs that chunk and what depends on it; it is reported, and the rest goes on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp._base.files import own_files
from hpcdp.engine.context import Context, open_context
from hpcdp.engine.method import Learned, Prints, method_of
from hpcdp.engine.outcomes import ChunkError, Failure, NewFile, Report, no_memory, stage_file, unusable
from hpcdp.engine.sampling import Block, Draw
from hpcdp.engine.series import Count, Learn, Series, record_name
from hpcdp.engine.task import Task
from hpcdp.errors import DamagedError, MechanismError, StoreError, StudyError
from hpcdp.losses import make_loss
from hpcdp.losses.protocol import Side, ascending
from hpcdp.mechanisms.outputs import MANY, Outputs, canonicalise
from hpcdp.mechanisms.streams import Stream
from hpcdp.notions.spectrum import lower_bounds
from hpcdp.store.arrays import bytes_of, read_state
from hpcdp.store.copies import MOST_SENT
from hpcdp.store.fence import check_generation
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.packs import KIND as PACKS
from hpcdp.store.packs import PACK_BYTES, forget_packs, pack_name, size_of
from hpcdp.store.samples import SAMPLES, DamagedBlock, place_of, read_blocks, write_blocks
from hpcdp.store.stages import Stage
from hpcdp.study.combinations import DEFAULT, method_named
from hpcdp.study.file import Study
from hpcdp.study.trial_draws import equals_no_chance

_LEVELS = np.array([0.0, 0.5])


@own_files()
def run_task(root: str, version: int, generation: Generation, task: Task) -> Report:
    """Run one task; raises StoreError when the store cannot be written."""
    begin = time.perf_counter()
    report = Report(task.name)
    try:
        context = open_context(root, version, task.sizes).under(generation)
        module, _, name = task.work.does.partition(":")
        getattr(import_module(module), name)(context, task.work, report)
    except OSError as error:
        if not Layout(Path(root)).is_copy:
            check_generation(Layout(Path(root)), generation)
        raise unusable(root, error) from error
    except MemoryError as error:
        raise no_memory(root) from error
    except StudyError as error:  # the study was sound when the run began
        raise StoreError(str(error)) from error
    report.seconds = time.perf_counter() - begin
    return report


def draw(context: Context, work: Draw, report: Report) -> None:
    """Draw and keep blocks."""
    if not work.packed:
        for law, stage, block in work.blocks:
            _keep(context, stage, law, block, report)
        return
    blocks: dict[str, list[Outputs]] = {}
    size = 0
    for law, stage, block in work.blocks:
        try:
            parts = [context.draw(stage, law, chunk) for chunk in stage.block_chunks(block)]
        except ChunkError as error:
            report.failures.append(Failure(error.where, error.reason, stage.name_of(law, block)))
            continue
        blocks[stage.name_of(law, block)] = parts
        size += sum(sum(map(len, part)) if part.dtype == object else part.nbytes for part in parts)
        if size >= PACK_BYTES:
            _pack(context, blocks, report)
            blocks, size = {}, 0
    if blocks:
        _pack(context, blocks, report)


def _pack(context: Context, blocks: dict[str, list[Outputs]], report: Report) -> None:
    """Write blocks into one array, as the sizes in their names and the order of their names have it."""
    name, ordered = pack_name(blocks), {block: blocks[block] for block in sorted(blocks)}
    staged = stage_file(context.layout)
    prints = write_blocks(staged, context.problem.schema, ordered, sum(map(size_of, ordered)))
    report.add(PACKS, name, {"fingerprints": prints}, [NewFile(Path("samples", "packs", name), staged=staged)])


def _keep(context: Context, stage: Stage, law: str, block: int, report: Report) -> None:
    """Draw one block into an array; where the mechanism fails, whoever needs the block will miss its record."""
    name, staged = stage.name_of(law, block), stage_file(context.layout)
    chunks = (context.draw(stage, law, chunk) for chunk in stage.block_chunks(block))
    try:
        prints = write_blocks(staged, context.problem.schema, {name: chunks}, stage.block_size(block), stage.chunk)
    except ChunkError as error:
        report.failures.append(Failure(error.where, error.reason, name))
        return
    report.add(SAMPLES, name, {"fingerprints": prints[name]}, [NewFile(Path("samples", name), staged=staged)])


def check_blocks(root: str, version: int, items: tuple[Block, ...]) -> list[tuple[tuple[str, str], str]]:
    """Read stored blocks and compare their checksums; (record, message) of each that is damaged or missing."""
    context = open_context(root, version)
    damaged: dict[tuple[str, str], str] = {}
    forget_packs()
    for law, stage, block in items:
        if place_of(context.layout, stage, law, block)[0] in damaged:
            continue  # the pack that was named with another block
        try:
            deque(read_blocks(context.layout, stage, law, context.problem.schema, stage.block_chunks(block)), 0)
        except DamagedBlock as error:
            damaged[error.record] = f"{error} ({context.problem.describe_law(law)})"
        except OSError as error:
            raise unusable(root, error) from error
    return list(damaged.items())


def draws_vary(root: str, version: int, law: str, stage: str, size: int) -> bool:
    """Whether so many draws of a law are too varied for two chunks of them to be equal by chance."""
    problem = open_context(root, version).problem
    return equals_no_chance(problem.sampler.draw(problem.laws[law], law, stage, 0, 0, size, problem.schema))


def warm() -> None:
    """Load the modules and kernels that most tasks need, or compile these, once for all children that are forked afterwards."""
    method_named(DEFAULT)
    Study.model_rebuild()
    rng = Stream(np.random.SeedSequence(0))  # none of these kernels starts a thread
    outputs = [canonicalise(draws, MANY, fresh=True) for draws in (rng.laplace(size=MANY), rng.normal(size=MANY))]
    sides = [Side(ascending(sample), MANY, is_sorted=True) for sample in outputs]
    for name in ("knn", "auto"):
        model = make_loss(name, {}).fit(*sides)
        model.counter(_LEVELS).count(outputs[0])
    counts, trials, is_split = np.array([9, 2]), np.array([10, 10]), np.array([False, True])
    lower_bounds(counts, trials, counts, trials, np.exp(_LEVELS), np.array([0.05, 0.05]), is_split)


def learn(context: Context, work: Learn, report: Report) -> None:
    """Learn series: store their states where tasks share them, and record what learning shows."""
    method = method_of(context.problem)
    learned = method.learn_all(context, work.series, report)
    files: dict[Series, NewFile] = {}
    for series, one in learned.items():
        state = one.state() if work.keeps else one.file
        if state is None or (context.layout.is_copy and bytes_of(state) > MOST_SENT):
            continue  # it is learned again where it is needed, from the same draws
        columns = () if method.serves_any(context) else series.columns
        files[series] = NewFile.of_state(context.layout, context.layout.counter(series.key, columns), state)
    alone = [series for series, one in learned.items() if one.file is not None]  # whose record is named by its key
    for group in ([s for s in learned if s not in alone], *([series] for series in alone)):
        _record_learned(context, {s: learned[s] for s in group}, {s: files[s] for s in group if s in files}, report)


def count(context: Context, work: Count, report: Report) -> None:
    """Count a range of chunks, and record the sums of each series that got all of them."""
    method, chunks = method_of(context.problem), range(work.start, work.stop)
    counters = _counters(context, work.series, report)
    prints: Prints = {}
    sums = method.count(context, counters, chunks, report, prints) if counters else {}
    if not sums:
        return
    first, series = work.series[0], [*sums]
    whole = {law: [*own.values()] for law, own in prints.items() if len(own) == len(chunks)}
    body = {
        "stage": first.stage.name,
        "start": work.start,
        "stop": work.stop,
        "samples": first.samples(chunks),
        "columns": list(first.columns),
        "laws": _laws(series),
        "entries": [{"key": one.key, **values} for one, values in sums.items()],
        "fingerprints": whole,
    }
    report.add("counts", record_name("counts", series, chunks), body)


def _laws(series: Iterable[Series]) -> list[str]:
    """What a record rests on: it is of no use once samples of one of these are taken out of use."""
    return sorted({law for one in series for law in one.laws})


def _record_learned(
    context: Context,
    learned: Mapping[Series, Learned],
    files: Mapping[Series, NewFile],
    report: Report,
) -> None:
    """Record what learning showed, and which states are stored."""
    if not learned:
        return
    laws = _laws(learned)
    body = {
        "columns": list(next(iter(learned)).columns),
        "laws": laws,
        "entries": [{"key": s.key, "stored": s in files, **one.facts} for s, one in learned.items()],
        "fingerprints": {law: context.training_prints[law] for law in laws if law in context.training_prints},
    }
    report.add("fits", record_name("fits-stored" if files else "fits", [*learned]), body, [*files.values()])


def _counters(context: Context, series: Sequence[Series], report: Report) -> dict[Series, Any]:
    """What counts each series: restored where a task stored it, else learned here, and what that shows recorded."""
    method = method_of(context.problem)
    counters: dict[Series, Any] = {}
    learned: dict[Series, Learned] = {}
    for one in series:
        try:
            counter = restored(context, one)
            if counter is None:
                new = method.learn(context, one)
                counter = new.counter
                if new.records_facts:
                    learned[one] = new
            counters[one] = counter
        except (MechanismError, DamagedError) as error:
            report.failures.append(Failure.of(method.describe_series(context.problem, [one]), error))
    _record_learned(context, learned, {}, report)
    return counters


def restored(context: Context, series: Series) -> Any | None:
    """What was stored of a learned series; None where there is nothing, or nothing sound: it can be learned again."""
    method = method_of(context.problem)
    columns = () if method.serves_any(context) else series.columns
    try:
        state = read_state(context.layout.counter(series.key, columns))
    except DamagedError:
        return None
    return method.restore(context, series, state)
