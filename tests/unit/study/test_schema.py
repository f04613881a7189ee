"""The JSON Schema of study files: it accepts what the models accept, and refuses what they refuse where a schema can say so."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import call
from jsonschema import Draft202012Validator
from pydantic.fields import FieldInfo
from study_keys import study_keys_page
from study_tables import STUDIES, Path_, places, shipped

from hpcdp._base.models import keys_of
from hpcdp.errors import StudyError
from hpcdp.losses import LOSSES
from hpcdp.study.at_risk import AtRisk
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Study
from hpcdp.study.schema import OF_STORES, UNITS, described, study_schema

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    found = json.loads(call("schema").stdout)
    assert found["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


@pytest.mark.parametrize("text", list(shipped()))
def test_what_is_shipped_is_valid_unless_the_models_refuse_it(text: str, schema: Draft202012Validator) -> None:
    given = tomllib.loads(text)
    assert schema.is_valid(given) is accepted(given)


def accepted(given: dict[str, Any]) -> bool:
    """Whether the models accept a study."""
    try:
        Study.from_dict(copy.deepcopy(given))
    except StudyError:
        return False
    return True


WRONG: list[Any] = [
    None,
    "",
    "x",
    "a:b",
    "90 min",
    -1,
    0,
    1,
    2.5,
    0.5,
    1e31,
    True,
    [],
    [0.5],
    [-1.0],
    [1, 1],
    [["x"]],
    {},
]
WRONG += [{"start": 0.0, "stop": 1.0, "count": 3}, {"start": 0.0, "stop": 1.0}, {"zzz": 1}, ["knn", "smooth"], "../x"]


def test_every_key_of_the_study_file_stands_in_some_study() -> None:
    """So that those below try each; a key that is new is missing here."""
    found = {re_keyed(path) for study in STUDIES.values() for path, _ in places(study)}
    tables = {"pairs.relative.call", "estimate.target.delta", "estimate.target.precision", "at_risk.population.file"}
    tables |= {"pairs.given.call", "pairs.given.parameters"}  # one of several ways, of which another stands there
    assert {key for key, model, _ in keys_of(Study) if model not in OF_STORES} - tables <= found


def re_keyed(path: Path_) -> str:
    """A place as docs/study.md writes it."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def changed(study: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    """The study with another value at a place; ... takes the key out."""
    found = copy.deepcopy(study)
    *outer, last = path
    there: Any = found
    for part in outer:
        there = there[part]
    if value is ...:
        del there[last]
    else:
        there[last] = value
    return found


def variants(study: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The study with one thing changed: a key taken out, given another value, or added that nothing knows."""
    for path, value in places(study):
        key = re_keyed(path)
        if not path or "mechanism.parameters" in key or ".parameters." in f".{key}":
            continue  # what a mechanism takes, its function says, and a run asks it
        yield f"{key} out", changed(study, path, ...)
        for wrong in WRONG:
            yield f"{key} = {wrong!r}", changed(study, path, wrong)
        if isinstance(value, dict) and not key.endswith("parameters"):
            yield f"{key}.zzz", changed(study, (*path, "zzz"), 1)


@pytest.mark.parametrize("name", STUDIES)
def test_the_schema_accepts_what_the_models_accept(name: str, schema: Draft202012Validator) -> None:
    assert accepted(STUDIES[name])
    assert [e.message for e in schema.iter_errors(STUDIES[name])] == []
    wrong = [what for what, study in variants(STUDIES[name]) if accepted(study) and not schema.is_valid(study)]
    assert wrong == []


CANNOT_SAY = {
    "given": {
        "estimate.epsilons = [0.5]",  # which certify is not among
        "estimate.epsilons[] out",
        "estimate.epsilons[] = 2.5",
        "estimate.epsilons[] = 0.5",
        "estimate.certify = [0.5]",
        "estimate.certify = {'start': 0.0, 'stop': 1.0, 'count': 3}",
        "estimate.certify[] = 2.5",
        "estimate.certify[] = 0.5",
    },
    "relative": {
        "pairs.relative.rows[] = 1e+31",  # an integer, to a schema
        "estimate.epsilons.start = 1",  # stop is not above it
        "estimate.epsilons.start = 2.5",
        "estimate.epsilons.stop = -1",
        "estimate.epsilons.stop = 0",
        "estimate.epsilons.stop = 1e+31",  # far above: but of a grid of one point it may be
    },
    "distributional": {"pairs.distributional[].index[] = 1e+31"},
    "target": {
        "estimate.epsilons = [0.5]",  # of which the target is to be one
        "estimate.epsilons[] out",
        "estimate.epsilons[] = 2.5",
        "estimate.epsilons[] = 0.5",
        "estimate.target.epsilon = 2.5",
        "estimate.target.epsilon = 0.5",
        "estimate.target.epsilon = 1e+31",
    },
    "tape": {"estimate.tape out"},  # with mechanism.impossible, of another section
    "domain": {
        "pairs.domain.lower = 1",  # not below upper
        "pairs.domain.lower = 2.5",
        "pairs.domain.lower = 1e+31",
        "pairs.domain.upper = -1",
        "pairs.domain.upper = 0",
    },
    "pure": {
        "pure.within[] = [1, 1]",  # low is not below high
        "pure.within[][] = 1",
        "pure.within[][] = 2.5",
        "pure.within[][] = 1e+31",
        "pure.within[][] = -1",
        "pure.within[][] = 0",
    },
    "at_risk": {"at_risk.pairs = 1"},  # too few for the largest cover
}
"""Of the variants that the models refuse those that the schema accepts, and why: numbers that are compared, other sections."""


@pytest.mark.parametrize("name", STUDIES)
def test_the_schema_refuses_what_the_models_refuse_where_it_can_say_so(name: str, schema: Draft202012Validator) -> None:
    found = {what for what, study in variants(STUDIES[name]) if not accepted(study) and schema.is_valid(study)}
    assert found == CANNOT_SAY.get(name, set())


@pytest.mark.parametrize(
    "section, key, wrong",
    [
        ("estimate", "parameters", {"k": 0}),
        ("estimate", "parameters", {"metrik": "euclidean"}),
        ("estimate", "loss", "knm"),
        ("mechanism", "parameters", {"epsilno": 1.0}),
        ("pairs", "relative", {"file": "x.csv"}),  # beside given
    ],
)
def test_parameters_and_ways_are_checked_too(section: str, key: str, wrong: Any, schema: Draft202012Validator) -> None:
    assert not schema.is_valid(changed(STUDIES["given"], (section, key), wrong))


def test_a_missing_parameter_is_missed(schema: Draft202012Validator) -> None:
    assert not schema.is_valid(changed(STUDIES["domain"], ("estimate", "parameters"), ...))
    assert not schema.is_valid(changed(STUDIES["domain"], ("estimate", "parameters"), {"range": [0.0, 1.0]}))
    pmf = changed(STUDIES["given"], ("mechanism", "call"), "pmf")
    assert not schema.is_valid(changed(pmf, ("mechanism", "parameters"), ...))


def test_every_key_has_a_description_and_every_number_a_unit(schema: Draft202012Validator) -> None:
    kinds = {"Study": schema.schema, **schema.schema["$defs"]}
    numbers = {"integer", "number"}
    assert not {model.__name__ for model in OF_STORES} & kinds.keys()
    assert all(f"#/$defs/{model.__name__}" not in json.dumps(schema.schema) for model in OF_STORES)
    for key, model, name in keys_of(Study):
        if model in OF_STORES:
            continue
        place = kinds[model.__name__]["properties"][name]
        assert place["description"], key
        assert not re.search(r"[`\]]\(|`|\*\*", place["description"]), key  # no Markdown
        assert place.get("x-unit") == UNITS.get(key), key
        if numbers & set(types(place)):
            assert key in UNITS, key


def test_what_is_described_is_a_key_or_a_parameter() -> None:
    keys = {key for key, model, _ in keys_of(Study) if model not in OF_STORES and "." in key}
    parameters = {f"{name}.{key}" for name, kind in LOSSES.items() for key in kind.parameters.__annotations__}
    assert set(described()) == keys | parameters


def types(place: Any) -> Iterator[str]:
    """Every type that a schema of a key names, within its alternatives and items."""
    if isinstance(place, dict):
        found = place.get("type", [])
        yield from [found] if isinstance(found, str) else found
        for inner in place.values():
            yield from types(inner)
    elif isinstance(place, list):
        for inner in place:
            yield from types(inner)


def test_a_key_that_is_added_to_the_models_is_in_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one whose limit changes: nothing is written down twice."""
    monkeypatch.setitem(Estimate.model_fields, "zzz", FieldInfo.from_annotation(int | None))
    monkeypatch.setattr(AtRisk.model_fields["rows"], "metadata", [])
    for model in (Estimate, AtRisk, Study):
        model.model_rebuild(force=True)
    try:
        found = study_schema()["$defs"]
        assert "[**`estimate.zzz`**]" in study_keys_page()
        assert "zzz" in found["Estimate"]["properties"]
        assert "maximum" not in found["AtRisk"]["properties"]["rows"]
    finally:
        monkeypatch.undo()
        for model in (Estimate, AtRisk, Study):
            model.model_rebuild(force=True)
    assert "zzz" not in study_schema()["$defs"]["Estimate"]["properties"]
