"""What a task is, and what its keys are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpcdp.planning.index import Thresholds
from hpcdp.study.sizes import Sizes


@dataclass(frozen=True)
class Task:
    """A unit of distribution: a pure function of the study and of these keys.

    kind: sample, pilot, tally, fit, count, reuse, literal or round (the functions of `hpcdp.engine.tasks`). items: its keys.
    after: names of the tasks that come first. units: chunks of work, for progress. seconds: how long it should take; drawing: how
    much of that the mechanism takes. sizes: of a study with a target, what the run has decided so far.
    is_part: of a task that ended its worker.
    """

    name: str
    kind: str
    items: tuple[Any, ...]
    after: tuple[str, ...]
    units: int
    seconds: float
    drawing: float = 0.0
    sizes: Sizes | None = None
    is_part: bool = False


@dataclass(frozen=True)
class TallyItems:
    """Pairs that share D, a stage by name, and a range of its chunks: what one tally task does."""

    pairs: tuple[int, ...]
    stage: str
    start: int
    stop: int


@dataclass(frozen=True)
class CountItems:
    """Pairs that share D, a range of test chunks, and thresholds: what one count task does."""

    pairs: tuple[int, ...]
    start: int
    stop: int
    thresholds: Thresholds
