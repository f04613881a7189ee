"""Rough seconds of each kind of work, to cut tasks of a sensible length and to say beforehand how long a run takes.

The constants were measured on one core of an ordinary server; results never depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpcdp.losses import validate_parameters
from hpcdp.losses.parameters import LearnedParameters, choose_k
from hpcdp.study.problem import Problem
from hpcdp.study.trial_draws import Trial

_READ = 1.0e-9  # a stored byte
_WRITE = 2.0e-9
_TALLY = 1.5e-8
# Seconds to fit one training point and to count one output, and what each column adds to both.
_LEARNED = {
    "mlp": (2.0e-5, 4.0e-7, 2.0e-7, 4.0e-8),
    "gradient-boosting": (5.0e-6, 4.0e-7, 2.0e-6, 4.0e-8),
    "logistic": (3.0e-7, 2.5e-7, 1.0e-7, 3.0e-8),
}
# Seconds of any loss where next to nothing is to be learned.
_EACH, _LEAST_EACH = {"smooth": 3.0e-2, "learned": 1.0e-1}, 5.0e-4
_UNKNOWN = (1.0e-5, 1.0e-6, 1.0e-6, 1.0e-7)  # a guess of anybody's classifier


@dataclass(frozen=True)
class Costs:
    """Seconds a sample: drawing one, keeping one, reading one, fitting one training point, counting one output.

    tally: finding the cell of one. each: seconds that learning takes besides, however few the points. call: seconds
    that a mechanism's call takes besides, however many outputs it draws; a chunk is a call.
    """

    draw: float
    write: float
    read: float
    fit: float
    count: float
    call: float = 0.0
    tally: float = _TALLY
    each: float = 0.0

    @classmethod
    def of(cls, problem: Problem, trial: Trial) -> Costs:
        """Costs of a problem's loss, schema and mechanism."""
        fit, count = _loss_costs(problem, trial.many_valued)
        width = problem.schema.bytes_per_output
        each = _EACH.get(problem.study.estimate.default_loss, _LEAST_EACH)
        tally = _TALLY + (count if problem.schema.columns not in (None, 1) else 0.0)  # vectors are scored first
        return cls(
            trial.seconds_per_draw, _WRITE * width, _READ * width, fit, count, trial.seconds_per_call, tally, each
        )

    def drawing(self, samples: int, chunks: int) -> float:
        """Seconds to draw this many samples in this many chunks."""
        return self.draw * samples + self.call * chunks


def _loss_costs(problem: Problem, many_valued: int) -> tuple[float, float]:
    e, schema = problem.study.estimate, problem.schema
    if e.default_loss == "learned":
        learned = validate_parameters(e.default_loss, e.parameters)
        assert isinstance(learned, LearnedParameters)
        fit, fit_column, count, count_column = _LEARNED.get(learned.classifier, _UNKNOWN)
        columns = schema.columns or 1
        return fit + fit_column * columns, count + count_column * columns
    if e.default_loss == "kde" and schema.columns == 2:
        return 1.5e-7, 1.5e-7
    if e.default_loss == "smooth" and schema.columns is not None:
        return 4.0e-7 + 5.0e-8 * schema.columns, 1.0e-8 + 4.0e-9 * schema.columns
    if schema.kind == "bytes" and e.default_loss != "frequency" and many_valued:  # perhaps sequences that hold reals
        return 8.0e-6, 1.1e-5
    if schema.kind == "bytes":
        return 1.0e-6, 5.0e-7
    if e.default_loss == "frequency":
        return 2.0e-7, 1.5e-7
    if schema.columns is None:
        return 6.0e-8, 1.5e-8
    if many_valued <= 1:  # strata, frequencies, or both: no tree is searched
        return 1.0e-6, 4.0e-7
    parameters = validate_parameters(e.default_loss, e.parameters)
    k = choose_k(getattr(parameters, "k", "sqrt"), 2 * e.train)
    # a ball of k points meets leaves of some 64: so many points lie in them, but many columns prune better than that
    met = min((k ** (1 / many_valued) + 64 ** (1 / many_valued)) ** many_valued, e.train / 4)
    return 6.0e-7 + 1.5e-7 * many_valued, 2.0e-6 + 4.0e-9 * (1 + many_valued / 5) * met
