"""The section [estimate] of a study file: the loss, how many samples, the grids, targets."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from hpcdp._base.plugins import import_path, plugins
from hpcdp.losses import LOSSES, VIEWS, foreign_code, kind_of, validate_parameters
from hpcdp.losses.counts import audit_etas
from hpcdp.notions.renyi import LARGEST_ORDER
from hpcdp.study.section import (
    DURATION,
    NULL,
    WHOLE,
    Key,
    Section,
    duration_seconds,
    grid_of,
    one_of_types,
    refuse_all_but_one,
)

_LOSS, _LOSS_OF_PARAMETERS = "auto", "knn"
_TAPE = {"keep": "none", "train": 1 << 16}  # what tape = true means where nothing is said
DEFAULT_TEST = 1 << 20
_MOST = 10**13  # outputs of a database in a stage, and of a chunk: a hundred times what the largest runs draw
_MOST_EPSILON = 200  # e^ε must stay far from the largest float
_MOST_ORDERS = 100  # they share a level


def _reuse(value: Any) -> Any:
    if value is True or value is False or value == "auto":
        return value
    raise ValueError('true, false or "auto"')


def _losses(value: Any) -> Any:
    if isinstance(value, str):
        return import_path("hpcdp.losses", value, LOSSES)
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return tuple(value)
    several = "a list of several of them" + "".join(f" without {n}" for n, kind in LOSSES.items() if kind.otherwise)
    accepted = f'{" | ".join(LOSSES)}, or {several}, or "package.module:Class"'
    raise ValueError(f"{accepted}; given: {value!r}")


def _time(value: Any) -> str:
    if isinstance(value, str) and 0.0 < duration_seconds(value) < math.inf:
        return value
    raise ValueError(f'a duration above 0 such as "90s", "10 min", "1.5h" or "1d"; given: {value!r}')


Levels = Annotated[tuple[float, ...], *grid_of([], (), minimum=0, maximum=_MOST_EPSILON)]
"""None are accepted with [pure] and with losses that bound pure ε."""

Etas = Annotated[tuple[float, ...], *grid_of([], (), exclusiveMinimum=0)]
Orders = Annotated[
    tuple[float, ...] | None,
    *grid_of(None, [], (), given=None, most=_MOST_ORDERS, minimum=1, maximum=LARGEST_ORDER),
]
Certified = Annotated[tuple[float, ...] | None, *grid_of(None, given=None, minimum=0, maximum=_MOST_EPSILON)]
Losses = Annotated[str | tuple[str, ...], BeforeValidator(_losses)]
Reuse = Annotated[bool | Literal["auto"], BeforeValidator(_reuse)]


def _views(given: Any) -> Any:
    """Views by name; None where the outputs themselves are meant."""
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else given
    known = [*VIEWS, *plugins("hpcdp.views")]
    is_listed = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not is_listed or not all(":" in name or name in known for name in names) or len(set(names)) < len(names):
        raise ValueError(f'{", ".join(known)}, or "package.module:function", or a list of several different ones')
    return None if tuple(names) in ((), ("value",)) else tuple(names)


_VIEW: tuple[dict[str, Any], ...] = ({"enum": list(VIEWS)}, {"type": "string", "pattern": ":"})
_SEVERAL = {"type": "array", "items": {"anyOf": list(_VIEW)}, "uniqueItems": True}
Views = Annotated[tuple[str, ...] | None, BeforeValidator(_views), one_of_types(*_VIEW, _SEVERAL, NULL)]
Validation = Annotated[int, Field(ge=1, le=_MOST), WHOLE]
Time = Annotated[str, BeforeValidator(_time), one_of_types(DURATION)]


def _method(given: Any) -> Any:
    """The name of an installed package's method, or None."""
    names = plugins("hpcdp.methods")
    if given is not None and given not in names:
        raise ValueError(", ".join(names) or "none: no installed package offers one (entry points hpcdp.methods)")
    return given


class Target(Section):
    """What the certifying stage is for: δ at an ε, or the ε of a δ, to a relative standard error of δ̂; or pure ε."""

    epsilon: Annotated[float, Field(ge=0)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    direction: Literal["forward", "reverse"] | None = None  # of which δ is meant; None: the larger one
    most: Annotated[int, Field(ge=1, le=10**18), WHOLE] = 10**11  # test draws per database
    relative_error: Annotated[float, Field(gt=0, lt=1)] = 0.1
    precision: Annotated[float | None, Field(gt=0, allow_inf_nan=False), Key("learned", absent=None)] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        refuse_all_but_one(self, "epsilon", "delta", "precision")
        if self.precision is not None and (self.direction is not None or self.relative_error != 0.1):
            raise ValueError("precision: with most alone, without direction and relative_error; given: both")
        return self


class Estimate(Section):
    """[estimate]: the loss, how many samples, the grids, what is kept, the confidence."""

    epsilons: Annotated[Levels, Key("family", "gain")] = ()
    loss: Annotated[Losses, Key("pilot")] = _LOSS
    parameters: Annotated[dict[str, Any], Key("pilot")] = Field(default_factory=dict)
    train: Annotated[int, Field(ge=1, le=_MOST), WHOLE, Key("pilot", "grow")] = 1 << 20
    test: Annotated[int, Field(ge=1, le=_MOST), WHOLE, Key("family", "grow")] = DEFAULT_TEST
    chunk: Annotated[int, Field(ge=1, le=_MOST), WHOLE, Key("pilot")] = 1 << 18
    etas: Annotated[Etas, Key("family", "gain", added=audit_etas)] = ()
    keep: Annotated[Literal["all", "train", "none"], Key("nothing")] = "all"
    confidence: Annotated[float, Field(ge=1e-9, lt=1), Key("family")] = 0.95
    refine: Annotated[int, Field(ge=0, le=_MOST), WHOLE, Key("learned", "grow", absent=0)] = 0
    validation: Annotated[Validation | None, Key("learned", "grow", absent=None)] = None
    target: Annotated[Target | None, Key("learned", absent=None)] = None
    time: Annotated[Time | None, Key("learned", absent=None)] = None
    reuse: Annotated[Reuse, Key("learned", "change", absent=False)] = False
    renyi: Annotated[Orders, Key("family", absent=None)] = None
    certify: Annotated[Certified, Key("family", "change", absent=None)] = None
    tape: Annotated[bool, Key("learned", absent=False)] = False
    method: Annotated[str | None, BeforeValidator(_method), Key("learned", absent=None)] = None
    view: Annotated[Views, Key("learned", absent=None)] = None

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        """What other keys mean for those left out: draws of a target, time or tape are many; parameters alone are knn's."""
        if not isinstance(data, dict):
            return data
        tape = _TAPE if data.get("tape") is True else {}
        budget = {"keep": "train"} if any(data.get(key) is not None for key in ("target", "time")) else {}
        return {**({"loss": _LOSS_OF_PARAMETERS} if data.get("parameters") else {}), **budget, **tape, **data}

    @model_validator(mode="after")
    def _sizes_of_the_loss(self) -> Self:
        """Of a study that names neither; the keys are not counted as given, so that another loss in its place has its own."""
        sizes = kind_of(self.default_loss).sizes
        if sizes is not None and not {"train", "test"} & self.model_fields_set:
            self.__dict__.update(train=sizes[0], test=sizes[1])
        return self

    @model_validator(mode="after")
    def _losses_and_parameters(self) -> Self:
        validate_parameters(self.default_loss, self.parameters)
        if isinstance(self.loss, str) or len(self.loss) == 1:
            return self
        if any(kind_of(name).method for name in self.loss):
            raise ValueError(f"loss: several are without literal-knn and histogram; given: {list(self.loss)}")
        for name in self.loss:
            if ":" in name:
                raise ValueError(f"loss: several are losses of hpcdp's own; given: {name!r} among {list(self.loss)}")
            if kind_of(name).otherwise:
                raise ValueError(f"loss: {name} chooses by itself, and is none of several; given: {list(self.loss)}")
        if len(set(self.loss)) < len(self.loss):
            raise ValueError(f"loss: several are distinct; given: {list(self.loss)}")
        for name in self.other_losses:
            validate_parameters(name, {})
        return self

    @property
    def default_loss(self) -> str:
        """The loss, the first of several."""
        return self.loss if isinstance(self.loss, str) else self.loss[0]

    @property
    def foreign(self) -> str | None:
        """The class, loss or view that judges outputs and is not hpcdp's own, if any: bounds rest on its judging each alone."""
        views = (view for view in self.view or () if view not in VIEWS)
        return foreign_code(self.default_loss, self.parameters) or next(views, None)

    @property
    def other_losses(self) -> tuple[str, ...]:
        """The losses after the first, whose parameters are their defaults."""
        return () if isinstance(self.loss, str) else self.loss[1:]

    def with_loss(self, name: str) -> Estimate:
        """The same keys with another loss, which counts as given only where one was."""
        given = {key: getattr(self, key) for key in self.model_fields_set}
        estimate = Estimate.model_validate(given | {"loss": name})
        if "loss" not in given:
            estimate.model_fields_set.discard("loss")
        return estimate

    def without_loss_named(self) -> Estimate:
        """The same keys as in a file that leaves the loss out, which goes on with a store of what took its place too."""
        estimate = self.model_copy()
        estimate.model_fields_set.discard("loss")
        return estimate

    @property
    def certified_direction(self) -> Literal["forward", "reverse"] | None:
        """The direction whose cells alone have bounds of their own: of a tape with `certify`, the target's; None: both have."""
        return self.target.direction if self.tape and self.certify is not None and self.target is not None else None

    @property
    def precision(self) -> float | None:
        """Half the width of the interval of pure ε that is wanted."""
        return None if self.target is None else self.target.precision

    @property
    def pool(self) -> int:
        """Samples per database that teach and test, where they are reused."""
        return self.train + self.test

    @property
    def has_budget(self) -> bool:
        """Whether a run decides the sizes of all stages after training, by tallies."""
        if self.tape:
            return False
        return (self.target is not None and self.target.precision is None) or self.time is not None

    @property
    def seconds(self) -> float | None:
        """How long a run may take."""
        return None if self.time is None else duration_seconds(self.time)

    @property
    def validating(self) -> int:
        """Validation draws per database: as given, else as many as refine."""
        return self.validation if self.validation is not None else self.refine
