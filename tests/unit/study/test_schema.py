"""Keys of study files: the JSON Schema accepts what the models accept; a mistake is named with its line and the nearest key."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import call, one_message
from jsonschema import Draft202012Validator

from hpcdp._base.files import located, place_of
from hpcdp._base.messages import keys_of
from hpcdp.errors import StudyError
from hpcdp.losses import LOSSES
from hpcdp.study.file import Study
from hpcdp.study.schema import OF_STORES, UNITS, described

Path_ = tuple[str | int, ...]


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    found = json.loads(call("schema").stdout)
    assert found["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def accepted(given: dict[str, Any]) -> bool:
    """Whether the models accept a study."""
    try:
        Study.from_dict(copy.deepcopy(given))
    except StudyError:
        return False
    return True


HEAD: dict[str, Any] = {"name": "s", "seed": 1, "claim": "dp(epsilon=1)", "about": "a sum", "owner": "me"}
LAPLACE: dict[str, Any] = {"call": "laplace", "parameters": {"epsilon": 1.0}}
GIVEN: dict[str, Any] = {"given": [{"d": [0.0], "d_prime": [1.0]}]}
SIZES: dict[str, Any] = {"train": 1000, "test": 1000, "chunk": 500, "epsilons": [0.0, 1.0]}
STUDIES: dict[str, dict[str, Any]] = {
    "given": {
        "study": HEAD | {"stream": "numpy"},
        "mechanism": LAPLACE | {"reproducible": True, "isolated": True},
        "pairs": GIVEN,
        "estimate": SIZES
        | {"loss": "knn", "parameters": {"k": "sqrt", "metric": "euclidean"}, "keep": "all", "confidence": 0.9}
        | {"etas": [0.5, 1.0], "renyi": [1.0, 2.0], "certify": [1.0]},
    },
    "relative": {
        "study": HEAD,
        "mechanism": {"call": "own:f", "parameters": {}, "timeout": "90s"},
        "pairs": {"relative": {"databases": [[1, 2]], "rows": [0, 1], "relation": "edit", "values": [0, 1]}},
        "estimate": {"epsilons": {"start": 0.0, "stop": 1.0, "count": 3}, "loss": ["knn", "smooth"], "refine": 500}
        | {"validation": 500},
    },
    "views": {
        "study": HEAD,
        "mechanism": LAPLACE,
        "pairs": GIVEN,
        "estimate": SIZES | {"view": ["value", "bits"]},
    },
    "program": {
        "study": HEAD,
        "mechanism": {"call": {"command": ["p", "q"], "timeout": 60, "start_timeout": 1.5}},
        "pairs": {"given": {"call": "own:pairs", "parameters": {"n": 1}}},
        "estimate": {"epsilons": [0.0], "time": "90 min"},
    },
    "distributional": {
        "study": HEAD,
        "mechanism": {"call": "own:f", "raises": ["ValueError", "own:Refused"]},
        "pairs": {
            "distributional": [
                {"call": "own:g", "parameters": {}, "index": [0], "values": [0, 1], "exchangeable": True}
            ]
        },
        "estimate": SIZES | {"reuse": "auto"},
    },
    "target": {
        "study": HEAD,
        "mechanism": LAPLACE,
        "pairs": {"relative": {"file": "x.csv"}},
        "estimate": {"epsilons": [0.0, 1.0], "keep": "none", "loss": "smooth"}
        | {"target": {"epsilon": 1.0, "direction": "forward", "most": 10**6, "relative_error": 0.2}},
    },
    "tape": {
        "study": HEAD,
        "mechanism": {"call": "own:f", "impossible": "own:never"},
        "pairs": GIVEN,
        "estimate": {"epsilons": [0.0, 1.0], "tape": True},
    },
    "domain": {
        "study": HEAD,
        "mechanism": {"call": "own:f"},
        "pairs": {"domain": {"lower": 0.0, "upper": 1.0, "points": 4, "lipschitz": 2.0}},
        "estimate": {"loss": "histogram", "parameters": {"range": [0.0, 1.0], "lipschitz": 1.0, "bins": 8}},
    },
    "pure": {
        "study": HEAD,
        "mechanism": LAPLACE,
        "pairs": GIVEN,
        "estimate": {"train": 1000, "test": 1000, "chunk": 500, "loss": "kde", "parameters": {"floor": 1.0}},
        "pure": {"within": [[0.0, 1.0]], "floor": 0.01, "at": [0.5], "test": "all"},
    },
    "at_risk": {
        "study": {"name": "s", "seed": 1},
        "at_risk": {"query": "own:q", "population": {"call": "own:p", "parameters": {}}, "rows": 5, "pairs": 1000}
        | {"scale": 1.0, "cover": [0.9], "confidence": 0.9, "chunk": 10},
    },
}
WRONG: list[Any] = [None, "", "x", "a:b", "90 min", "../x", -1, 0, 1, 2.5, 0.5, 1e31, True]
WRONG += [[], [0.5], [-1.0], [1, 1], [["x"]], ["knn", "smooth"]]
WRONG += [{}, {"start": 0.0, "stop": 1.0, "count": 3}, {"start": 0.0, "stop": 1.0}, {"zzz": 1}]


def re_keyed(path: Path_) -> str:
    """A place as docs/study.md writes it."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def places(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every place of a study and what is there."""
    yield path, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from places(inner, (*path, key))


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


CANNOT_SAY = {
    "given": {  # which certify is not among
        "estimate.epsilons": ["= [0.5]"],
        "estimate.epsilons[]": ["out", "= 2.5", "= 0.5"],
        "estimate.certify": ["= [0.5]", "= {'start': 0.0, 'stop': 1.0, 'count': 3}"],
        "estimate.certify[]": ["= 2.5", "= 0.5"],
    },
    "relative": {
        "pairs.relative.rows[]": ["= 1e+31"],  # an integer, to a schema
        "estimate.epsilons.start": ["= 1", "= 2.5"],  # stop is not above it
        "estimate.epsilons.stop": ["= -1", "= 0", "= 1e+31"],  # far above: but of a grid of one point it may be
    },
    "distributional": {"pairs.distributional[].index[]": ["= 1e+31"]},
    "target": {  # which is to be one of the epsilons
        "estimate.epsilons": ["= [0.5]"],
        "estimate.epsilons[]": ["out", "= 2.5", "= 0.5"],
        "estimate.target.epsilon": ["= 2.5", "= 0.5", "= 1e+31"],
    },
    "tape": {"estimate.tape": ["out"]},  # with mechanism.impossible, of another section
    "domain": {"pairs.domain.lower": ["= 1", "= 2.5", "= 1e+31"], "pairs.domain.upper": ["= -1", "= 0"]},
    "pure": {  # low is not below high
        "pure.within[]": ["= [1, 1]"],
        "pure.within[][]": ["= 1", "= 2.5", "= 1e+31", "= -1", "= 0"],
    },
    "at_risk": {"at_risk.pairs": ["= 1"]},  # too few for the largest cover
}
"""Of the variants that the models refuse those that the schema accepts, and why: numbers that are compared, other sections."""


def test_every_key_of_the_study_file_stands_in_some_study() -> None:
    """So that those below try each; a key that is new is missing here."""
    found = {re_keyed(path) for study in STUDIES.values() for path, _ in places(study)}
    tables = {"pairs.relative.call", "estimate.target.delta", "estimate.target.precision", "at_risk.population.file"}
    tables.add("estimate.method")  # of which no package is installed here
    tables |= {"pairs.given.call", "pairs.given.parameters"}  # one of several ways, of which another stands there
    assert {key for key, model, _ in keys_of(Study) if model not in OF_STORES} - tables <= found


@pytest.mark.few
@pytest.mark.parametrize("name", STUDIES)
def test_the_schema_accepts_what_the_models_accept_and_refuses_the_rest_where_it_can_say_so(
    name: str, schema: Draft202012Validator
) -> None:
    assert accepted(STUDIES[name])
    assert [e.message for e in schema.iter_errors(STUDIES[name])] == []
    found = {(accepted(study), schema.is_valid(study), what) for what, study in variants(STUDIES[name])}
    assert {what for models, valid, what in found if models and not valid} == set()
    unsaid = {f"{key} {change}" for key, changes in CANNOT_SAY.get(name, {}).items() for change in changes}
    assert {what for models, valid, what in found if valid and not models} == unsaid


@pytest.mark.parametrize(
    ("name", "place", "wrong"),
    [
        ("given", "estimate.parameters", {"k": 0}),
        ("given", "estimate.parameters", {"metrik": "euclidean"}),
        ("given", "estimate.loss", "knm"),
        ("given", "mechanism.parameters", {"epsilno": 1.0}),
        ("given", "pairs.relative", {"file": "x.csv"}),  # beside given
        ("given", "mechanism", {"call": "pmf"}),  # without its parameters
        ("domain", "estimate.parameters", ...),
        ("domain", "estimate.parameters", {"range": [0.0, 1.0]}),
    ],
)
def test_parameters_and_ways_are_checked_too(name: str, place: str, wrong: Any, schema: Draft202012Validator) -> None:
    assert not schema.is_valid(changed(STUDIES[name], tuple(place.split(".")), wrong))


def test_every_key_has_a_description_and_every_number_a_unit(schema: Draft202012Validator) -> None:
    kinds = {"Study": schema.schema, **schema.schema["$defs"]}
    assert not {model.__name__ for model in OF_STORES} & kinds.keys()
    assert all(f"#/$defs/{model.__name__}" not in json.dumps(schema.schema) for model in OF_STORES)
    known = [(key, model, name) for key, model, name in keys_of(Study) if model not in OF_STORES]
    for key, model, name in known:
        place = kinds[model.__name__]["properties"][name]
        assert place["description"], key
        assert not re.search(r"[`\]]\(|`|\*\*", place["description"]), key  # no Markdown
        assert place.get("x-unit") == UNITS.get(key), key
        assert key in UNITS or not {"integer", "number"} & set(types(place)), key
    parameters = {f"{name}.{key}" for name, kind in LOSSES.items() for key in kind.parameters.__annotations__}
    assert set(described()) == {key for key, _, _ in known if "." in key} | parameters


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


# Lines of keys

TEXT = '[study]\nname = "a" # seed = 1\nseed = 2\n'


def test_where_no_line_is_sure_the_file_is_named_alone() -> None:
    assert place_of("study.seed: wrong", Path("f"), TEXT) == " (f, line 3)"
    assert place_of("mechanism.call: wrong", Path("f"), TEXT) == " (f)"
    assert place_of("study.seed: wrong", Path("f"), TEXT + 'x = """\n[study]\nseed = 3"""') == " (f)"


def toml(value: Any) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def written(folder: Path, study: dict[str, Any]) -> Path:
    """A study file with a line for each key of a section."""
    lines = []
    for section, keys in study.items():
        lines += [f"[{section}]", *(f"{key} = {toml(value)}" for key, value in keys.items())]
    (path := folder / "study.toml").write_text("\n".join(lines) + "\n")
    return path


def misspelt(study: Any, place: Path_) -> Any:
    """The study with the key at a place misspelt, at the same place."""
    if len(place) > 1:
        inner = misspelt(study[place[0]], place[1:])
        pairs = enumerate(study) if isinstance(study, list) else study.items()
        found = {key: inner if key == place[0] else value for key, value in pairs}
        return list(found.values()) if isinstance(study, list) else found
    return {wrong(key) if key == place[0] else key: value for key, value in study.items()}


def wrong(key: str) -> str:
    """A key with its last two letters changed about, or one more."""
    return key[:-2] + key[-1] + key[-2] if key[-2:-1] != key[-1] and len(key) > 3 else f"{key}_"


@pytest.mark.parametrize("name", STUDIES)
def test_a_misspelt_key_is_named_with_its_line_and_what_was_meant(name: str, tmp_path: Path) -> None:
    known = {key for _, _, key in keys_of(Study)} - {"start", "stop", "count"}  # of a grid, which names them itself
    tried = 0
    for place, _ in places(STUDIES[name]):
        if len(place) < 2 or isinstance(place[-1], int) or "parameters" in place[:-1] or place[-1] not in known:
            continue
        path = written(tmp_path, misspelt(STUDIES[name], place))
        lines, word = path.read_text().splitlines(), wrong(place[-1])
        line = next(n for n, text in enumerate(lines, 1) if re.search(rf"\b{word}\b", text))
        with pytest.raises(StudyError) as error:
            Study.from_toml(path)
        (said,) = [part for part in str(error.value).split(f", line {line})") if f"{word}: unknown key" in part]
        assert re.search(rf"did you mean (\w+\.)*{place[-1]}\? \({re.escape(str(path))}$", said), said
        tried += 1
    assert tried >= 7


def test_other_mistakes_have_their_lines_too(tmp_path: Path) -> None:
    """A key of another section, what a run finds wrong, and a study without a file."""
    path = written(tmp_path, {"study": {"name": "s", "seed": 1, "epsilons": [1]}})
    with pytest.raises(StudyError, match=r"did you mean estimate\.epsilons\? \(.*study\.toml, line 4\)"):
        Study.from_toml(path)
    path = written(tmp_path, STUDIES["relative"] | {"mechanism": {"parameters": {}, "call": "nowhere:f"}})
    line = path.read_text().splitlines().index('call = "nowhere:f"') + 1
    assert one_message(call("plan", path, code=2)).endswith(f"({path}, line {line})")
    with pytest.raises(StudyError) as error:
        Study.from_dict({"study": {}})
    assert "line" not in str(error.value)
    assert located("mechanism.call: wrong", Path("nowhere.toml")) == "mechanism.call: wrong"
    assert located("runs/s.zarr holds another study", Path(__file__)) == "runs/s.zarr holds another study"
