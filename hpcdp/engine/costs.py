"""Rough seconds of each kind of work, to cut tasks of a sensible length and to say beforehand how long a run takes.

The constants were measured on one core of an ordinary server; results never depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcdp.engine.task import Task
from hpcdp.losses import kind_of, validate_parameters

if TYPE_CHECKING:
    from hpcdp.study.problem import Problem
    from hpcdp.study.trial_draws import Trial

_READ = 1.0e-9  # a stored byte
_WRITE = 2.0e-9
_TALLY = 1.5e-8
_BOUND = 2.5e-4  # the bounds of a cell

_SMALL = 3.0  # seconds of work: workers take as long to start

UNSCHEDULED_SECONDS = 60.0
"""Work of so many seconds gets Dask's scheduler on one machine too, which takes a second to start."""


@dataclass(frozen=True)
class Costs:
    """Seconds a sample: drawing one, keeping one, reading one, fitting one training point, counting one output.

    tally: finding the cell of one. each: seconds that learning takes besides, however few the points. call: seconds
    that a mechanism's call takes besides, however many outputs it draws; a chunk is a call.
    """

    draw: float
    write: float
    read: float
    learn: float
    count: float
    call: float = 0.0
    tally: float = _TALLY
    each: float = 0.0

    @classmethod
    def of(cls, problem: Problem, trial: Trial) -> Costs:
        """Costs of a problem's loss, schema and mechanism."""
        e, width = problem.study.estimate, problem.schema.bytes_per_output
        parameters = validate_parameters(e.default_loss, e.parameters)
        learn, count, each = kind_of(e.default_loss).seconds(parameters, problem.schema, e.train, trial.many_valued)
        tally = _TALLY + (count if problem.schema.columns not in (None, 1) else 0.0)  # vectors are scored first
        return cls(
            trial.seconds_per_draw, _WRITE * width, _READ * width, learn, count, trial.seconds_per_call, tally, each
        )

    def drawing(self, samples: int, chunks: int) -> float:
        """Seconds to draw this many samples in this many chunks."""
        return self.draw * samples + self.call * chunks


def seconds_alone(problem: Problem, tasks: Iterable[Task]) -> float:
    """How long one process takes: these tasks, and bounds of all cells."""
    cells = len(problem.pairs) * 2 * len(problem.study.epsilons)
    return sum(task.seconds for task in tasks) + _BOUND * cells


def runs_here(workers: int | None, seconds: float) -> bool:
    """Whether one process of this machine does so much work; workers: 0: yes, more: no, None: where it is small."""
    return workers == 0 or (workers is None and seconds < _SMALL)
