"""Results of random tapes: three rows that are never mixed, the estimate, what is certified up to the leftover, what is certified."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.special import ndtri
from hpcdp.errors import StoreError
from hpcdp.notions.weighted import certify, leftover_limit, lower_mean, split_level, upper_mean
from hpcdp.planning.index import Index, TapeSpan, first_of
from hpcdp.planning.tape import Choice, known_choice, spans_of, stage_of, tested_pairs
from hpcdp.results.cells import CELL, cells_of, maximum_of
from hpcdp.results.ways import Bools, Derived, Floats, Ints, Place, Records
from hpcdp.store.results import Arrays
from hpcdp.study.estimate import Estimate
from hpcdp.study.problem import Problem

_UNIT = 2.0**-40
_TOLD = 3.0  # standard errors from which on δ̂ tells something
_FEWEST_CHUNKS = 30
_MOST = 2.0**50


@dataclass(frozen=True, eq=False)
class _Cells:
    """By (pair, direction, ε): what `cells_of` and `maximum_of` take."""

    delta: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats


class Tape(Derived):
    """See `Derived`."""

    counts = ("sums", "unit", "draws")

    def arrays(
        self, problem: Problem, index: Index, epsilons: Floats, run: Callable[..., NDArray[np.float64]]
    ) -> Arrays:
        shape = (len(problem.pairs), 2, epsilons.size)
        floats = {
            n: np.full(shape, np.nan) for n in ("delta", "standard_error", "lower", "upper", "lower_up_to_leftover")
        }
        level, ranked = np.zeros(shape), np.full(shape, np.nan)
        sums, draws = np.zeros((*shape, 2, 2)), np.zeros((*shape, 2), np.int64)
        leftover = {"leftover_hits": np.zeros(shape, np.int64), "leftover_draws": np.zeros(shape, np.int64)}
        limit, largest = np.ones(shape), np.ones((len(problem.pairs), 2))
        first = first_of(problem.tape_keys)
        tested = tested_pairs(problem, index) or []
        for number in range(shape[0]):
            source = first[problem.tape_keys[number]]
            choice = known_choice(problem, index, source)
            if choice is None:
                continue
            ranked[number] = choice.delta
            if source not in tested or not _is_drawn(problem, index, source, choice):
                continue
            share = len(first) / len(tested)  # the level of pairs that training alone left out is the others'
            level[number] = np.asarray(choice.levels) * share
            for direction in (0, 1):
                place = (number, direction)
                found = _direction(problem, index, source, choice, direction, epsilons, level[place])
                for name in floats:
                    floats[name][place] = found[name]
                sums[place], draws[place] = found["sums"], choice.draws
                leftover["leftover_hits"][place] = found["hits"]
                leftover["leftover_draws"][place] = choice.leftover[direction]
                limit[place] = found["limit"]
        z = float(ndtri(0.5 + 0.5 * problem.study.estimate.confidence))
        floats["upper"] = np.minimum(1.0, np.maximum(floats["delta"], 0.0) + z * floats["standard_error"])
        cells = _Cells(floats["delta"], floats["standard_error"], floats["lower"], floats["upper"])
        made = {name: (CELL, values) for name, values in leftover.items()}
        made |= {"leftover_limit": (CELL, limit), "lower_up_to_leftover": (CELL, floats["lower_up_to_leftover"])}
        made |= {"level": (CELL, level), "training_delta": (CELL, ranked), "unit": (CELL, np.full(shape, _UNIT))}
        made |= {"sums": ((*CELL, "side", "sum"), sums), "draws": ((*CELL, "side"), draws)}
        best = np.where(np.isnan(floats["lower_up_to_leftover"]), -np.inf, floats["lower_up_to_leftover"]).max(
            axis=(0, 1)
        )
        made |= {"spectrum_lower_up_to_leftover": (("epsilon",), np.where(best > -np.inf, best, np.nan))}
        return cells_of(cells) | made | maximum_of(cells)

    def bounds(self, *arrays: Any) -> Floats:
        raise StoreError("bounds of random tapes are read off their records")

    def careful_error(self, arrays: Arrays) -> Floats:
        return np.asarray(arrays["standard_error"][1])

    def bound_at(self, arrays: Arrays, place: Place) -> tuple[Callable[[int], float], int]:
        delta, lower, now = (arrays[n][1][place] for n in ("delta", "lower", "draws"))
        draws = int(now.min())

        def scaled(n: int) -> float:
            return float(delta - (delta - lower) * math.sqrt(draws / n))

        return scaled, draws

    def resample(
        self, arrays: Arrays, records: Records, place: Place, replicates: int, rng: np.random.Generator
    ) -> tuple[str, Floats]:
        number, direction, column = place
        problem, index = records.problem, records.index
        number = first_of(problem.tape_keys)[problem.tape_keys[number]]
        choice = known_choice(problem, index, number)
        if choice is None:
            raise StoreError(f"the records of pair {number} are not in the store any more")
        c = math.exp(float(arrays["epsilon"][1][column]))
        parts = []
        for side, factor in ((direction, 1.0), (1 - direction, -c)):
            values = [chunk["weights"][direction][column] for chunk in _chunks(problem, index, number, choice, side)]
            parts.append(factor * np.asarray(values) / choice.chunk)
        if min(part.size for part in parts) < _FEWEST_CHUNKS:
            delta, error = (float(arrays[n][1][place]) for n in ("delta", "standard_error"))
            return "normal", rng.normal(delta, error, replicates)
        means = [part[rng.integers(0, part.size, (replicates, part.size))].mean(axis=1) for part in parts]
        return "chunks", np.asarray(means[0] + means[1])

    def tells(self, arrays: Arrays, estimate: Estimate) -> Bools:
        delta, error, lower = (arrays[name][1] for name in ("delta", "standard_error", "lower"))
        return np.asarray(~np.isnan(delta) & (delta > _TOLD * error) & (delta >= lower))

    def set_limits(self, arrays: Arrays, known: Bools, columns: Ints, confidence: float) -> Floats:
        return np.array(
            [float(np.minimum(1.0, arrays["upper"][1][..., j][known[..., j]]).max(initial=0.0)) for j in columns]
        )

    def needed(
        self, arrays: Arrays, place: Place, measured: float, delta: float, inflation: float
    ) -> tuple[int | None, int]:
        now = int(arrays["draws"][1][place].min())
        error = float(arrays["standard_error"][1][place])
        samples = now * (2.0 * error / delta) ** 2 if delta > 0.0 else math.inf
        return (math.ceil(samples) if samples <= _MOST else None), now

    def tested(self, arrays: Arrays, estimate: Estimate) -> int:
        return int(arrays["draws"][1].max(initial=0))

    @property
    def tests_words(self) -> str:
        return "draws from proposals"


DERIVED = Tape()


def _is_drawn(problem: Problem, index: Index, number: int, choice: Choice) -> bool:
    return all(
        sum(s.stop - s.start for s in spans_of(problem, index, number, choice, part, side))
        == stage_of(problem, choice, part, side).chunks
        for part in ("tape", "leftover")
        for side in (0, 1)
        if choice.total(part, side)
    )


def _chunks(problem: Problem, index: Index, number: int, choice: Choice, side: int) -> list[dict[str, Any]]:
    spans: list[TapeSpan] = spans_of(problem, index, number, choice, "tape", side)
    return [chunk for span in spans for chunk in span.found]


def _direction(
    problem: Problem, index: Index, number: int, choice: Choice, direction: int, epsilons: Floats, level: Floats
) -> dict[str, Any]:
    """All of one direction's cells, by name, each (epsilons,)."""
    n, c = choice.draws, np.exp(epsilons)
    means, squares, logs = [], [], []
    for side in (direction, 1 - direction):
        chunks = _chunks(problem, index, number, choice, side)
        means.append([math.fsum(chunk["weights"][direction][j] for chunk in chunks) / n for j in range(epsilons.size)])
        squares.append(
            [math.fsum(chunk["squares"][direction][j] for chunk in chunks) / n for j in range(epsilons.size)]
        )
        logs.append([sum(column) for column in zip(*(chunk["logs"][direction] for chunk in chunks), strict=True)])
    p, q = np.asarray(means)
    spread = np.maximum(np.asarray(squares) - np.asarray(means) ** 2, 0.0)
    hits, union, left = _leftover(problem, index, number, choice, direction)
    bets = choice.bets[direction]
    columns = list(bets.columns)
    found: dict[str, Any] = {
        "delta": np.maximum(0.0, p - c * q),
        "standard_error": np.sqrt((spread[0] + c * c * spread[1]) / n),
        "upper": np.full(epsilons.size, np.nan),
        "lower": np.zeros(epsilons.size),
        "lower_up_to_leftover": np.zeros(epsilons.size),
        "limit": np.zeros(epsilons.size),
        "hits": np.zeros(epsilons.size, np.int64),
        "sums": np.zeros((epsilons.size, 2, 2)),
    }
    found["sums"][:, 0, 0], found["sums"][:, 1, 0] = n * p, n * q
    if columns:
        parts = split_level(level[columns])
        if choice.declared and direction == 0:  # D′ cannot enter these sets, as the study declares: all is P's
            parts = parts._replace(p=level[columns])
        low = lower_mean(np.array(logs[0], object), bets.rates, n, parts.p)
        if choice.declared and direction == 0:
            high = np.zeros(low.shape)
        else:
            high = upper_mean(np.array(logs[1], object), bets.kappas, bets.cutoffs, n, parts.q)
        beyond = np.asarray(bets.beyond, np.bool_)
        limit = np.where(beyond, 1.0, 0.0)
        if left and beyond.any():
            limit[beyond] = leftover_limit(union, left, min(0.5, float(parts.leftover[beyond].sum())))
        certified = certify(low, high, limit, epsilons[columns])
        found["lower"][columns], found["lower_up_to_leftover"][columns] = certified.lower, certified.within
        found["limit"][columns] = limit
        found["hits"][np.asarray(columns)[beyond]] = hits
        found["sums"][columns, 0, 1], found["sums"][columns, 1, 1] = logs
    for name in ("lower", "lower_up_to_leftover"):  # δ does not rise with ε, so what holds at an ε holds below it
        found[name] = np.maximum.accumulate(found[name][::-1])[::-1]
    return found


def _leftover(problem: Problem, index: Index, number: int, choice: Choice, direction: int) -> tuple[Ints, int, int]:
    """Hits by cell with a leftover, in any of these, and of how many plain draws."""
    cells = sum(choice.bets[direction].beyond)
    spans = spans_of(problem, index, number, choice, "leftover", 1 - direction)
    hits, union = np.zeros(cells, np.int64), 0
    for span in spans:
        for one in span.found:
            hits += np.asarray(one["hits"], np.int64)
            union += int(one["union"])
    return hits, union, choice.leftover[direction]
