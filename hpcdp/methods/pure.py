"""Pure ε: training chooses one set and one output of each pair; fresh samples test those of the pairs that are tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.context import Context
from hpcdp.engine.derived import Floats, Ints, Records, no_cells
from hpcdp.engine.index import Index, Span, first_of
from hpcdp.engine.method import Adder, Learned, Method, Rows, Run, memory, pair_effort
from hpcdp.engine.series import Effort, Phase, Series
from hpcdp.engine.task import Amounts, Costs, Task
from hpcdp.errors import MechanismError, StudyError
from hpcdp.keys import digest_json
from hpcdp.losses.local import UNIT, Peak, find_peak, has_densities, in_region, inside, weigh
from hpcdp.losses.protocol import Counter, Loss, Side
from hpcdp.mechanisms.outputs import Outputs, Schema, describe
from hpcdp.methods.classes import ClassCounts, checker, total_of
from hpcdp.methods.sample_split import derive
from hpcdp.methods.sample_split.method import SampleSplit
from hpcdp.notions.pure import LossAt, Region, choose_regions, pure_lower
from hpcdp.notions.resolution import share_level
from hpcdp.store.arrays import State
from hpcdp.store.results import Arrays
from hpcdp.store.stages import Stage
from hpcdp.study.combinations import PLAIN
from hpcdp.study.file import Study
from hpcdp.study.mechanism import Pure as Section
from hpcdp.study.problem import Problem
from hpcdp.study.trial_draws import Trial

_CHOOSE, _REGION = "choose", "region"
_NOTHING = Stage("train", 0, 1, 1)  # what is only learned has no chunks to count
_PRUDENCE = 3.0  # standard errors by which a pair's ε̂ has to be ahead


@dataclass(frozen=True)
class Choice:
    """What training chose of a pair: the better of both directions' sets, and where the loss is largest, if that is estimated."""

    region: Region
    peak: Peak | None

    @property
    def score(self) -> float:
        """What ranks pairs: the limit that the set promises, or ε̂ less three standard errors, whichever is larger (heuristic)."""
        if self.peak is None:
            return self.region.promised
        return max(self.region.promised, abs(self.peak.loss) - _PRUDENCE * self.peak.error)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        promised = self.region.promised if math.isfinite(self.region.promised) else None
        region = [self.region.direction, self.region.above, promised]
        return {"region": region, "peak": None if self.peak is None else list(vars(self.peak).values())}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Choice:
        """The choice that `to_dict` came from."""
        direction, above, promised = data["region"]
        region = Region(int(direction), float(above), -math.inf if promised is None else float(promised))
        if data["peak"] is None:
            return cls(region, None)
        loss, at, error, bandwidths = data["peak"]
        return cls(region, Peak(float(loss), at, float(error), tuple(map(float, bandwidths))))


def _section(problem: Problem) -> Section:
    assert problem.study.pure is not None
    return problem.study.pure


def pure_keys(problem: Problem) -> list[str]:
    """Key of what each pair's training samples choose, and of the counts of that."""
    pure, e = _section(problem), problem.study.estimate
    within = None if pure.within is None else [list(interval) for interval in pure.within]
    at = [problem.schema.value(point) for point in pure.at]
    head = ["pure", within, pure.floor_of(e.train), at, e.test, e.confidence]
    return [digest_json([*head, pilot]) for pilot in problem.pilot_keys]


def known_choice(problem: Problem, index: Index, number: int) -> Choice | None:
    """What training chose of a pair; None while no record says so."""
    facts = index.learned.get(problem.once(pure_keys)[number], {}).get((), {})
    return Choice.from_dict(facts["choice"]) if "choice" in facts else None


def tested_pairs(problem: Problem, index: Index) -> list[int] | None:
    """The pairs that get fresh samples, by training alone, of equal ones the first; None while some pair has no choice yet."""
    pure = _section(problem)
    numbers = list(first_of(problem.once(pure_keys)).values())
    choices = {number: known_choice(problem, index, number) for number in numbers}
    scores = {number: choice.score for number, choice in choices.items() if choice is not None}
    if len(scores) < len(numbers):
        return None
    return numbers if pure.test == "all" else [max(scores, key=lambda number: (scores[number], -number))]


def spans_of(problem: Problem, index: Index, number: int, choice: Choice) -> list[Span]:
    """Disjoint spans of a pair's counts, as they lie in the test stage."""
    return index.done(problem.once(pure_keys)[number], (choice.region.threshold,), problem.test)


class RegionCounts(ClassCounts):
    """Outputs in the chosen set, and sums of weights of D and of D' at each output named beforehand ("sums")."""

    def __init__(self, problem: Problem, counter: Counter, choice: Choice, check: Any) -> None:
        super().__init__(counter, 1, (problem.test.chunk,) * 2, check)
        self.within = _section(problem).within
        self.points = named_points(problem, choice)
        self.weights = [[0, 0] for _ in self.points]

    def add(self, side: int, outputs: Outputs) -> None:
        own = outputs if self.within is None else outputs[in_region(outputs, self.within)]
        if own.shape[0]:
            super().add(side, own)
        for place, (point, bandwidths) in enumerate(self.points):
            self.weights[place][side] += weigh(outputs, point, bandwidths)

    def sums(self) -> dict[str, Any]:
        return {**super().sums(), "sums": self.weights}


class Pure(SampleSplit):
    """See `Method`. Where all pairs are tested and ε are given, entries by ε are those of sample split."""

    notions = ("pure", "spectrum")
    asked = "[pure]"
    takes = PLAIN | {"etas", "renyi", "certify"}
    accepted = "any one loss but literal-knn and histogram, and fresh test samples"
    needs_levels = False
    unaudited = "audit: a study with trade-off points; given: one with [pure], which counts none"

    def refuse_outputs(self, problem: Problem, trial: Trial) -> None:
        super().refuse_outputs(problem, trial)
        refuse_impure(problem.study, trial.schema, problem.pair_laws)

    def kept_stages(self, problem: Problem) -> tuple[Stage, ...]:
        kept = super().kept_stages(problem)
        is_winner = _section(problem).test == "winner"  # of most laws there are no test samples
        return (problem.train,) if is_winner and kept else kept

    def phases(self, problem: Problem, index: Index) -> list[Phase]:
        phases = super().phases(problem, index) if problem.study.counts_levels else []
        keys, laws = problem.once(pure_keys), problem.pair_laws
        chosen = [Series(_CHOOSE, key, laws[n], _NOTHING, n) for key, n in first_of(keys).items()]
        phases.append(Phase(chosen, learned="choose", keeps=False))
        tested = [(n, known_choice(problem, index, n)) for n in tested_pairs(problem, index) or []]
        series = [
            Series(_REGION, keys[n], laws[n], problem.test, n, (choice.region.threshold,), choice)
            for n, choice in tested
            if choice is not None
        ]
        return [*phases, *([Phase(series, counted="test regions")] if series else [])]

    def effort(self, problem: Problem, costs: Costs, phase: Phase) -> Effort:
        pair = pair_effort(problem, costs)
        if phase.series[0].kind == _CHOOSE:  # what is learned is counted once on the outputs that taught it
            return pair._replace(learn=2.0 * pair.learn + costs.each)
        return pair

    def is_decided(self, problem: Problem, index: Index) -> bool:
        return tested_pairs(problem, index) is not None

    def tasks(self, problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
        return Method.tasks(self, problem, index, costs, workers)

    def amounts(self, problem: Problem) -> Amounts:
        pure, e = _section(problem), problem.study.estimate
        if pure.test == "all":
            return super().amounts(problem)
        laws = len(problem.laws)
        calls = laws * problem.train.chunks + 2 * problem.test.chunks
        return Amounts(laws * e.train + 2 * e.test, calls, memory(problem), e.train)

    def decides(self, problem: Problem) -> bool:
        return True

    def describe_plan(self, problem: Problem, costs: Costs, workers: int) -> Rows:
        e, pure = problem.study.estimate, _section(problem)
        which = "every pair" if pure.test == "all" else "the pair that training names"
        words = (
            f"one set and one output of each pair, chosen by {e.train:,} training outputs a database; {e.test:,} fresh ones of "
            f"both databases of {which}. More tasks, that test, follow those that choose"
        )
        return [("pure", words)]

    def describe_choices(self, problem: Problem, index: Index, costs: Costs, workers: int) -> Rows:
        return []

    def learn(self, context: Context, series: Series) -> Learned:
        if series.kind not in (_CHOOSE, _REGION):
            return super().learn(context, series)
        p, q = context.sides(series.pair)
        if series.kind == _REGION:
            return Learned(context.loss.fit(p, q).counter(np.asarray(series.columns)), records_facts=False)
        try:
            return Learned(None, {"choice": choose_from(context.problem, context.loss, p, q).to_dict()})
        except ValueError as error:
            raise MechanismError(str(error)) from None

    def restore(self, context: Context, series: Series, state: State) -> Counter:
        return context.loss.restore(state, np.asarray(series.columns))

    def adder(self, context: Context, series: Series, counter: Counter, is_first: Callable[[str], bool]) -> Adder:
        if series.kind != _REGION:
            return super().adder(context, series, counter, is_first)
        return RegionCounts(context.problem, counter, series.item, checker(context.foreign, series.laws, is_first))

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        cells = super().arrays(problem, index, epsilons, run) if epsilons.size else no_cells(len(problem.pairs))
        return cells | derive.order(len(problem.pairs), self.tested_spans(problem, index)) | _pure(problem, index)

    def tested_spans(self, problem: Problem, index: Index) -> Iterator[tuple[list[Span], list[int]]]:
        if problem.study.counts_levels:
            yield from super().tested_spans(problem, index)
        for number in tested_pairs(problem, index) or []:
            choice = known_choice(problem, index, number)
            if choice is not None:
                yield spans_of(problem, index, number, choice), [problem.test.chunk] * 2

    def summary(self, records: Records, study: Any, arrays: Arrays, pairs: list[dict[str, Any]]) -> dict[str, Any]:
        return {"pure": describe_pure(records, arrays, pairs)}


METHOD = Pure()


def refuse_impure(study: Study, schema: Schema, laws: Sequence[tuple[str, str]]) -> None:
    """StudyError where [pure] does not fit the outputs, or compares a database with itself."""
    pure = study.pure
    assert pure is not None
    columns, is_bytes = schema.columns or 1, schema.kind == "bytes"
    if pure.within is not None and (is_bytes or len(pure.within) != columns):
        accepted = "none, of strings" if is_bytes else f"one interval a column, {columns}"
        raise StudyError(f"pure.within: {accepted} ({describe(schema)}); given: {len(pure.within)}")
    for point in pure.at:
        values = point if isinstance(point, tuple) else (point,)
        is_alike = isinstance(point, tuple) == (schema.columns is not None) and len(values) == columns
        if not (is_alike and all(schema.has(v) for v in values)):
            raise StudyError(f"pure.at: outputs of the mechanism ({describe(schema)}); given: {point!r}")
        if pure.within is not None and not in_region(np.array([values], np.float64), pure.within)[0]:
            accepted = " × ".join(f"[{low:g}, {high:g}]" for low, high in pure.within)
            raise StudyError(f"pure.at: outputs in pure.within, {accepted}; given: {point!r}")
    equal = [number for number, (d, d_prime) in enumerate(laws) if d == d_prime]
    if equal:
        raise StudyError(
            f"pairs.given.{equal[0]}: D and D′ are equal, and share their samples; accepted with [pure]: databases that differ"
        )


def choose_from(problem: Problem, loss: Loss, p: Side, q: Side) -> Choice:
    """What training samples of a pair of such a study choose; loss: of the study."""
    pure, e = _section(problem), problem.study.estimate
    rule = e.parameters.get("bandwidth", "silverman") if e.default_loss == "kde" else "silverman"
    if pure.within is not None and not any(inside(side, pure.within).shape[0] for side in (p, q)):
        given = [list(interval) for interval in pure.within]
        raise ValueError(
            f"pure.within: accepted where training outputs lie, and none of either database does; given: {given}"
        )
    peak, model = None, loss.fit(p, q)
    if has_densities((p, q)):
        known = model if e.default_loss == "kde" else None
        peak = find_peak(p, q, pure.floor_of(e.train), pure.within, e.test, rule, known)
    regions = choose_regions(model, p, q, pure.within, e.test, 1.0 - e.confidence)
    return Choice(max(regions, key=lambda region: region.promised), peak)


def named_points(problem: Problem, choice: Choice) -> list[tuple[Any, tuple[float, ...]]]:
    """The outputs at which weights are summed, with their bandwidths: t̂, then those of the study."""
    pure = _section(problem)
    if choice.peak is None:
        return []
    points = [choice.peak.at, *(list(p) if isinstance(p, tuple) else p for p in pure.at)]
    return [(point, choice.peak.bandwidths) for point in points]


def _pure(problem: Problem, index: Index) -> Arrays:
    """What training chose of each pair, its counts and limit; the winner has the level, or half where all pairs are tested."""
    pure, e, pairs = _section(problem), problem.study.estimate, len(problem.pairs)
    exceed = np.full((pairs, 2), -1, np.int64)
    choices = [known_choice(problem, index, number) for number in range(pairs)]
    scores = np.array([np.nan if c is None else c.score for c in choices])
    tested = tested_pairs(problem, index) or []
    keys = {problem.once(pure_keys)[number] for number in tested}
    for number, choice in enumerate(choices):
        if choice is not None and problem.once(pure_keys)[number] in keys:
            spans = spans_of(problem, index, number, choice)
            if sum(span.samples for span in spans) == e.test:
                exceed[number] = _in_set(choice, total_of(spans))
    failure = 1.0 - e.confidence
    level = np.full(pairs, failure)
    if pure.test == "all":
        distinct = list(first_of(problem.once(pure_keys)).values())
        shares = share_level(scores[distinct].reshape(-1, 1, 1), (len(distinct), 1, 1), failure).ravel()
        own = dict(zip((problem.once(pure_keys)[number] for number in distinct), shares, strict=True))
        level = np.array([own[key] for key in problem.once(pure_keys)])
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


def describe_pure(records: Records, arrays: Arrays, pairs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What `show --pure --format json` prints below "pure": of the largest limit, which may be picked."""
    certified = arrays["pure_certified"][1]
    known = np.flatnonzero(~np.isnan(certified))
    if not known.size:
        return None
    problem, index = records.problem, records.index
    best, shown = int(known[certified[known].argmax()]), known.tolist() if _section(problem).test == "all" else []
    rows = [{**pairs[n], **_entry(problem, index, arrays, n)} for n in shown]
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
    """What the published method says of a pair, and intervals at named outputs, which know no floor; null: untold. Asymptotic."""
    pure, e, peak = _section(problem), problem.study.estimate, choice.peak
    if peak is None:
        return None
    floor, level = pure.floor_of(e.train), 1.0 - e.confidence
    spans = spans_of(problem, index, number, choice)
    totals = [
        [sum(int(span["sums"][place][side]) for span in spans) for side in (0, 1)] for place in range(1 + len(pure.at))
    ]
    losses = [
        LossAt.of(total, (e.test, e.test), peak.bandwidths, 0.0 if place else floor, UNIT)
        for place, total in enumerate(totals)
    ]
    bandwidth = list(peak.bandwidths)
    named = [list(point) if isinstance(point, tuple) else point for point in pure.at]
    intervals = [
        (at, *((loss.loss, *loss.interval(level)) if loss.is_told else (None, None, None)))
        for at, loss in zip(named, losses[1:], strict=True)
    ]
    return {
        "estimate": abs(peak.loss),
        "at": peak.at,
        "lower": losses[0].lower(-1.0 if peak.loss < 0.0 else 1.0, level),
        "literal": losses[0].literal(level),
        "bandwidth": None if not bandwidth else bandwidth[0] if len(bandwidth) == 1 else bandwidth,
        "floor": floor,
        "intervals": [dict(zip(("at", "loss", "lower", "upper"), interval, strict=True)) for interval in intervals],
    }
