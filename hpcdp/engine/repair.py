"""Damage found when a run goes on: what it takes out of use, so that it is done again."""

from __future__ import annotations

from itertools import chain

from hpcdp.clusters import TaskExecutor
from hpcdp.engine.execute import run_batches
from hpcdp.engine.identical_chunks import set_laws_aside
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.progress import Progress
from hpcdp.engine.tasks import check_blocks
from hpcdp.planning.index import Index, read_index
from hpcdp.store.fence import discard
from hpcdp.store.layout import Layout
from hpcdp.store.packs import KIND as PACKS
from hpcdp.store.records import record_names, set_aside
from hpcdp.store.samples import place_of, set_block_aside
from hpcdp.study.problem import Problem

_CHECKED_BYTES = 8 << 30  # stored samples up to this size are read and compared when a run goes on


def read_sound_index(layout: Layout, progress: Progress) -> Index:
    """The index, after damaged records were named and set aside so that what they stood for is done again."""
    index = read_index(layout)
    for kind, name, message in index.damaged:
        progress.note(f"damaged: {message}; it is computed again")
        set_aside(layout, kind, name)
    return index


def remove_unrecorded(layout: Layout, index: Index) -> None:
    """What a killed task learned and did not record: who finds it would count with it, and never record its training; and
    packs without a record, in whose place no other comes where tasks are cut otherwise.
    """
    assert layout.generation is not None
    known = {layout.counter(model, thresholds) for model, thresholds in index.stored_counters}
    known |= {layout.pack(name) for name in record_names(layout, PACKS)}
    for folder in chain((layout.root / "counters").glob("*"), layout.pack("").glob("*")):
        if folder.is_dir() and folder not in known:
            discard(layout, layout.generation, folder)


def check_samples(
    executor: TaskExecutor, layout: Layout, root: str, version: int, problem: Problem, index: Index, monitor: Monitor
) -> bool:
    """Find stored chunks that are missing or whose bytes changed, name them, and have them drawn again; were there any?"""
    items = [
        (law, stage.name, block, stage.block_size(block))
        for stage in problem.kept_stages
        for law in problem.laws
        for block in range(stage.blocks)
        if stage.name_of(law, block) in index.samples
    ]
    if not items:
        return False
    stages = {stage.name: stage for stage in problem.kept_stages}
    size = sum(item[3] for item in items) * problem.schema.bytes_per_output
    if size > _CHECKED_BYTES:
        monitor.note(
            f"{size / 2**30:.0f} GiB of stored samples: looked for missing files only; chunks are checked when read"
        )
        places = dict(place_of(layout, stages[name], law, block) for law, name, block, _ in items)
        damaged = {
            record: f"{layout.relative(path)} is missing" for record, path in places.items() if not path.is_dir()
        }
    else:
        per_task = max(1, (128 << 20) // max(1, size // len(items)))
        monitor.begin_batches("check stored samples", len(items))
        batches = [
            (root, version, tuple(item[:3] for item in items[i : i + per_task])) for i in range(0, len(items), per_task)
        ]
        found = run_batches(executor, monitor, check_blocks, batches, "check")
        damaged = {record: message for some in reversed(found) for record, message in some}  # of a pack the first
        monitor.advance(len(items))
    for record, message in damaged.items():
        monitor.note(f"damaged: {message}; it is computed again")
        set_samples_aside(layout, problem, record)
    return bool(damaged)


def set_samples_aside(layout: Layout, problem: Problem, record: str) -> None:
    """Take a block out of use; where it cannot be drawn again as it was, with all that rests on its law's samples."""
    if not problem.sampler.reproducible and layout.record("samples", record).is_file():  # never in a pack
        set_laws_aside(layout, problem, {record.partition("-")[0]}, and_unknown=True)
        assert layout.generation is not None
        discard(layout, layout.generation, layout.results)  # derived from samples that are no more
    set_block_aside(layout, record)
