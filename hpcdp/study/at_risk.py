"""The section [at_risk] of a study file: which ε a query's sampled sensitivity allows (Dandekar, Basu, Bressan, PoPETs 2021)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from hpcdp.errors import StudyError
from hpcdp.mechanisms.pair_draws import PairDraws
from hpcdp.mechanisms.user_code import import_callable, refuse_call, source_digest
from hpcdp.notions.at_risk import order_statistic
from hpcdp.study.section import WHOLE, Key, Section, one_of_types, refuse_all_but_one

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
    """[at_risk]: pairs of databases are drawn, and of each the sensitivity and the loss of one draw of Laplace noise.

    query: "package.module:callable" of a database, a number or a vector. rows: of a database. scale: of the noise. cover: shares
    of pairs whose sensitivity an ε shall cover. chunk: pairs that share a random stream, and are kept or lost together.
    """

    query: Annotated[str, Field(min_length=1), Key("law")]
    population: Annotated[Population, Key("law")]
    rows: Annotated[int, Field(ge=1, le=_MOST), WHOLE, Key("law")]
    pairs: Annotated[int, Field(ge=1, le=_MOST), WHOLE, Key("family", "grow")]
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False), Key("law")]
    cover: Annotated[Covers, Key("nothing", "change")]
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
    mechanism: dict[str, Any]
    estimate: dict[str, Any]
    try:
        section = AtRisk.model_validate(given)
    except ValidationError:  # which the section itself tells of
        mechanism, estimate = {"call": "pair"}, {"epsilons": ()}
    else:
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
