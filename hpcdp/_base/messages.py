"""What pydantic found wrong with a file, in the file's own words: the key, what was given, what is accepted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from hpcdp._check import without_contents


def own_keys(model: type[BaseModel]) -> list[str]:
    """The keys of a table, in their order; what is no key of a file is left out of dumps too."""
    return [name for name, field in model.model_fields.items() if not field.exclude]


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, type[BaseModel], str]]:
    """Every key below a table, "estimate.target.delta", "pairs.given[].d"; the model that has it, and its name there."""
    for name in own_keys(model):
        yield prefix + name, model, name
        for inner, many in nested(model.model_fields[name].annotation):
            yield from keys_of(inner, f"{prefix}{name}{'[]' if many else ''}.")


def nested(annotation: Any) -> Iterator[tuple[type[BaseModel], bool]]:
    """The models inside an annotation, and whether each is in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, False
        return
    for part in get_args(annotation):
        for model, many in nested(part):
            yield model, many or get_origin(annotation) is list


def model_at(model: type[BaseModel], location: tuple[Any, ...]) -> type[BaseModel]:
    """The table at a place, as far as the place leads; of several ways to write it, the list where a number follows."""
    for number, part in enumerate(location):
        field = model.model_fields.get(part) if isinstance(part, str) else None
        models = list(nested(field.annotation)) if field is not None else []
        if models:
            listed = any(isinstance(later, int) for later in location[number + 1 : number + 2])
            model = next((inner for inner, many in models if many is listed), models[0][0])
    return model


_SETTINGS = {"relation", "rows", "file", "call", "index", "exchangeable", "lower", "upper", "points", "lipschitz"}
"""Keys below [pairs] that hold no row of a database."""


def did_you_mean(given: str, accepted: Iterable[str]) -> str:
    """What was meant, perhaps, to be put after a message; empty where nothing that is accepted is close."""
    close = get_close_matches(given, list(accepted), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def describe_errors(error: ValidationError, model: type[BaseModel], where: Callable[[str], str] | None = None) -> str:
    """One line that names every key that is wrong. where: what follows each message, to say where its key is written."""
    messages = [_explain(model, item) for item in error.errors()]
    return "; ".join(messages if where is None else (message + where(message) for message in messages))


def explain_each(error: ValidationError, model: type[BaseModel], name: str, given: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with parameters, by key, "(all)" for all together; parts of a place not in `given` name a form, no key."""
    problems: dict[str, str] = {}
    for item in error.errors():
        place, within = [], cast(Any, given)
        for part in item["loc"]:
            inside = (
                part in within
                if isinstance(within, Mapping)
                else isinstance(within, list | tuple) and isinstance(part, int)
            )
            if inside:
                within = within[part]
            elif item["type"] != "missing" or part != item["loc"][-1]:
                continue
            place.append(str(part))
        key = ".".join(place) or "(all)"
        if item["type"] == "extra_forbidden":
            known = ", ".join(model.model_fields) or "none"
            text = f"unknown; accepted by {name}: {known}{did_you_mean(key, model.model_fields)}"
        elif item["type"] == "missing" and len(place) == 1:
            text = f"required and missing; accepted by {name}: {', '.join(model.model_fields)}"
        else:
            text = _said(item)
            text += "" if "given:" in text else f"; given: {_short(item['input'])}"
        problems[key] = f"{problems[key].partition('; given: ')[0]}, or {text}" if key in problems else text
    return problems


def accepted_keys(model: type[BaseModel], location: tuple[Any, ...] = ()) -> str:
    """The keys that the table at this location accepts."""
    return ", ".join(own_keys(model_at(model, location)))


def _nearest(model: type[BaseModel], location: tuple[Any, ...]) -> str:
    """The key that was meant, perhaps: of the same table, or else one of that name in another."""
    given = str(location[-1])
    if near := did_you_mean(given, own_keys(model_at(model, location[:-1]))):
        return near
    names: dict[str, str] = {}
    for key, _, name in keys_of(model):
        names.setdefault(name, key)
    close = given if given in names else next(iter(get_close_matches(given, names, n=1)), None)
    return f"; did you mean {names[close]}?" if close else ""


def _explain(model: type[BaseModel], item: Any) -> str:
    """One problem in the words of the study file."""
    location = tuple(part for part in item["loc"] if not (isinstance(part, str) and re.search(r"[\[\(]", part)))
    key = ".".join(str(part) for part in location)
    kind, given = item["type"], _given(location, item)
    if kind == "extra_forbidden":
        accepted = accepted_keys(model, location[:-1])
        return f"{key}: unknown key (given: {given}); accepted: {accepted}{_nearest(model, location)}"
    if kind == "missing":
        return f"{key}: required and missing; accepted keys here: {accepted_keys(model, location[:-1])}"
    message = _said(item)
    if not key:  # of the whole file: it names its keys itself
        return message
    if kind == "value_error" and isinstance(item["input"], dict):  # of a whole section: it names its key itself
        inner = message.partition(":")[0].partition(".")[0].partition(" ")[0]
        named = inner in accepted_keys(model, location).split(", ")
        return f"{key}.{message}" if named else f"{key}: {message}"
    return f"{key}: {message}" + ("" if "given:" in message else f"; given: {given}")


_TYPES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "a text in quotes",
    "list": "a list",
    "dict": "a table",
    "model": "a table",
}

_LIMITS = {
    "greater_than_equal": "at least {ge:.15g}",
    "greater_than": "above {gt:.15g}",
    "less_than_equal": "at most {le:.15g}",
    "less_than": "below {lt:.15g}",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "string_too_short": "a text that is not empty",
}


def _said(item: Any) -> str:
    """What is accepted, or else what pydantic or a section says."""
    kind, _, fault = item["type"].partition("_")
    if fault in ("type", "parsing", "from_float") and kind in _TYPES:
        return _TYPES[kind]
    if item["type"] in _LIMITS:
        return _LIMITS[item["type"]].format(**item["ctx"])
    message: str = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return message


def _given(location: tuple[Any, ...], item: Any) -> str:
    """What was given, in words: of what may be a database, or stand at the wrong place, its kind alone."""
    value, is_known = item["input"], item["type"] != "extra_forbidden"
    is_told = value is None or isinstance(value, str | int | float)
    if not {"pairs", "population"}.isdisjoint(location):
        is_known = is_told = is_told and is_known and not _SETTINGS.isdisjoint(location[-2:])
    if is_told or is_known:
        return _short(value)
    return without_contents(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
