"""Chained components: places that depend on those before them, so that what is drawn reaches a threshold of a score.

Where the place of an output on the line is a score Σ c·v of what it was given, or near one, {L̂ > t} is a half-space of tapes. A
product of tilts is as wide across its edge as along it; a chain draws place by place with what is still missing, and the last
place that matters beyond the edge. Heuristic: whatever is proposed, weights are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.importance import _chain_kernels as chain
from hpcdp.importance.generator import Tape
from hpcdp.importance.kinds import CHAINED, PLAIN, Component, Floats, Ints
from hpcdp.importance.pool import Elite

_MOST_PLACES = 16  # of a kind
_MATTERS = 0.1  # of the largest coefficient, from which on a place matters
_EXACT = 1e-6  # of the variance, up to which a score tells the place on the line exactly
_MISSED = 0.01  # of the weight that lies below the threshold of a score that does not
_NARROWEST, _WIDEST = 0.3, 4.0
_JUDGED = 1_000  # outputs by which it is judged whether a score tells them
_FLATTEST = 1e-3  # height of a bin
_ROUNDS = 60
_FEWEST = 200  # outputs of a set that are in no other, from which on these tell heights
_KNOTS = 5  # between which heights of bins are straight: as many numbers as a few thousand outputs tell within 2 %
_HATS = np.maximum(
    0.0, 1.0 - np.abs((np.arange(chain.BINS)[:, None] + 0.5) / chain.BINS * (_KNOTS - 1) - np.arange(_KNOTS))
)


def can_chain(tape: Tape) -> bool:
    """Whether outputs have two places or more of a kind whose places may depend on those before them."""
    return any(_places(tape, kind, np.arange(tape.size))[1] > 1 for kind in CHAINED)


def is_score(tape: Tape, outputs: Floats) -> bool:
    """Whether a score of variates of one kind tells the places of these outputs on the line exactly, as far as a few say."""
    few = np.arange(min(tape.size, _JUDGED))
    every = [_values([Elite(tape, few, np.ones(few.size), outputs[few])], kind) for kind in CHAINED]
    share = np.full(few.size, 1.0 / few.size)
    return any(_regress(values.scored, outputs[few], share)[1] for values in every if values is not None)


@dataclass(frozen=True, eq=False)
class Near:
    """Outputs near the edges of a set and of the next rarer one: classes (n,): -1 not in the set, 0 in it, 1 in both."""

    elites: Sequence[Elite]
    classes: Ints


@dataclass(frozen=True, eq=False)
class _Values:
    """What outputs were given of a kind, (n, K), what that gives to scores, and the steps of each place, (K,)."""

    kind: str
    values: Floats
    scored: Floats
    steps: Floats


def chained(elites: Sequence[Elite], weights: Floats, component: Component, near: Near) -> Component | None:
    """The component with a chain, None where there is none; weights: of the elites' outputs, 0 for other modes."""
    kinds = [values for kind in CHAINED if (values := _values(elites, kind)) is not None]
    inside = weights > 0.0
    if not kinds or inside.sum() < 2 * sum(given.values.shape[1] for given in kinds) + 8:
        return None
    own = weights[inside] / weights[inside].sum()
    columns = np.hstack([given.scored[inside] for given in kinds])
    outputs = np.concatenate([elite.outputs for elite in elites])[inside]
    coefficients, is_exact = _regress(columns, outputs, own)
    spread = np.sqrt(own @ (columns - own @ columns) ** 2)
    ends = np.cumsum([0, *(given.values.shape[1] for given in kinds)])
    parts = [slice(a, b) for a, b in pairwise(ends.tolist())]
    best = int(np.argmax([np.abs(coefficients[part] * spread[part]).sum() for part in parts]))
    of, raw = kinds[best], coefficients[parts[best]]
    beside = _values(near.elites, of.kind)
    if beside is None or beside.scored.shape[1] != raw.size:
        return None
    given = _Values(of.kind, of.values[inside], of.scored[inside], of.steps)
    c = _scaled(given, raw, own)
    if c is None:
        return None
    score = given.scored @ c
    told: tuple[_Values, Floats] = given, own
    if is_exact:
        lower, upper = _edges(score, beside_score := beside.scored @ c, near.classes)
        inside = (near.classes == 0) & (beside_score >= lower) & ((beside_score < upper) | (upper == -np.inf))
        if np.count_nonzero(inside) >= _FEWEST:  # what lies before the next set tells heights that end there
            weight = np.concatenate([elite.weights for elite in near.elites])[inside]
            told = _Values(of.kind, beside.values[inside], beside.scored[inside], of.steps), weight / weight.sum()
    else:  # noise of other variates blurs the edge
        order = np.argsort(score, kind="stable")
        lower, upper = float(score[order[np.searchsorted(np.cumsum(own[order]), _MISSED)]]), -np.inf
    return _chain(given, c, own, component, lower, upper, told)


def _regress(columns: Floats, outputs: Floats, weights: Floats) -> tuple[Floats, bool]:
    """Coefficients of the score that is nearest to outputs, and whether it tells them exactly."""
    outputs = np.ldexp(outputs, -np.frexp(np.abs(outputs).max())[1])  # whose squares are floats, whatever the unit
    x, y, root = columns - weights @ columns, outputs - weights @ outputs, np.sqrt(weights)
    coefficients = np.asarray(np.linalg.lstsq(x * root[:, None], y * root, rcond=1e-10)[0], np.float64)
    if columns.shape[1] == 1:  # any function that never falls, or never rises, has the same sets
        steps = np.diff(outputs[np.argsort(columns[:, 0], kind="stable")])
        return coefficients, bool((steps >= 0.0).all() or (steps <= 0.0).all())
    left = y - x @ coefficients
    return coefficients, bool(weights @ left**2 <= _EXACT * (weights @ y**2))


def _edges(scores: Floats, beside: Floats, classes: Ints) -> tuple[float, float]:
    """Between which scores outputs are in the set and not in the next one, −∞: there is none. Other modes may have any scores."""
    lower, least = _edge(float(scores.min()), beside, classes >= 0)
    next_ = beside[(classes > 0) & (beside >= least)]
    return lower, _edge(float(next_.min()), beside, classes > 0)[1] if next_.size else -np.inf


def _edge(known: float, beside: Floats, inside: NDArray[np.bool_]) -> tuple[float, float]:
    """Halfway from the largest score outside a set to the least inside, and the latter; known: one of a score inside."""
    below = beside[~inside & (beside < known)].max(initial=-np.inf)
    least = min(known, float(beside[inside & (beside > below)].min(initial=known)))
    return (0.5 * (least + float(below)) if np.isfinite(below) else least), least


def _values(elites: Sequence[Elite], kind: str) -> _Values | None:
    """Of a kind whose places all outputs asked for, in the same way; None: of none."""
    rows, steps = [], dict[int, float]()
    for elite in elites:
        values, count = _places(elite.tape, kind, elite.which)
        if not count:
            return None
        rows.append(values[elite.which, :count])
        steps |= {place: elite.tape.steps.get(place, 0.0) if kind == "exponential" else 0.0 for place in range(count)}
    if len({part.shape[1] for part in rows}) != 1:
        return None
    values = np.concatenate(rows).astype(np.float64)
    own = np.array([steps[place] for place in range(values.shape[1])])
    scored = np.where(own > 0.0, np.ceil(values / np.where(own > 0.0, own, 1.0)), values)
    return _Values(kind, values, scored, own)


def _places(tape: Tape, kind: str, which: Ints) -> tuple[Floats, int]:
    """A tape's variates of a kind, and how many places each of these outputs has; 0 where they are not alike."""
    for entry in tape.entries():
        if entry.kind == kind:
            used = entry.used[which]
            count = int(used.max(initial=0))
            return entry.values, count if count <= _MOST_PLACES and (used == count).all() else 0
    return np.zeros((tape.size, 0)), 0


def _scaled(of: _Values, c: Floats, weights: Floats) -> Floats | None:
    """Coefficients of which the largest is 1, such that the set has large scores; None where nothing varies."""
    plain = np.zeros(c.size)
    if of.kind == "exponential":
        steps = np.where(of.steps > 0.0, of.steps, 1.0)
        plain = np.where(of.steps > 0.0, 1.0 / -np.expm1(-steps), 1.0)
    c = np.where(np.ptp(of.scored, axis=0) > 0.0, c, 0.0)
    if not c.any():
        return None
    return np.asarray(c / (np.abs(c).max() * (1.0 if c @ (weights @ of.scored - plain) > 0.0 else -1.0)))


def _chain(
    of: _Values,
    c: Floats,
    weights: Floats,
    component: Component,
    threshold: float,
    upper: float,
    told: tuple[_Values, Floats],
) -> Component | None:
    """told: outputs and their weights that tell heights."""
    count, base = of.values.shape[1], PLAIN[of.kind].size
    matters = np.flatnonzero((c if of.kind == "exponential" else np.abs(c)) >= _MATTERS)
    if not matters.size:
        return None
    last = int(matters[-1])
    table = np.zeros((count, base + chain.WIDTH))
    table[:, :base] = PLAIN[of.kind]
    if of.kind in component:
        tilted = component[of.kind]
        table[: tilted.shape[0], :base] = tilted[:, :base]
    least = np.where((of.steps > 0.0) & (c > 0.0), c, 0.0)  # what a place of a lattice gives at least
    least[last + 1 :] = 0.0
    thresholds = threshold - (np.cumsum(least[::-1])[::-1] - least)
    rest = thresholds - np.cumsum(of.scored * c, axis=1) + of.scored * c  # before each place
    table[:, base + chain.COEFFICIENT], table[:, base + chain.THRESHOLD] = c, thresholds
    table[:, base + chain.STEP], table[:, base + chain.TAIL] = of.steps, 1.0
    room = max(0.0, upper - threshold)
    table[last, base + chain.UPPER] = room
    ends = (
        of.kind == "exponential" and room > 0.0 and bool(((c[: last + 1] >= _MATTERS) | (c[: last + 1] == 0.0)).all())
    )
    for place in range(last + 1):
        row = table[place]
        if place == last:
            own = _beyond(of, place, rest[:, place], c[place], weights) | ({chain.CODE: chain.ENDED} if ends else {})
        elif of.kind == "laplace" or c[place] == 0.0 or (of.kind == "exponential" and c[place] < _MATTERS):
            continue
        elif of.kind == "normal":
            own = _led_normal(of, place, rest[:, place], c[place], weights)
        else:
            near, weight = told if ends or room == 0.0 else (of, weights)
            before = thresholds[place] - near.scored[:, :place] @ c[:place]
            own = _led_exponential(near, place, before, c[place], weight, room if ends else 0.0)
        row[:base] = PLAIN[of.kind]
        for column, value in own.items():
            row[base + column] = value
    return {**{kind: part for kind, part in component.items() if kind != of.kind}, of.kind: table}


def _start(of: _Values, place: int, rest: Floats, c: float) -> Floats:
    """ℓ of each output, as `_chain_kernels` has it."""
    start, step = rest / c, of.steps[place]
    if step > 0.0:
        start = step * (np.ceil(start - chain._SLACK) - 1.0)
    return np.maximum(start, 0.0)


def _beyond(of: _Values, place: int, rest: Floats, c: float, weights: Floats) -> dict[int, Any]:
    parameters: dict[int, Any] = {chain.CODE: chain.BEYOND}
    if of.kind != "normal":
        x = of.values[:, place] * (1.0 if of.kind == "exponential" else np.sign(c))
        near = _start(of, place, rest, c) if of.kind == "exponential" else np.maximum(0.0, rest / abs(c))
        parameters[chain.TAIL] = _tail(x - near, weights)
    return parameters


def _tail(excess: Floats, weights: Floats) -> float:
    """Mean of what is beyond, 1 where it is not told to be another."""
    inside = excess > 0.0
    own = weights[inside]
    if not own.sum() > 0.0:
        return 1.0
    size = own.sum() ** 2 / (own @ own)
    mean = float(own @ excess[inside] / own.sum())
    return 1.0 if abs(mean - 1.0) <= 3.0 / np.sqrt(size) else float(np.clip(mean, _NARROWEST, _WIDEST))


def _led_normal(of: _Values, place: int, rest: Floats, _: float, weights: Floats) -> dict[int, Any]:
    x = of.values[:, place]
    mean, middle = float(weights @ x), float(weights @ rest)
    spread = float(weights @ (rest - middle) ** 2)
    slope = (
        float(weights @ ((rest - middle) * (x - mean))) / spread if spread > 1e-12 * (1.0 + middle * middle) else 0.0
    )
    left = x - mean - slope * (rest - middle)
    deviation = float(np.clip(np.sqrt(weights @ left**2), _NARROWEST, _WIDEST))
    return {
        chain.CODE: chain.LED,
        chain.OWN: mean - slope * middle,
        chain.OWN + 1: slope,
        chain.OWN + 2: deviation,
    }


def _led_exponential(of: _Values, place: int, rest: Floats, c: float, weights: Floats, room: float) -> dict[int, Any]:
    """The likeliest heights, by steps that never lower the likelihood; room: how far beyond the rest it may go, 0: any."""
    x, start = of.values[:, place], _start(of, place, rest, c)
    inside = start > 0.0
    if not inside.any():
        return {chain.CODE: chain.ENDED if room else chain.BEYOND, chain.UPPER: room, chain.TAIL: _tail(x, weights)}
    tail = 1.0 if room else _tail(x[inside] - start[inside], weights[inside])
    further = float((_start(of, place, rest + room, c) - start)[inside].mean())
    beyond = -np.expm1(-max(further, 1e-9)) if room else tail
    x, own = x[inside], weights[inside]
    starts, which = np.unique(start[inside], return_inverse=True)
    firsts = np.arange(chain.BINS + 1) * (starts / chain.BINS)[:, None]
    if (step := of.steps[place]) > 0.0:
        firsts = step * np.ceil(np.arange(chain.BINS + 1) * np.rint(starts / step)[:, None] / chain.BINS)
    bins = (x[:, None] >= firsts[which, 1:]).sum(axis=1)
    widths = np.diff(firsts, axis=1)
    masses = np.bincount(bins, own, chain.BINS + 1) + 1e-4 * own.sum() / (chain.BINS + 1)
    sums, knots, top = np.bincount(which, own), np.ones(_KNOTS), 1.0
    for _ in range(_ROUNDS):
        heights = _HATS @ knots
        each = sums / (widths @ heights + beyond * top)
        knots *= (masses[:-1] / heights) @ _HATS / np.maximum((each @ widths) @ _HATS, 1e-300)
        top = masses[-1] / (beyond * each.sum())
    heights = _HATS @ knots / top
    return {
        chain.CODE: chain.HELD if room > 0.0 else chain.LED,
        chain.UPPER: room,
        chain.TAIL: tail,
        **{chain.OWN + b: float(np.clip(h, _FLATTEST, 1.0 / _FLATTEST**2)) for b, h in enumerate(heights)},
    }
