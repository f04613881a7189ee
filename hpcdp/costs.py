"""Rough seconds of each kind of work, to cut tasks of a sensible length and to say beforehand how long a run takes.

The constants were measured on one core of an ordinary server; results never depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpcdp.losses import validate_parameters
from hpcdp.losses.parameters import choose_k
from hpcdp.problem import Problem
from hpcdp.sampler import Trial

_READ = 1.0e-9  # a stored byte
_WRITE = 2.0e-9


@dataclass(frozen=True)
class Costs:
    """Seconds a sample: drawing one, keeping one, reading one, fitting one training point, counting one output."""

    draw: float
    write: float
    read: float
    fit: float
    count: float

    @classmethod
    def of(cls, problem: Problem, trial: Trial) -> Costs:
        """Costs of a problem's loss, schema and mechanism."""
        fit, count = _loss_costs(problem, trial.many_valued)
        width = problem.schema.bytes_per_output
        return cls(trial.seconds_per_draw, _WRITE * width, _READ * width, fit, count)


def _loss_costs(problem: Problem, many_valued: int) -> tuple[float, float]:
    e, schema = problem.study.estimate, problem.schema
    if schema.kind == "bytes":
        return 1.0e-6, 5.0e-7
    if e.loss == "frequency":
        return 2.0e-7, 1.5e-7
    if schema.columns is None:
        return 6.0e-8, 1.5e-8
    if many_valued <= 1:  # strata, frequencies, or both: no tree is searched
        return 1.0e-6, 4.0e-7
    parameters = validate_parameters(e.loss, e.parameters)
    k = choose_k(getattr(parameters, "k", "sqrt"), 2 * e.train)
    return 2.0e-6, 3.0e-6 + 5.0e-8 * k * many_valued**2
