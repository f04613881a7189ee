"""Tallies in the store: how many outputs of a span of chunks lie in each cell of a pair. Arrays first, then the record."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import DamagedError
from hpcdp.keys import digest_array
from hpcdp.store.arrays import read_array, write_array
from hpcdp.store.fence import replacing
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import commit, read_json, record_names, set_aside

_NAME = re.compile(r"(?P<stage>[a-z]+)-(?P<start>\d+)-(?P<stop>\d+)-(?P<samples>\d+)")


@dataclass(frozen=True)
class TallySpan:
    """The record of one span: whose cells, which stage, chunks start to stop, samples per database."""

    pilot: str
    stage: str
    start: int
    stop: int
    samples: int

    @property
    def kind(self) -> str:
        """The kind of its record: each pilot has a folder, so that no task lists those of all pairs."""
        return _kind(self.pilot)

    @property
    def name(self) -> str:
        """The record's name, which tells the rest."""
        return f"{self.stage}-{self.start:08d}-{self.stop:08d}-{self.samples}"


class DamagedTally(DamagedError):
    """A tally whose bytes changed. span: which."""

    def __init__(self, span: TallySpan, message: str) -> None:
        super().__init__(message)
        self.span = span

    def __reduce__(self) -> tuple[type[DamagedTally], tuple[TallySpan, str]]:
        return type(self), (self.span, str(self))


def known_tallies(layout: Layout, pilot: str) -> list[TallySpan]:
    """Every tally of a pilot that has a record, by the names of the records alone."""
    found = (_NAME.fullmatch(name) for name in record_names(layout, _kind(pilot)))
    return [TallySpan(pilot, m["stage"], int(m["start"]), int(m["stop"]), int(m["samples"])) for m in found if m]


def is_tallied(layout: Layout, span: TallySpan) -> bool:
    """Whether a span has its record."""
    return layout.record(span.kind, span.name).is_file()


def write_tally(layout: Layout, span: TallySpan, counts: NDArray[np.int64], generation: Generation) -> None:
    """Write the counts (2, cells) of both sides, then the record that vouches for them."""
    with replacing(layout, generation, layout.tally(span.pilot, span.name)) as new:
        write_array(new, counts)
    commit(layout, span.kind, span.name, {"digest": digest_array(counts)}, generation)


def sum_tallies(layout: Layout, spans: Iterable[TallySpan], cells: int) -> NDArray[np.int64]:
    """The counts of these spans together, (2, cells) int64. A damaged one is set aside, so that it is counted again."""
    total = np.zeros((2, cells), np.int64)
    for span in spans:
        try:
            counts = read_array(layout.tally(span.pilot, span.name), (2, cells))
            if digest_array(counts) != read_json(layout.record(span.kind, span.name))["digest"]:
                raise DamagedError(f"the {span.kind}/{span.name} is damaged: its values do not match their checksum")
        except DamagedError as error:
            set_aside(layout, span.kind, span.name)
            raise DamagedTally(span, f"{error}; it is counted again") from None
        total += counts
    return total


def _kind(pilot: str) -> str:
    return f"tallies/{pilot}"
