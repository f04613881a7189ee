"""Outputs in a set that is looked for: what was found at each place of their tapes, and their densities under components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import Entry, join, whole

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Component = Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class Elite:
    """Outputs of one tape, (selected,), their weights, and their places on the line."""

    tape: Tape
    which: Ints
    weights: Floats
    outputs: Floats


@dataclass(frozen=True, eq=False)
class Place:
    """What was found at one place: values and weights (size,), the number of each one's output; base: the law asked for."""

    kind: str
    place: int
    values: NDArray[Any]
    output: Ints
    base: Any


def log_ratios(tape: Tape, which: Ints, components: Sequence[Component], with_plain: bool = False) -> Floats:
    """log g_c − log f of these outputs under each component, (selected, components); with_plain: of the plain one first."""
    table = join(list(components), np.ones(len(components) + 1)).tables
    out, magnitudes = np.zeros((which.size, len(components) + 1)), np.zeros(which.size)
    for entry in whole(tape.entries(), table):
        entry.add_log_ratios(which, table[entry.kind], out, magnitudes)
    return out if with_plain else out[:, 1:]


def find_places(elites: Sequence[Elite]) -> list[Place]:
    """All that was found, place by place, over all tapes."""
    parts: dict[tuple[str, int, Any], list[tuple[NDArray[Any], Ints, Any]]] = {}
    start = 0
    for elite in elites:
        number = np.full(elite.tape.size, -1)
        number[elite.which] = start + np.arange(elite.which.size)
        for entry in elite.tape.entries():
            _take(parts, entry, number)
        start += elite.which.size
    found = []
    for (kind, place, _), some in parts.items():
        values, outputs = (np.concatenate([part[i] for part in some]) for i in (0, 1))
        base = some[0][2]
        if kind == "uniform":  # sorted once, for all the fits
            order = np.argsort(values, kind="stable")
            values, outputs = values[order], outputs[order]
        if kind in ("gamma", "poisson"):
            base = np.concatenate([part[2] for part in some])
        elif kind == "binomial":
            base = tuple(np.concatenate([part[2][i] for part in some]) for i in (0, 1))
        found.append(Place(kind, place, values, outputs, base))
    return found


def _take(parts: dict[Any, Any], entry: Entry, number: Ints) -> None:
    rows = entry.rows if entry.rows is not None else np.arange(entry.values.shape[0])
    mine = number[rows]
    columns = 1 if entry.kind == "order" else int(entry.used.max(initial=0))
    for j in range(columns):
        inside = (mine >= 0) & (entry.used > j)
        values = entry.values[inside] if entry.kind == "order" else entry.values[inside, j]
        key: Any = ()
        base = entry.base
        if entry.kind == "choice":
            key = entry.base.tobytes()
        elif entry.kind == "order":
            key = (entry.base, entry.values.shape[1])
        elif entry.kind == "binomial":
            base = tuple(np.broadcast_to(part, entry.values.shape)[inside, j] for part in entry.base)
        elif entry.base is not None:
            base = np.broadcast_to(entry.base, entry.values.shape)[inside, j]
        parts.setdefault((entry.kind, entry.first + j, key), []).append((values, mine[inside], base))
