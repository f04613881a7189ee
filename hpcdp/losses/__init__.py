"""The losses: estimators of L = log(p/q). Importing this imports none of their code; making a loss does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from hpcdp._base.doing import at_risk
from hpcdp._base.messages import did_you_mean
from hpcdp._base.plugins import plugins
from hpcdp.errors import MechanismError, StudyError
from hpcdp.losses.kind import LossKind, NamedKind, check_parameters
from hpcdp.losses.learned.parameters import LearnedKind
from hpcdp.losses.parameters import AutoKind, FrequencyKind, HistogramKind, KdeKind, KnnKind, LiteralKnnKind, SmoothKind
from hpcdp.mechanisms.user_code import import_callable

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema

__all__ = [
    "LOSSES",
    "VIEWS",
    "LossKind",
    "foreign_code",
    "kind_of",
    "make_loss",
    "named_code",
    "refuse_outputs",
    "refuse_unusable",
    "stores_pickles",
    "validate_parameters",
]

LOSSES: Mapping[str, LossKind] = {
    "auto": AutoKind(),
    "frequency": FrequencyKind(),
    "histogram": HistogramKind(),
    "kde": KdeKind(),
    "knn": KnnKind(),
    "learned": LearnedKind(),
    "literal-knn": LiteralKnnKind(),
    "smooth": SmoothKind(),
}

VIEWS = ("value", "bits")
"""Names of hpcdp's own views (`hpcdp.losses.views`)."""

_OURS = frozenset(LOSSES)


def kind_of(name: str, folder: Path | None = None) -> LossKind:
    """What a loss says about itself; of a user's class, "package.module:Class", without loading it. folder: the study's."""
    if name in LOSSES:
        return LOSSES[name]
    if ":" in name:
        return NamedKind(name, folder or Path.cwd())
    known = [*LOSSES, *plugins("hpcdp.losses")]
    accepted = f'{", ".join(known)}, or "package.module:Class"'
    raise ValueError(f"loss: {name!r} is unknown; accepted: {accepted}{did_you_mean(name, known)}")


def validate_parameters(name: str, parameters: Mapping[str, Any]) -> BaseModel:
    """The named loss's parameters as a frozen model; ValueError: "loss: …" is unknown, or "parameters.NAME: …" wrong."""
    return check_parameters(kind_of(name).parameters, name, parameters)


def named_code(name: str, parameters: Mapping[str, Any]) -> str | None:
    """The user's class, "package.module:Class", that a loss is, or that its parameters name, if any."""
    key = kind_of(name).code
    given = name if ":" in name else parameters.get(key) if key else None
    return given if isinstance(given, str) and ":" in given else None


def stores_pickles(name: str, parameters: Mapping[str, Any]) -> bool:
    """Whether what a loss learns may be stored as a pickle, whose reading can run code."""
    return kind_of(name).is_pickled(validate_parameters(name, parameters))


def foreign_code(name: str, parameters: Mapping[str, Any]) -> str | None:
    """The class or loss that judges outputs and is not hpcdp's own, if any: bounds rest on its judging them one by one."""
    return named_code(name, parameters) if name in _OURS else name


def _import_code(name: str, parameters: Mapping[str, Any], folder: Path | None) -> None:
    """Import a class that lies in the study's folder, so that the loss finds it."""
    path, key = named_code(name, parameters), kind_of(name).code
    if path is not None and folder is not None and key is not None:
        import_callable(path, folder, f"estimate.parameters.{key}")


def make_loss(name: str, parameters: Mapping[str, Any] | BaseModel, folder: Path | None = None) -> Loss:
    """The named loss with these parameters, from the study's folder; ValueError where they are wrong, or it has no fit."""
    raw = parameters if isinstance(parameters, Mapping) else parameters.model_dump()
    validated = validate_parameters(name, raw)
    _import_code(name, raw, folder)
    return kind_of(name, folder).make(validated)


def refuse_unusable(
    name: str, parameters: Mapping[str, Any], schema: Schema, train: int, folder: Path | None = None
) -> None:
    """StudyError where a loss, whose code it imports, could not learn from `train` outputs per database of this schema."""
    kind = kind_of(name, folder)
    _import_code(name, parameters, folder)
    try:
        with at_risk(f"estimate.loss {name} (trial)"):
            kind.refuse(validate_parameters(name, parameters), schema, train)
    except StudyError:
        raise
    except MechanismError as error:
        raise StudyError(str(error)) from None
    except ValueError as error:
        raise StudyError(f"estimate.{error}") from None


def refuse_outputs(name: str, parameters: Mapping[str, Any], least: float, most: float) -> None:
    """StudyError where a loss does not accept real outputs between these, seen in trial draws."""
    try:
        kind_of(name).refuse_outputs(validate_parameters(name, parameters), least, most)
    except ValueError as error:
        raise StudyError(f"estimate.{error} (seen in trial draws)") from None
