"""The section [estimate] of a study file: the loss, how many samples, the grids, targets."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from hpcdp.losses import LOSSES, kind_of, validate_parameters
from hpcdp.losses.counts import audit_etas
from hpcdp.notions.orders import LARGEST_ORDER, ORDER
from hpcdp.study.reuse import FEWEST, least_learned
from hpcdp.study.section import (
    DURATION,
    NULL,
    Key,
    OptionalGrid,
    Section,
    duration_seconds,
    grid,
    grid_ways,
    one_of_types,
)

_LOSS, _LOSS_OF_PARAMETERS = "auto", "knn"
_TAPE = {"keep": "none", "train": 1 << 16}  # what tape = true means where nothing is said
FEWEST_TAPE = 1 << 12
"""Draws of a random tape in a chunk whose outputs are drawn one by one: the fewest that a test has."""

_MOST_TAUGHT = 4096  # ε, of which learning looks at each
_FEWEST_TAUGHT = 1 << 8  # draws of a level
_TEST = 1 << 20
_MOST = 10**13  # outputs of a database in a stage, and of a chunk: a hundred times what the largest runs draw
_MOST_CHUNKS = 10**8  # of a stage: plans and records go through them
_MOST_EPSILON = 200  # e^ε must stay far from the largest float
_MOST_ORDERS = 100  # they share a level


def _reuse(value: Any) -> Any:
    if value is True or value is False or value == "auto":
        return value
    raise ValueError('true, false or "auto"')


def _losses(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return tuple(value)
    several = "a list of several of them" + "".join(f" without {n}" for n, kind in LOSSES.items() if kind.otherwise)
    accepted = f'{" | ".join(LOSSES)}, or {several}, or "package.module:Class"'
    raise ValueError(f"{accepted}; given: {value!r}")


def _time(value: Any) -> str:
    if isinstance(value, str) and 0.0 < duration_seconds(value) < math.inf:
        return value
    raise ValueError(f'a duration above 0 such as "90s", "10 min", "1.5h" or "1d"; given: {value!r}')


def _orders(value: Any) -> Any:
    if value in (None, [], ()):
        return None
    orders = grid(value)
    if len(orders) > _MOST_ORDERS:
        raise ValueError(f"at most {_MOST_ORDERS} orders, which share the level; given: {len(orders)}")
    for order in orders:
        if not 1.0 <= order <= LARGEST_ORDER:
            raise ValueError(f"orders {ORDER}; given: {order:g}")
    return orders


Levels = Annotated[
    tuple[float, ...],
    BeforeValidator(lambda v: v if v == () else grid(v)),
    one_of_types(*grid_ways(empty=True, minimum=0, maximum=_MOST_EPSILON)),
]
"""() is what `Study` makes of no ε, which is accepted with [pure] and with losses that bound pure ε."""

Orders = Annotated[
    tuple[float, ...] | None,
    BeforeValidator(_orders),
    one_of_types(*grid_ways(empty=True, most=_MOST_ORDERS, minimum=1, maximum=LARGEST_ORDER), NULL),
]
Certified = Annotated[
    tuple[float, ...] | None,
    BeforeValidator(lambda v: v if v is None else grid(v)),
    one_of_types(*grid_ways(minimum=0, maximum=_MOST_EPSILON), NULL),
]
Losses = Annotated[str | tuple[str, ...], BeforeValidator(_losses)]
Reuse = Annotated[bool | Literal["auto"], BeforeValidator(_reuse)]

Validation = Annotated[int, Field(ge=1, le=_MOST)]
Time = Annotated[str, BeforeValidator(_time), one_of_types(DURATION)]


class Target(Section):
    """What the certifying stage is for: δ at an ε, or the ε of a δ, to a relative standard error of δ̂; or an interval of pure ε.

    direction: of which δ is meant; None for the larger one. most: test draws per database of a pair, at most. precision: half
    the width of the interval of a loss that has one.
    """

    epsilon: Annotated[float, Field(ge=0)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    direction: Literal["forward", "reverse"] | None = None
    most: Annotated[int, Field(ge=1, le=10**18)] = 10**11
    relative_error: Annotated[float, Field(gt=0, lt=1)] = 0.1
    precision: Annotated[float | None, Field(gt=0, allow_inf_nan=False), Key("learned", absent=None)] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        given = [key for key in ("epsilon", "delta", "precision") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of epsilon, delta, precision; given: {', '.join(given) or 'none'}")
        if self.precision is not None and (self.direction is not None or self.relative_error != 0.1):
            raise ValueError("precision: with most alone, without direction and relative_error; given: both")
        return self


class Estimate(Section):
    """[estimate]: the loss, how many samples, the grids, what is kept, the confidence.

    reuse: whether every sample teaches and tests; "auto" where drawing takes most of the time, as a run finds out. renyi: orders
    of Rényi divergences with a bound of their own, named before anything is counted: a store keeps those that it was made with.
    certify: ε, some of epsilons, whose cells share the level of the bounds; None: all. tape: whether the mechanism's noise is
    drawn from proposals, with a weight for each output.
    """

    epsilons: Annotated[Levels, Key("family", "gain")]
    loss: Annotated[Losses, Key("pilot")] = _LOSS
    parameters: Annotated[dict[str, Any], Key("pilot")] = Field(default_factory=dict)
    train: Annotated[int, Field(ge=1, le=_MOST), Key("pilot", "grow")] = 1 << 20
    test: Annotated[int, Field(ge=1, le=_MOST), Key("family", "grow")] = _TEST
    chunk: Annotated[int, Field(ge=1, le=_MOST), Key("pilot")] = 1 << 18
    etas: Annotated[OptionalGrid, Key("family", "gain", added=audit_etas)] = ()
    keep: Annotated[Literal["all", "train", "none"], Key("nothing")] = "all"
    confidence: Annotated[float, Field(ge=1e-9, lt=1), Key("family")] = 0.95
    refine: Annotated[int, Field(ge=0, le=_MOST), Key("learned", "grow", absent=0)] = 0
    validation: Annotated[Validation | None, Key("learned", "grow", absent=None)] = None
    target: Annotated[Target | None, Key("learned", absent=None)] = None
    time: Annotated[Time | None, Key("learned", absent=None)] = None
    reuse: Annotated[Reuse, Key("learned", "change", absent=False)] = False
    renyi: Annotated[Orders, Key("family", absent=None)] = None
    certify: Annotated[Certified, Key("family", "change", absent=None)] = None
    tape: Annotated[bool, Key("learned", absent=False)] = False

    @model_validator(mode="before")
    @classmethod
    def _sizes_of_a_budget(cls, data: Any) -> Any:
        """A target or a time decides sizes, so none are given; there are too many samples to keep."""
        keys = [key for key in ("target", "time") if isinstance(data, dict) and data.get(key) is not None]
        if not keys or ("target" in keys and not isinstance(data["target"], dict | Target)):
            return data  # which the key itself refuses
        if len(keys) > 1:
            raise ValueError("time: instead of target; given: both")
        given = [f"estimate.{key}" for key in ("refine", "validation") if data.get(key)]
        given += ["estimate.test"] if data.get("test", _TEST) != _TEST else []
        if given:
            raise ValueError(f"{keys[0]}: instead of {', '.join(given)}, which it decides; accepted: one or the other")
        return {"keep": "train", **data}

    @model_validator(mode="before")
    @classmethod
    def _loss_of_parameters(cls, data: Any) -> Any:
        """Parameters without a loss are those of the loss that was the default before one chose by itself."""
        if isinstance(data, dict) and data.get("parameters") and "loss" not in data:
            return {"loss": _LOSS_OF_PARAMETERS, **data}
        return data

    @model_validator(mode="before")
    @classmethod
    def _sizes_of_a_tape(cls, data: Any) -> Any:
        """Draws from proposals teach in levels, each of `train` draws, and none of them can be kept."""
        return {**_TAPE, **data} if isinstance(data, dict) and data.get("tape") is True else data

    @model_validator(mode="after")
    def _sizes_of_the_loss(self) -> Self:
        """Of a study that names neither; the keys are not counted as given, so that another loss in its place has its own."""
        sizes = kind_of(self.default_loss).sizes
        if sizes is not None and not {"train", "test"} & self.model_fields_set:
            self.__dict__.update(train=sizes[0], test=sizes[1])
        return self

    @model_validator(mode="after")
    def _values(self) -> Self:
        if self.epsilons and self.epsilons[0] < 0:
            raise ValueError(f"epsilons: at least 0; given: {self.epsilons[0]}")
        if self.epsilons and self.epsilons[-1] > _MOST_EPSILON:
            raise ValueError(f"epsilons: at most {_MOST_EPSILON}; given: {self.epsilons[-1]}")
        if self.etas and self.etas[0] <= 0:
            raise ValueError(f"etas: above 0; given: {self.etas[0]}")
        if self.validation is not None and not self.refine:
            raise ValueError(
                f"validation: with refine only, whose candidates it chooses among; given: {self.validation}"
            )
        for key in ("train", "test", "refine", "validation"):
            size = getattr(self, key)
            if size is not None and size > _MOST_CHUNKS * self.chunk:
                raise ValueError(
                    f"chunk: at least {-(-size // _MOST_CHUNKS):,} with {key} = {size:,}; given: {self.chunk}"
                )
        if (self.has_budget or self.precision is not None) and self.keep == "all":
            raise ValueError(
                'keep: "train" or "none" with a target or a time: there are too many samples; given: "all"'
            )
        if self.target is not None and self.target.epsilon is not None and self.target.epsilon not in self.epsilons:
            raise ValueError(f"target.epsilon: one of the epsilons; given: {self.target.epsilon}")
        parameters = validate_parameters(self.default_loss, self.parameters)
        self._check_tape()
        self._check_certify()
        self._check_interval()
        if not isinstance(self.loss, str):
            self._check_losses(self.loss)
        points = 2 * self.train
        kind_of(self.default_loss).refuse_points(parameters, points, f"at most all training points, 2·train = {points}")
        if self.reuse is not False:
            self._check_reuse(parameters)
        if self.renyi and kind_of(self.default_loss).way:
            raise ValueError(
                f"renyi: a bound from classes of one L̂ of all levels; given with loss = {self.default_loss!r}, which learns one "
                "for each; accepted: every other loss"
            )
        return self

    @property
    def default_loss(self) -> str:
        """The loss, the first of several."""
        return self.loss if isinstance(self.loss, str) else self.loss[0]

    @property
    def other_losses(self) -> tuple[str, ...]:
        """The losses after the first, whose parameters are their defaults."""
        return () if isinstance(self.loss, str) else self.loss[1:]

    def with_loss(self, name: str) -> Estimate:
        """The same keys with another loss, which counts as given only where one was."""
        given = {key: getattr(self, key) for key in self.model_fields_set}
        found = Estimate.model_validate(given | {"loss": name})
        if "loss" not in given:
            found.model_fields_set.discard("loss")
        return found

    def without_loss_named(self) -> Estimate:
        """The same keys as in a file that leaves the loss out, which goes on with a store of what took its place too."""
        found = self.model_copy()
        found.model_fields_set.discard("loss")
        return found

    def _check_tape(self) -> None:
        """Of cells by ε, whose draws come from proposals: nothing else is read off them."""
        if not self.tape:
            return
        given = [key for key in ("etas", "renyi", "refine", "validation", "time") if getattr(self, key)]
        given += ["reuse"] if self.reuse is not False else []
        given += [f"keep = {self.keep!r}"] if self.keep != "none" else []
        kind = kind_of(self.default_loss)
        given += [f"loss = {self.default_loss!r}"] if not (kind.projects or kind.otherwise) else []
        given += [f"loss = {list(self.loss)}"] if self.other_losses else []
        given += ["target.precision"] if self.precision is not None else []
        if given:
            raise ValueError(
                f"tape: draws from proposals, of which cells by ε are told, and none is kept; given with it: {', '.join(given)}; "
                'accepted: keep = "none", epsilons, certify, target or test, and a loss that brings vectors to a line '
                '("auto", "smooth", "learned")'
            )
        if len(self.epsilons) > _MOST_TAUGHT:
            raise ValueError(f"epsilons: at most {_MOST_TAUGHT:,} with tape; given: {len(self.epsilons):,}")
        if self.train < _FEWEST_TAUGHT:
            raise ValueError(
                f"train: at least {_FEWEST_TAUGHT} with tape, of which each level teaches; given: {self.train}"
            )
        most, key = (self.test, "test") if self.target is None else (self.target.most, "target.most")
        if most < FEWEST_TAPE:
            raise ValueError(f"{key}: at least {FEWEST_TAPE:,} with tape, the draws of a chunk; given: {most:,}")

    def _check_certify(self) -> None:
        """Of cells that are counted once with one L̂."""
        if self.certify is None:
            return
        strange = [f"{epsilon:g}" for epsilon in self.certify if epsilon not in self.epsilons]
        if strange:
            raise ValueError(f"certify: some of the epsilons; given: {', '.join(strange)}")
        given = ["reuse"] if self.reuse is not False else []
        given += [f"loss = {self.default_loss!r}"] if kind_of(self.default_loss).way else []
        if given:
            raise ValueError(
                f"certify: of cells that are counted with one L̂ that training alone decides; given with {' and '.join(given)}; "
                "accepted: reuse = false, and every loss but literal-knn and histogram"
            )

    def _check_interval(self) -> None:
        """What belongs to losses whose way has an interval of pure ε, and what does not."""
        if not kind_of(self.default_loss).bounds_pure:
            if self.precision is not None:
                accepted = " | ".join(name for name, kind in LOSSES.items() if kind.bounds_pure)
                raise ValueError(
                    f"target.precision: of an interval of pure ε, accepted with loss = {accepted}; given: loss = {self.loss!r}"
                )
            return
        given = [f"estimate.{key}" for key in ("etas", "refine", "validation", "time") if getattr(self, key)]
        given += ["estimate.target without precision"] if self.target is not None and self.precision is None else []
        if given:
            raise ValueError(
                f"loss: {self.default_loss} counts bins, and its target is a precision; given with it: {', '.join(given)}; "
                "accepted: none of these, or another loss"
            )

    @property
    def certified_direction(self) -> Literal["forward", "reverse"] | None:
        """The direction whose cells alone have bounds of their own: of a tape with `certify`, the target's; None: both have."""
        return self.target.direction if self.tape and self.certify is not None and self.target is not None else None

    @property
    def precision(self) -> float | None:
        """Half the width of the interval of pure ε that is wanted."""
        return None if self.target is None else self.target.precision

    def _check_losses(self, losses: tuple[str, ...]) -> None:
        if len(losses) > 1 and any(kind_of(name).way for name in losses):
            raise ValueError(f"loss: several are without literal-knn and histogram; given: {list(losses)}")
        for name in losses[1:]:
            validate_parameters(name, {})
        for name in losses:
            if ":" in name and len(losses) > 1:
                raise ValueError(f"loss: several are losses of hpcdp's own; given: {name!r} among {list(losses)}")
            if kind_of(name).otherwise and len(losses) > 1:
                raise ValueError(f"loss: {name} chooses by itself, and is none of several; given: {list(losses)}")
        if len(set(losses)) < len(losses):
            raise ValueError(f"loss: several are distinct; given: {list(losses)}")
        if len(losses) > 1 and not self.refine and not self.has_budget:
            raise ValueError(
                f"loss: several need refine, target or time, which choose among them; given: {list(losses)}"
            )

    def _check_reuse(self, parameters: Any) -> None:
        with_it = [key for key in ("etas", "renyi", "refine", "target", "time") if getattr(self, key)]
        with_it += [f"loss = {list(self.loss)}"] if self.other_losses else []
        with_it += [f"loss = {self.default_loss}"] if kind_of(self.default_loss).way else []
        if with_it:
            raise ValueError(
                f"reuse: cross-fitted are the cells of one loss, learned from train and test samples; given with it: "
                f"{', '.join(with_it)}; accepted: reuse = false, or any one loss but literal-knn without etas, renyi, refine, "
                "target and time"
            )
        if self.pool < FEWEST:
            raise ValueError(f"reuse: at least {FEWEST} samples, train and test together; given: {self.pool}")
        fewest = 2 * least_learned(self.pool)
        words = f"with reuse at most {fewest}, so many points of both sides teach the first L̂"
        kind_of(self.default_loss).refuse_points(parameters, fewest, words)

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
