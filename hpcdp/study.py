"""The study file: parsed once, validated, frozen.

Every key of the file is a field here; an unknown key, a wrong type or an impossible value raises `StudyError` that
names the key, what was given and what is accepted.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from hpcdp.errors import StudyError
from hpcdp.keys import canonical_json
from hpcdp.messages import accepted_keys, describe_errors

_TEST = 1 << 20
_TIME = r"^(\d+(?:\.\d+)?) ?(s|min|h|d)$"
_MOST_EPSILON = 200  # e^ε must stay far from the largest float
_RESERVED = re.compile(r"[^A-Za-z0-9._+-]")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _grid(value: Any) -> Any:
    """{start, stop, count} (stop included) or a list of numbers -> a sorted tuple of distinct floats."""
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"start", "stop", "count"})
        missing = sorted({"start", "stop", "count"} - set(value))
        if unknown or missing:
            wrong = f"missing: {missing or 'none'}, unknown: {unknown or 'none'}"
            raise ValueError(f"a grid is {{start, stop, count}}; {wrong}")
        start, stop, count = value["start"], value["stop"], value["count"]
        if type(count) is not int or count < 1:
            raise ValueError("count is a positive integer")
        if not _is_number(start) or not _is_number(stop) or not stop >= start:
            raise ValueError("start and stop are finite numbers with stop >= start")
        if count == 1:
            return (float(start),)
        step = (stop - start) / (count - 1)
        points = [start + step * i for i in range(count - 1)] + [stop]
        value = [round(p, 12) if abs(round(p, 12) - p) <= 4e-16 * max(1.0, abs(p)) else p for p in points]
    if isinstance(value, (list, tuple)):
        if not value:
            raise ValueError("a grid has at least one point")
        if not all(_is_number(v) for v in value):
            raise ValueError("a grid is a list of finite numbers or {start, stop, count}")
        points = sorted(float(v) + 0.0 for v in value)
        if len(set(points)) < len(points):
            raise ValueError("the points of a grid are distinct")
        return tuple(points)
    raise ValueError("a grid is a list of finite numbers or {start, stop, count}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _reuse(value: Any) -> Any:
    if value is True or value is False or value == "auto":
        return value
    raise ValueError('true, false or "auto"')


Grid = Annotated[tuple[float, ...], BeforeValidator(_grid)]
OptionalGrid = Annotated[tuple[float, ...], BeforeValidator(lambda v: () if v in ([], ()) else _grid(v))]
Reuse = Annotated[bool | Literal["auto"], BeforeValidator(_reuse)]
Names = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Field(min_length=1),
    BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v),
]
Rows = Annotated[
    Literal["all"] | tuple[Annotated[int, Field(ge=0)], ...],
    BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v),
]


class Header(_Section):
    """[study]: what it is called, the seed from which the whole run follows, and an optional claim."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    seed: Annotated[int, Field(ge=0)]
    claim: str | None = None

    @model_validator(mode="after")
    def _name_is_a_file_name(self) -> Self:
        bad = _RESERVED.search(self.name)
        if bad or self.name.startswith("."):
            raise ValueError(f"name: letters, digits and . _ + - only, not starting with a dot; given: {self.name!r}")
        return self


class ProgramCall(_Section):
    """mechanism.call as a table: a program in an environment of its own. timeout: seconds a chunk may take."""

    command: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 600.0
    start_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 120.0


_NAME, _PROGRAM = "(name)", "(program)"  # messages leave out parts of a location in parentheses


class MechanismSection(_Section):
    """[mechanism]: a built-in's name, "package.module:callable" or a program, and its parameters.

    reproducible: whether outputs are a function of the seed; False keeps every sample, for none can be drawn again.
    """

    call: Annotated[
        Annotated[str, Field(min_length=1), Tag(_NAME)] | Annotated[ProgramCall, Tag(_PROGRAM)],
        Discriminator(lambda value: _PROGRAM if isinstance(value, (dict, ProgramCall)) else _NAME),
    ]
    parameters: dict[str, Any] = {}
    reproducible: bool = True


class GivenPair(_Section):
    """One ordered pair (D, D')."""

    d: list[Any]
    d_prime: list[Any]


class Relative(_Section):
    """T, and the neighbours of each of its databases: one row removed, or one row edited to other values."""

    databases: list[list[Any]] | None = None
    file: str | None = None
    call: str | None = None
    rows: Rows = "all"
    relation: Literal["remove", "edit"] = "remove"
    values: list[Any] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in ("databases", "file", "call") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of databases, file, call; given: {', '.join(given) or 'none'}")
        if self.databases is not None and not self.databases:
            raise ValueError("databases: at least one database")
        if isinstance(self.rows, tuple) and (not self.rows or len(set(self.rows)) < len(self.rows)):
            raise ValueError('rows: "all" or a list of distinct row numbers, at least one')
        if self.values is not None and (self.relation != "edit" or not self.values):
            raise ValueError('values: a list of at least one row, with relation = "edit" only')
        return self


class Distributional(_Section):
    """One distribution of Δ: what draws databases, which rows are held, and at which values."""

    call: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = {}
    index: Rows = "all"
    values: list[Any]
    exchangeable: bool = False

    @model_validator(mode="after")
    def _rows_and_values(self) -> Self:
        if isinstance(self.index, tuple) and (not self.index or len(set(self.index)) < len(self.index)):
            raise ValueError('index: "all" or a list of distinct row numbers, at least one')
        if len({canonical_json(value) for value in self.values}) < max(2, len(self.values)):
            raise ValueError("values: a list of at least two distinct values of a row")
        return self


class Pairs(_Section):
    """[pairs]: exactly one of given, relative, distributional."""

    given: list[GivenPair] | None = None
    relative: Relative | None = None
    distributional: Annotated[
        list[Distributional] | None, BeforeValidator(lambda v: [v] if isinstance(v, dict) else v)
    ] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        found = [key for key in ("given", "relative", "distributional") if getattr(self, key) is not None]
        if len(found) != 1:
            raise ValueError(f"exactly one of given, relative, distributional; given: {', '.join(found) or 'none'}")
        if self.given is not None and not self.given:
            raise ValueError("given: at least one pair")
        if self.distributional is not None and not self.distributional:
            raise ValueError("distributional: at least one distribution")
        return self


class Target(_Section):
    """What the certifying stage is for: δ at an ε, or the ε of a δ, to a relative standard error of δ̂.

    direction: of which δ is meant; None for the larger one. most: test draws a side of a pair, at most.
    """

    epsilon: Annotated[float, Field(ge=0)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    direction: Literal["forward", "reverse"] | None = None
    most: Annotated[int, Field(ge=1)] = 10**11
    relative_error: Annotated[float, Field(gt=0, lt=1)] = 0.1

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        given = [key for key in ("epsilon", "delta") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of epsilon, delta; given: {', '.join(given) or 'none'}")
        return self


class Estimate(_Section):
    """[estimate]: the loss, how many samples, the grids, what is kept, the confidence.

    reuse: whether every sample teaches and tests; "auto" where drawing takes most of the time, as a run finds out.
    """

    epsilons: Grid
    loss: str | Names = "knn"
    parameters: dict[str, Any] = {}
    train: Annotated[int, Field(ge=1)] = 1 << 20
    test: Annotated[int, Field(ge=1)] = _TEST
    chunk: Annotated[int, Field(ge=1)] = 1 << 18
    etas: OptionalGrid = ()
    keep: Literal["all", "train", "none"] = "all"
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    refine: Annotated[int, Field(ge=0)] = 0
    validation: Annotated[int, Field(ge=1)] | None = None
    target: Target | None = None
    time: Annotated[str, Field(pattern=_TIME)] | None = None
    reuse: Reuse = False

    @model_validator(mode="before")
    @classmethod
    def _sizes_of_a_budget(cls, data: Any) -> Any:
        """A target or a time decides sizes, so none are given; there are too many samples to keep."""
        keys = [key for key in ("target", "time") if isinstance(data, dict) and data.get(key) is not None]
        if not keys:
            return data
        if len(keys) > 1:
            raise ValueError("time: instead of target; given: both")
        given = [f"estimate.{key}" for key in ("refine", "validation") if data.get(key)]
        given += ["estimate.test"] if data.get("test", _TEST) != _TEST else []
        if given:
            raise ValueError(f"{keys[0]}: instead of {', '.join(given)}, which it decides; accepted: one or the other")
        return {"keep": "train", **data}

    @model_validator(mode="after")
    def _values(self) -> Self:
        from hpcdp.losses import validate_parameters

        if self.epsilons[0] < 0:
            raise ValueError(f"epsilons: at least 0; given: {self.epsilons[0]}")
        if self.epsilons[-1] > _MOST_EPSILON:
            raise ValueError(f"epsilons: at most {_MOST_EPSILON}; given: {self.epsilons[-1]}")
        if self.etas and self.etas[0] <= 0:
            raise ValueError(f"etas: above 0; given: {self.etas[0]}")
        if self.validation is not None and not self.refine:
            raise ValueError(
                f"validation: with refine only, whose candidates it chooses among; given: {self.validation}"
            )
        if self.has_budget and self.keep == "all":
            raise ValueError(
                'keep: "train" or "none" with a target or a time: there are too many samples; given: "all"'
            )
        if self.target is not None and self.target.epsilon is not None and self.target.epsilon not in self.epsilons:
            raise ValueError(f"target.epsilon: one of the epsilons; given: {self.target.epsilon}")
        parameters = validate_parameters(self.default_loss, self.parameters)
        if not isinstance(self.loss, str):
            self._check_losses(self.loss)
        k = getattr(parameters, "k", None)
        if isinstance(k, int) and k > 2 * self.train:
            raise ValueError(f"parameters.k: at most all training points, 2·train = {2 * self.train}; given: {k}")
        if self.reuse is not False:
            self._check_reuse(k)
        return self

    @property
    def default_loss(self) -> str:
        """The loss, the first of several."""
        return self.loss if isinstance(self.loss, str) else self.loss[0]

    @property
    def other_losses(self) -> tuple[str, ...]:
        """The losses after the first, whose parameters are their defaults."""
        return () if isinstance(self.loss, str) else self.loss[1:]

    def _check_losses(self, losses: tuple[str, ...]) -> None:
        from hpcdp.losses import LOSSES, validate_parameters

        for name in losses:
            validate_parameters(name, {})
        if len(set(losses)) < len(losses) or any(LOSSES[name].make is None for name in losses):
            raise ValueError(f"loss: several are distinct, without literal-knn; given: {list(losses)}")
        if len(losses) > 1 and not self.refine and not self.has_budget:
            raise ValueError(
                f"loss: several need refine, target or time, which choose among them; given: {list(losses)}"
            )

    def _check_reuse(self, k: Any) -> None:
        from hpcdp.pool import FEWEST, least_learned

        with_it = [key for key in ("etas", "refine", "target", "time") if getattr(self, key)]
        with_it += [f"loss = {list(self.loss)}"] if self.other_losses else []
        with_it += ["loss = literal-knn"] if self.default_loss == "literal-knn" else []
        if with_it:
            raise ValueError(
                f"reuse: cross-fitted are the cells of one loss, learned from train and test samples; given with it: "
                f"{', '.join(with_it)}; accepted: reuse = false, or any one loss but literal-knn without etas, refine, target "
                "and time"
            )
        if self.pool < FEWEST:
            raise ValueError(f"reuse: at least {FEWEST} samples, train and test together; given: {self.pool}")
        fewest = 2 * least_learned(self.pool)
        if isinstance(k, int) and k > fewest:
            raise ValueError(
                f"parameters.k: with reuse at most {fewest}, so many points of both sides teach the first L̂; given: {k}"
            )

    @property
    def pool(self) -> int:
        """Samples a side that teach and test, where they are reused."""
        return self.train + self.test

    @property
    def has_budget(self) -> bool:
        """Whether a run decides the sizes of all stages after training."""
        return self.target is not None or self.time is not None

    @property
    def seconds(self) -> float | None:
        """How long a run may take."""
        if self.time is None:
            return None
        found = re.fullmatch(_TIME, self.time)
        assert found is not None
        return float(found[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}[found[2]]

    @property
    def validating(self) -> int:
        """Validation draws a side: as given, else as many as refine."""
        return self.validation if self.validation is not None else self.refine

    @model_serializer(mode="wrap")
    def _leave_out_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        for key, default in (("refine", 0), ("validation", None), ("target", None), ("time", None), ("reuse", False)):
            if values.get(key, default) == default:  # stores of versions without these keys keep their studies
                values.pop(key, None)
        return values


class Study(_Section):
    """A whole study, frozen; compare studies by `to_dict`. folder: where relative paths start and what is importable."""

    study: Header
    mechanism: MechanismSection
    pairs: Pairs
    estimate: Estimate
    folder: Path = Field(default_factory=Path.cwd, exclude=True, repr=False)

    @model_validator(mode="after")
    def _drawn_once(self) -> Self:
        """Samples that are not kept are drawn again when they are needed, so they must be the same ones again."""
        if not self.mechanism.reproducible and self.estimate.keep != "all":
            raise ValueError(
                'estimate.keep: with mechanism.reproducible = false only "all", for what is not kept is drawn again; '
                f"given: {self.estimate.keep!r}"
            )
        return self

    @model_validator(mode="after")
    def _reused_from_the_store(self) -> Self:
        """Samples that are reused are read again and again; stored files hold them already."""
        from hpcdp.mechanisms import STORED

        e = self.estimate
        if e.reuse is not False and e.keep != "all" and self.mechanism.call != STORED:
            raise ValueError(
                f'estimate.keep: with reuse only "all", but for mechanism.call = "stored"; given: {e.keep!r}'
            )
        return self

    @classmethod
    def from_toml(cls, path: str | Path) -> Study:
        """Read a study file; raises StudyError with one message for all that is wrong with it."""
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise StudyError(f"no study file at {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise StudyError(f"cannot read the study file {path}: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise StudyError(f"{path} is not TOML: {error}") from None
        return cls.from_dict(data, path.resolve().parent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], folder: str | Path | None = None) -> Study:
        """Validate a study given as nested dictionaries with the keys of the study file."""
        if "folder" in data:
            raise StudyError(f"folder: unknown key (given: {data['folder']!r}); accepted: {accepted_keys(cls)}")
        try:
            return cls.model_validate({**data, "folder": Path(folder) if folder is not None else Path.cwd()})
        except pydantic.ValidationError as error:
            raise StudyError(describe_errors(error, cls)) from None

    def to_dict(self) -> dict[str, Any]:
        """The study as JSON values, defaults filled in; equal studies give equal dictionaries."""
        return self.model_dump(mode="json")

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name

    @property
    def seed(self) -> int:
        """The seed from which the whole run follows."""
        return self.study.seed
