"""Parameters of `knn` and `literal-knn`. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from math import isqrt
from typing import Annotated, Literal

from pydantic import Field

from hpcdp.losses.kind import Parameters

Rule = Literal["sqrt", "10sqrt"]
Metric = Literal["euclidean", "manhattan", "chebyshev", "hamming"]

MOST_SEQUENCES = 1 << 20
"""So many training sequences with numbers of one database, the first, are looked at."""

_FACTORS: dict[str, int] = {"sqrt": 1, "10sqrt": 10}


class KnnParameters(Parameters):
    """Parameters of `knn`: k, a rule or a number of neighbours (see `choose_k`), and the metric of vector outputs."""

    k: Rule | Annotated[int, Field(ge=1, strict=True)] = "sqrt"
    metric: Metric = "euclidean"


class LiteralKnnParameters(KnnParameters):
    """Parameters of `literal-knn`: those of `knn`; the rule sees the training points that are not ⊥."""


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
