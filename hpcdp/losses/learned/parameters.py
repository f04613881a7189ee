"""Parameters of `learned`, and what it says about itself. Imports nothing numerical, for fast validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from hpcdp._base.messages import explain_each
from hpcdp.losses.kind import LossKind, Parameters, Seconds, refuse_strings

if TYPE_CHECKING:
    from hpcdp.mechanisms.outputs import Schema

FEWEST_LEARNED = 20
"""Training outputs per database, so that every part of them has some."""

Count = Annotated[int, Field(ge=1, strict=True)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, le=0.5)]

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class _Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class LogisticOptions(_Options):
    """`logistic`: how many steps each column of many values gets, and the weight of half the squared coefficients."""

    steps: Annotated[int, Field(ge=0, le=63, strict=True)] = 7
    penalty: Positive = 1.0


class MlpOptions(LogisticOptions):
    """`mlp`: those of `logistic`, for its additive part, and those of scikit-learn's MLPClassifier.

    batch_size "auto" is the training part over 64, from 32 to 1024. validation_fraction of the training samples decides
    when to stop (after n_iter_no_change passes without gain, or max_iter passes) and how both parts are combined.
    """

    hidden_layer_sizes: Annotated[tuple[Count, ...], Field(min_length=1)] = (64, 32)
    activation: Literal["identity", "logistic", "relu", "tanh"] = "relu"
    alpha: NotNegative = 1e-4
    batch_size: Literal["auto"] | Count = "auto"
    learning_rate_init: Positive = 1e-3
    max_iter: Count = 100
    n_iter_no_change: Count = 3
    validation_fraction: Fraction = 0.1


class BoostingOptions(_Options):
    """`gradient-boosting`: those of scikit-learn's HistGradientBoostingClassifier, which stops on held-out log-loss."""

    learning_rate: Positive = 0.1
    max_iter: Count = 500
    max_leaf_nodes: Annotated[int, Field(ge=2, strict=True)] = 31
    max_depth: Count | None = None
    min_samples_leaf: Count = 100
    l2_regularization: NotNegative = 0.0
    max_bins: Annotated[int, Field(ge=2, le=255, strict=True)] = 255
    n_iter_no_change: Count = 10
    validation_fraction: Fraction = 0.1


READY: Mapping[str, type[_Options]] = {
    "mlp": MlpOptions,
    "gradient-boosting": BoostingOptions,
    "logistic": LogisticOptions,
}
"""The ready classifiers and the models of their options."""


def check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a ready classifier with its defaults filled in; those of an import path as they are."""
    if name not in READY:
        return dict(options)
    model = READY[name]
    try:
        return model.model_validate(dict(options)).model_dump(mode="json")
    except ValidationError as error:
        problems = explain_each(error, model, name, options)
        texts = [
            f"{key} is {text}" if text.startswith("unknown") else f"{key}: {text}" for key, text in problems.items()
        ]
        raise PydanticCustomError("options", "{text}", {"text": "; ".join(texts)}) from None


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
        if name not in READY and not _PATH.fullmatch(name):  # an import path is not imported here
            raise PydanticCustomError(
                "classifier", "{text}", {"text": f'{", ".join(READY)}, or "package.module:Class"'}
            )
        return name

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
