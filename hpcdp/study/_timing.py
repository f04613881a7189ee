"""What drawing costs: seconds a call and seconds a draw, from calls of growing size.

A mechanism may have a cost a call that has nothing to do with how many outputs it returns. The straight line through the
smallest and the largest call tells both (a measurement, not a bound; results never depend on it).
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

from hpcdp.mechanisms.outputs import Outputs

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


def count_preemptions() -> int:
    """How often this thread had to make room for other processes; 0 where the system does not tell."""
    who = getattr(resource, "RUSAGE_THREAD", None)
    return 0 if who is None else resource.getrusage(who).ru_nivcsw


def time_draws(
    draw: Callable[[int], Outputs],
    most: int,
    clock: Callable[[], float] = time.perf_counter,
    preemptions: Callable[[], int] = count_preemptions,
) -> Timing:
    """Time calls of at most `most` draws, for 0.1 s, or up to two where a call's own cost is large; interrupted ones again."""
    limit = min(_MOST_SIZE, most)
    largest: Outputs | None = None

    def timed(size: int) -> float:
        nonlocal largest
        quickest, begin = math.inf, clock()
        while True:  # a first call wakes caches up, and other processes disturb short ones
            before, start = preemptions(), clock()
            outputs = draw(size)
            end = clock()
            quickest = min(quickest, end - start)
            if end - begin > (_SHORT if preemptions() == before else _ENOUGH_SECONDS):
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
