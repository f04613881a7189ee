"""What `learned` says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcdp.losses.kind import LossKind, Seconds
from hpcdp.losses.learned.parameters import LearnedParameters

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema

# Seconds to fit one training point and to count one output, and what each column adds to both.
_SECONDS = {
    "mlp": (2.0e-5, 4.0e-7, 2.0e-7, 4.0e-8),
    "gradient-boosting": (5.0e-6, 4.0e-7, 2.0e-6, 4.0e-8),
    "logistic": (3.0e-7, 2.5e-7, 1.0e-7, 3.0e-8),
}
_UNKNOWN = (1.0e-5, 1.0e-6, 1.0e-6, 1.0e-7)  # a guess of anybody's classifier


class LearnedKind(LossKind):
    """`learned`."""

    parameters = LearnedParameters
    code = "classifier"
    projects = True

    def make(self, parameters: LearnedParameters) -> Loss:
        """The loss."""
        from hpcdp.losses.learned.learned import Learned

        return Learned(parameters)

    def refuse(self, parameters: LearnedParameters, schema: Schema, train: int) -> None:
        """Outputs are numbers and enough, and the classifier learns from a few of them."""
        from hpcdp.losses.learned.learned import refuse_unlearnable

        refuse_unlearnable(parameters, schema, train)

    def seconds(self, parameters: LearnedParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """By the classifier and the number of columns."""
        fit, fit_column, count, count_column = _SECONDS.get(parameters.classifier, _UNKNOWN)
        columns = schema.columns or 1
        return fit + fit_column * columns, count + count_column * columns, 1.0e-1

    def is_pickled(self, parameters: LearnedParameters) -> bool:
        """Only the classifiers that are arrays of numbers are stored as such."""
        return parameters.is_pickled
