"""The tasks: pure functions of a store's study and of their keys. They return what they found, which the driver commits.

A mechanism's failure on one chunk costs that chunk and what depends on it; it is reported, and the rest goes on.
"""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path

import numpy as np

from hpcdp._base.shared import own_files
from hpcdp.engine.context import ChunkError, Context, open_context
from hpcdp.engine.outcomes import Failure, NewFile, Report, no_memory, stage_file, unusable
from hpcdp.engine.sampling import Block, Draw
from hpcdp.engine.task import Task
from hpcdp.errors import StoreError, StudyError
from hpcdp.losses import make_loss
from hpcdp.losses._sort import ascending
from hpcdp.losses.protocol import Decides, Side
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.mechanisms.streams import Stream
from hpcdp.notions.spectrum import lower_bounds
from hpcdp.store.fence import check_generation
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.packs import KIND as PACKS
from hpcdp.store.packs import PACK_BYTES, forget_packs, pack_name, size_of
from hpcdp.store.samples import SAMPLES, DamagedBlock, place_of, read_blocks, write_blocks
from hpcdp.store.stages import Stage
from hpcdp.study.trial_draws import equals_no_chance

_LEVELS, _WARM = np.array([0.0, 0.5]), 256


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
            for _ in read_blocks(context.layout, stage, law, context.problem.schema, stage.block_chunks(block)):
                pass
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
    """Load the kernels that most tasks need, or compile them, once for all children that are forked afterwards."""
    rng = Stream(np.random.SeedSequence(0))  # none of these kernels starts a thread
    outputs = [rng.laplace(size=_WARM), rng.normal(size=_WARM)]
    sides = [Side(ascending(sample), _WARM, is_sorted=True) for sample in outputs]
    for name in ("knn", "auto"):
        model = make_loss(name, {}).fit(*sides)
        counter = model.decide(_LEVELS)[0] if isinstance(model, Decides) else model.counter(_LEVELS)
        counter.count(outputs[0])
    counts, trials, is_split = np.array([9, 2]), np.array([10, 10]), np.array([False, True])
    lower_bounds(counts, trials, counts, trials, np.exp(_LEVELS), np.array([0.05, 0.05]), is_split)
