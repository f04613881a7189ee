"""The losses: estimators of L = log(p/q). Importing this imports no numerical library; making a loss does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from hpcdp._base.messages import did_you_mean
from hpcdp._base.parent import at_risk
from hpcdp.errors import WRONG, StudyError
from hpcdp.losses.parameters import (
    FrequencyParameters,
    KdeParameters,
    KnnParameters,
    LearnedParameters,
    LiteralKnnParameters,
    SmoothParameters,
)

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema

__all__ = [
    "LOSSES",
    "PROJECTING",
    "VALUED",
    "LossKind",
    "foreign_code",
    "make_loss",
    "named_code",
    "refuse_unusable",
    "stores_pickles",
    "validate_parameters",
]


@dataclass(frozen=True)
class LossKind:
    """A loss by name: its parameters' model, and how to make it (None: it is no `Loss`, it trains anew for each ε).

    refuse: raises ValueError where parameters, what the outputs look like and how many train it do not go together. code:
    the parameter that may name a user's class, "package.module:Class". way: of estimating, where it has its own.
    """

    parameters: type[BaseModel]
    make: Callable[[Any], Loss] | None
    refuse: Callable[[Any, Schema, int], None] | None = None
    code: str | None = None
    way: str | None = None


def _make_frequency(parameters: FrequencyParameters) -> Loss:
    from hpcdp.losses.frequency.frequency import Frequency

    return Frequency(parameters)


def _make_knn(parameters: KnnParameters) -> Loss:
    from hpcdp.losses.knn.knn import Knn

    return Knn(parameters)


def _make_learned(parameters: LearnedParameters) -> Loss:
    from hpcdp.losses.learned.learned import Learned

    return Learned(parameters)


def _refuse_unlearnable(parameters: LearnedParameters, schema: Schema, train: int) -> None:
    from hpcdp.losses.learned.learned import refuse_unlearnable

    refuse_unlearnable(parameters, schema, train)


def _make_kde(parameters: KdeParameters) -> Loss:
    from hpcdp.losses.kde.kde import Kde

    return Kde(parameters)


def _refuse_unestimable(parameters: KdeParameters, schema: Schema, train: int) -> None:  # noqa: ARG001
    from hpcdp.losses.kde.kde import refuse_unestimable

    refuse_unestimable(schema)


def _make_smooth(parameters: SmoothParameters) -> Loss:
    from hpcdp.losses.smooth.smooth import Smooth

    return Smooth(parameters)


def _refuse_unsmooth(parameters: SmoothParameters, schema: Schema, train: int) -> None:  # noqa: ARG001
    from hpcdp.losses.smooth.smooth import refuse_unsmooth

    refuse_unsmooth(schema)


LOSSES: Mapping[str, LossKind] = {
    "frequency": LossKind(FrequencyParameters, _make_frequency),
    "kde": LossKind(KdeParameters, _make_kde, _refuse_unestimable),
    "knn": LossKind(KnnParameters, _make_knn),
    "learned": LossKind(LearnedParameters, _make_learned, _refuse_unlearnable, code="classifier"),
    "literal-knn": LossKind(LiteralKnnParameters, None, way="literal"),
    "smooth": LossKind(SmoothParameters, _make_smooth, _refuse_unsmooth),
}

_OURS = frozenset(LOSSES)

_LATER = ("histogram",)

PROJECTING = ("smooth", "learned")
"""Losses that bring vectors to a line, on which tallies can refine them."""

VALUED = ("frequency",)
"""Losses that tell values apart, which tallies can count."""


def _kind(name: str) -> LossKind:
    if name in LOSSES:
        return LOSSES[name]
    why = "comes in a later version; accepted now" if name in _LATER else "is unknown; accepted"
    raise ValueError(f"loss: {name!r} {why}: {', '.join(LOSSES)}{did_you_mean(name, LOSSES)}")


def validate_parameters(name: str, parameters: Mapping[str, Any]) -> BaseModel:
    """The parameters of the named loss as a frozen pydantic model.

    Raises:
        ValueError: the loss is unknown or comes later ("loss: …"), or a parameter is wrong ("parameters.NAME: …").
    """
    model = _kind(name).parameters
    try:
        return model.model_validate(dict(parameters))
    except ValidationError as error:
        problems: dict[str, str] = {}
        for item in error.errors():
            key = str(item["loc"][0])
            if item["type"] == "extra_forbidden":
                text = f"unknown; accepted by {name}: {', '.join(model.model_fields)}{did_you_mean(key, model.model_fields)}"
            else:
                text = f"{item['msg'].removeprefix('Input should be ')}; given: {item['input']!r}"
            problems[key] = f"{problems[key].partition(';')[0]}, or {text}" if key in problems else text
        raise ValueError("; ".join(f"parameters.{key}: {text}" for key, text in problems.items())) from None


def named_code(name: str, parameters: Mapping[str, Any]) -> str | None:
    """The "package.module:Class" that a loss's parameters name, if any."""
    key = _kind(name).code
    given = parameters.get(key) if key else None
    return given if isinstance(given, str) and ":" in given else None


def stores_pickles(name: str, parameters: Mapping[str, Any]) -> bool:
    """Whether what a loss learns may be stored as a pickle, whose reading can run code."""
    found = validate_parameters(name, parameters)
    return isinstance(found, LearnedParameters) and found.is_pickled


def foreign_code(name: str, parameters: Mapping[str, Any]) -> str | None:
    """The class or loss that judges outputs and is not hpcdp's own, if any: bounds rest on its judging them one by one."""
    return named_code(name, parameters) if name in _OURS else name


def _import_code(name: str, parameters: Mapping[str, Any], folder: Path | None) -> None:
    """Import a class that lies in the study's folder, so that the loss finds it."""
    path = named_code(name, parameters)
    if path is not None and folder is not None:
        from hpcdp.mechanisms.user_code import import_callable

        import_callable(path, folder, f"estimate.parameters.{_kind(name).code}")


def make_loss(name: str, parameters: Mapping[str, Any] | BaseModel, folder: Path | None = None) -> Loss:
    """The named loss with these parameters, raw or validated. folder: where modules of the study's own lie.

    Raises:
        ValueError: as `validate_parameters`, or the loss is literal-knn, which has no fit.
    """
    kind = _kind(name)
    raw = parameters if isinstance(parameters, Mapping) else parameters.model_dump()
    validated = validate_parameters(name, raw)
    if kind.make is None:
        raise ValueError(f"loss {name!r} trains anew for each epsilon: hpcdp.losses.knn.literal.testing_risk runs it")
    _import_code(name, raw, folder)
    return kind.make(validated)


def refuse_unusable(
    name: str, parameters: Mapping[str, Any], schema: Schema, train: int, folder: Path | None = None
) -> None:
    """Refuse a loss that could not learn from `train` outputs a side that look like this.

    It imports what the loss needs, where `validate_parameters` only reads what the study says.

    Raises:
        StudyError: names the key, what was given and what is accepted.
    """
    found = _kind(name)
    if found.refuse is None:
        return
    _import_code(name, parameters, folder)
    try:
        with at_risk(f"estimate.loss {name} (trial)", WRONG):
            found.refuse(validate_parameters(name, parameters), schema, train)
    except ValueError as error:
        raise StudyError(f"estimate.{error}") from None
