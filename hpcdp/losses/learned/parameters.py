"""Parameters of `learned`. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from hpcdp.losses.kind import Parameters
from hpcdp.losses.learned.options import Fraction, check_name, check_options

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
