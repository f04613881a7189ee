"""Damage found when a run goes on: what it takes out of use, so that it is done again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from hpcdp.clusters import TaskExecutor
from hpcdp.engine.execute import run_batches
from hpcdp.engine.identical_chunks import set_laws_aside
from hpcdp.engine.index import Index, read_index
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.progress import Progress
from hpcdp.engine.tasks import check_blocks
from hpcdp.store.fence import discard
from hpcdp.store.layout import Layout
from hpcdp.store.packs import KIND as PACKS
from hpcdp.store.records import damaged_lines, has_record, note_damaged_line, record_names, set_aside
from hpcdp.store.samples import SAMPLES, place_of, set_block_aside
from hpcdp.store.tallies import recorded_tallies
from hpcdp.study.problem import Problem

_CHECKED_BYTES = 8 << 30  # stored samples up to this size are read and compared when a run goes on


def read_sound_index(layout: Layout, problem: Problem, progress: Progress) -> Index:
    """The index, after damaged records were named and set aside so that what they stood for is done again.

    Where that would be other draws than before, nothing of before is used any more.
    """
    assert layout.generation is not None
    lost, index, lines = list(_lost(layout)), read_index(layout), damaged_lines(layout)
    is_damaged = bool(lost or index.damaged or lines)
    if is_damaged and not problem.sampler.reproducible:  # first of all: this run may end at any moment
        set_laws_aside(layout, problem, set(problem.laws), and_unknown=True)
        discard(layout, layout.generation, layout.results)
    for kind, name in lost:
        progress.note(f"damaged: the file of the record {kind}/{name} is missing; it is computed again")
        set_aside(layout, kind, name)
    for kind, name, message in index.damaged:
        progress.note(f"damaged: {message}; it is computed again")
        set_aside(layout, kind, name)
    for line, message in lines.items():
        progress.note(f"damaged: {message}; what it recorded is computed again")
        note_damaged_line(layout, line, layout.generation)
    return read_index(layout) if is_damaged else index


def _lost(layout: Layout) -> Iterator[tuple[str, str]]:
    """Records of pilots and tallies whose files are missing."""
    for pilot in sorted(record_names(layout, "pilots")):
        if not layout.pilot(pilot).is_file():
            yield "pilots", pilot
        there = {path.stem for path in layout.tallies(pilot).glob("*.npz")}
        yield from ((span.kind, span.name) for span in recorded_tallies(layout, pilot) if span.name not in there)


def remove_unrecorded(layout: Layout, index: Index) -> None:
    """Delete what a run that was killed put in place and did not record: tasks go by what lies there."""
    assert layout.generation is not None
    stored = [(key, columns) for key, own in index.learned.items() for columns in own if index.is_stored(key, columns)]
    known = {layout.counter(key, columns) for key, own in stored for columns in (own, ())}
    known |= {layout.pilot(key) for key in index.pilots}
    for pilot in (path.name for path in layout.tallies("").glob("*")):
        known |= {layout.tally(pilot, span.name) for span in recorded_tallies(layout, pilot)}
    known |= {layout.pack(name) for name in record_names(layout, PACKS)}
    known |= {layout.block(name) for name in (*record_names(layout, SAMPLES), "packs", "zarr.json")}
    kinds = "counters/*.npz", "pilots/*.npz", "tallies/*/*.npz", "samples/packs/*", "samples/*"
    for path in chain.from_iterable(layout.root.glob(kind) for kind in kinds):
        if path not in known:
            discard(layout, layout.generation, path)


def check_samples(
    executor: TaskExecutor, layout: Layout, root: str, version: int, problem: Problem, index: Index, monitor: Monitor
) -> bool:
    """Find stored chunks that are missing or whose bytes changed, name them, and have them drawn again; were there any?"""
    items = [
        (law, stage, block)
        for stage in problem.kept_stages
        for law in problem.laws
        for block in range(stage.blocks)
        if stage.name_of(law, block) in index.samples
    ]
    if not items:
        return False
    size = sum(stage.block_size(block) for _, stage, block in items) * problem.schema.bytes_per_output
    if size > _CHECKED_BYTES:
        monitor.note(
            f"{size / 2**30:.0f} GiB of stored samples: looked for missing files only; chunks are checked when read"
        )
        places = dict(place_of(layout, stage, law, block) for law, stage, block in items)
        damaged = {
            record: f"{layout.relative(path)} is missing" for record, path in places.items() if not path.is_dir()
        }
    else:
        per_task = max(1, (128 << 20) // max(1, size // len(items)))
        monitor.begin_batches("check stored samples", len(items))
        batches = [(root, version, tuple(items[i : i + per_task])) for i in range(0, len(items), per_task)]
        answers = run_batches(executor, monitor, check_blocks, batches, "check")
        damaged = {record: message for answer in reversed(answers) for record, message in answer}  # of a pack the first
        monitor.advance(len(items))
    for record, message in damaged.items():
        monitor.note(f"damaged: {message}; it is computed again")
        set_record_aside(layout, problem, *record)
    return bool(damaged)


def set_record_aside(layout: Layout, problem: Problem, kind: str, name: str) -> None:
    """Take out of use what is damaged; of samples that cannot be drawn again as they were, all that rests on their law's too."""
    assert layout.generation is not None
    if kind not in (SAMPLES, PACKS):
        set_aside(layout, kind, name)
        if kind.startswith("tallies/"):
            discard(layout, layout.generation, layout.tally(kind.partition("/")[2], name))
        return
    if not problem.sampler.reproducible and has_record(layout, SAMPLES, name):  # never in a pack
        set_laws_aside(layout, problem, {name.partition("-")[0]}, and_unknown=True)
        discard(layout, layout.generation, layout.results)  # derived from samples that are no more
    set_block_aside(layout, kind, name)
