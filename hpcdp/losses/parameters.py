"""Parameters of the losses: what a study may say about them. Imports no numerical library, for fast validation."""

from __future__ import annotations

from math import isqrt
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Rule = Literal["sqrt", "10sqrt"]
Metric = Literal["euclidean", "manhattan", "chebyshev", "hamming"]

_FACTORS: dict[str, int] = {"sqrt": 1, "10sqrt": 10}


class KnnParameters(BaseModel):
    """Parameters of `knn`: k, a rule or a number of neighbours (see `choose_k`), and the metric of vector outputs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    k: Rule | Annotated[int, Field(ge=1, strict=True)] = "sqrt"
    metric: Metric = "euclidean"


class LiteralKnnParameters(KnnParameters):
    """Parameters of `literal-knn`: those of `knn`; the rule sees the training points that are not ⊥."""


class FrequencyParameters(BaseModel):
    """Parameters of `frequency`: values that fewer than `rare` pooled training points hold become one value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rare: Annotated[int, Field(ge=0, strict=True)] = 0


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
