"""Tallies in the store: how many outputs of a span of chunks lie in each cell of a pair. The file first, then the record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import DamagedError
from hpcdp.store.arrays import read_state
from hpcdp.store.layout import Layout
from hpcdp.store.records import record_names

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
        return tallies_of(self.pilot)

    @property
    def name(self) -> str:
        """The record's name, which tells the rest."""
        only = "" if self.sides == BOTH else f"-{self.sides[0]}"
        return f"{self.stage}-{self.start:08d}-{self.stop:08d}-{self.samples}{only}"


class DamagedRecord(DamagedError):
    """What a record vouches for has changed or is missing. record: its kind and name."""

    def __init__(self, record: tuple[str, str], message: str) -> None:
        super().__init__(message)
        self.record = record

    def __reduce__(self) -> tuple[type[DamagedRecord], tuple[Any, ...]]:
        return type(self), (self.record, str(self))


def recorded_tallies(layout: Layout, pilot: str) -> list[TallySpan]:
    """Every tally of a pilot that has a record."""
    return _spans(pilot, record_names(layout, tallies_of(pilot)))


def stored_tallies(layout: Layout, pilot: str) -> list[TallySpan]:
    """Every tally of a pilot that lies in its folder: what a task goes by, which reads no records."""
    return _spans(pilot, (path.stem for path in layout.tallies(pilot).glob("*.npz")))


def _spans(pilot: str, names: Iterable[str]) -> list[TallySpan]:
    matches = (_NAME.fullmatch(name) for name in sorted(names))
    sides = {None: BOTH, "0": (0,), "1": (1,)}
    return [
        TallySpan(pilot, m["stage"], int(m["start"]), int(m["stop"]), int(m["samples"]), sides[m["side"]])
        for m in matches
        if m
    ]


def sum_tallies(layout: Layout, spans: Sequence[Iterable[TallySpan]], cells: int) -> NDArray[np.int64]:
    """The counts of D in the first spans and of D' in the second, (2, cells) int64; DamagedRecord names one that is not so."""
    total = np.zeros((2, cells), np.int64)
    sides: dict[TallySpan, list[int]] = {}
    for side, side_spans in enumerate(spans):
        for span in side_spans:
            sides.setdefault(span, []).append(side)
    for span, wanted in sides.items():
        try:
            counts = read_state(layout.tally(span.pilot, span.name))["counts"]
            if counts.shape != total.shape or counts.dtype != total.dtype:
                raise DamagedError(f"the {span.kind}/{span.name} is damaged: its counts have another shape or type")
        except (DamagedError, KeyError) as error:
            raise DamagedRecord((span.kind, span.name), f"{error}; it is counted again") from None
        total[wanted] += counts[wanted]
    return total


def tallies_of(pilot: str) -> str:
    """The kind of the records of a pilot's tallies."""
    return f"tallies/{pilot}"
