"""Sequential audits: what they found, and how a store says so again, by the wealths that it keeps after each batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hpcdp._check import integer, real, refusal
from hpcdp.errors import DamagedError, StudyError
from hpcdp.keys import digest_json
from hpcdp.notions.betting import Wealth, is_refuted
from hpcdp.results.shown import CONSISTENT, NOT_SEPARABLE, VIOLATION
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import commit, read_record, read_records, record_names
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem

ROUNDS, AUDITS = "rounds", "audits"
"""Kinds of records."""


@dataclass(frozen=True)
class Rounds:
    """How batches are cut: `chunk` draws of one stream each, `batch` of them a round and database, at most `budget`."""

    chunk: int
    batch: int
    budget: int

    @classmethod
    def of(cls, problem: Problem, batch: int, budget: int) -> Rounds:
        """Refuses sizes that do not fit, StudyError."""
        chunk = min(problem.study.estimate.chunk, batch)
        if batch % chunk:
            raise StudyError(f"--batch: a multiple of estimate.chunk, {chunk}; given: {batch}")
        if budget < batch:
            raise StudyError(f"--budget: at least one batch, {batch}; given: {budget}")
        return cls(chunk, batch, budget)

    @property
    def rounds(self) -> int:
        """How many whole batches the budget has."""
        return self.budget // self.batch

    def chunks(self, number: int) -> range:
        """Chunks of a round."""
        per_round = self.batch // self.chunk
        return range(number * per_round, (number + 1) * per_round)


@dataclass(frozen=True)
class Look:
    """What is known after a batch.

    samples: drawn per database. evidence: wealth, 1 at the start, a supermartingale if the claim is true; 1/γ refutes it.
    p_value: 1/(largest evidence so far), at most 1; it holds at every look (Ville). refuted: whether the claim is.
    """

    samples: int
    evidence: float
    p_value: float
    refuted: bool

    @classmethod
    def of(cls, total: Wealth, failure: float) -> Look:
        """Of the mean wealth. failure: the probability of refuting a true claim."""
        return cls(total.samples, _finite(total.log), total.p_value, is_refuted(total, failure))


@dataclass(frozen=True, eq=False)
class SequentialAudit:
    """What a sequential audit found; verdict as in `hpcdp.results.audit.Audit`.

    claim: as it was given. looks: after each batch, at least one. cells: `pair`, `evidence` and `p_value` of each pair alone.
    code_warnings: as `hpcdp.results.result.Result.code_warnings`, where the audit itself says so and no page around it.
    """

    study: Study
    claim: str
    orientation: str
    rounds: Rounds
    looks: Sequence[Look]
    cells: Sequence[Mapping[str, Any]]
    code_warnings: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Of the study."""
        return self.study.name

    @property
    def confidence(self) -> float:
        """Of a violation."""
        return self.study.estimate.confidence

    @property
    def needed(self) -> float:
        """The evidence that refutes the claim."""
        return 1.0 / (1.0 - self.confidence)

    @property
    def verdict(self) -> str:
        """ "violation" (certified), else "not separable" where the evidence is above 1, else "consistent"."""
        if self.looks[-1].refuted:
            return VIOLATION
        return NOT_SEPARABLE if self.looks[-1].evidence > 1.0 else CONSISTENT

    @property
    def ended(self) -> bool:
        """Whether it refuted the claim, or drew its whole budget."""
        return self.looks[-1].refuted or len(self.looks) >= self.rounds.rounds

    def to_dict(self) -> dict[str, Any]:
        """The object that `audit --sequential --format json` prints."""
        return {
            "verdict": self.verdict,
            "claim": self.claim,
            "confidence": self.confidence,
            "name": self.name,
            "orientation": self.orientation,
            "batch": self.rounds.batch,
            "budget": self.rounds.budget,
            "samples": self.looks[-1].samples,
            "needed": self.needed,
            "looks": [asdict(look) for look in self.looks],
            "cells": [dict(cell) for cell in self.cells],
            **({"warnings": [*self.code_warnings]} if self.code_warnings else {}),
        }

    def to_copy(self) -> dict[str, Any]:
        """What an exported copy keeps of it."""
        own = ("claim", "orientation", "looks", "cells")
        return {**asdict(self.rounds), **{name: self.to_dict()[name] for name in own}}

    @classmethod
    def from_copy(cls, study: Study, body: Mapping[str, Any]) -> SequentialAudit:
        """What `to_copy` gave; ValueError, KeyError or TypeError of something else."""
        looks = [
            Look(integer("samples", samples, 1), real("evidence", evidence), real("p_value", p), refuted is True)
            for samples, evidence, p, refuted in (
                [look[name] for name in ("samples", "evidence", "p_value", "refuted")] for look in body["looks"]
            )
        ]
        cells = [
            {"pair": integer("pair", cell["pair"], 0)}
            | {name: real(name, cell[name]) for name in ("evidence", "p_value")}
            for cell in body["cells"]
        ]
        rounds = Rounds(*(integer(name, body[name], 1) for name in ("chunk", "batch", "budget")))
        if not looks or not cells or not isinstance(body["claim"], str) or not isinstance(body["orientation"], str):
            raise refusal("sequential audit", body, "a claim, an orientation, looks and cells")
        return cls(study, body["claim"], body["orientation"], rounds, looks, cells)


def cells_of(wealths: Sequence[Wealth]) -> list[dict[str, Any]]:
    """Of each pair alone, by its wealth."""
    return [
        {"pair": pair, "evidence": _finite(wealth.log), "p_value": wealth.p_value}
        for pair, wealth in enumerate(wealths)
    ]


def round_name(key: str, number: int) -> str:
    """The record of a round. key: of all that the bets rest on."""
    return f"{key}-{number:06d}"


def note_audit(layout: Layout, key: str, claim: str, orientation: str, rounds: Rounds, generation: Generation) -> None:
    """Keep what an audit is of, with the largest budget that it was given."""
    name = digest_json([key, claim, orientation])
    try:
        before = read_record(layout, AUDITS, name)["budget"]
    except DamagedError:
        before = 0
    if rounds.budget > before:
        body = {"rounds": key, "claim": claim, "orientation": orientation, **asdict(rounds)}
        commit(layout, AUDITS, name, body, generation)


def stored_audits(layout: Layout, study: Study) -> list[SequentialAudit]:
    """The sequential audits of a store that have looked, in the order of their claims."""
    audits = []
    for _, body in read_records(layout, AUDITS):
        if isinstance(body, DamagedError):
            continue
        rounds = Rounds(*(body[name] for name in ("chunk", "batch", "budget")))
        looks, wealths = [], []
        for played in _played(layout, body["rounds"], rounds.rounds):
            looks.append(Look.of(Wealth.from_dict(played["total"]), 1.0 - study.estimate.confidence))
            wealths = [Wealth.from_dict(wealth) for wealth in played["wealths"]]
            if looks[-1].refuted:
                break
        if looks:
            cells = cells_of(wealths)
            audits.append(SequentialAudit(study, body["claim"], body["orientation"], rounds, looks, cells))
    return sorted(audits, key=lambda audit: (audit.claim, audit.orientation, audit.rounds.batch, len(audit.cells)))


def _played(layout: Layout, key: str, most: int) -> Iterator[dict[str, Any]]:
    for number in range(most):
        try:
            yield read_record(layout, ROUNDS, round_name(key, number))
        except DamagedError:  # or not played yet
            return


def unnamed_looks(layout: Layout) -> int:
    """How many looks a store has of whose audits it does not say the claim: those of an earlier hpcdp, or of a damaged record."""
    bodies = [body for _, body in read_records(layout, AUDITS)]
    named = {body["rounds"] for body in bodies if not isinstance(body, DamagedError)}
    return sum(name.rpartition("-")[0] not in named for name in record_names(layout, ROUNDS))


def _finite(log: float) -> float:
    """e^log, or the largest number."""
    return float(np.exp(min(log, 700.0)))
