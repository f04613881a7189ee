"""Losses: estimators of L by name. To add one, write its file and name it here; nothing else changes.

Importing this package imports no numerical library: study files are validated with it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pydantic

from hpcdp.losses.parameters import FrequencyParameters, KnnParameters, LiteralKnnParameters

if TYPE_CHECKING:
    from hpcdp.losses._protocol import Loss

PARAMETERS: Mapping[str, type[pydantic.BaseModel]] = {
    "knn": KnnParameters,
    "frequency": FrequencyParameters,
    "literal-knn": LiteralKnnParameters,
}
"""What each loss accepts in `estimate.parameters`."""

_LOSSES = {"knn": "hpcdp.losses.knn:Knn", "frequency": "hpcdp.losses.frequency:Frequency"}
_LATER = ("kde", "histogram", "learned")


def validate_parameters(name: str, parameters: Mapping[str, Any]) -> pydantic.BaseModel:
    """The validated parameters of a loss; ValueError names the loss or the parameter, what was given and accepted."""
    if name in _LATER:
        raise ValueError(f"loss {name!r} comes in a later version; accepted now: {', '.join(PARAMETERS)}")
    if name not in PARAMETERS:
        raise ValueError(f"no loss {name!r}; accepted: {', '.join(PARAMETERS)}")
    model = PARAMETERS[name]
    try:
        return model.model_validate(dict(parameters))
    except pydantic.ValidationError as error:
        problems = []
        for item in error.errors():
            key = str(item["loc"][0]) if item["loc"] else "parameters"
            if item["type"] == "extra_forbidden":
                text = f"parameters.{key}: unknown; accepted by {name}: {', '.join(model.model_fields)}"
            else:
                text = f"parameters.{key}: {item['msg']}; given: {item['input']!r}"
            problems.append(text)
        raise ValueError("; ".join(problems)) from None


def make_loss(name: str, parameters: Mapping[str, Any]) -> Loss:
    """The loss of a study; literal-knn is none (its cells draw and train for themselves)."""
    validated = validate_parameters(name, parameters)
    module, _, kind = _LOSSES[name].partition(":")
    made: Loss = getattr(importlib.import_module(module), kind)(validated)
    return made
