"""Damage found when a run goes on, and chunks that are equal where chance cannot make them so: what they take out of use.

Every chunk that was ever drawn for the study left a fingerprint in a record, of its samples where they are kept, else of the fit,
the tally or the counts that used them. Equal ones say that the mechanism ignored its random generator: no bound would hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain

from hpcdp.clusters import TaskExecutor
from hpcdp.engine.execute import run_batches
from hpcdp.engine.index import Index, read_index
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.progress import Progress
from hpcdp.engine.tasks import check_blocks
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.mechanisms import READERS
from hpcdp.store.fence import discard
from hpcdp.store.layout import Layout
from hpcdp.store.packs import KIND as PACKS
from hpcdp.store.records import damaged_lines, has_record, note_damaged_line, read_records, record_names, set_aside
from hpcdp.store.root import resume_command
from hpcdp.store.samples import SAMPLES, known_prints, place_of, set_block_aside
from hpcdp.store.stages import Stage
from hpcdp.store.tallies import recorded_tallies, tallies_of
from hpcdp.study.problem import Problem
from hpcdp.study.stored import set_sizes_aside

Chunk = tuple[str, str, int]
"""A law, a stage's name, and the chunk's number."""

_SINGLE = "single"  # in place of a stage, of chunks that one entry alone uses


def refuse_identical_chunks(layout: Layout, problem: Problem, is_varied: Callable[[str, str, int], bool]) -> None:
    """Set aside what rests on identical chunks, and name two; is_varied: whether so many draws cannot be equal by chance."""
    if problem.sampler.call in READERS:
        return
    first: dict[str, Chunk] = {}
    alike: dict[str, set[Chunk]] = {}
    for chunk, text in _fingerprints(layout, problem):
        if first.setdefault(text, chunk) != chunk:
            alike.setdefault(text, {first[text]}).add(chunk)
    varied, e = cache(is_varied), problem.study.estimate
    last = {stage.name: stage for stage in (problem.train, problem.test)}  # of which a chunk may be shorter
    same: list[list[Chunk]] = []
    for chunks in alike.values():
        law, name, number = min(chunks)
        size = last[name].chunk_size(number) if name in last else min(e.chunk, e.train)
        if varied(law, problem.test.name if name == _SINGLE else name, min(1024, size)):
            same.append(sorted(chunks))
    if not same:
        return
    set_laws_aside(layout, problem, {law for chunks in same for law, _, _ in chunks})
    raise identical(problem, min(same)[0], min(same)[1], resume_command(layout.root, changed=True))


def identical(problem: Problem, a: Chunk, b: Chunk, again: str) -> MechanismError:
    """The error that names two chunks, once what rests on them is set aside; again: the command that goes on."""
    first, second = (f"{stage} chunk {number} of {problem.describe_law(law)}" for law, stage, number in (a, b))
    return MechanismError(
        f"{problem.sampler.named}: {first} and {second} are identical; the mechanism ignores its rng, so its "
        "draws are not independent and no bound would hold. What rests on such chunks was set aside; repair the mechanism, "
        f"then: {again}"
    )


def _fingerprints(layout: Layout, problem: Problem) -> Iterator[tuple[Chunk, str]]:
    """Every chunk of the present study's laws and stages with its fingerprint, of samples that are kept and not."""
    for stage in problem.kept_stages:
        for law, block, prints in known_prints(layout, stage, problem.laws):
            for chunk, text in zip(stage.block_chunks(block), prints, strict=True):
                yield (law, stage.name, chunk), text
    if problem.train not in problem.kept_stages:
        for kind in ("pilots", "fits"):
            yield from _of_records(layout, problem, kind, problem.train)
    if problem.test not in problem.kept_stages:
        yield from _of_records(layout, problem, "counts", problem.test)
    if pilots := record_names(layout, "pilots"):
        for pilot in pilots & set(problem.pilot_keys):
            yield from _of_records(layout, problem, tallies_of(pilot), problem.train)


def _of_records(layout: Layout, problem: Problem, kind: str, stage: Stage) -> Iterator[tuple[Chunk, str]]:
    """Of the records of a kind; stage: of those that name none. Draws that belong to one entry alone are numbered in turn."""
    limits = {one.name: one.chunks for one in (problem.train, problem.test)}
    alone = 0
    for _, body in read_records(layout, kind):
        if isinstance(body, DamagedError):
            continue
        name = body.get("stage", stage.name)
        for law, prints in body.get("fingerprints", {}).items():
            for chunk, text in enumerate(prints, body.get("start", 0)):
                if law in problem.laws and chunk < limits.get(name, chunk + 1):
                    yield (law, name, chunk), text
        for entry in body.get("entries", ()):
            for law, text in entry.get("draws", ()):
                alone += 1
                if law in problem.laws:
                    yield (law, _SINGLE, alone), text


def set_laws_aside(layout: Layout, problem: Problem, laws: set[str], and_unknown: bool = False) -> None:
    """Take samples of these laws, and all that rests on them, out of use. and_unknown: what belongs to no present pair too."""
    assert layout.generation is not None
    for law in laws:  # all of each: a shorter last chunk may be the start of others, and looks like none
        for stage in problem.kept_stages:
            for block in range(stage.blocks):
                set_block_aside(layout, SAMPLES, stage.name_of(law, block))
    pilots = {problem.pilot_keys[number] for number, pair in enumerate(problem.pair_laws) if laws & set(pair)}
    for pilot in pilots:
        set_aside(layout, "pilots", pilot)
        for span in recorded_tallies(layout, pilot):
            set_aside(layout, span.kind, span.name)
            discard(layout, layout.generation, layout.tally(span.pilot, span.name))
    set_sizes_aside(layout, pilots)
    for kind in ("fits", "counts"):
        for name, body in read_records(layout, kind):
            if isinstance(body, DamagedError):
                continue
            rests_on = set(body["laws"])
            if rests_on & laws or (and_unknown and not rests_on <= problem.laws.keys()):
                for entry in body["entries"]:
                    for columns in (body["columns"], ()):
                        discard(layout, layout.generation, layout.counter(entry["key"], columns))
                set_aside(layout, kind, name)


_CHECKED_BYTES = 8 << 30  # stored samples up to this size are read and compared when a run goes on


def read_sound_index(layout: Layout, problem: Problem, progress: Progress) -> Index:
    """The index, once damaged records are set aside, to be done again, or all of them where that would be other draws."""
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
        places = (place_of(layout, stage, law, block) for law, stage, block in items)
        damaged = {record: f"{layout.relative(path)} is missing" for record, path in places if not path.is_dir()}
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
