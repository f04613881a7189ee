"""One check: plan it once, then draw what was planned, and say what was found."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hpcdp._base.rounding import at_least, at_most
from hpcdp.errors import HpcdpError, MechanismError, StudyError
from hpcdp.keys import digest_json
from hpcdp.mechanisms._callable import bind
from hpcdp.mechanisms.outputs import Outputs, Schema, canonicalise, schema_of, widest
from hpcdp.mechanisms.user_code import name_of
from hpcdp.study.claims import as_claim
from hpcdp.study.trial_draws import equals_no_chance, time_draws
from hpcdp.testing.planned import STAGES, Cell, Declared, choose_cell, levels_of, lower_bound
from hpcdp.testing.power import LEAST_POWER, plan_sizes

EXAMPLE = 'assert_private(f, d=D, d_prime=D1, claim="dp(epsilon=1)", catches="laplace(epsilon=1.5)", seconds=5)'

_COMPARED = 128  # outputs of each of two calls, before those that count
CHUNK = 1 << 16
"""Outputs of one call of a function that takes `size`, at most."""

_FIRST = 16
_PILOT_STAGE = "pilot"


class PrivacyViolation(AssertionError):
    """A claim is violated: certified at the level of its check. script: draws afresh and tests the recorded set."""

    def __init__(self, message: str, script: str) -> None:
        """message: with bound, counts and seed."""
        super().__init__(message)
        self.script = script


class Inconclusive(HpcdpError):
    """A check that would too seldom find what it is to catch: neither a pass nor a failure."""


class PairOfLaws:
    """A function on two databases. repeats: whether a rerun draws the same."""

    def __init__(self, function: Callable[..., Any], d: Any, d_prime: Any, seed: int) -> None:
        """seed: a whole number >= 0; all draws follow from it where the function takes `rng`."""
        self.mechanism = bind(function, {}, name_of(function), reproducible=False, keys=("f", "f"))
        self._databases = [
            np.asarray(given) if isinstance(given, list | tuple | float | int) else given for given in (d, d_prime)
        ]
        self._seed, self._schema = seed, self._look(seed)

    def _look(self, seed: int) -> Schema:
        """What outputs look like, by a few of both sides, and whether they come again."""
        first, other, again = (self._chunk(side, _FIRST, _PILOT_STAGE, 0, seed, None) for side in (0, 1, 0))
        self.repeats = self.mechanism.takes_rng and np.array_equal(first, again)
        return widest([schema_of(first), schema_of(other)])

    def __call__(self, side: int, stage: str, size: int, /) -> Outputs:
        """`size` outputs of a side, 0 for D and 1 for D', of a stage: always the same where the function takes `rng`."""
        return np.concatenate(list(self.chunks(side, stage, size)))

    def chunks(self, side: int, stage: str, size: int) -> Iterator[Outputs]:
        """The same in chunks."""
        for number, start in enumerate(range(0, size, CHUNK)):
            yield self._chunk(side, min(CHUNK, size - start), stage, number, self._seed, self._schema)

    def _chunk(self, side: int, size: int, stage: str, number: int, seed: int, schema: Schema | None) -> Outputs:
        key = (side, (*STAGES, _PILOT_STAGE).index(stage), number)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        return canonicalise(self.mechanism.draw(self._databases[side], size, rng), size, schema)

    def seconds_per_draw(self) -> float:
        """Seconds that one output of each side takes, by calls that no test sees."""
        draw = partial(self._chunk, stage=_PILOT_STAGE, number=1, seed=self._seed, schema=self._schema)
        timings = [time_draws(partial(draw, side), CHUNK) for side in (0, 1)]
        return sum(timing.per_draw + timing.per_call / CHUNK for timing in timings)


@dataclass(frozen=True)
class Check:
    """What a test asserts. key: "node id#number of the call". module: name of the test's, "" where it has none."""

    key: str
    function: Callable[..., Any]
    d: Any
    d_prime: Any
    claim: str
    catches: str
    seconds: float
    module: str = ""

    @property
    def given(self) -> Mapping[str, Any]:
        """What a declaration keeps of it."""
        return {"claim": self.claim, "catches": self.catches, "seconds": self.seconds}

    def seed(self, level: float, fresh: str | None) -> int:
        """The seed of its draws: of its key and level, and of what `--hpcdp-fresh` adds."""
        return int(digest_json([self.key, level, fresh]), 16)

    def most_draws(self) -> int:
        """Draws of each database that its seconds allow, by pilot draws that no test sees."""
        pair = PairOfLaws(self.function, self.d, self.d_prime, self.seed(1.0, None))
        return max(4, int(self.seconds / max(1e-12, pair.seconds_per_draw())))

    def declare(self, weight: int, level: float, most: int) -> Declared:
        """What is to be declared of it: the fewest draws that catch what is to be caught, at most so many."""
        sizes, power = plan_sizes(self.claim, self.catches, level, most)
        return Declared(**self.given, weight=weight, level=level, draws=sizes, power=power)


def check_of(key: str, f: Any, d: Any, d_prime: Any, claim: Any, catches: Any, seconds: Any, module: str = "") -> Check:
    """What a test asks for; StudyError with all that is missing (None) or cannot be, before anything is declared or drawn."""
    given = {"f": f, "d": d, "d_prime": d_prime, "claim": claim, "catches": catches, "seconds": seconds}
    missing = [name for name, value in given.items() if value is None]
    wrong = [f"missing: {', '.join(missing)}"] if missing else []
    wrong += [
        f"{name}: {given[name]!r} was given; accepted: a text such as 'dp(epsilon=1)'"
        for name in ("claim", "catches")
        if not isinstance(given[name], str | None)
    ]
    if seconds is not None and (
        isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.0 < seconds < math.inf
    ):
        wrong.append(f"seconds: {seconds!r} was given; accepted: a number above 0")
    wrong += [] if f is None else _uncallable(f)
    if d is not None and _is_same(d, d_prime):
        wrong.append(
            "d_prime: the same database as d, for which every function passes; accepted: a neighbouring database"
        )
    if wrong:
        raise StudyError(f"assert_private: {'; '.join(wrong)}; such as: {EXAMPLE}")
    return Check(key, f, d, d_prime, claim, catches, seconds, module)


def _is_same(d: Any, d_prime: Any) -> bool:
    """Whether both databases are equal; what cannot be compared is not."""
    try:
        return bool(d.equals(d_prime)) if hasattr(d, "equals") else bool(np.array_equal(d, d_prime))
    except Exception:  # of whatever somebody's databases are
        return False


def _uncallable(f: Any) -> list[str]:
    """Why a function cannot be called with a database, and with rng and size where it takes them; empty where it can."""
    if not callable(f):
        return [f"f: {f!r} was given; accepted: a function f(database, size, rng)"]
    try:
        bind(f, {}, name_of(f), reproducible=False)
    except StudyError:
        accepted = "f(database, size, rng), f(database, rng) or f(database)"
        words = f"f: {name_of(f)}{inspect.signature(f)} was given; accepted: {accepted}"
        return [f"{words}, of another function by functools.partial, which gives its other arguments"]
    return []


@dataclass(frozen=True)
class Finding:
    """What a check found. counts: outputs of D and of D' in the cell's set, of `test` draws each. lower: the certified bound."""

    cell: Cell
    counts: tuple[int, int]
    test: int
    level: float
    lower: float
    seed: int
    pair: PairOfLaws

    @property
    def violated(self) -> bool:
        """Whether the claim is violated."""
        return self.lower > self.cell.claimed


def make(check: Check, declared: Declared, fresh: str | None = None) -> Finding:
    """Draw what is declared, and test; Inconclusive: too little power; MechanismError: the function failed, or draws depend."""
    if declared.power < LEAST_POWER:
        raise Inconclusive(
            f"inconclusive: {check.key} would find {check.catches} with probability {percent(declared.power)} alone, by "
            f"{declared.draws.total:,} draws of each database in {check.seconds:g} s; accepted: {percent(LEAST_POWER)} or more, "
            "with more seconds, a faster function, or a larger violation to catch"
        )
    seed = check.seed(declared.level, fresh)
    pair = PairOfLaws(check.function, check.d, check.d_prime, seed)
    _refuse_dependent(*(pair(0, stage, _COMPARED) for stage in ("learn", "choose")))
    cell = choose_cell(pair, declared.draws, *levels_of(as_claim(check.claim)))
    test = declared.draws.test
    seen = [sum(cell.count(outputs) for outputs in pair.chunks(side, "test", test)) for side in (0, 1)]
    lower = float(lower_bound(cell, seen, test, declared.level))
    return Finding(cell, (seen[0], seen[1]), test, declared.level, lower, seed, pair)


def _refuse_dependent(first: Outputs, second: Outputs) -> None:
    """MechanismError where two calls gave the same outputs though these vary, or each call gave one output again and again."""
    if np.array_equal(first, second):
        if equals_no_chance(first):
            raise MechanismError(
                "the mechanism gave identical outputs from different random generators; accepted: independent draws, with all "
                "randomness from rng"
            )
    elif all(bool((outputs == outputs[0]).all()) for outputs in (first, second)):
        raise MechanismError(
            "the mechanism gave one output again and again within a call, and another one in the next call; accepted: outputs "
            "that each have noise of their own"
        )


def passed(check: Check, declared: Declared) -> str:
    """A line about a check that found nothing: what it would have found, and that this is no proof."""
    return (
        f"{check.key}: nothing found against {check.claim} by {declared.draws.total:,} draws of each database; "
        f"{check.catches} would have been found with probability {percent(declared.power)} (simulated, training included, "
        "of that distribution alone); no proof of privacy"
    )


def violated(check: Check, finding: Finding) -> str:
    """What is said of a violation."""
    cell = finding.cell
    first, other = ("D", "D'") if cell.direction == "forward" else ("D'", "D")
    rerun = (
        f"seed {finding.seed:#x}: a rerun draws the same"
        if finding.pair.repeats
        else "the function has randomness of its own: a rerun draws anew, which adds another chance of a false alarm"
    )
    return "\n".join(
        [
            f"{check.key}: {check.claim} is violated",
            f"  certified (finite-sample): P[{first} in S] - e^eps P[{other} in S] >= {at_least(finding.lower)} at "
            f"eps = {cell.epsilon!r}, where the claim allows {at_most(cell.claimed)}",
            "  if the claim is true, a fresh seed makes this check fail with probability at most "
            f"{at_most(finding.level, '.2e')}",
            "  pair: D = d and D' = d_prime of this call; S was chosen by draws that are not counted here",
            f"  counts in S: {finding.counts[0]:,} of D and {finding.counts[1]:,} of D', of {finding.test:,} draws each",
            f"  {rerun}",
            "  the script that is printed below makes fresh draws and tests S with NumPy alone",
        ]
    )


def percent(share: float) -> str:
    """A share rounded down to a tenth of a per cent."""
    return f"{at_least(100.0 * share, '.1f')} %"
