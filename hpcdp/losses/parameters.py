"""Parameters of most losses, and what these say about themselves. Imports nothing numerical, for fast validation."""

from __future__ import annotations

import math
from math import isqrt
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from hpcdp.losses.kind import STREAMED_BYTES, LossKind, Parameters, Seconds, plain_seconds, refuse_strings
from hpcdp.losses.learned.parameters import LearnedKind, LearnedParameters

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
    """Neighbours: the odd integer nearest to √points or 10·√points (Lu et al., Section V, and their code), or as given."""
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


_DISTINCT = 1 << 22
_CLASS_BYTES = 128  # a class of values while it is learned


class FrequencyParameters(Parameters):
    """Parameters of `frequency`.

    rare: values that fewer pooled training points hold become one value. distinct: the most values that are told apart;
    when training has more, values share classes (see `hpcdp.losses.frequency`).
    """

    rare: Annotated[int, Field(ge=0, strict=True)] = 0
    distinct: Annotated[int, Field(ge=2, le=1 << 28, strict=True)] = _DISTINCT


class FrequencyKind(LossKind):
    """`frequency`."""

    parameters = FrequencyParameters
    loss = "hpcdp.losses.frequency:Frequency"
    tells_values = True

    def seconds(self, parameters: FrequencyParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Numbers are hashed; of all else each value is spelled."""
        plain = plain_seconds(schema, many_valued)
        return plain if schema.kind == "bytes" and plain else (2.0e-7, 1.5e-7, 5.0e-4)

    def memory(self, parameters: FrequencyParameters, schema: Schema, train: int) -> int:
        """All but reals are read by blocks, and their classes are kept."""
        if schema.kind == "float" and schema.columns is None:
            return super().memory(parameters, schema, train)
        side = train * schema.bytes_in_memory
        return 2 * min(side, STREAMED_BYTES) + _CLASS_BYTES * min(2 * train, parameters.distinct)


Bandwidth = Literal["silverman", "sheather-jones"]


class KdeParameters(Parameters):
    """Parameters of `kde`.

    bandwidth: a rule, or a number in the outputs' own unit. floor: a density estimate counts as known from this many times
    1/(n·h), with n the draws and h the bandwidth of its side, or 1/(√(2π)·n·h₀·h₁) of two columns.
    """

    bandwidth: Bandwidth | Annotated[float, Field(gt=0.0, strict=True, allow_inf_nan=False)] = "silverman"
    floor: Annotated[float, Field(ge=1e-6, strict=True, allow_inf_nan=False)] = 1.0


def refuse_unestimable(are_strings: bool, columns: int) -> None:
    """Raise ValueError where outputs are no numbers, or of more than two columns."""
    refuse_strings("kde", are_strings)
    if columns > 2:
        raise ValueError(
            f"loss: 'kde' needs outputs of one or two columns, as densities of more take too many outputs; these have "
            f"{columns}; accepted: knn, learned, or frequency where values are few"
        )


class KdeKind(LossKind):
    """`kde`."""

    parameters = KdeParameters
    loss = "hpcdp.losses.kde.kde:Kde"

    def refuse(self, parameters: KdeParameters, schema: Schema, train: int) -> None:
        """Outputs are one or two columns of numbers."""
        refuse_unestimable(schema.kind == "bytes", schema.columns or 1)

    def seconds(self, parameters: KdeParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Two columns take a grid of two dimensions."""
        return (schema.columns != 2 and plain_seconds(schema, many_valued)) or (1.5e-7, 1.5e-7, 5.0e-4)


PRODUCTS = 10
"""Columns of which all products of two are features; of more, squares only."""


class SmoothParameters(Parameters):
    """Parameters of `smooth`.

    degree: of the polynomial that brings vectors to the line; "auto" chooses on outputs that it did not learn from.
    """

    degree: Literal["auto", 1, 2] = "auto"

    @field_validator("degree", mode="before")
    @classmethod
    def _is_no_boolean(cls, degree: Any) -> Any:
        if isinstance(degree, bool):
            raise PydanticCustomError("literal_error", "'auto', 1 or 2")
        return degree


class SmoothKind(LossKind):
    """`smooth`."""

    parameters = SmoothParameters
    loss = "hpcdp.losses.smooth:Smooth"
    projects = True

    def refuse(self, parameters: SmoothParameters, schema: Schema, train: int) -> None:
        """Outputs are numbers."""
        refuse_strings("smooth", schema.kind == "bytes")

    def seconds(self, parameters: SmoothParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """A spline takes a while however few points there are; each column adds a little."""
        if schema.columns is None:
            return 6.0e-8, 1.5e-8, 3.0e-2
        columns = schema.columns
        features = 1 + 2 * columns if columns > PRODUCTS else 1 + columns + columns * (columns + 1) // 2
        each = 3.0e-2 + 1.3e-8 * features**3  # Newton's steps, whatever the number of outputs
        return 4.0e-7 + 5.0e-8 * columns, 1.0e-8 + 4.0e-9 * columns, each


FINE = 5040
"""Bins in which training outputs are counted where training chooses their number: it has 60 divisors."""

_MOST_BINS = 10**6
_NARROWEST = 2.0**20  # a bin's width in units of the last place of the range's ends


def _interval(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 2 and all(type(v) in (int, float) for v in value):
        low, high = float(value[0]), float(value[1])
        if math.isfinite(high - low) and low < high:
            if (high - low) / FINE < _NARROWEST * math.ulp(max(abs(low), abs(high))):
                raise ValueError(f"an interval that floats resolve into {FINE} bins; given: {value!r}")
            return low, high
    raise ValueError(f"an interval [low, high] with low < high, both finite; given: {value!r}")


def _bins(value: Any) -> Any:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if whole == "auto" or (type(whole) is int and 1 <= whole <= _MOST_BINS):
        return whole
    raise ValueError(f'"auto" or an integer from 1 to {_MOST_BINS:,}; given: {value!r}')


class HistogramParameters(Parameters):
    """Parameters of `histogram`.

    range: the interval in which all outputs lie, in their own unit. lipschitz: C: by how much a density changes in one unit, at
    most: an assumption. bins: how many, or "auto": as many as training outputs make the interval narrowest with.
    """

    range: Annotated[tuple[float, float], BeforeValidator(_interval)]
    lipschitz: Annotated[float, Field(gt=0.0, strict=True, allow_inf_nan=False)]
    bins: Annotated[int | Literal["auto"], BeforeValidator(_bins)] = "auto"

    @property
    def width(self) -> float:
        """Of the interval."""
        return self.range[1] - self.range[0]


class HistogramKind(LossKind):
    """`histogram`, whose counts belong to laws and not to pairs."""

    parameters = HistogramParameters
    method = "histogram"
    bounds_pure = True

    def make(self, parameters: HistogramParameters) -> Loss:
        """None: its bins are counted law by law."""
        raise ValueError("loss 'histogram' counts bins, law by law; hpcdp.losses.histogram does so")

    def refuse(self, parameters: HistogramParameters, schema: Schema, train: int) -> None:
        """Outputs are one real number each."""
        from hpcdp.mechanisms.outputs import describe

        if schema.kind != "float" or schema.columns is not None:
            raise ValueError(f"loss: histogram: outputs that are one real number each; given: {describe(schema)}")

    def refuse_outputs(self, parameters: HistogramParameters, least: float, most: float) -> None:
        """All of them lie in the range."""
        from hpcdp.losses.histogram import refuse_outside

        refuse_outside([least, most], parameters.range)

    def seconds(self, parameters: HistogramParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Nothing is learned beyond counts."""
        return 3.0e-9, 3.0e-9, 1.0e-4

    def memory(self, parameters: HistogramParameters, schema: Schema, train: int) -> int:
        """Counts alone."""
        return 1 << 20


TAUGHT = 1 << 15
"""Vectors of a half of the training outputs of a database that teach what is judged."""

FEWEST_LEARNED = 1 << 10
"""Vectors of a half with which `learned` is a candidate: it takes long, and few teach a classifier nothing that others lack."""

JUDGED = 1 << 13
"""Vectors of the other half that judge: `knn` takes long for each."""
_CELLS_BYTES = 1 << 25  # what 2¹⁶ cells and their sets at some 40 thresholds take


class AutoParameters(Parameters):
    """Parameters of `auto`: none, because training outputs decide."""


class AutoKind(LossKind):
    """`auto`."""

    parameters = AutoParameters
    loss = "hpcdp.losses.auto:Auto"
    sizes = (1 << 18, 7 << 18)  # of 2²¹ samples an eighth learns, in whole chunks
    joins_sets = True
    otherwise = "knn"

    def seconds(self, parameters: AutoParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Three splines of a line; of vectors what the candidates take to be judged, and `learned`, which may be chosen."""
        knn = KnnKind().seconds(KnnParameters(), schema, min(train, TAUGHT), many_valued)
        if schema.kind == "bytes":
            return knn
        if schema.columns in (None, 1):
            return 4.0e-7, 1.5e-8, 8.0e-2
        taught, judged = (4 * min(train // 2, most) for most in (TAUGHT, JUDGED))
        smooth = SmoothKind().seconds(SmoothParameters(), schema, train, many_valued)
        each = 2 * (smooth[2] + knn[2]) + taught * (smooth[0] + knn[0]) + judged * (smooth[1] + knn[1])
        if train // 2 < FEWEST_LEARNED:
            return smooth[0], smooth[1], smooth[2] + each
        learned = LearnedKind().seconds(LearnedParameters(), schema, train, many_valued)
        each += 2 * learned[2] + taught * learned[0] + judged * learned[1]
        return learned[0], learned[1], learned[2] + each

    def memory(self, parameters: AutoParameters, schema: Schema, train: int) -> int:
        """Sequences as `knn` holds them; of numbers both halves too, and cells."""
        if schema.kind == "bytes":
            return KnnKind().memory(KnnParameters(), schema, train)
        return 2 * super().memory(parameters, schema, train) + _CELLS_BYTES
