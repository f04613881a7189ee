"""Parameters of the losses: what a study may say about them. Imports no numerical library, for fast validation."""

from __future__ import annotations

from math import isqrt
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from hpcdp.losses._learned_options import Part, check_name, check_options

Rule = Literal["sqrt", "10sqrt"]
Metric = Literal["euclidean", "manhattan", "chebyshev", "hamming"]
Bandwidth = Literal["silverman", "sheather-jones"]

_FACTORS: dict[str, int] = {"sqrt": 1, "10sqrt": 10}


class KnnParameters(BaseModel):
    """Parameters of `knn`: k, a rule or a number of neighbours (see `choose_k`), and the metric of vector outputs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    k: Rule | Annotated[int, Field(ge=1, strict=True)] = "sqrt"
    metric: Metric = "euclidean"


class LiteralKnnParameters(KnnParameters):
    """Parameters of `literal-knn`: those of `knn`; the rule sees the training points that are not ⊥."""


_DISTINCT = 1 << 22


class FrequencyParameters(BaseModel):
    """Parameters of `frequency`.

    rare: values that fewer pooled training points hold become one value. distinct: the most values that are told apart;
    when training has more, values share classes (see `hpcdp.losses.frequency._tally`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rare: Annotated[int, Field(ge=0, strict=True)] = 0
    distinct: Annotated[int, Field(ge=2, le=1 << 28, strict=True)] = _DISTINCT

    @model_serializer(mode="wrap")
    def _leave_out_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        if self.distinct == _DISTINCT:  # stores of versions without this parameter keep their keys
            del values["distinct"]
        return values


class KdeParameters(BaseModel):
    """Parameters of `kde`.

    bandwidth: a rule, or a number in the outputs' own unit. floor: a density estimate counts as known from this many times
    1/(n·h), with n the draws and h the bandwidth of its side, or 1/(√(2π)·n·h₀·h₁) of two columns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bandwidth: Bandwidth | Annotated[float, Field(gt=0.0, strict=True, allow_inf_nan=False)] = "silverman"
    floor: Annotated[float, Field(ge=1e-6, strict=True, allow_inf_nan=False)] = 1.0


class SmoothParameters(BaseModel):
    """Parameters of `smooth`.

    degree: of the polynomial that brings vectors to the line; "auto" chooses on outputs that it did not learn from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    degree: Literal["auto", 1, 2] = "auto"

    @field_validator("degree", mode="before")
    @classmethod
    def _is_no_boolean(cls, degree: Any) -> Any:
        if isinstance(degree, bool):
            raise PydanticCustomError("literal_error", "'auto', 1 or 2")
        return degree


FEWEST_LEARNED = 20  # training outputs a side, so that every part of them has some


class LearnedParameters(BaseModel):
    """Parameters of `learned`.

    classifier: "mlp", "gradient-boosting", "logistic", or the import path of a class like scikit-learn's classifiers.
    options: its keyword arguments. calibrate: on the fraction held_out of the training samples. seed: of its own chance.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    classifier: Annotated[str, Field(strict=True)] = "mlp"
    options: Annotated[dict[str, Any], Field(validate_default=True)] = {}
    calibrate: Literal["platt", "isotonic", False] = False
    held_out: Part = 0.2
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


def choose_k(rule: Rule | int, training_points: int) -> int:
    """Number of neighbours for so many training points of both sides together, at least 1.

    "sqrt" is the odd integer nearest to √points (Lu et al., Section V), "10sqrt" to 10·√points (their public code);
    halfway, which is at even numbers, the larger one; both are cut at training_points. A number is taken as it is.

    Raises:
        ValueError: the given number is above training_points.
    """
    if isinstance(rule, int):
        if rule > training_points:
            raise ValueError(f"k = {rule} neighbours, but there are {training_points} training points of both sides")
        return rule
    nearest = isqrt(_FACTORS[rule] ** 2 * training_points) // 2 * 2 + 1
    return max(1, min(nearest, training_points))
