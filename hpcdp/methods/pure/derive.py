"""Results of pure ε: certified limits of the sets that training chose, and what the published method says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.derived import Floats, Ints, Run, no_cells
from hpcdp.engine.index import Index, Span, first_of
from hpcdp.losses.local import UNIT
from hpcdp.methods.pure.plan import Choice, known_choice, spans_of, tested_pairs
from hpcdp.methods.sample_split.derive import Counted
from hpcdp.notions.levels import share_level
from hpcdp.notions.pure import LossAt, pure_lower
from hpcdp.store.results import Arrays
from hpcdp.study.problem import Problem


class PureResults(Counted):
    """See `Derived`; cells only where all pairs are tested and ε are given."""

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        cells = super().arrays(problem, index, epsilons, run) if epsilons.size else no_cells(len(problem.pairs))
        return cells | self.order(problem, index) | _pure(problem, index)

    def tested_spans(self, problem: Problem, index: Index) -> Iterator[tuple[list[Span], list[int]]]:
        if problem.study.counts_levels:
            yield from super().tested_spans(problem, index)
        for number in tested_pairs(problem, index) or []:
            choice = known_choice(problem, index, number)
            if choice is not None:
                yield spans_of(problem, index, number, choice), [problem.test.chunk] * 2


DERIVED = PureResults()


def _pure(problem: Problem, index: Index) -> Arrays:
    """Of each pair what training chose, its counts, and its certified limit; NaN and −1 where it is not tested.

    The winner has the whole failure probability. Where all pairs are tested, half of it is shared equally and half is the
    winner's, which training names.
    """
    pure, e, pairs = problem.study.pure, problem.study.estimate, len(problem.pairs)
    assert pure is not None
    exceed = np.full((pairs, 2), -1, np.int64)
    choices = [known_choice(problem, index, number) for number in range(pairs)]
    scores = np.array([np.nan if c is None else c.score for c in choices])
    tested = tested_pairs(problem, index) or []
    keys = {problem.pure_keys[number] for number in tested}
    for number, choice in enumerate(choices):
        if choice is not None and problem.pure_keys[number] in keys:
            spans = spans_of(problem, index, number, choice)
            if sum(span.samples for span in spans) == e.test:
                exceed[number] = _in_set(choice, np.sum([span.histogram for span in spans], axis=0))
    failure = 1.0 - e.confidence
    level = np.full(pairs, failure)
    if pure.test == "all":
        distinct = list(first_of(problem.pure_keys).values())
        shares = share_level(scores[distinct].reshape(-1, 1, 1), (len(distinct), 1, 1), failure).ravel()
        own = dict(zip((problem.pure_keys[number] for number in distinct), shares, strict=True))
        level = np.array([own[key] for key in problem.pure_keys])
    certified, known = np.full(pairs, np.nan), exceed.min(axis=1) >= 0
    certified[known] = pure_lower(exceed[known, 0], e.test, exceed[known, 1], e.test, level[known])
    direction = np.array([-1 if c is None else c.region.direction for c in choices], np.int8)
    return {
        "pure_certified": (("pair",), certified),
        "pure_level": (("pair",), level),
        "pure_score": (("pair",), scores),
        "pure_direction": (("pair",), direction),
        "pure_exceed": (("pair", "side"), exceed),
    }


def _in_set(choice: Choice, histogram: Ints) -> Ints:
    """Counts in a set, the side that is not inflated first."""
    return histogram[:, 2] if choice.region.direction == 0 else histogram[::-1, 0]


def describe_pure(problem: Problem, index: Index, arrays: Arrays, pairs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What `show --pure --format json` prints below "pure"; None while no pair is tested.

    Of the pair with the largest certified limit: where all pairs are tested their limits hold together, so it may be picked.
    """
    certified = arrays["pure_certified"][1]
    known = np.flatnonzero(~np.isnan(certified))
    if not known.size:
        return None
    best, pure = int(known[certified[known].argmax()]), problem.study.pure
    rows = (
        [{**pairs[n], **_entry(problem, index, arrays, int(n))} for n in known]
        if pure is not None and pure.test == "all"
        else []
    )
    return {**_entry(problem, index, arrays, best), "rows": rows}


def _entry(problem: Problem, index: Index, arrays: Arrays, number: int) -> dict[str, Any]:
    choice = known_choice(problem, index, number)
    assert choice is not None
    test = problem.study.estimate.test
    region = {
        "above": choice.region.above,
        "exceed": arrays["pure_exceed"][1][number].tolist(),
        "test": [test, test],
    }
    return {
        "pair": number,
        "direction": DIRECTIONS[choice.region.direction],
        "certified": float(arrays["pure_certified"][1][number]),
        "region": region,
        "published": _published(problem, index, number, choice),
    }


def _published(problem: Problem, index: Index, number: int, choice: Choice) -> dict[str, Any] | None:
    """What the published method says of a pair, and the intervals at the outputs named beforehand. Asymptotic.

    An interval knows no floor, and is null where a law has no test output that tells of it.
    """
    pure, e, peak = problem.study.pure, problem.study.estimate, choice.peak
    assert pure is not None
    if peak is None:
        return None
    floor, level = pure.floor_of(e.train), 1.0 - e.confidence
    spans = spans_of(problem, index, number, choice)
    totals = [[sum(span.sums[place][side] for span in spans) for side in (0, 1)] for place in range(1 + len(pure.at))]
    found = [
        LossAt.of(total, (e.test, e.test), peak.bandwidths, 0.0 if place else floor, UNIT)
        for place, total in enumerate(totals)
    ]
    bandwidth = list(peak.bandwidths)
    named = [list(point) if isinstance(point, tuple) else point for point in pure.at]
    intervals = [
        (at, *((loss.loss, *loss.interval(level)) if loss.is_told else (None, None, None)))
        for at, loss in zip(named, found[1:], strict=True)
    ]
    return {
        "estimate": abs(peak.loss),
        "at": peak.at,
        "lower": found[0].lower(-1.0 if peak.loss < 0.0 else 1.0, level),
        "literal": found[0].literal(level),
        "bandwidth": None if not bandwidth else bandwidth[0] if len(bandwidth) == 1 else bandwidth,
        "floor": floor,
        "intervals": [dict(zip(("at", "loss", "lower", "upper"), found, strict=True)) for found in intervals],
    }
