"""What planning asks a way of estimating."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from hpcdp.engine.costs import Costs
from hpcdp.engine.index import Index
from hpcdp.engine.task import Amounts, Progress, Task

if TYPE_CHECKING:
    from hpcdp.study.problem import Problem


class Planned(Protocol):
    """The part of a way that plans; a module has these functions."""

    def tasks(self, problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
        """The tasks that are left, in the order in which they should start; every `after` comes before."""

    def is_done(self, problem: Problem, index: Index) -> bool:
        """Whether every cell has all its planned counts."""

    def amounts(self, problem: Problem) -> Amounts:
        """What the whole of it takes, whatever is done already."""

    def worst_errors(self, problem: Problem, epsilon: float) -> tuple[float, float]:
        """Largest standard error of δ̂ at one level: of sets with P >= e^ε·Q, and of any set."""

    def progress(self, problem: Problem, index: Index) -> list[Progress]:
        """How far what comes after drawing kept samples is."""


def planned(problem: Problem) -> Planned:
    """The part of a problem's way."""
    return cast("Planned", import_module(problem.way.planning))


def schedule(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The tasks that are left, in the order in which they should start; every `after` comes before."""
    return planned(problem).tasks(problem, index, costs, workers)


def sized(problem: Problem, index: Index) -> Problem:
    """The problem with sizes that records decide, where its way has such."""
    decide = getattr(planned(problem), "sized", None)
    return problem if decide is None else cast("Problem", decide(problem, index))


def describe_choices(problem: Problem, index: Index, costs: Costs, workers: int) -> list[tuple[str, str]]:
    """Lines of a plan on what a way chooses after learning, each with its name; of most ways none."""
    own = getattr(planned(problem), "describe", None)
    return [] if own is None else cast("list[tuple[str, str]]", own(problem, index, costs, workers))


def chosen_draws(problem: Problem, index: Index) -> int:
    """Draws that records have chosen beyond those of `Planned.amounts`."""
    own = getattr(planned(problem), "known_draws", None)
    return 0 if own is None else cast("int", own(problem, index))


def all_done(index: Index, problem: Problem) -> bool:
    """Whether every cell of the problem has all its planned counts."""
    return planned(problem).is_done(problem, index)
