"""The keys of a file that pydantic models describe, those of tables within tables too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel


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
        found = list(nested(field.annotation)) if field is not None else []
        if found:
            listed = any(isinstance(later, int) for later in location[number + 1 : number + 2])
            model = next((inner for inner, many in found if many is listed), found[0][0])
    return model
