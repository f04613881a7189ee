"""[at_risk] of a study, which ε a query's sampled sensitivity allows (Dandekar, Basu, Bressan, PoPETs 2021), and its draws.

Pairs of neighbouring databases are drawn from a population: how far a query's answers are apart, and the loss of noise on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from hpcdp._base.raised import Blamed, readable
from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms.user_code import import_callable, refuse_call, source_digest
from hpcdp.notions.at_risk import order_statistic
from hpcdp.study.section import WHOLE, Key, Section, one_of_types, refuse_all_but_one

SENSITIVITY, LOSS, NUMBERS = 0, 1, 2
"""Columns of an output: S, L of one draw of noise, and how many numbers the query returns."""


@dataclass(frozen=True)
class PairDraws:
    """Draws two databases that share all rows but the last, each row by itself; with replacement from a population."""

    query: Callable[[NDArray[Any]], Any]
    source: Callable[..., Any] | None  # draws rows, fn(size, rng, **parameters); None: rows of the population
    parameters: Mapping[str, Any]
    rows: int  # of a database
    scale: float  # of the Laplace noise

    def draw(self, database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """(size, 3) float64: S = ‖f(x) − f(y)‖₁, the loss of f(x) + noise, and k, of each pair; it raises MechanismError."""
        draws = np.empty((size, 3))
        with Blamed("the query", MechanismError) as guard:
            for place in range(size):
                draws[place] = self._pair(database, rng)
                guard.end_copy()
        return draws

    def draw_each(self, databases: NDArray[Any], rng: np.random.Generator) -> None:
        """Nothing: rows are drawn here."""

    def _pair(self, population: NDArray[Any], rng: np.random.Generator) -> tuple[float, float, int]:
        rows = self._rows(population, rng)
        other = np.empty_like(rows[1:])  # memory of its own, in the order of the other's: a query may write there
        other[:-1], other[-1] = rows[:-2], rows[-1]
        first, second = self._answer(rows[:-1]), self._answer(other)
        if first.shape != second.shape:
            raise MechanismError(
                f"the query returned {first.size} numbers of one database and {second.size} of another"
            )
        noise = rng.laplace(scale=self.scale, size=first.size)
        with np.errstate(over="ignore"):
            shift = _difference(first, second)
            far = np.abs(shift)
            distance = float(far.sum())
        if not np.isfinite(distance):
            raise MechanismError("two answers of the query are so far apart that it is no float")
        most = distance / self.scale
        # |noise + shift| − |noise| without a difference of large numbers
        loss = float(np.clip(2.0 * np.sign(shift) * noise + far, -far, far).sum()) / self.scale
        return distance, min(max(loss, -most), most), shift.size  # rounding may lift |L| above S/scale

    def _rows(self, population: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Rows in memory of their own, as a query may change them, and the callable may draw from what it returned again."""
        if self.source is None:
            return population.take(rng.integers(population.shape[0], size=self.rows + 1), axis=0)
        with Blamed("the population's callable"):
            rows = np.array(self.source(self.rows + 1, rng, **self.parameters))
        if rows.ndim not in (1, 2) or rows.shape[0] != self.rows + 1 or rows.dtype.kind not in "biuf":
            raise MechanismError(
                f"the population's callable returned {rows.dtype} of shape {rows.shape}; accepted: numbers of shape "
                f"({self.rows + 1},) or ({self.rows + 1}, columns)"
            )
        return rows

    def _answer(self, database: NDArray[Any]) -> NDArray[Any]:
        answer = np.asarray(self.query(database))
        if answer.dtype.kind not in "biuf" or answer.ndim > 1 or not answer.size or not np.isfinite(answer).all():
            shown = readable(np.array2string(answer, threshold=8, edgeitems=2), 80)
            raise MechanismError(f"the query returned {shown}; accepted: a finite number or a vector of them")
        return np.atleast_1d(answer).copy()  # a query may answer from the same memory again


def _difference(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """Each first − second, rounded once: integers that are no floats, and longer floats, are subtracted as they are."""
    kind = np.result_type(first, second, np.float64)
    are_whole = first.dtype.kind in "biu" and second.dtype.kind in "biu"
    if are_whole and max(abs(int(most)) for array in (first, second) for most in (array.max(), array.min())) > _EXACT:
        return (first.astype(object) - second.astype(object)).astype(np.float64)
    return np.asarray(first.astype(kind) - second.astype(kind), np.float64)


_EXACT = 2**53  # up to which all integers are floats

_MOST = 10**9  # pairs: their sensitivities are sorted in memory
_PAIRS_A_CHUNK = 50


def _covers(value: Any) -> Any:
    covers = value if isinstance(value, (list, tuple)) else [value]
    if not covers or not all(type(v) in (int, float) and 0.0 < v < 1.0 for v in covers):
        raise ValueError(f"numbers above 0 and below 1, at least one; given: {value!r}")
    if len(set(covers)) < len(covers):
        raise ValueError(f"distinct numbers; given: {value!r}")
    return tuple(sorted(float(v) for v in covers))


_SHARE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
Covers = Annotated[
    tuple[float, ...],
    BeforeValidator(_covers),
    one_of_types(_SHARE, {"type": "array", "items": _SHARE, "minItems": 1, "uniqueItems": True}),
]


class Population(Section):
    """Where rows come from: a file, each row of it as likely as every other, or a callable that draws them."""

    file: Annotated[str, Field(min_length=1)] | None = None
    call: Annotated[str, Field(min_length=1)] | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        refuse_all_but_one(self, "file", "call")
        if self.file is not None and self.parameters:
            raise ValueError(f"parameters: accepted with call; given with file: {', '.join(self.parameters)}")
        return self


class AtRisk(Section):
    """[at_risk]: pairs of databases are drawn, and of each the sensitivity and the loss of one draw of Laplace noise."""

    query: Annotated[str, Field(min_length=1), Key("law")]
    population: Annotated[Population, Key("law")]
    rows: Annotated[int, Field(ge=1, le=_MOST), WHOLE, Key("law")]
    pairs: Annotated[int, Field(ge=1, le=_MOST), WHOLE, Key("family", "grow")]
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False), Key("law")]
    cover: Annotated[Covers, Key("nothing", "change")]  # shares of pairs whose sensitivity an ε shall cover
    confidence: Annotated[float, Field(ge=1e-9, lt=1), Key("nothing", "change")] = 0.95
    chunk: Annotated[int, Field(ge=1, le=_MOST), WHOLE, Key("pilot")] = _PAIRS_A_CHUNK

    @model_validator(mode="after")
    def _values(self) -> Self:
        if ":" not in self.query:
            raise ValueError(f'query: "package.module:callable"; given: {self.query!r}')
        try:
            order_statistic(self.pairs, max(self.cover), self.confidence)
        except ValueError as error:
            raise ValueError(f"cover: {max(self.cover)} was given, and {error}") from None
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides the law of a pair besides the query's name and the rows of a file."""
        called = None if self.population.call is None else [self.population.call, self.population.parameters]
        return {"rows": self.rows, "scale": self.scale, "population": called}


def sections_of(given: Any) -> dict[str, Any]:
    """The sections that a study with [at_risk] does not write: its query as a mechanism whose outputs are pairs' figures."""
    mechanism: dict[str, Any] = {"call": "pair"}
    estimate: dict[str, Any] = {"epsilons": ()}
    with suppress(ValidationError):  # which the section itself tells of
        section = AtRisk.model_validate(given)
        chunk = min(section.chunk, section.pairs)
        estimate = {"epsilons": (), "train": 1, "test": section.pairs, "chunk": chunk, "confidence": section.confidence}
        mechanism = {"call": section.query, "parameters": section.parameters}
    return {"mechanism": mechanism, "pairs": {"given": [{"d": [], "d_prime": []}]}, "estimate": estimate}


def bind_pairs(section: AtRisk, folder: Any) -> tuple[PairDraws, str]:
    """What draws the pairs, and the digest of the query's source; StudyError names what cannot be called."""
    query = import_callable(section.query, folder, "at_risk.query")
    refuse_call(query, "at_risk.query", section.query, "query(database)", None)
    source: Callable[..., Any] | None = None
    path, parameters = section.population.call, section.population.parameters
    if path is not None:
        key = "at_risk.population.call"
        source = import_callable(path, folder, key)
        refuse_call(source, key, path, "call(size, rng, **parameters)", 1, None, **parameters)
    pair_draws = PairDraws(query, source, parameters, section.rows, section.scale)
    return pair_draws, source_digest(section.query, folder)


def load_population(section: AtRisk, folder: Any, read: Callable[..., NDArray[Any]]) -> NDArray[Any]:
    """The rows of the file; of a callable, which draws them itself, none but a place of them."""
    if section.population.file is None:
        return np.zeros(1)
    rows = read(folder / section.population.file, "at_risk.population.file")
    if rows.shape[0] < 2:
        raise StudyError(f"at_risk.population.file: at least two rows; given: {rows.shape[0]}")
    return rows
