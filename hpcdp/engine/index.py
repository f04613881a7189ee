"""What is done: the records of a store, read once; spans of chunks, and what they leave to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from hpcdp.errors import DamagedError
from hpcdp.store.layout import Layout
from hpcdp.store.packs import KIND as PACKS
from hpcdp.store.packs import recorded_packs
from hpcdp.store.records import read_records, record_names
from hpcdp.store.stages import Stage
from hpcdp.store.tallies import TallySpan, recorded_tallies
from hpcdp.study.stored import known_choice


@dataclass(frozen=True, eq=False)
class Span:
    """Sums over chunks start to stop of a stage, from one record. samples: of one database in these chunks. sums: by name."""

    start: int
    stop: int
    samples: int
    sums: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.sums[name]


S = TypeVar("S", Span, TallySpan)


def disjoint(spans: Iterable[S], stage: Stage) -> list[S]:
    """Disjoint spans as they lie in the present stage, in order; of two that overlap the one that begins first."""
    own = (s for s in spans if s.stop <= stage.chunks)
    valid = [s for s in own if s.samples == min(stage.total, s.stop * stage.chunk) - s.start * stage.chunk]
    chosen: list[S] = []
    position = 0
    for span in sorted(valid, key=lambda s: (s.start, -s.stop)):
        if span.start >= position:
            chosen.append(span)
            position = span.stop
    return chosen


def gaps(spans: Sequence[Span | TallySpan], stage: Stage) -> list[range]:
    """Ranges of the stage's chunks that none of these disjoint spans, in order, holds."""
    return without([range(stage.chunks)], spans)


def without(ranges: Iterable[range], taken: Sequence[Span | TallySpan | range]) -> list[range]:
    """Parts of these ranges that lie in none of the taken ones, which are disjoint and in order."""
    rest = []
    for part in ranges:
        position = part.start
        for other in taken:
            if position < other.stop and other.start < part.stop:
                if other.start > position:
                    rest.append(range(position, other.start))
                position = other.stop
        if position < part.stop:
            rest.append(range(position, part.stop))
    return rest


def merged_length(ranges: Iterable[range]) -> int:
    """How many chunks lie in at least one of these ranges."""
    length = position = 0
    for part in sorted(ranges, key=lambda r: r.start):
        length += max(0, part.stop - max(position, part.start))
        position = max(position, part.stop)
    return length


Columns = tuple[float, ...]
"""What the columns of sums are of, such as thresholds of L̂; empty where nothing tells columns apart."""


@dataclass
class Index:
    """All valid records of a store."""

    samples: set[str] = field(default_factory=set)
    learned: dict[str, dict[Columns, Mapping[str, Any]]] = field(default_factory=dict)  # what it showed
    spans: dict[str, dict[Columns, list[Span]]] = field(default_factory=dict)  # by key and columns
    pilots: set[str] = field(default_factory=set)
    tallies: dict[tuple[str, str, int], list[TallySpan]] = field(default_factory=dict)  # by pilot, stage, side
    chosen: bool | None = None  # whether samples are reused, where runs choose
    damaged: list[tuple[str, str, str]] = field(default_factory=list)  # kind, name, what is wrong
    layout: Layout | None = None

    def done(self, key: str, columns: Columns, stage: Stage) -> list[Span]:
        """Disjoint spans of these sums, as they lie in the present stage."""
        return disjoint(self.spans.get(key, {}).get(columns, []), stage)

    def missing(self, key: str, columns: Columns, stage: Stage) -> list[range]:
        """Ranges of chunks that no record counts."""
        return gaps(self.done(key, columns, stage), stage)

    def is_learned(self, key: str, columns: Columns) -> bool:
        """Whether records say what learning showed at all these columns."""
        known = self.learned.get(key, {})
        return columns in known or (bool(columns) and set(columns).issubset(column for own in known for column in own))

    def is_stored(self, key: str, columns: Columns) -> bool:
        """Whether the state of what was learned lies in the store."""
        return bool(self.learned.get(key, {}).get(columns, {}).get("stored"))

    def untallied(self, pilot: str, stage: Stage, side: int) -> list[range]:
        """Ranges of chunks of a stage of D, or of D' (side 1), that no tally of a pair holds."""
        return gaps(disjoint(self.tallies.get((pilot, stage.name, side), []), stage), stage)


def read_index(layout: Layout) -> Index:
    """Read all records; those of blocks of samples, pilots and tallies by their names only."""
    index = Index(samples=record_names(layout, "samples"), pilots=record_names(layout, "pilots"), layout=layout)
    for name, blocks in recorded_packs(layout):
        if isinstance(blocks, DamagedError):
            index.damaged.append((PACKS, name, str(blocks)))
        else:
            index.samples.update(blocks)
    index.chosen = known_choice(layout)
    for pilot in index.pilots:
        for tally in recorded_tallies(layout, pilot):
            for side in tally.sides:
                index.tallies.setdefault((pilot, tally.stage, side), []).append(tally)
    for body in _sound(layout, "fits", index):
        columns = tuple(body["columns"])
        for entry in body["entries"]:
            index.learned.setdefault(entry.pop("key"), {})[columns] = _arrays(entry)
    for body in _sound(layout, "counts", index):
        columns = tuple(body["columns"])
        for entry in body["entries"]:
            span = Span(body["start"], body["stop"], body["samples"], _arrays(entry))
            index.spans.setdefault(entry.pop("key"), {}).setdefault(columns, []).append(span)
    return index


def _arrays(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry's values by name, lists of numbers as arrays, which take an eighth of the memory."""
    arrays = {}
    for name, value in entry.items():
        with suppress(ValueError, OverflowError):  # lists of several lengths, or whole numbers beyond 2⁶³
            array = np.asarray(value if isinstance(value, list) else [])
            if array.dtype.kind in "if" and array.size:
                arrays[name] = array
    return {name: value for name, value in (entry | arrays).items() if name != "key"}


def _sound(layout: Layout, kind: str, index: Index) -> Iterator[dict[str, Any]]:
    """Bodies of a kind's records; the damaged ones are noted in the index instead."""
    for name, body in read_records(layout, kind):
        if isinstance(body, DamagedError):
            index.damaged.append((kind, name, str(body)))
        else:
            yield body


def first_of(keys: Sequence[str]) -> dict[str, int]:
    """The first pair that has each key."""
    first: dict[str, int] = {}
    for number, key in enumerate(keys):
        first.setdefault(key, number)
    return first
