"""Mistakes in study files are named with file, line and the nearest key, in tables within tables too."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import call, one_message
from hypothesis import given
from hypothesis import strategies as st
from study_tables import STUDIES, Path_, places, shipped

from hpcdp._base.models import keys_of
from hpcdp._base.places import Places, located
from hpcdp.errors import StudyError
from hpcdp.study.file import Study

KEYS = st.sampled_from(["a", "b-1", "c_2", '"x.y"', "'z # ]'", "0"])
PLAIN = st.sampled_from(
    ['"s, ] } # \\" ="', "'\\'", '"""\n# [x]\n"""', "'''\n''a = 1'''", "1979-05-27 07:32:00", "1e3", "true"]
)
SPACE = st.sampled_from(["", " ", "\n", " # ] } =\n  "])


def text_of(value: Any, draw: Any, inline: bool) -> str:
    """A value in TOML, an array over several lines where that is allowed."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {text_of(inner, draw, True)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        gap = (lambda: "") if inline else (lambda: draw(SPACE))
        return "[" + ",".join(gap() + text_of(inner, draw, inline) + gap() for inner in value) + "]"
    return str(value)


INLINE = st.recursive(
    PLAIN | st.just("@"), lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=8
)


@given(st.data())
def test_every_number_is_on_the_line_that_is_found_for_it(data: st.DataObject) -> None:
    """Texts of headers, arrays of tables, dotted keys and values of all kinds, with one number for each "@"."""
    lines = []
    for table in range(data.draw(st.integers(0, 4))):
        heads = ["[[t.'q.0']]", f"[u{table}.v]", f"[t.'q.0'.s{table}]"]  # the last one in the last table of the first
        lines.append(data.draw(st.sampled_from(heads if heads[0] in lines else heads[:2])))
        for key in data.draw(st.lists(KEYS, unique=True, max_size=4)):
            dotted = f"d{len(lines)}.{key}" if data.draw(st.booleans()) else key
            lines.append(f"{dotted} = {text_of(data.draw(INLINE), data.draw, False)} # [[x]]\n")
    text = "\n".join(lines)
    parts = text.split("@")
    text = "".join(f"{part}{7_000_000 + number}" for number, part in enumerate(parts[:-1])) + parts[-1]
    given = tomllib.loads(text)
    found = Places(Path("f"), text)
    found.describe("a")
    for place, value in places(given):
        if isinstance(value, int) and value >= 7_000_000:
            number = 1 + text[: text.index(str(value))].count("\n")
            *_, key = [part for part in place if isinstance(part, str)]
            line = found._lines[place]
            assert line == number or (place[-1] == key and line <= number)  # a key may stand above its value's end


@pytest.mark.parametrize("text", list(shipped()))
def test_every_key_that_is_shipped_has_its_line(text: str) -> None:
    found = Places(Path("f"), text)
    found.describe("a")
    for place, _ in places(tomllib.loads(text)):
        if place and isinstance(place[-1], str):
            assert re.search(rf"\b{place[-1]}\b", text.splitlines()[found._lines[place] - 1])


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
    """The study with the key at a place misspelt: its last two letters changed about, or one more."""
    if len(place) > 1:
        inner = misspelt(study[place[0]], place[1:])
        return (
            [inner if n == place[0] else v for n, v in enumerate(study)]
            if isinstance(study, list)
            else study | {place[0]: inner}
        )
    return {wrong(key) if key == place[0] else key: value for key, value in study.items()}


def wrong(key: str) -> str:
    return key[:-2] + key[-1] + key[-2] if key[-2:-1] != key[-1] and len(key) > 3 else f"{key}_"


@pytest.mark.parametrize("name", STUDIES)
def test_a_misspelt_key_is_named_with_its_line_and_what_was_meant(name: str, tmp_path: Path) -> None:
    known = {key for _, _, key in keys_of(Study)}
    tried = 0
    for place, _ in places(STUDIES[name]):
        if len(place) < 2 or isinstance(place[-1], int) or "parameters" in place[:-1] or place[-1] not in known:
            continue
        if {"start", "stop", "count"} & {place[-1]}:
            continue  # of a grid, which names them itself
        path = written(tmp_path, misspelt(STUDIES[name], place))
        line = next(
            n for n, text in enumerate(path.read_text().splitlines(), 1) if re.search(rf"\b{wrong(place[-1])}\b", text)
        )
        with pytest.raises(StudyError) as error:
            Study.from_toml(path)
        (said,) = [
            part for part in str(error.value).split(f", line {line})") if f"{wrong(place[-1])}: unknown key" in part
        ]
        assert re.search(rf"did you mean (\w+\.)*{place[-1]}\? \({re.escape(str(path))}$", said), said
        tried += 1
    assert tried >= 7


def test_a_key_of_another_section_is_found_there(tmp_path: Path) -> None:
    path = written(tmp_path, {"study": {"name": "s", "seed": 1, "epsilons": [1]}})
    with pytest.raises(StudyError, match=r"did you mean estimate\.epsilons\? \(.*study\.toml, line 4\)"):
        Study.from_toml(path)


def test_what_a_run_finds_wrong_in_a_key_has_its_line_too(tmp_path: Path) -> None:
    study = STUDIES["relative"] | {"mechanism": {"parameters": {}, "call": "nowhere:f"}}
    path = written(tmp_path, study)
    line = path.read_text().splitlines().index('call = "nowhere:f"') + 1
    assert one_message(call("plan", path, code=2)).endswith(f"({path}, line {line})")


def test_a_study_without_a_file_names_none() -> None:
    with pytest.raises(StudyError) as error:
        Study.from_dict({"study": {}})
    assert "line" not in str(error.value)
    assert located("mechanism.call: wrong", Path("nowhere.toml")) == "mechanism.call: wrong"
    assert located("runs/s.zarr holds another study", Path(__file__)) == "runs/s.zarr holds another study"
