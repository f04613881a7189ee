"""Parameters of `knn` and `literal-knn`, and what it says about itself. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hpcdp.losses.kind import STREAMED_BYTES, LossKind, Parameters, Seconds, plain_seconds

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema

Rule = Literal["sqrt", "10sqrt"]
Metric = Literal["euclidean", "manhattan", "chebyshev", "hamming"]

MOST_SEQUENCES = 1 << 20
"""So many training sequences with numbers of one database, the first, are looked at."""

_FACTORS: dict[str, int] = {"sqrt": 1, "10sqrt": 10}
_SEQUENCE_BYTES = 512  # a sequence and the parts it falls into


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


class KnnKind(LossKind):
    """`knn`."""

    parameters = KnnParameters
    loss = "hpcdp.losses.knn.knn:Knn"

    def refuse_points(self, parameters: KnnParameters, points: int, when: str) -> None:
        """A number of neighbours is at most that of all points."""
        if isinstance(parameters.k, int) and parameters.k > points:
            raise ValueError(f"parameters.k: {when}; given: {parameters.k}")

    def seconds(self, parameters: KnnParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """With many columns of many values, by the leaves of the tree that a ball meets."""
        if schema.kind == "bytes" and many_valued:  # perhaps sequences that hold reals
            return 8.0e-6, 1.1e-5, 5.0e-4
        if plain := plain_seconds(schema, many_valued):
            return plain
        k = choose_k(parameters.k, 2 * train)
        # a ball of k points meets leaves of some 64: so many points lie in them, but many columns prune better than that
        met = min((k ** (1 / many_valued) + 64 ** (1 / many_valued)) ** many_valued, train / 4)
        return 6.0e-7 + 1.5e-7 * many_valued, 2.0e-6 + 4.0e-9 * min(many_valued - 1, 5) * met, 5.0e-4

    def memory(self, parameters: KnnParameters, schema: Schema, train: int) -> int:
        """Sequences are read by blocks, and the first are kept."""
        if schema.kind != "bytes":
            return super().memory(parameters, schema, train)
        side = train * schema.bytes_in_memory
        return 2 * min(side, STREAMED_BYTES) + _SEQUENCE_BYTES * min(2 * train, 2 * MOST_SEQUENCES)

    def votes(self, parameters: KnnParameters, train: int) -> int:
        """k."""
        return choose_k(parameters.k, 2 * train)

    def has_published_rate(self, parameters: KnnParameters) -> bool:
        """With k = √n and the Euclidean distance."""
        return parameters.k == "sqrt" and parameters.metric == "euclidean"


class LiteralKnnKind(KnnKind):
    """`literal-knn`, which learns anew for each cell."""

    parameters = LiteralKnnParameters
    method = "figure-1"

    def make(self, parameters: KnnParameters) -> Loss:
        """None: it trains anew for each ε."""
        raise ValueError(
            "loss 'literal-knn' trains anew for each epsilon: hpcdp.losses.knn.literal.testing_risk runs it"
        )
