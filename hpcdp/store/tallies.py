"""Tallies in the store: how many outputs of a span of chunks lie in each cell of a pair. Arrays first, then the record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import DamagedError
from hpcdp.keys import digest_array
from hpcdp.store.arrays import read_array, write_array
from hpcdp.store.fence import replacing
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import commit, read_json, record_names, set_aside

_NAME = re.compile(r"(?P<stage>[a-z]+)-(?P<start>\d+)-(?P<stop>\d+)-(?P<samples>\d+)(?:-(?P<side>[01]))?")
BOTH = (0, 1)


@dataclass(frozen=True)
class TallySpan:
    """The record of one span: whose cells, which stage, chunks start to stop, samples of each side, and which sides."""

    pilot: str
    stage: str
    start: int
    stop: int
    samples: int
    sides: tuple[int, ...] = BOTH

    @property
    def kind(self) -> str:
        """The kind of its record: each pilot has a folder, so that no task lists those of all pairs."""
        return _kind(self.pilot)

    @property
    def name(self) -> str:
        """The record's name, which tells the rest."""
        only = "" if self.sides == BOTH else f"-{self.sides[0]}"
        return f"{self.stage}-{self.start:08d}-{self.stop:08d}-{self.samples}{only}"


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
    return [
        TallySpan(
            pilot,
            m["stage"],
            int(m["start"]),
            int(m["stop"]),
            int(m["samples"]),
            (int(m["side"]),) if m["side"] else BOTH,
        )
        for m in found
        if m
    ]


def is_tallied(layout: Layout, span: TallySpan) -> bool:
    """Whether a span has its record."""
    return layout.record(span.kind, span.name).is_file()


def write_tally(layout: Layout, span: TallySpan, counts: NDArray[np.int64], generation: Generation) -> None:
    """Write the counts (2, cells) of both sides, 0 of one that it has not, then the record that vouches for them."""
    with replacing(layout, generation, layout.tally(span.pilot, span.name)) as new:
        write_array(new, counts)
    commit(layout, span.kind, span.name, {"digest": digest_array(counts)}, generation)


def sum_tallies(layout: Layout, spans: Sequence[Iterable[TallySpan]], cells: int) -> NDArray[np.int64]:
    """The counts of D in the first of these spans and of D' in the second ones, (2, cells) int64.

    A damaged one is set aside, so that it is counted again.
    """
    total = np.zeros((2, cells), np.int64)
    sides: dict[TallySpan, list[int]] = {}
    for side, some in enumerate(spans):
        for span in some:
            sides.setdefault(span, []).append(side)
    for span, wanted in sides.items():
        try:
            counts = read_array(layout.tally(span.pilot, span.name), (2, cells))
            if digest_array(counts) != read_json(layout.record(span.kind, span.name))["digest"]:
                raise DamagedError(f"the {span.kind}/{span.name} is damaged: its values do not match their checksum")
        except DamagedError as error:
            set_aside(layout, span.kind, span.name)
            raise DamagedTally(span, f"{error}; it is counted again") from None
        total[wanted] += counts[wanted]
    return total


def _kind(pilot: str) -> str:
    return f"tallies/{pilot}"
