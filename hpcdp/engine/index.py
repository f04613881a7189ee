"""What is done: the records of a store, read once, and the integer counts they add up to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.spans import disjoint, gaps
from hpcdp.errors import DamagedError
from hpcdp.losses.counts import above, below
from hpcdp.notions.dependence import COLUMNS
from hpcdp.store.layout import Layout
from hpcdp.store.packs import KIND as PACKS
from hpcdp.store.packs import recorded_packs
from hpcdp.store.records import read_records, record_names
from hpcdp.store.stages import Stage
from hpcdp.store.tallies import TallySpan, recorded_tallies
from hpcdp.study.decisions import known_choice

Ints = NDArray[np.int64]
Thresholds = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Span:
    """Counts of one pair over test chunks start to stop, from one record; samples: outputs per database.

    sums: of each output named beforehand, the sums of weights of D and of D' (`hpcdp.losses.local.weigh`), of pure ε alone.
    atom: of a histogram's first chunk, what `hpcdp.notions.bins.refuse_atoms` says; else 1.
    order: in which outputs came, (2, sets, 6), see `hpcdp.notions.dependence`; none of earlier versions.
    """

    start: int
    stop: int
    samples: int
    histogram: Ints
    sums: tuple[tuple[int, int], ...] = ()
    atom: float = 1.0
    order: Ints = field(default_factory=lambda: np.zeros((2, 0, COLUMNS), np.int64))


@dataclass(frozen=True, eq=False)
class TapeSpan:
    """Chunks of a random tape from one record; samples: draws of the law. found: what the record says of them, by chunk."""

    start: int
    stop: int
    samples: int
    found: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Exceed:
    """How often L̂ was strictly above and below each threshold: arrays (2, T) int64, sides in the order D, D'.

    samples: (2,) int64, of how many outputs of each side.
    """

    above: Ints
    below: Ints
    samples: Ints

    @classmethod
    def of(cls, histogram: Ints) -> Exceed:
        """From the histograms (2, 2T + 1) of both sides."""
        return cls(above(histogram), below(histogram), histogram.sum(axis=1))


@dataclass
class Index:
    """All valid records of a store.

    training: histograms (2, 2T + 1) of outputs that are not the test's, by model and thresholds. perturbed: of each model with
    densities, its perturbed trade-off points (α, β) by η. reused: histograms (2, 2T + 1) by pool, thresholds and part (see
    `hpcdp.study.reuse`). chosen: whether samples are reused, where runs choose. tallies: by pilot, stage and side. damaged:
    (kind, name, message) of records that cannot be read. layout: where they lie; None where there is no store.
    """

    samples: set[str] = field(default_factory=set)
    training: dict[str, dict[Thresholds, Ints]] = field(default_factory=dict)
    stored_counters: set[tuple[str, Thresholds]] = field(default_factory=set)
    perturbed: dict[str, dict[float, tuple[float, float]]] = field(default_factory=dict)
    choices: dict[str, dict[str, Any]] = field(default_factory=dict)
    tapes: dict[tuple[str, str, int], list[TapeSpan]] = field(default_factory=dict)
    pilots: set[str] = field(default_factory=set)
    tallies: dict[tuple[str, str, int], list[TallySpan]] = field(default_factory=dict)
    spans: dict[str, dict[Thresholds, list[Span]]] = field(default_factory=dict)
    reused: dict[str, dict[Thresholds, dict[int, Ints]]] = field(default_factory=dict)
    chosen: bool | None = None
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    damaged: list[tuple[str, str, str]] = field(default_factory=list)
    layout: Layout | None = None

    def done(self, model: str, thresholds: Thresholds, stage: Stage) -> list[Span]:
        """Disjoint spans of a pair's counts at these thresholds, as they lie in the present test stage."""
        return disjoint(self.spans.get(model, {}).get(thresholds, []), stage)

    def missing(self, model: str, thresholds: Thresholds, stage: Stage) -> list[range]:
        """Ranges of test chunks that no record counts."""
        return gaps(self.done(model, thresholds, stage), stage)

    def untallied(self, pilot: str, stage: Stage, side: int) -> list[range]:
        """Ranges of chunks of a stage of D, or of D' (side 1), that no tally of a pair holds."""
        return gaps(disjoint(self.tallies.get((pilot, stage.name, side), []), stage), stage)

    def threshold_sets(self, model: str, wanted: Sequence[float], stage: Stage) -> list[Thresholds]:
        """Sets of thresholds whose records together serve the wanted ones; the last may have no record yet."""
        rest = set(wanted)
        chosen = []
        known = self.spans.get(model, {})
        for thresholds in sorted(known, key=lambda t: (-sum(s.samples for s in self.done(model, t, stage)), t)):
            if rest & set(thresholds) and self.done(model, thresholds, stage):
                chosen.append(thresholds)
                rest -= set(thresholds)
        if rest:
            chosen.append(tuple(sorted(rest)))
        return chosen

    def totals(self, model: str, wanted: Sequence[float], stage: Stage) -> Exceed:
        """Counts over the whole test stage at the wanted thresholds; −1 in columns that are not all counted yet."""
        parts = []
        for thresholds in self.threshold_sets(model, wanted, stage):
            if stage.total and not self.missing(model, thresholds, stage):
                histogram = np.sum([s.histogram for s in self.done(model, thresholds, stage)], axis=0)
                parts.append((thresholds, Exceed.of(histogram)))
        return _pick(parts, wanted)

    def families(self, model: str, wanted: Sequence[float], stage: Stage) -> int:
        """Of how many sets of thresholds, counted apart, `totals` takes the wanted ones; at least 1."""
        taken: dict[float, Thresholds] = {}
        for thresholds in self.threshold_sets(model, wanted, stage):
            if stage.total and not self.missing(model, thresholds, stage):
                taken |= dict.fromkeys(set(wanted) & set(thresholds), thresholds)
        return max(1, len(set(taken.values())))

    def is_counted(self, model: str, wanted: Sequence[float], stage: Stage) -> bool:
        """Whether `totals` has every wanted threshold."""
        rest = set(wanted)
        for thresholds in self.threshold_sets(model, wanted, stage) if stage.total else []:
            if not self.missing(model, thresholds, stage):
                rest.difference_update(thresholds)
        return not rest

    def is_learned(self, model: str, wanted: Sequence[float]) -> bool:
        """Whether `training_counts` has every wanted threshold."""
        return set(wanted).issubset(t for thresholds in self.training.get(model, {}) for t in thresholds)

    def training_counts(self, model: str, wanted: Sequence[float]) -> Exceed:
        """Counts on training outputs, for what is decided before testing; −1 in columns that are missing."""
        known = self.training.get(model, {})
        return _pick([(t, Exceed.of(known[t])) for t in sorted(known)], wanted)

    def unpooled(self, pool: str, part: int, wanted: Sequence[float]) -> Thresholds:
        """The wanted thresholds at which no record holds a part of a pool."""
        known = {t for thresholds, parts in self.reused.get(pool, {}).items() if part in parts for t in thresholds}
        return tuple(sorted(set(wanted) - known))

    def pooled(self, pool: str, part: int, wanted: Sequence[float]) -> Exceed:
        """Counts of one part of a pool at the wanted thresholds; −1 in columns that are missing."""
        known = sorted((t, parts[part]) for t, parts in self.reused.get(pool, {}).items() if part in parts)
        return _pick([(t, Exceed.of(histogram)) for t, histogram in known], wanted)


def _pick(parts: list[tuple[Thresholds, Exceed]], wanted: Sequence[float]) -> Exceed:
    """Columns of the wanted thresholds out of several sets; −1 where no set has them."""
    if len(parts) == 1 and parts[0][0] == tuple(wanted):
        return parts[0][1]
    over, under = (np.full((2, len(wanted)), -1, np.int64) for _ in range(2))
    for thresholds, part in parts:
        column = {t: i for i, t in enumerate(thresholds)}
        for i, t in enumerate(wanted):
            if t in column:
                over[:, i], under[:, i] = part.above[:, column[t]], part.below[:, column[t]]
    return Exceed(over, under, parts[0][1].samples if parts else np.zeros(2, np.int64))


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
        key = tuple(body["thresholds"])
        for entry in body["entries"]:
            index.training.setdefault(entry["model"], {})[key] = np.asarray(entry["training"], np.int64)
            for eta, *point in entry.get("perturbed", []):
                index.perturbed.setdefault(entry["model"], {})[eta] = (point[0], point[1])
            if "choice" in entry:
                index.choices[entry["model"]] = entry["choice"]
            if entry["stored"]:
                index.stored_counters.add((entry["model"], key))
    for body in _sound(layout, "counts", index):
        key = tuple(body["thresholds"])
        for entry in body["entries"]:
            sums = tuple((int(d), int(d_prime)) for d, d_prime in entry.get("sums", ()))
            order = {"order": np.asarray(entry["order"], np.int64)} if "order" in entry else {}
            counts = np.asarray(entry["counts"], np.int64)
            atom = entry.get("atom", 1.0)
            span = Span(body["start"], body["stop"], body["draws"][0], counts, sums, atom, **order)
            index.spans.setdefault(entry["model"], {}).setdefault(key, []).append(span)
    for body in _sound(layout, "tapes", index):
        tape = TapeSpan(body["start"], body["stop"], body["draws"], body["chunks"])
        index.tapes.setdefault((body["key"], body["part"], body["side"]), []).append(tape)
    for body in _sound(layout, "reuse", index):
        key = tuple(body["thresholds"])
        for entry in body["entries"]:
            counts = np.asarray(entry["counts"], np.int64)
            index.reused.setdefault(entry["pool"], {}).setdefault(key, {})[entry["part"]] = counts
    for body in _sound(layout, "cells", index):
        for entry in body["entries"]:
            index.cells[entry["cell"]] = entry
    return index


def _sound(layout: Layout, kind: str, index: Index) -> Iterator[dict[str, Any]]:
    """Bodies of a kind's records; the damaged ones are noted in the index instead."""
    for name, body in read_records(layout, kind):
        if isinstance(body, DamagedError):
            index.damaged.append((kind, name, str(body)))
        else:
            yield body


def first_of(keys: Sequence[str]) -> dict[str, int]:
    """The first pair that has each key."""
    found: dict[str, int] = {}
    for number, key in enumerate(keys):
        found.setdefault(key, number)
    return found
