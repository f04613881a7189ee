"""Trial draws: what a mechanism's outputs look like, that they are random and repeatable, and what drawing costs."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.doing import at_risk
from hpcdp._base.raised import readable
from hpcdp._base.threads import worker_threads
from hpcdp.errors import MechanismError, StudyError, UnansweredError
from hpcdp.keys import digest_array
from hpcdp.mechanisms._program import ProgramMechanism
from hpcdp.mechanisms.outputs import Outputs, Schema, schema_of, widest
from hpcdp.mechanisms.special import is_none, is_raised
from hpcdp.mechanisms.stored import StoredSamples
from hpcdp.study.at_risk import PairDraws
from hpcdp.study.databases import Input
from hpcdp.study.distributions import Conditional
from hpcdp.study.sampler import TRIAL_SIZE, Sampler

_SECOND_SIZE = 1024
_SEQUENCES = 4  # times as many outputs show whether sequences are of one length
_SLOW_SECONDS = 0.3  # a call for one output that takes longer may be one of a slow mechanism, or of a loaded machine
_TRIAL_SECONDS = 1.0
_TIMING_SECONDS = 3.0
_WAITING = 2.0  # seconds after which a program's start is told of
_REPEATS = 0.5  # more equal outputs within a call than between two, as a share, after which it is looked at closely
_CHANCE = 40.0  # −log of the chance below which equal outputs are no coincidence

_FIRST_SIZE = 16
_MOST_SIZE = 1 << 18
_ENOUGH_SECONDS = 0.1
_MOST_SECONDS = 2.0
_TELLING = 2.0  # how much longer than the smallest call the largest must take to show what a draw costs
_SHORT = 2e-3  # seconds in which the same call is repeated, and its quickest time counts
_FLAT = 1.2  # below this factor, sizes grow faster


@dataclass(frozen=True)
class Timing:
    """Seconds a call, seconds a draw, and the outputs of the largest call."""

    per_call: float
    per_draw: float
    outputs: Outputs


def time_draws(
    draw: Callable[[int], Outputs],
    most: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Time calls of at most `most` draws, for 0.1 s, or up to two where a call's own cost is large."""
    limit = min(_MOST_SIZE, most)
    largest: Outputs | None = None

    def timed(size: int) -> float:
        nonlocal largest
        quickest, begin = math.inf, clock()
        while True:  # a first call wakes caches up, and other processes disturb short ones
            start = clock()
            outputs = draw(size)
            end = clock()
            quickest = min(quickest, end - start)
            if end - begin > _SHORT:
                break
        if largest is None or outputs.shape[0] > largest.shape[0]:
            largest = outputs
        return quickest

    size = min(_FIRST_SIZE, limit)
    points = [(size, timed(size))]
    while points[-1][0] < limit:
        spent, grown = sum(seconds for _, seconds in points), points[-1][1] / max(points[0][1], 1e-9)
        if spent > _MOST_SECONDS or (spent > _ENOUGH_SECONDS and grown > _TELLING):
            break
        # the next call may take as long as all before
        size = min(size * (16 if len(points) > 1 and grown < _FLAT else 4), limit)
        points.append((size, timed(size)))
    if len(points) == 1 and size > 1:  # a slow mechanism, or a small chunk
        size = max(1, size // 4)
        points.insert(0, (size, timed(size)))
    assert largest is not None
    (small, short), (large, long) = points[0], points[-1]
    per_draw = max(0.0, (long - short) / (large - small)) if large > small else short / small
    return Timing(max(0.0, short - per_draw * small), per_draw, largest)


Tried = tuple[Sampler, Input]
"""What draws an input in words of its own, and the input."""

TimeDraws = Callable[[Sequence[Tried], Schema, int], Timing]
"""What times draws: of inputs, in a schema, of as many outputs as a first trial could afford."""


@dataclass(frozen=True)
class Trial:
    """What trial draws showed; all but schema and extremes only decide how tasks are cut and what the plan says of time."""

    schema: Schema
    seconds_per_call: float
    seconds_per_draw: float
    many_valued: int  # columns with many values
    extremes: tuple[float, float] | None = None  # least and largest output


def try_out(
    sampler: Sampler,
    databases: Iterable[tuple[str, Input]],
    needed: int,
    note: Callable[[str], None],
    threads: int = 1,
    time_draws: TimeDraws | None = None,
) -> Trial:
    """Draw a few outputs of databases, important ones first, as a second allows; StudyError tells what is wrong with them."""
    try:
        what = f"{sampler.named} (trial draws)"
        with at_risk(what), worker_threads(threads):
            return _try_out(sampler, databases, needed, note, time_draws)
    except MechanismError as error:
        words = f"{readable(str(error))} (seen in trial draws){_texts_given(sampler, str(error))}"
        raise StudyError(f"{sampler.named}: {words}") from error
    finally:
        sampler.end()


def _texts_given(sampler: Sampler, words: str) -> str:
    """Which parameters are text that reads as a number, where the mechanism raised what such text makes it raise."""
    if not re.search(r"\braised (Type|Value)Error\b", words):
        return ""
    texts = _numbers_as_text(sampler.parameters)
    return "".join(f"; mechanism.parameters.{name} is text: {json.dumps(value)}" for name, value in texts)


def _numbers_as_text(values: Mapping[str, Any], within: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _numbers_as_text(value, f"{within}{name}.")
        elif isinstance(value, str):
            with suppress(ValueError):
                float(value)
                yield f"{within}{name}", value


def _try_out(
    sampler: Sampler,
    databases: Iterable[tuple[str, Input]],
    needed: int,
    note: Callable[[str], None],
    time_draws: TimeDraws | None,
) -> Trial:
    begin = time.perf_counter()
    schemas: list[Schema | None] = []  # None where all outputs are exceptions
    seen: list[float] = []
    tried: list[Tried] = []
    are_sequences: list[bool] = []
    has_value, size = False, TRIAL_SIZE
    if isinstance(sampler.mechanism, ProgramMechanism):
        waiting = threading.Timer(_WAITING, note, [f"waiting for the program {sampler.call} ({_WAITING:.0f} s)"])
        waiting.daemon = True
        waiting.start()
        try:
            sampler.mechanism.start()
        finally:
            waiting.cancel()
    for number, (words, database) in enumerate(databases):
        sampler = replace(sampler, tried=words)
        is_late = number >= 2 and time.perf_counter() - begin > _TRIAL_SECONDS
        if isinstance(sampler.mechanism, StoredSamples):
            _check_stored(sampler.mechanism, database, needed)
            if is_late:
                continue
            outputs = sampler.trial(database, TRIAL_SIZE, 0)
        else:
            if is_late:
                break
            size = _affordable(sampler, database) if number == 0 else size
            if number == 0 and size < TRIAL_SIZE:
                note(f"{sampler.named} takes more than {_SLOW_SECONDS} s for an output: trial draws may take a minute")
            outputs, may_be_mixed = sampler.first_trial(database, size)
            are_sequences.append(may_be_mixed)
            if number == 0:
                sampler.end()  # what follows must come from the seed alone, not from a process's memory
            if number < 2:
                _check_randomness(sampler, database, outputs)
            if number < 2 and may_be_mixed:
                more = sampler.trial(database, _SEQUENCES * size, 3)
                schemas.append(None if is_raised(more) else schema_of(more))
                tried.append((sampler, database))
        schemas.append(None if is_raised(outputs) else schema_of(outputs))
        tried.append((sampler, database))
        has_value |= not is_none(outputs)
        if outputs.dtype.kind == "f" and outputs.ndim == 1:
            seen += [float(outputs.min()), float(outputs.max())]
    if not tried:
        raise StudyError("pairs: at least one pair; given: none")
    if not has_value:
        raise MechanismError("it returned None each time; does it return a value?")
    if schemas and not any(schemas) and size == TRIAL_SIZE:  # exceptions alone
        many = [one.trial(database, _SECOND_SIZE, 8) for one, database in tried[:2]]
        schemas[:2] = [None if is_raised(outputs) else schema_of(outputs) for outputs in many]
    known = [trial_schema for trial_schema in schemas if trial_schema is not None] or [Schema("float", None)]
    lengths = {trial_schema.columns for trial_schema in known}
    # sequences of one length each, but not of the same for all databases
    is_mixed = len(lengths) > 1 and bool(are_sequences) and all(are_sequences)
    schema = Schema("bytes", None) if is_mixed else widest(known)
    for (one, database), own_schema in zip(tried, schemas, strict=True):
        if (own_schema is None or own_schema.kind != "bytes") and schema.kind == "bytes":
            one.trial(database, size, 0, schema)
    timing = time_trials(tried, size) if time_draws is None else time_draws(tried, schema, size)
    _refuse_slow_chunks(sampler, timing)
    extremes = (min(seen), max(seen)) if seen else None
    return Trial(schema, timing.per_call, timing.per_draw, _many_valued(timing.outputs), extremes)


def _affordable(sampler: Sampler, database: Input) -> int:
    """How many outputs a first trial draws: fewer where drawing some takes seconds, as where each is a trained model."""

    def seconds(size: int) -> float:
        begin = time.perf_counter()
        sampler.unchecked(database, size, 4)
        return time.perf_counter() - begin

    try:
        # the first call may have loaded libraries
        if seconds(1) < _SLOW_SECONDS or (once := seconds(1)) < _SLOW_SECONDS:
            return TRIAL_SIZE
        return min(TRIAL_SIZE, max(1, int(_TRIAL_SECONDS / max(seconds(2) - once, 1e-9))))
    except UnansweredError:
        raise
    except MechanismError:  # the first trial tells of it
        return TRIAL_SIZE


def _check_stored(stored: StoredSamples, database: Input, needed: int) -> None:
    assert isinstance(database, np.ndarray)
    total = stored.total(database)
    if total < needed:
        raise MechanismError(
            f"{stored.describe(database)} holds {total} outputs; accepted: at least train + test = {needed}"
        )


def _check_randomness(sampler: Sampler, database: Input, outputs: Outputs) -> None:
    is_program = isinstance(sampler.mechanism, ProgramMechanism)
    given, what = ("seeds", "the seed") if is_program else ("random generators", "rng")
    size = outputs.shape[0]
    again = sampler.trial(database, size, 0) if sampler.reproducible else outputs
    if again.shape != outputs.shape or digest_array(again) != digest_array(outputs):
        if isinstance(sampler.mechanism, PairDraws):
            raise MechanismError(
                "pairs and answers differed where the random generators were equal: a query must give equal databases equal "
                "answers, and a population's callable take all its randomness from rng, or a run could not be repeated or resumed"
            )
        raise MechanismError(
            f"it gave different outputs from equal {given}; all its randomness must come from {what}, or a run could not be "
            "repeated or resumed; what has randomness of its own needs mechanism.reproducible = false"
        )
    begin = time.perf_counter()
    other = sampler.trial(database, size, 1)
    if size == TRIAL_SIZE:  # fewer where a draw takes seconds, as where each is a trained model
        _check_independence(sampler, database, outputs, other)
    if digest_array(other) != digest_array(outputs):
        return
    if not equals_no_chance(outputs):  # a few discrete outputs may well be equal, many may not
        per_draw = (time.perf_counter() - begin) / size
        size = max(TRIAL_SIZE, min(_SECOND_SIZE, int(_TRIAL_SECONDS / per_draw)))
        outputs, other = (sampler.trial(database, size, number) for number in (0, 1))
    if digest_array(other) == digest_array(outputs) and equals_no_chance(outputs):
        raise MechanismError(
            f"it gave identical outputs from different {given}; it ignores {what if is_program else 'its rng'}, so its draws "
            "are not independent"
        )


def _check_independence(sampler: Sampler, database: Input, outputs: Outputs, other: Outputs) -> None:
    """MechanismError where neighbours within a call are equal more often than outputs of two calls: one noise for all."""
    begin = max((0, 1), key=lambda place: _equal_neighbours(outputs, place).mean())
    within, between = _equal_neighbours(outputs, begin), _equal(outputs, other[: outputs.shape[0]])
    if within.sum() / max(1, within.size) - between.sum() / max(1, between.size) < _REPEATS:
        return
    first, second, third = (sampler.trial(database, _SECOND_SIZE, number) for number in (5, 6, 7))
    within = _equal_neighbours(first, begin)
    between = _equal(second, third)[: within.size]
    from scipy.stats import hypergeom

    equal, size = int(within.sum()), within.size
    if hypergeom.logsf(equal - 1, 2 * size, equal + int(between.sum()), size) < -_CHANCE:
        raise MechanismError(
            f"its outputs repeat each other within a call: of {size} pairs of neighbours {equal} are equal, but of two calls' "
            f"outputs {int(between.sum())} of {size} are; each of the `size` outputs needs noise of its own, or no "
            "bound would hold"
        )


def _equal(outputs: Outputs, others: Outputs) -> NDArray[np.bool_]:
    if outputs.shape[1:] != others.shape[1:]:
        return np.zeros(min(outputs.shape[0], others.shape[0]), np.bool_)
    same = np.asarray(outputs[: others.shape[0]] == others[: outputs.shape[0]], np.bool_)
    return np.asarray(same.reshape(same.shape[0], -1).all(axis=1), np.bool_)


def _equal_neighbours(outputs: Outputs, begin: int) -> NDArray[np.bool_]:
    """Whether both outputs of each pair are equal; pairs from this place on."""
    pairs = outputs[begin:]
    return _equal(pairs[: len(pairs) // 2 * 2 : 2], pairs[1::2])


def equals_no_chance(outputs: Outputs) -> bool:
    """Whether other draws as varied cannot equal these by chance (below 10⁻¹⁷, heuristic): draws are equal with chance Σ p²."""
    head = outputs[:1024]
    _, held = np.unique(head, axis=0 if head.ndim == 2 else None, return_counts=True)
    return bool(-head.shape[0] * np.log(np.square(held / head.shape[0]).sum()) > _CHANCE)


def _many_valued(outputs: Outputs) -> int:
    """How many columns of some outputs hold more distinct values than a tenth of their number."""
    head = outputs[:4096]
    columns = [head] if head.ndim == 1 else list(head.T)
    return sum(np.unique(column).size > 0.1 * head.shape[0] for column in columns)


def time_trials(tried: Sequence[Tried], size: int) -> Timing:
    """What drawing costs, on the first input; over distributions the mean of some. size: what a first trial could afford."""
    sampler, first = tried[0]
    if isinstance(sampler.mechanism, StoredSamples):
        return Timing(0.0, sampler.mechanism.seconds_each, sampler.trial(first, TRIAL_SIZE, 0))
    most = sampler.chunk if size == TRIAL_SIZE else min(size, sampler.chunk)
    by_distribution = {
        id(conditional.distribution): (own, conditional)
        for own, conditional in tried
        if isinstance(conditional, Conditional)
    }
    begin = time.perf_counter()
    timings: list[Timing] = []
    for own, database in by_distribution.values() or [(sampler, first)]:
        timings.append(time_draws(partial(own.trial, database, number=2), most))
        if time.perf_counter() - begin > _TIMING_SECONDS:
            break
    calls, draws = (sum(each) / len(timings) for each in zip(*((t.per_call, t.per_draw) for t in timings), strict=True))
    return Timing(calls, draws, timings[0].outputs)


def _refuse_slow_chunks(sampler: Sampler, timing: Timing) -> None:
    is_program = isinstance(sampler.mechanism, ProgramMechanism)
    timeout = sampler.mechanism.timeout if isinstance(sampler.mechanism, ProgramMechanism) else sampler.timeout
    seconds = timing.per_call + timing.per_draw * sampler.chunk
    if timeout is not None and seconds > timeout:
        raise StudyError(
            f"{'mechanism.call.timeout' if is_program else 'mechanism.timeout'}: a chunk of {sampler.chunk:,} draws would take "
            f"about {seconds:.0f} s, as measured on a few, and is given up after {timeout:g} s; accepted: a longer timeout, or a "
            "smaller estimate.chunk"
        )


def unanswered(limit: float) -> str:
    """That a mechanism took longer than it may."""
    return f"the mechanism did not answer within {limit:g} s (mechanism.timeout), and its process was ended"
