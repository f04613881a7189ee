"""Which entries of a tape belong to which output: found by exchanging entries, and seeing which outputs change.

That is evidence, not proof. Where it cannot be had, a mechanism is called for one output at a time, which needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcdp.errors import MechanismError
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.mechanisms.tape.generator import Tape

Trial = Callable[..., tuple[Outputs, Tape]]
"""Outputs and tape of (size, seed, by_rows=…, flat=…, exchanged=(rows, seed))."""

_OUTPUTS = 61  # no usual number of columns
_ONE, _OTHER = 101, 202


@dataclass(frozen=True)
class Ownership:
    """by_rows, flat: how a mechanism's tapes are drawn (`Tape`). checked: whether equal tapes gave equal outputs, so that looks could tell."""

    by_rows: bool
    flat: str = "rows"
    checked: bool = True


def find_rows(trial: Trial) -> Ownership:
    """How a mechanism draws; MechanismError where outputs depend on what was drawn before.

    A mechanism that draws from elsewhere too cannot be looked at, and is called for one output at a time; its own randomness
    has weight 1, if it is independent.
    """
    for flat in ("rows", "columns"):
        try:
            found = _keeps(trial, flat)
        except MechanismError:
            found = False  # as of one that needs another size
        if found:
            return Ownership(True, flat)
    return Ownership(False, checked=_refuse_state(trial))


def keeps_rows(one: Outputs, other: Outputs, rows: Any) -> bool:
    """Whether all outputs but the chosen ones are equal, bit by bit."""
    return bool(np.array_equal(one[~rows], other[~rows]))


def _keeps(trial: Trial, flat: str) -> bool:
    how = {"by_rows": True, "flat": flat}
    outputs, tape = trial(_OUTPUTS, _ONE, **how)
    if tape.shared or not tape.entries():
        return False
    trial(_OUTPUTS, _OTHER, **how)
    again, _ = trial(_OUTPUTS, _ONE, **how)
    if not np.array_equal(outputs, again):
        return False
    numbers, moved = np.arange(_OUTPUTS), np.zeros(_OUTPUTS, np.bool_)
    for bit in range(_OUTPUTS.bit_length()):  # each two outputs differ in a bit: one is exchanged without the other
        for value in (0, 1):
            rows = (numbers >> bit & 1) == value
            other, _ = trial(_OUTPUTS, _ONE, **how, exchanged=(rows, _OTHER + bit))
            if not keeps_rows(outputs, other, rows):
                return False
            moved |= (outputs != other).reshape(_OUTPUTS, -1).any(axis=1)
    return bool(moved.any())


def _refuse_state(trial: Trial) -> bool:
    """Whether equal tapes give equal outputs; MechanismError where outputs depend on which tape came before, and on that alone."""
    after = {}
    for before in (_OTHER, _OTHER + 1, _OTHER, _OTHER + 1):
        trial(3, before, by_rows=False)
        after.setdefault(before, []).append(trial(3, _ONE, by_rows=False)[0])
    same = [np.array_equal(one, other) for one, other in after.values()]
    if all(same) and not np.array_equal(after[_OTHER][0], after[_OTHER + 1][0]):
        raise MechanismError(
            "estimate.tape: an output depends on what the mechanism drew before it, so that its own tape does not tell its "
            "weight; accepted: mechanisms that keep nothing from one output to the next"
        )
    return all(same)
