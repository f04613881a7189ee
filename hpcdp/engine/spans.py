"""Spans of chunks: disjoint ones out of several, and what they leave to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from hpcdp.store.stages import Stage


class Ranged(Protocol):
    """Chunks start to stop of a stage, which held so many samples per database."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...

    @property
    def samples(self) -> int: ...


S = TypeVar("S", bound=Ranged)


def disjoint(spans: Iterable[S], stage: Stage) -> list[S]:
    """Disjoint spans as they lie in the present stage, in order; of two that overlap the one that begins first."""
    valid = [s for s in spans if s.stop <= stage.chunks and s.samples == samples_between(stage, s.start, s.stop)]
    chosen: list[S] = []
    position = 0
    for span in sorted(valid, key=lambda s: (s.start, -s.stop)):
        if span.start >= position:
            chosen.append(span)
            position = span.stop
    return chosen


def gaps(spans: Sequence[Ranged], stage: Stage) -> list[range]:
    """Ranges of the stage's chunks that none of these disjoint spans, in order, holds."""
    return without([range(stage.chunks)], spans)


def without(ranges: Iterable[range], taken: Sequence[Ranged | range]) -> list[range]:
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


def samples_between(stage: Stage, start: int, stop: int) -> int:
    """Samples in chunks start to stop of a stage."""
    return min(stage.total, stop * stage.chunk) - start * stage.chunk
