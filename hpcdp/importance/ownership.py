"""Which entries of a tape belong to which output: found by exchanging entries, and seeing which outputs change.

Entries belong to outputs by rows, or by calls for one output each. Either way an output must be a function of its database and
its own entries. What is looked at, on each database: a sequence of outputs as long as a chunk, if its noise is no more than a
million numbers, with plain noise and with wild one, which takes outputs far out. For each bit of the outputs' numbers, and for
its complement, the noise of that half of the outputs is exchanged, so that each two outputs are once exchanged without each
other: the rest must stay as it is, bit by bit. That is evidence, not proof: a dependence that shows in fewer than about 3/n of n
outputs may be missed. Chunks that are counted are looked at besides, and drawn once more in a fresh process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcdp.errors import MechanismError
from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import BINS, PLAIN, Floats, Proposal
from hpcdp.mechanisms.outputs import Outputs

Trial = Callable[..., tuple[Outputs, Tape]]
"""Outputs and tape of (size, seed, by_rows=…, flat=…, exchanged=(rows, seed), proposal=…)."""

OUTPUTS = 61  # no usual number of columns
_MANY = 1 << 16  # outputs of a chunk: who draws in blocks of fewer is seen
_NUMBERS = 1 << 20  # variates of a sequence
ONE, _OTHER = 101, 202  # seeds of looks
_STRENGTHS = (1.0, 0.3)  # of wild noise; the next where a mechanism cannot bear it
NOT_OWN = (
    "an output depends on the noise of other outputs, so that its own random tape does not tell its weight; accepted: mechanisms "
    "that keep nothing from one output to the next, or a study without tape"
)
_MOST_WILD = 4096  # places of a kind with wild noise


@dataclass(frozen=True)
class Ownership:
    """How a mechanism's tapes are drawn. by_rows, flat: see `Tape`. looked: outputs of each sequence that was looked at."""

    by_rows: bool
    flat: str = "rows"
    looked: int = 0


def find_rows(trials: Sequence[Trial], many: int = _MANY, few: int = 1 << 12) -> Ownership:
    """How a mechanism draws: by rows in calls for `many`, else in `few` calls for one; MechanismError where neither is sound."""
    for flat in ("rows", "columns"):
        with suppress(MechanismError):  # as of one that needs another size
            seen = [_look(trial, many, {"by_rows": True, "flat": flat}) for trial in trials]
            if any(moved for _, moved in seen):
                return Ownership(True, flat, min(size for size, _ in seen))
    return Ownership(False, looked=min(_look(trial, few, {"by_rows": False})[0] for trial in trials))


def keeps_rows(one: Outputs, other: Outputs, rows: Any) -> bool:
    """Whether all outputs but the chosen ones are equal, bit by bit."""
    return bool(np.array_equal(one[~rows], other[~rows]))


def _look(trial: Trial, most: int, how: dict[str, Any]) -> tuple[int, bool]:
    """Outputs of the sequences, and whether any changed; MechanismError where something speaks against this way."""
    outputs, tape = trial(OUTPUTS, ONE, **how)
    entries = sum(int(entry.used.max(initial=0)) for entry in tape.entries())
    if how["by_rows"] and (tape.shared or not entries):
        raise MechanismError("no array has an axis of outputs")
    for _ in range(6):  # what is kept may be used some calls later
        trial(OUTPUTS, _OTHER, **how)
    if not np.array_equal(outputs, trial(OUTPUTS, ONE, **how)[0]):
        raise MechanismError(
            "estimate.tape: equal random tapes gave different outputs; the mechanism keeps something from one output to the next "
            "or draws from elsewhere than rng; accepted: neither, or a study without tape"
        )
    size = max(OUTPUTS, min(most, _NUMBERS // max(1, entries)))
    numbers, has_moved = np.arange(size), False
    halves = [(numbers >> bit & 1) == value for bit in range((size - 1).bit_length()) for value in (0, 1)]
    for proposal in (Proposal.plain(), *_bearable(trial, tape, how, size)):
        outputs, seen = trial(size, ONE, **how, proposal=proposal)
        for number, rows in enumerate(halves):
            other, again = trial(size, ONE, **how, proposal=proposal, exchanged=(rows, _OTHER + number))
            if (
                seen.shared
                or not seen.layout() == again.layout() == tape.layout()
                or not keeps_rows(outputs, other, rows)
            ):
                raise MechanismError(f"estimate.tape: {NOT_OWN}")
            has_moved |= not np.array_equal(outputs, other)
    return size, has_moved


def _bearable(trial: Trial, tape: Tape, how: dict[str, Any], size: int) -> Iterator[Proposal]:
    """The wildest noise with which the mechanism gives outputs, if there is any."""
    for strength in _STRENGTHS:
        proposal = _wild(tape, strength)
        try:
            trial(size, ONE, **how, proposal=proposal)
        except MechanismError:
            continue
        yield proposal
        return


def _wild(tape: Tape, strength: float) -> Proposal:
    """Outputs in groups of equal size: plain, far up, far down, wide, wider, and all of these at random."""
    rng = np.random.default_rng(ONE)
    tables = {}
    for kind, places in tape.lengths().items():
        length = min(_MOST_WILD, places)
        rows = [np.tile(PLAIN[kind], (length, 1))]
        rows += [np.tile(_tilted(kind, way, strength), (length, 1)) for way in range(4)]
        for _ in range(3 if length else 0):
            rows.append(np.stack([_tilted(kind, int(way), strength) for way in rng.integers(0, 4, length)]))
        tables[kind] = np.stack(rows) if length else np.zeros((8, 0, PLAIN[kind].size))
    return Proposal(np.full(8, 1.0 / 8.0), tables)


def _tilted(kind: str, way: int, strength: float) -> Floats:
    """Parameters of an entry that is far up, far down, wide or wider."""
    if kind == "normal":
        return np.array(
            [(5.0 * strength, 1.0), (-5.0 * strength, 1.0), (0.0, 4.0**strength), (0.0, 16.0**strength)][way]
        )
    if kind == "exponential":
        return np.array([(6.0, 0.1, 3.0, 20.0)[way] ** strength])
    if kind == "laplace":
        up, wide = 6.0**strength, (4.0, 20.0)[way % 2] ** strength
        return np.array([(0.95, up, 1.0), (0.05, 1.0, up), (0.5, wide, wide), (0.5, wide, wide)][way])
    widths = 2.0 ** -np.arange(1.0, BINS)  # edges at 1/2, 1/4, …: as much in each bin between them
    low = np.sort(widths)
    both = np.concatenate([low[: BINS // 2 - 1], [0.5], 1.0 - low[: BINS // 2 - 1][::-1]])
    edges = (np.sort(1.0 - widths), low, both, both)[way]
    even, lengths = np.full(BINS, 1.0 / BINS), np.diff(np.concatenate([[0.0], edges, [1.0]]))
    return np.concatenate([strength * even + (1.0 - strength) * lengths, edges])
