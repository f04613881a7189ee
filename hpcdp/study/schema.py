"""The JSON Schema of study files, from the models that read them: for editors, forms and other programs."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from hpcdp._base.messages import keys_of
from hpcdp.losses import LOSSES
from hpcdp.mechanisms import BUILTINS, SCORES, STORED, load_builtin
from hpcdp.study.at_risk import Population
from hpcdp.study.estimate import Target
from hpcdp.study.file import Header, Study
from hpcdp.study.mechanism import FunctionCall
from hpcdp.study.pairs import Framed, FramedRows, Pairs, Relative

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

OF_STORES = (FunctionCall, Framed, FramedRows)
"""What stores say of objects that were given from Python, and no file does."""

_TEXTS = tomllib.loads((files("hpcdp.study") / "described.toml").read_text(encoding="utf-8"))
UNITS: dict[str, str] = _TEXTS.pop("units")
"""What numbers of a study file are in, by key; what is not here takes no numbers of its own."""


def study_schema() -> dict[str, Any]:
    """Draft 2020-12 of the study file. What no schema can say (sums, the mechanism's outputs) only a run refuses."""
    schema = Study.model_json_schema()
    kinds, texts = schema["$defs"], described()
    del schema["properties"]["folder"]
    places = {Study.__name__: schema, **kinds}
    for key, model, name in keys_of(Study):
        if model in OF_STORES:
            continue
        place = places[model.__name__]["properties"][name]
        place["description"] = _plain(texts.get(key, "")) if "." in key else f"The section [{key}]."
        if key in UNITS:
            place["x-unit"] = UNITS[key]
        if (make := model.model_fields[name].default_factory) is not None:
            place["default"] = make()  # type: ignore[call-arg]
        place.pop("title", None)
    for of_stores in OF_STORES:
        _leave_out(schema, {"$ref": f"#/$defs/{of_stores.__name__}"})
        del kinds[of_stores.__name__]
    for model, keys in (
        (Pairs, ("given", "relative", "distributional", "domain")),
        (Relative, ("databases", "file", "call")),
        (Target, ("epsilon", "delta", "precision")),
        (Population, ("file", "call")),
    ):
        kinds[model.__name__]["oneOf"] = [_given(key) for key in keys]
    kinds[Relative.__name__]["if"] = _given("values")
    kinds[Relative.__name__]["then"] = {"properties": {"relation": {"const": "edit"}}, "required": ["relation"]}
    kinds[Header.__name__]["properties"]["name"]["pattern"] = "^[A-Za-z0-9_+-][A-Za-z0-9._+-]*$"
    several = {"type": "array", "items": {"$ref": "#/$defs/Distributional"}, "minItems": 1}
    pairs = kinds[Pairs.__name__]["properties"]
    pairs["given"]["anyOf"][0]["oneOf"][0]["minItems"] = 1
    pairs["distributional"]["anyOf"] = [{"$ref": "#/$defs/Distributional"}, several, {"type": "null"}]
    for key in ("databases", "values"):
        kinds[Relative.__name__]["properties"][key]["anyOf"][0]["minItems"] = 1
    kinds["AtRisk"]["properties"]["query"]["pattern"] = ":"
    kinds["Distributional"]["properties"]["values"] |= {"minItems": 2, "uniqueItems": True}
    _say_sections(schema)
    _say_losses(kinds, texts)
    kinds["MechanismSection"]["allOf"] = list(_mechanisms())
    text = "A study file of hpcdp: TOML, whose paths are relative to it. What no schema can say is refused before anything runs."
    return {"$schema": _DIALECT, **schema, "title": "A study of hpcdp", "description": text}


def described() -> dict[str, str]:
    """What every key means, and every parameter of a loss ("knn.k"), in Markdown."""
    return _TEXTS


def _plain(text: str) -> str:
    """Markdown without its marks: links keep their words."""
    return re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])+)\]\([^)]+\)", r"\1", text).replace("`", "").replace("**", "")


def _leave_out(place: Any, alternative: dict[str, Any]) -> None:
    """Take one alternative out of every list of alternatives."""
    for inner in list(place.values() if isinstance(place, dict) else place if isinstance(place, list) else ()):
        _leave_out(inner, alternative)
    if isinstance(place, list) and alternative in place:
        place.remove(alternative)


def _given(key: str) -> dict[str, Any]:
    """A table in which a key is given, and is not null, which TOML lacks."""
    return {"required": [key], "properties": {key: {"not": {"type": "null"}}}}


def _say_sections(schema: dict[str, Any]) -> None:
    """[at_risk] says all that other sections would; ε may be left out with [pure] and with a loss that bounds pure ε."""
    others = [key for key in schema["required"] if key != "study"]
    schema["required"] = ["study"]
    del schema["$defs"]["Estimate"]["properties"]["epsilons"]["default"]
    schema["if"], schema["then"] = _given("at_risk"), {"not": {"anyOf": [_given(key) for key in (*others, "pure")]}}
    spared = [name for name, kind in LOSSES.items() if kind.bounds_pure]
    bounds = {"properties": {"estimate": {"required": ["loss"], "properties": {"loss": {"enum": spared}}}}}
    points = {"properties": {"estimate": {"required": ["epsilons"], "properties": {"epsilons": {"minItems": 1}}}}}
    schema["else"] = {"required": others, "anyOf": [_given("pure"), bounds, points]}


def _say_losses(kinds: dict[str, Any], texts: dict[str, str]) -> None:
    """The names of losses, and of each its parameters, described where their model begins."""
    estimate, names = kinds["Estimate"], {"enum": list(LOSSES)}
    rules: list[dict[str, Any]] = [{"not": {"allOf": [_given("target"), _given("time")]}}]
    own = {"type": "string", "pattern": ":"}
    single = {"type": "array", "items": {"anyOf": [names, own]}, "minItems": 1, "maxItems": 1}
    alone = [name for name, kind in LOSSES.items() if kind.method or kind.otherwise]
    ours = {"enum": [name for name in LOSSES if name not in alone]}
    several = {"type": "array", "items": ours, "minItems": 2, "uniqueItems": True}
    estimate["properties"]["loss"]["anyOf"] = [names, own, single, several]
    refined: dict[str, Any] = {"required": ["refine"], "properties": {"refine": {"minimum": 1}}}
    chosen = {"anyOf": [refined, _given("target"), _given("time")]}
    rules.append({"if": {"required": ["loss"], "properties": {"loss": several}}, "then": chosen})
    for name, kind in LOSSES.items():
        parameters = kind.parameters.model_json_schema(ref_template=f"#/$defs/{name}/$defs/{{model}}")
        kinds[name] = parameters
        told = next(other for other, loss in LOSSES.items() if issubclass(kind.parameters, loss.parameters))
        for key, place in parameters["properties"].items():
            place["description"] = _plain(texts.get(f"{told}.{key}", ""))
            place.pop("title", None)
        first = {"anyOf": [{"const": name}, {"type": "array", "minItems": 1, "prefixItems": [{"const": name}]}]}
        then: dict[str, Any] = {"properties": {"parameters": {"$ref": f"#/$defs/{name}"}}}
        if parameters.get("required"):
            then["required"] = ["parameters"]
        rules.append({"if": {"required": ["loss"], "properties": {"loss": first}}, "then": then})
    knn = {"properties": {"parameters": {"$ref": "#/$defs/knn"}}}
    rules.append({"if": {"not": {"required": ["loss"]}}, "then": knn})  # whose parameters they are then
    estimate["allOf"] = rules


def _mechanisms() -> Iterator[dict[str, Any]]:
    """Of each built-in mechanism which parameters it takes."""
    taken = {STORED: ({"files"}, {"files"}), SCORES: ({"files", "score"}, {"files", "score", "parameters"})}
    for name in BUILTINS:
        own = [p for p in inspect.signature(load_builtin(name)).parameters.values() if p.kind is p.KEYWORD_ONLY]
        taken[name] = ({p.name for p in own if p.default is p.empty}, {p.name for p in own})
    for name, (required, known) in taken.items():
        parameters = {"propertyNames": {"enum": sorted(known)}, "required": sorted(required)}
        then: dict[str, Any] = {"properties": {"parameters": parameters}}
        if required:
            then["required"] = ["parameters"]
        yield {"if": {"properties": {"call": {"const": name}}}, "then": then}
