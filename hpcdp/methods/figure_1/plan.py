"""Literal: each cell draws, trains and tests for itself (Fig. 1 to the letter)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hpcdp.engine.costs import Costs
from hpcdp.engine.index import Index
from hpcdp.engine.sampling import TaskList, batches
from hpcdp.engine.task import Amounts, Progress, Task, Work
from hpcdp.keys import digest_json
from hpcdp.methods.sample_split.plan import memory
from hpcdp.notions.accuracy import worst_risk_error
from hpcdp.study.problem import LiteralCell, Problem


@dataclass(frozen=True)
class TrainCells(Work):
    """Draw, train and test for each of these cells."""

    kind: ClassVar[str] = "literal"
    does: ClassVar[str] = "hpcdp.methods.figure_1.work:train_cells"
    cells: tuple[LiteralCell, ...]

    def split(self) -> Sequence[TrainCells]:
        return [TrainCells((cell,)) for cell in self.cells]

    def describe(self, problem: Problem) -> str:
        (cell,) = self.cells
        return cell.describe()

    @staticmethod
    def name(keys: Iterable[str]) -> str:
        """Of the record of cells with these keys."""
        return digest_json(["cells", list(keys)])


def tasks(problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
    """The cells that no record holds."""
    todo = [cell for cell in _cells(problem) if problem.cell_key(cell) not in index.cells]
    e = problem.study.estimate
    drawing = 2 * (costs.drawing(e.train, problem.train.chunks) + costs.drawing(e.test, problem.test.chunks))
    each = drawing + 2 * (e.train * costs.learn + e.test * costs.count)
    found = TaskList(problem, index, costs, each * len(todo), workers)
    for some in batches(range(len(todo)), found.fit(each)):
        cells, size = tuple(todo[number] for number in some), len(some)
        found.add("literal", TrainCells(cells), (), size, each * size, drawing * size)
    return found.tasks


def is_done(problem: Problem, index: Index) -> bool:
    """Whether every cell has its counts."""
    return all(problem.cell_key(cell) in index.cells for cell in _cells(problem))


def progress(problem: Problem, index: Index) -> list[Progress]:
    """Cells that have their counts."""
    done = sum(problem.cell_key(cell) in index.cells for cell in _cells(problem))
    return [Progress("cells", done, len(_cells(problem)))]


def _cells(problem: Problem) -> list[LiteralCell]:
    """Those of the spectrum before those of the trade-off points."""
    return [*problem.risk_cells, *problem.point_cells]


def amounts(problem: Problem) -> Amounts:
    """What all cells take."""
    e = problem.study.estimate
    sides = 2 * len(_cells(problem))
    draws, calls = sides * (e.train + e.test), sides * (problem.train.chunks + problem.test.chunks)
    return Amounts(draws, calls, memory(problem), e.train, len(problem.point_cells))


def worst_errors(problem: Problem, epsilon: float) -> tuple[float, float]:
    """Largest standard error of δ̂ at one level: of sets with P >= e^ε·Q, and of any set."""
    test = 2 * problem.study.estimate.test
    return worst_risk_error(epsilon, test), worst_risk_error(epsilon, test, is_sound=False)
