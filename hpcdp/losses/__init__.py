"""The losses: estimators of L = log(p/q). Importing this imports no numerical library; making a loss does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from hpcdp.losses.parameters import FrequencyParameters, KnnParameters, LiteralKnnParameters

if TYPE_CHECKING:
    from hpcdp.losses._protocol import Loss

__all__ = ["LOSSES", "LossKind", "make_loss", "validate_parameters"]


@dataclass(frozen=True)
class LossKind:
    """A loss by name: its parameters' model, and how to make it (None: it is no `Loss`, it trains anew for each ε)."""

    parameters: type[BaseModel]
    make: Callable[[Any], Loss] | None


def _make_frequency(parameters: FrequencyParameters) -> Loss:
    from hpcdp.losses.frequency import Frequency

    return Frequency(parameters)


def _make_knn(parameters: KnnParameters) -> Loss:
    from hpcdp.losses.knn import Knn

    return Knn(parameters)


LOSSES: Mapping[str, LossKind] = {
    "frequency": LossKind(FrequencyParameters, _make_frequency),
    "knn": LossKind(KnnParameters, _make_knn),
    "literal-knn": LossKind(LiteralKnnParameters, None),
}

_LATER = ("kde", "histogram", "learned")


def _kind(name: str) -> LossKind:
    if name in LOSSES:
        return LOSSES[name]
    why = "comes in a later version; accepted now" if name in _LATER else "is unknown; accepted"
    raise ValueError(f"loss: {name!r} {why}: {', '.join(LOSSES)}")


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
                text = f"unknown; accepted by {name}: {', '.join(model.model_fields)}"
            else:
                text = f"{item['msg'].removeprefix('Input should be ')}; given: {item['input']!r}"
            problems[key] = f"{problems[key].partition(';')[0]}, or {text}" if key in problems else text
        raise ValueError("; ".join(f"parameters.{key}: {text}" for key, text in problems.items())) from None


def make_loss(name: str, parameters: Mapping[str, Any] | BaseModel) -> Loss:
    """The named loss with these parameters, raw or validated.

    Raises:
        ValueError: as `validate_parameters`, or the loss is literal-knn, which has no fit.
    """
    kind = _kind(name)
    raw = parameters if isinstance(parameters, Mapping) else parameters.model_dump()
    validated = validate_parameters(name, raw)
    if kind.make is None:
        raise ValueError(f"loss {name!r} trains anew for each epsilon: hpcdp.losses.literal_knn.testing_risk runs it")
    return kind.make(validated)
