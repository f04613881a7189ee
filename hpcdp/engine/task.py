"""A task, and what every kind of work says of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from hpcdp.study.sizes import Sizes

if TYPE_CHECKING:
    from hpcdp.store.layout import Layout
    from hpcdp.study.problem import Problem


@dataclass(frozen=True)
class Work(ABC):
    """What a task does: a pure function of the study and of these keys. Each way of estimating has its own kinds.

    does: "module:function", which a worker calls with a `Context`, the work and a `Report`.
    """

    does: ClassVar[str]

    @abstractmethod
    def split(self) -> Sequence[Self]:
        """The parts that can fail for themselves."""

    @abstractmethod
    def describe(self, problem: Problem) -> str:
        """A part, in words."""

    def reads(self, problem: Problem, layout: Layout) -> Iterable[Path]:
        """Files of the store that it reads beside the study and samples, if they are there."""
        return ()

    def cause(self, problem: Problem) -> str | None:
        """What others lack too where this part fails, the name of its record; None: nothing else needs it."""
        return None


@dataclass(frozen=True)
class Task:
    """A unit of distribution.

    after: names of the tasks that come first. units: chunks of work, for progress. seconds: how long it should take;
    drawing: how much of that the mechanism takes. sizes: of a study with a target, what the run has decided so far.
    """

    name: str
    work: Work
    after: tuple[str, ...]
    units: int
    seconds: float
    drawing: float = 0.0
    sizes: Sizes | None = None

    @property
    def kind(self) -> str:
        """What it does, in the plan's words."""
        return self.name.partition("-")[0]


@dataclass(frozen=True)
class Progress:
    """How far a part of the work is, as `hpcdp status` tells it."""

    name: str
    done: int
    total: int
    unit: str = ""


@dataclass(frozen=True)
class Amounts:
    """What a study takes, whatever is done already.

    draws, calls: of the mechanism. memory: bytes of a worker process beside its libraries. learned: samples per database that
    teach one L̂, at most. points: trade-off points that draw for themselves.
    """

    draws: int
    calls: int
    memory: int
    learned: int
    points: int = 0
