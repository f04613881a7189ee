"""Which entries of a tape belong to which output: found by exchanging entries, and seeing which outputs change.

That is evidence, not proof. Where it cannot be had, a mechanism is called for one output at a time, which needs none.

What is looked at: 61 outputs whose own noise is exchanged for each half of them that a bit of their numbers tells, so that each
two outputs are once exchanged without each other, with plain noise and with wild one, which takes outputs far out; then as many
outputs as a chunk has, of wild noise, exchanged for every other one and for a half at random. Not seen is what changes no output
in these looks: an entry that another output uses so seldom, or in so few digits, that none of some 10⁵ of them shows it. A chunk
that is counted is looked at once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.mechanisms.tape.generator import Tape
from hpcdp.mechanisms.tape.kinds import BINS, PLAIN
from hpcdp.mechanisms.tape.proposal import Proposal

Floats = NDArray[np.float64]
Trial = Callable[..., tuple[Outputs, Tape]]
"""Outputs and tape of (size, seed, by_rows=…, flat=…, exchanged=(rows, seed), proposal=…)."""

OUTPUTS = 61  # no usual number of columns
_MANY = 1 << 16  # outputs of a chunk: who draws in blocks of fewer is seen
ONE, _OTHER = 101, 202  # seeds of looks
_STRENGTHS = (1.0, 0.3)  # of wild noise; the next where a mechanism cannot bear it
_MOST_WILD = 4096  # places of a kind with wild noise


@dataclass(frozen=True)
class Ownership:
    """How a mechanism's tapes are drawn.

    by_rows, flat: see `Tape`. checked: whether equal tapes gave equal outputs, so that looks could tell. has_moved: whether any
    output changed in the looks; else they saw nothing that speaks against rows, and nothing for them.
    """

    by_rows: bool
    flat: str = "rows"
    checked: bool = True
    has_moved: bool = True


def same_rows(ways: Sequence[Ownership]) -> Ownership:
    """How one mechanism draws on several databases: where outputs never move on one, what was seen on the others counts."""
    moved = [way for way in ways if way.has_moved]
    checked = all(way.checked for way in ways)
    by_rows = all(way.by_rows for way in ways) and len({way.flat for way in moved}) == 1
    return Ownership(by_rows, moved[0].flat if by_rows else "rows", checked)


def find_rows(trial: Trial, reproducible: bool = False, many: int = _MANY) -> Ownership:
    """How a mechanism draws.

    A mechanism that draws from elsewhere too cannot be looked at, and is called for one output at a time; its own randomness
    has weight 1, if it is independent.

    Args:
        trial: draws.
        reproducible: whether the study says that outputs are a function of the seed.
        many: outputs of the last looks, as many as of a chunk.

    Raises:
        MechanismError: outputs depend on what was drawn before, or differ on equal tapes although they are said not to.
    """
    for flat in ("rows", "columns"):
        try:
            found = _keeps(trial, flat, many)
        except MechanismError:
            found = None  # as of one that needs another size
        if found is not None:
            return Ownership(True, flat, has_moved=found)
    checked = _refuse_state(trial)
    if reproducible and not checked:
        raise MechanismError(
            "estimate.tape: equal random tapes gave different outputs; the mechanism keeps something from one output to the next "
            "or draws from elsewhere than rng; accepted: neither, or a study without tape"
        )
    return Ownership(False, checked=checked)


def keeps_rows(one: Outputs, other: Outputs, rows: Any) -> bool:
    """Whether all outputs but the chosen ones are equal, bit by bit."""
    return bool(np.array_equal(one[~rows], other[~rows]))


def _keeps(trial: Trial, flat: str, many: int) -> bool | None:
    """Whether any output changed as its own entries were exchanged; None where another did."""
    how: dict[str, Any] = {"by_rows": True, "flat": flat}
    outputs, tape = trial(OUTPUTS, ONE, **how)
    if tape.shared or not tape.entries():
        return None
    trial(OUTPUTS, _OTHER, **how)
    again, _ = trial(OUTPUTS, ONE, **how)
    if not np.array_equal(outputs, again):
        return None
    has_moved = False
    numbers = np.arange(OUTPUTS)
    # each two outputs differ in a bit: one is exchanged without the other
    halves = [(numbers >> bit & 1) == value for bit in range(OUTPUTS.bit_length()) for value in (0, 1)]
    for proposal in (Proposal.plain(), *_bearable(trial, tape, how)):
        moved = _look(trial, OUTPUTS, {**how, "proposal": proposal}, halves, tape.layout())
        if moved is None:
            return None
        has_moved |= moved
    wild = [*_bearable(trial, tape, how, many)]
    at_random = np.random.default_rng(ONE).random(many) < 0.5
    large = [np.arange(many) % 2 == 1, at_random]
    moved = _look(trial, many, {**how, "proposal": (*wild, Proposal.plain())[0]}, large, tape.layout())
    return None if moved is None else has_moved or moved


def _look(trial: Trial, size: int, how: dict[str, Any], halves: list[Any], layout: Any) -> bool | None:
    """Whether any output changed as its noise was exchanged; None: another did, or other entries were asked for."""
    outputs, tape = trial(size, ONE, **how)
    if tape.shared or tape.layout() != layout:
        return None
    has_moved = False
    for number, rows in enumerate(halves):
        other, tape = trial(size, ONE, **how, exchanged=(rows, _OTHER + number))
        if tape.shared or tape.layout() != layout or not keeps_rows(outputs, other, rows):
            return None
        has_moved |= not np.array_equal(outputs, other)
    return has_moved


def _bearable(trial: Trial, tape: Tape, how: dict[str, Any], size: int = OUTPUTS) -> Iterator[Proposal]:
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
    lengths: dict[str, int] = {}
    for entry in tape.entries():
        columns = 1 if entry.kind == "order" else int(entry.used.max(initial=0))
        lengths[entry.kind] = min(_MOST_WILD, max(lengths.get(entry.kind, 0), entry.first + columns))
    tables = {}
    for kind, length in lengths.items():
        rows = [
            np.tile(PLAIN[kind], (length, 1)),
            *(np.tile(_tilted(kind, way, strength, rng), (length, 1)) for way in range(4)),
            *(
                np.stack([_tilted(kind, int(way), strength, rng) for way in rng.integers(0, 4, length)])
                for _ in range(3)
            ),
        ]
        tables[kind] = np.stack(rows) if length else np.zeros((len(rows), 0, PLAIN[kind].size))
    return Proposal(np.full(8, 1.0 / 8.0), tables)


def _tilted(kind: str, way: int, strength: float, rng: np.random.Generator) -> Floats:
    """Parameters of an entry that is far up, far down, wide or wider."""
    if kind == "normal":
        return np.array(
            [(5.0 * strength, 1.0), (-5.0 * strength, 1.0), (0.0, 4.0**strength), (0.0, 16.0**strength)][way]
        )
    if kind in ("exponential", "gamma"):
        return np.array([(6.0, 0.1, 3.0, 20.0)[way] ** strength])
    if kind == "laplace":
        up, wide = 6.0**strength, (4.0, 20.0)[way % 2] ** strength
        return np.array([(0.95, up, 1.0), (0.05, 1.0, up), (0.5, wide, wide), (0.5, wide, wide)][way])
    if kind == "uniform":
        widths = 2.0 ** -np.arange(1.0, BINS)  # edges at 1/2, 1/4, …: as much in each bin between them
        low = np.sort(widths)
        both = np.concatenate([low[: BINS // 2 - 1], [0.5], 1.0 - low[: BINS // 2 - 1][::-1]])
        edges = (np.sort(1.0 - widths), low, both, both)[way]
        even, lengths = np.full(BINS, 1.0 / BINS), np.diff(np.concatenate([[0.0], edges, [1.0]]))
        return np.concatenate([strength * even + (1.0 - strength) * lengths, edges])
    if kind in ("poisson", "binomial"):
        return np.array([(1.5, -1.5, 3.0, -3.0)[way] * strength])
    return rng.normal(0.0, (1.0, 1.0, 2.0, 4.0)[way] * strength, PLAIN[kind].size)


def _refuse_state(trial: Trial) -> bool:
    """Whether equal tapes give equal outputs.

    Raises:
        MechanismError: outputs depend on which tape came before, and on that alone.
    """
    after: dict[int, list[Outputs]] = {}
    for before in (_OTHER, _OTHER + 1, _OTHER, _OTHER + 1):
        for _ in range(3):  # what is kept may be used some outputs later
            trial(3, before, by_rows=False)
        after.setdefault(before, []).append(trial(3, ONE, by_rows=False)[0])
    same = [np.array_equal(one, other) for one, other in after.values()]
    if all(same) and not np.array_equal(after[_OTHER][0], after[_OTHER + 1][0]):
        raise MechanismError(
            "estimate.tape: an output depends on what the mechanism drew before it, so that its own tape does not tell its "
            "weight; accepted: mechanisms that keep nothing from one output to the next"
        )
    return all(same)
