"""Results of random tapes: three rows that are never mixed: estimated, certified up to the leftover, certified."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hpcdp._base.rounding import share
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.derived import CELL, Bools, Entry, Floats, Ints, Records, fewest, maximum_of
from hpcdp.engine.index import Index, first_of
from hpcdp.engine.method import SeriesBySeries
from hpcdp.errors import StoreError
from hpcdp.importance.bounds import (
    UNIT,
    certify,
    leftover_draws,
    leftover_limit,
    lower_mean,
    split_level,
    upper_mean,
)
from hpcdp.importance.plan import Choice, Part, known_choice, parts_of, tape_keys, tested_pairs
from hpcdp.notions.resolution import Entries
from hpcdp.store.results import Arrays
from hpcdp.study.estimate import Estimate
from hpcdp.study.problem import Problem

INFLATED = ("D′", "D")
"""The law that e^ε multiplies, of each direction."""

UNLEARNED, LEARNED, LEFT_OUT, DRAWN = range(4)
"""What is known of a pair: nothing; what levels learned of it; that it was left out of the test by that; all its draws."""

_WELL, _BADLY = 10.0, 3.0  # standard errors of δ̂ that tell it well, and that hardly do
_WIDER = 3.0  # times training's standard error, out of more draws, that only heavy draws explain

_TOLD = 3.0  # standard errors within which nothing is told from 0, for weights are far from normal
_FEWEST_CHUNKS = 30
_UNTOLD = 24.0  # of a set without a draw: three over their number, times the largest weight
_MOST = 2.0**50
_PARTS = 1 << 40
Parts = Mapping[tuple[str, int], Part]
_WARNED = 6  # pairs and directions of which warnings tell


class TapeResults(SeriesBySeries):
    """What is derived; see `Method`.

    Arrays by cell besides `delta`, `standard_error`, `lower`, `upper`, `level` and `training_delta`:

    lower_up_to_leftover: X, of which δ(ε) >= X − e^ε·r is certified, r being the leftover of X's set (finite-sample); by
    itself it is no bound on δ. leftover_draws, leftover_hits, leftover_limit: plain draws of the inflated law, how many lie in
    the leftover of any of the direction's cells, and the upper limit of r that they give (finite-sample); 0, 0 and 0 where no
    weight is above the cut-off; 0, 0 and 1 in a direction without bounds, whose `level` is 0 (see
    `Estimate.certified_direction`), as are `lower` and X there. lower: with that limit, so certified.
    weights, squares: sums of w·1_S and of w²·1_S over the draws of each side, all weights included; draws: how many draws, of
    each side: δ̂ = weights₀/draws₀ − e^ε·weights₁/draws₁, cut at 0. spreads: the variances of these sums of weights, as
    draws of each component, which are strata of fixed sizes, tell them: the standard error follows.
    logs: sums of ⌊log(1 + λw)/u⌋ of the first side and of ⌈−log(1 − κw)/u⌉ of the other, up to the cut-off, whole numbers of
    `unit`, u = 2⁻⁴⁰: kept as quotient and remainder by 2⁴⁰; quotient −1 where the cell has no bet. rates: λ and κ, cutoff: M, NaN
    without a bet.
    training_error: the standard error of training_delta. training_reached, training_worth: what `Direction.unexplained` tells;
    0 and NaN where it tells nothing.
    By pair: tape_stage (see `UNLEARNED` to `DRAWN`), tape_by_rows, tape_seen (see `Choice.seen`), tape_declared (whether
    forward sets are within what is declared that D′ cannot output, so that P alone is bounded), tape_gain; tape_needed by
    direction too: plain draws after which a certificate keeps most of δ, 0 where none are needed or asked for, −1 where
    training cannot tell.
    """

    counts = ("sums", "unit", "draws")
    knows_draws = False

    def arrays(
        self, problem: Problem, index: Index, epsilons: Floats, run: Callable[..., NDArray[np.float64]]
    ) -> Arrays:
        pairs, shape = len(problem.pairs), (len(problem.pairs), 2, epsilons.size)
        arrays = _unknown(shape)
        first = first_of(problem.once(tape_keys))
        tested = tested_pairs(problem, index)
        part = _share(problem, len(first), tested or {})
        for number in range(pairs):
            source = first[problem.once(tape_keys)[number]]
            choice = known_choice(problem, index, source)
            if choice is None:
                continue
            _describe(arrays, number, choice)
            if tested is None or source not in tested:
                arrays["tape_stage"][1][number] = LEARNED if tested is None else LEFT_OUT
                continue
            parts = {(part.name, part.side): part for part in parts_of(problem, index, source, choice)}
            if any(part.missing for part in parts.values()):
                continue
            arrays["tape_stage"][1][number] = DRAWN
            level = np.asarray(choice.levels) * part
            arrays["level"][1][number] = level
            for direction in (0, 1):
                own = _direction(parts, choice, direction, epsilons, level[direction])
                for name, values in own.items():
                    arrays[name][1][number, direction] = values
        delta, error = arrays["delta"][1], arrays["standard_error"][1]
        z = float(ndtri(problem.study.estimate.confidence))
        arrays["upper"] = CELL, np.minimum(1.0, np.maximum(delta, 0.0) + z * error)
        cells = SimpleNamespace(delta=delta, standard_error=error, lower=arrays["lower"][1], upper=arrays["upper"][1])
        return arrays | maximum_of(cells) | _largest(arrays["lower_up_to_leftover"][1])

    def all_counts(self, arrays: Arrays, places: Any) -> dict[str, list[Any]]:
        rows = [self.counts_of(arrays, place) for place in zip(*places, strict=True)]
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}

    def counts_of(self, arrays: Arrays, entry: Entry) -> dict[str, Any]:
        logs = _whole(arrays["logs"][1][entry])
        leftover = {name: arrays[f"leftover_{name}"][1][entry].item() for name in ("draws", "hits", "limit")}
        sums = {name: arrays[name][1][entry].tolist() for name in ("weights", "squares", "spreads")}
        return {
            "lower_up_to_leftover": float(arrays["lower_up_to_leftover"][1][entry]),
            "leftover": leftover,
            "sums": {**sums, "logs": logs},
            "unit": UNIT,
            "draws": arrays["draws"][1][entry].tolist(),
        }

    def columns_of(self, counts: dict[str, Any]) -> dict[str, Any]:
        sums, left = counts["sums"], counts["leftover"]
        sides = [(name, sums[name] or ("", "")) for name in ("weights", "squares", "spreads", "logs")] + [
            ("draws", counts["draws"])
        ]
        return {
            "lower_up_to_leftover": counts["lower_up_to_leftover"],
            **{f"leftover_{name}": value for name, value in left.items()},
            "unit": counts["unit"],
            **{f"{name}_{side}": values[side] for name, values in sides for side in (0, 1)},
        }

    def bounds(self, *arrays: Any) -> Floats:
        raise StoreError("bounds of random tapes are read off their records")

    def careful_error(self, arrays: Arrays) -> Floats:
        return np.asarray(arrays["standard_error"][1])

    def needed_to_pass(self, arrays: Arrays, entry: Entry, claimed: float) -> int | None:
        """By the bound up to the leftover, below δ̂ in proportion to 1/√n, less what the leftover may take. Heuristic."""
        delta, within = (float(arrays[name][1][entry]) for name in ("delta", "lower_up_to_leftover"))
        now = self.tests_at(arrays, entry)
        taken = 1.0 if arrays["leftover_limit"][1][entry] == 0.0 else 2.0  # half of the room is the leftover's
        return fewest(lambda n: delta - taken * (delta - within) * math.sqrt(now / n) > claimed, now)

    def resample(
        self, arrays: Arrays, records: Records, entry: Entry, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        number, direction, column = entry
        problem, index = records.problem, records.index
        number = first_of(problem.once(tape_keys))[problem.once(tape_keys)[number]]
        choice = known_choice(problem, index, number)
        if choice is None:
            raise StoreError(f"the records of pair {number} are not in the store any more")
        c = math.exp(float(arrays["epsilon"][1][column]))
        drawn = {p.side: p.found for p in parts_of(problem, index, number, choice) if p.name == "tape"}
        parts = []
        for side, factor in ((direction, 1.0), (1 - direction, -c)):
            values = [chunk["weights"][direction][column] for chunk in drawn[side]]
            parts.append(factor * np.asarray(values) / choice.chunk)
        if min(part.size for part in parts) < _FEWEST_CHUNKS:
            delta, error = (float(arrays[n][1][entry]) for n in ("delta", "standard_error"))
            return "normal", rng.normal(delta, error, replicates)
        means = [part[rng.integers(0, part.size, (replicates, part.size))].mean(axis=1) for part in parts]
        return "weights", np.asarray(means[0] + means[1])

    def rejects(self, arrays: Arrays, entries: Entries, level: float) -> Bools:
        """Where δ̂ is more standard errors above 0 than the level says, at least 3. Asymptotic."""
        delta, error = (arrays[name][1][entries] for name in ("delta", "standard_error"))
        return np.asarray(delta > _errors(level) * error)

    def set_limits(self, arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
        untold = _UNTOLD / np.maximum(1, arrays["draws"][1].min(axis=-1))
        limits = np.minimum(1.0, np.maximum(arrays["upper"][1], untold))
        return np.array([float(limits[..., j][known[..., j]].max(initial=0.0)) for j in columns])

    def needed(self, arrays: Arrays, entry: Entry, level: float) -> tuple[int | None, int]:
        now = int(arrays["draws"][1][entry].min())
        delta, error = (float(arrays[name][1][entry]) for name in ("delta", "standard_error"))
        samples = now * (_errors(level) * error / delta) ** 2 if delta > 0.0 else math.inf
        return (math.ceil(samples) if samples <= _MOST else None), now

    def tests_at(self, arrays: Arrays, entry: Entry) -> int:
        return int(arrays["draws"][1][entry].min())

    def leftover_needed(self, arrays: Arrays, entry: Entry, claimed: float) -> int | None:
        """Plain draws without a hit with which the bound would pass a claim; None where draws hit the leftover. Heuristic."""
        if arrays["leftover_hits"][1][entry] > 0:
            return None
        if arrays["leftover_limit"][1][entry] == 0.0:
            return 0
        room = float(arrays["lower_up_to_leftover"][1][entry]) - claimed
        gap = float(arrays["delta"][1][entry]) - claimed
        level = float(split_level(arrays["level"][1][entry]).leftover)
        return leftover_draws(max(room, 0.5 * gap), float(arrays["epsilon"][1][entry[2]]), level)

    def warnings(self, arrays: Arrays) -> tuple[str, ...]:
        hits, draws = (arrays[f"leftover_{name}"][1].max(axis=2, initial=0) for name in ("hits", "draws"))
        met = tuple(
            f"pair {pair}, {DIRECTIONS[direction]}: {hits[pair, direction]:,} of {draws[pair, direction]:,} plain draws of "
            f"{INFLATED[direction]} lie in the leftover: a region of tape that proposals do not reach leads there. δ̂ and what is "
            "certified up to the leftover may be far too large; the certified row takes it into account."
            for pair, direction in np.argwhere(hits > 0)[:_WARNED]
        )
        return met + unexplained_words(arrays)[:_WARNED] + fallen_words(arrays)[:_WARNED]

    def tested(self, arrays: Arrays, estimate: Estimate) -> int:
        return int(arrays["draws"][1].max(initial=0))

    @property
    def tests_words(self) -> str:
        return "draws from proposals"


def _errors(level: float) -> float:
    """Standard errors above 0 from which on δ̂ is told from it."""
    return max(_TOLD, -float(ndtri(level)))


def _share(problem: Problem, pairs: int, tested: Mapping[int, Choice]) -> float:
    """Times the level that training chose that a tested pair has: that of pairs left out is the others'."""
    factor, failure = pairs / max(1, len(tested)), 1.0 - problem.study.estimate.confidence
    spent = factor * math.fsum(level for choice in tested.values() for row in choice.levels for level in row)
    return factor * failure / spent if spent > failure * (1.0 + 1e-9) else factor


def _direction(parts: Parts, choice: Choice, direction: int, epsilons: Floats, level: Floats) -> dict[str, Any]:
    """All of one direction's cells, by name, each (epsilons,)."""
    c = np.exp(epsilons)
    logs = list[list[int]]()
    sums: dict[str, list[Floats]] = {"weights": [], "squares": [], "spreads": []}
    for side in (direction, 1 - direction):
        chunks = parts["tape", side].found
        logs.append([sum(column) for column in zip(*(chunk["logs"][direction] for chunk in chunks), strict=True)])
        for name, sides in sums.items():
            sides.append(
                np.array([math.fsum(part) for part in zip(*(c[name][direction] for c in chunks), strict=True)])
            )
    (p, q), (p_error, q_error) = (
        [part / choice.draws for part in parts] for parts in (sums["weights"], map(np.sqrt, sums["spreads"]))
    )
    told: dict[str, Any] = {
        "delta": np.maximum(0.0, p - c * q),
        "standard_error": np.sqrt(p_error**2 + (c * q_error) ** 2),
        **{name: np.stack(sides, axis=1) for name, sides in sums.items()},
        "draws": choice.draws,
    }
    plain = parts.get(("leftover", 1 - direction))
    hits = sum(int(record["union"]) for record in plain.found) if plain is not None else 0
    return told | _certified(choice, direction, epsilons, level, logs, hits)


def _certified(
    choice: Choice, direction: int, epsilons: Floats, level: Floats, logs: list[list[int]], hits: int
) -> dict[str, Any]:
    """The bounds of one direction. Every set limits P(S) and Q(S), and so δ at every ε: each cell has the largest of all."""
    bets = choice.bets[direction]
    columns = list(bets.columns)
    nothing = np.zeros(epsilons.size)
    if not columns:
        return {"lower": nothing, "lower_up_to_leftover": nothing}
    parts = split_level(level[columns])
    is_declared = choice.declared and direction == 0
    if is_declared:  # D′ cannot enter these sets, as the study declares: all of the level is P's
        parts = parts._replace(p=level[columns])
    low = lower_mean(np.array(logs[0], object), bets.rates, choice.draws, parts.p)
    if is_declared:
        high = np.zeros(low.shape)
    else:
        high = upper_mean(np.array(logs[1], object), bets.kappas, bets.cutoffs, choice.draws, parts.q)
    beyond = np.asarray(bets.beyond, np.bool_)
    left = choice.leftover[direction]
    limit = np.where(beyond, 1.0, 0.0)
    if left and beyond.any():
        limit[beyond] = leftover_limit(hits, left, min(0.5, float(parts.leftover[beyond].sum())))
    every = certify(low[:, None], high[:, None], limit[:, None], epsilons)
    best = every.within.argmax(axis=0)
    kept: dict[str, Any] = {
        "logs": np.full((epsilons.size, 2, 2), -1, np.int64),
        "rates": np.full((epsilons.size, 2), np.nan),
        "cutoff": np.full(epsilons.size, np.nan),
    }
    kept["logs"][columns] = [[divmod(int(total), _PARTS) for total in sides] for sides in zip(*logs, strict=True)]
    kept["rates"][columns] = np.stack([bets.rates, bets.kappas], axis=-1)
    kept["cutoff"][columns] = bets.cutoffs
    return kept | {
        "lower": every.lower.max(axis=0),
        "lower_up_to_leftover": every.within.max(axis=0),
        "leftover_limit": limit[best],
        "leftover_draws": np.where(beyond[best], left, 0),
        "leftover_hits": np.where(beyond[best], hits, 0),
    }


def _unknown(shape: tuple[int, int, int]) -> Arrays:
    """The arrays of pairs of which nothing is known."""
    nan, sides, pair = np.nan, (*CELL, "side"), ("pair",)
    cells = ("delta", "standard_error", "lower", "lower_up_to_leftover", "cutoff", "training_delta", "training_error")
    counts = ("leftover_draws", "leftover_hits", "training_reached")
    table: dict[str, tuple[tuple[str, ...], tuple[int, ...], Any]] = {
        **dict.fromkeys((*cells, "training_worth"), (CELL, shape, nan)),
        "level": (CELL, shape, 0.0),
        "leftover_limit": (CELL, shape, 1.0),
        **dict.fromkeys(counts, (CELL, shape, np.int64(0))),
        **dict.fromkeys(("weights", "squares", "spreads", "rates"), (sides, (*shape, 2), nan)),
        "draws": (sides, (*shape, 2), np.int64(0)),
        "logs": ((*sides, "part"), (*shape, 2, 2), np.int64(-1)),
        **dict.fromkeys(("tape_stage", "tape_by_rows", "tape_declared"), (pair, shape[:1], np.int8(UNLEARNED))),
        "tape_seen": (pair, shape[:1], np.int64(0)),
        "tape_gain": (pair, shape[:1], nan),
        "tape_needed": (("pair", "direction"), shape[:2], nan),
    }
    return {name: (axes, np.full(size, value)) for name, (axes, size, value) in table.items()}


def _describe(arrays: Arrays, number: int, choice: Choice) -> None:
    """Write down what levels chose of a pair."""
    told = {
        "training_delta": choice.delta,
        "training_error": choice.error,
        "tape_stage": LEARNED,
        "tape_by_rows": choice.by_rows,
        "tape_seen": choice.seen,
        "tape_declared": choice.declared,
        "tape_gain": choice.gain,
        "tape_needed": choice.needed,
    }
    for name, value in told.items():
        arrays[name][1][number] = value
    for direction, odd in enumerate(choice.unexplained):
        for column, reached, worth in odd:
            arrays["training_reached"][1][number, direction, column] = reached
            arrays["training_worth"][1][number, direction, column] = worth


def _largest(within: Floats) -> Arrays:
    """The largest X of all pairs and directions at each ε, and whose it is."""
    flat = np.where(np.isnan(within), -np.inf, within).reshape(-1, within.shape[2])
    best = flat.argmax(axis=0)
    most = flat[best, np.arange(best.size)]
    name = "spectrum_lower_up_to_leftover"
    return {
        name: (("epsilon",), np.where(most > -np.inf, most, np.nan)),
        f"{name}_pair": (("epsilon",), best // 2),
        f"{name}_direction": (("epsilon",), best % 2),
    }


def _whole(logs: Ints) -> list[int] | None:
    """Sums of logarithms as whole numbers, which may be larger than 2⁶³; None without a bet."""
    return None if (logs[..., 0] < 0).any() else [int(high) * _PARTS + int(low) for high, low in logs]


def unexplained_words(arrays: Arrays) -> tuple[str, ...]:
    """Of each direction in which training met draws that proposals do not explain."""
    reached, worth = (arrays[f"training_{name}"][1] for name in ("reached", "worth"))
    words = []
    for pair, direction, column, where in _places(reached > 0, arrays):
        place = pair, direction, column
        words.append(
            f"{where}: {reached[place]:,} draws of {INFLATED[direction]} that taught lie in the set, and tell its probability "
            f"only as {worth[place]:.1f} plain ones would: one or a few carry nearly all of it, which proposals do not explain. "
            "A region of tape that they do not reach may lead there, or the set was learned badly: δ̂ may be far off there, "
            "and 0; bounds hold all the same. Another study.seed learns anew."
        )
    return tuple(words)


def fallen_words(arrays: Arrays) -> tuple[str, ...]:
    """Of each direction in which the test does not tell a δ̂ that training told well, out of no fewer draws."""
    before, spread, delta, error = (
        arrays[name][1] for name in ("training_delta", "training_error", "delta", "standard_error")
    )
    with np.errstate(invalid="ignore"):
        fell = (before > _WELL * spread) & (spread > 0.0) & (delta <= _BADLY * error) & (error > _WIDER * spread)
    words = []
    for pair, direction, column, where in _places(fell, arrays):
        place = pair, direction, column
        told, tested = (
            f"{share(float(value[place]))} ± {share(float(own[place]))}"
            for value, own in ((before, spread), (delta, error))
        )
        words.append(
            f"{where}: training estimated δ = {told}, and the test {tested}, far wider: few draws of {INFLATED[direction]} carry "
            "much of it. That may be chance, or a region of tape that proposals do not reach; bounds hold all the same."
        )
    return tuple(words)


def _places(chosen: Bools, arrays: Arrays) -> list[tuple[int, int, int, str]]:
    """Pair, direction and first column of each direction with any, and all of it in words."""
    epsilon, places = arrays["epsilon"][1], []
    for pair, direction in np.argwhere(chosen.any(axis=2)).tolist():
        columns = np.flatnonzero(chosen[pair, direction])
        low, high = epsilon[columns].min(), epsilon[columns].max()
        which = f"{low:g}" if columns.size == 1 else f"{low:g} to {high:g} ({columns.size} of them)"
        column = int(columns[epsilon[columns].argmin()])
        places.append((pair, direction, column, f"pair {pair}, {DIRECTIONS[direction]}, ε = {which}"))
    return places
