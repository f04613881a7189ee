"""Parameters of `learned`, and what it says about itself. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from hpcdp.losses.kind import LossKind, Parameters, Seconds, refuse_strings
from hpcdp.losses.learned.options import READY, Fraction, check_name, check_options

if TYPE_CHECKING:
    from hpcdp.mechanisms.outputs import Schema

FEWEST_LEARNED = 20
"""Training outputs per database, so that every part of them has some."""


class LearnedParameters(Parameters):
    """Parameters of `learned`.

    classifier: "mlp", "gradient-boosting", "logistic", or the import path of a class like scikit-learn's classifiers.
    options: its keyword arguments. calibrate: on the fraction held_out of the training samples. seed: of its own chance.
    """

    classifier: Annotated[str, Field(strict=True)] = "mlp"
    options: dict[str, Any] = Field(default={}, validate_default=True)
    calibrate: Literal["platt", "isotonic", False] = False
    held_out: Fraction = 0.2
    seed: Annotated[int, Field(ge=0, lt=2**32, strict=True)] = 0

    @property
    def is_pickled(self) -> bool:
        """Whether the fitted classifier has no form but a pickle; the others are arrays of numbers."""
        return self.classifier not in ("mlp", "logistic")

    @field_validator("classifier")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return check_name(name)

    @field_validator("options")
    @classmethod
    def _are_accepted(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        name = info.data.get("classifier")
        return options if name is None else check_options(name, options)


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
    loss = "hpcdp.losses.learned.learned:Learned"
    code = "classifier"
    projects = True

    def refuse(self, parameters: LearnedParameters, schema: Schema, train: int) -> None:
        """Outputs are numbers and enough, and the classifier learns from a few of them."""
        refuse_strings("learned", schema.kind == "bytes")
        if train < FEWEST_LEARNED:
            raise ValueError(f"train: at least {FEWEST_LEARNED} with learned; given: {train}")
        if parameters.classifier not in READY:
            from hpcdp.losses.learned._estimator import try_estimator

            try_estimator(parameters.classifier, parameters.options, parameters.seed, bool(parameters.calibrate))

    def seconds(self, parameters: LearnedParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """By the classifier and the number of columns."""
        fit, fit_column, count, count_column = _SECONDS.get(parameters.classifier, _UNKNOWN)
        columns = schema.columns or 1
        return fit + fit_column * columns, count + count_column * columns, 1.0e-1

    def is_pickled(self, parameters: LearnedParameters) -> bool:
        """Only the classifiers that are arrays of numbers are stored as such."""
        return parameters.is_pickled
