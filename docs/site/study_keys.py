"""The page of all keys of a study file, from the schema that `hpcdp schema` prints and the Markdown of what each key means."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcdp.losses import LOSSES
from hpcdp.study.schema import described, study_schema
from hpcdp.study.section import DURATION

_NAMED = '`"package.module:name"`'
_PATTERNS = {DURATION["pattern"]: 'duration, such as `"90 min"`', ":": _NAMED, r"^[\w.]+:[\w.]+$": _NAMED}
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_HAND = Path(__file__).resolve().parents[1] / "study.md"


def study_keys_page() -> str:
    """Every key with its type, range, unit, default and meaning, each at a place of its own, such as #estimate-train."""
    schema, texts, hand = study_schema(), described(), _HAND.read_text(encoding="utf-8")
    lines = [
        "# Study keys",
        "",
        "This page lists every key of [the study file](study.md); no other key is accepted. It is made from the schema that",
        "`hpcdp schema` prints. Each entry gives type and range, unit, default or *required*, and meaning. A *table* has keys",
        "of its own. A *grid* is `{ start = 0.0, stop = 2.0, count = 21 }`: 0, 0.1, …, 2. You may write an integer as a float",
        "without a fraction, for example `train = 1e6`.",
        "",
    ]
    for section, place in schema["properties"].items():
        lines += [f"## [{section}]", ""]
        if re.search(rf"^## \[{section}\]$", hand, re.M):
            lines += [f"More about this section: [[{section}]](study.md#{section}).", ""]
        for key, inner, required in _keys(schema, place, section):
            lines += _entry(key, inner, required, texts.get(key, ""))
    lines += [
        "## Parameters of losses",
        "",
        "The keys of `estimate.parameters`, by `estimate.loss`; `auto` has none.",
        "",
    ]
    for loss in LOSSES:
        found = schema["$defs"][loss]
        same = next(other for other in LOSSES if schema["$defs"][other]["properties"] == found["properties"])
        if same != loss:
            lines += [f"### {loss}", "", f"Those of [{same}](#{same}).", ""]
        elif found["properties"]:
            lines += [f"### {loss}", ""]
            for name, inner in found["properties"].items():
                lines += _entry(
                    f"{loss}.{name}", inner, name in found.get("required", ()), texts.get(f"{loss}.{name}", "")
                )
    return "\n".join(lines)


def place_of(key: str) -> str:
    """Where on the page a key is: what follows the #."""
    return re.sub(r"[^a-z0-9]+", "-", key.replace("[]", "").lower())


def _keys(schema: dict[str, Any], place: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Every key below a place, what the schema says of it, and whether its table must have it."""
    for table, listed in _tables(place):
        found = schema["$defs"][table]
        for name, inner in found["properties"].items():
            key = f"{prefix}{'[]' if listed else ''}.{name}"
            yield key, inner, name in found.get("required", ())
            yield from _keys(schema, inner, key)


def _tables(place: Any, listed: bool = False) -> list[tuple[str, bool]]:
    """Names of the tables that may stand at a place, and whether in a list; one that may stand in both ways: in the list."""
    found = [(place["$ref"].rpartition("/")[2], listed)] if "$ref" in place else []
    for inner in (*place.get("anyOf", ()), *place.get("oneOf", ())):
        found += _tables(inner, listed)
    if place.get("items"):
        found += _tables(place["items"], True)
    return list({table: (table, many) for table, many in sorted(found, key=lambda both: both[1])}.values())


def _entry(key: str, place: dict[str, Any], required: bool, text: str) -> list[str]:
    """A key as a term of a list of definitions, what may stand there, and what that means."""
    said = [_words(place)]
    if place.get("x-unit", "none") != "none":
        said.append(f"unit: {place['x-unit']}")
    if required:
        said.append("*required*")
    elif place.get("default") is not None:
        said.append(f"default `{json.dumps(place['default'])}`")
    return [f"[**`{key}`**]{{#{place_of(key)}}}", f": {'; '.join(said)}", f": {text}", ""]


def _words(place: dict[str, Any], many: bool = False) -> str:
    """What may stand at a place. many: of several, "integers"."""
    for way in ("anyOf", "oneOf"):
        if way in place:
            return _either([inner for inner in place[way] if inner.get("type") != "null"], many)
    if "const" in place or "enum" in place:
        return ", ".join(f"`{json.dumps(value)}`" for value in place.get("enum", [place.get("const")]))
    if {"start", "stop", "count"} == place.get("properties", {}).keys():
        return "grid"
    if place.get("type") == "array":
        return _list_words(place, many)
    if place.get("pattern") in _PATTERNS:
        return _PATTERNS[place["pattern"]]
    kinds = ["object"] if "$ref" in place else [place["type"]] if isinstance(place["type"], str) else place["type"]
    words = " or ".join(f"{kind.replace('object', 'table')}{'s' if many else ''}" for kind in kinds)
    length = f" of {place.get('minLength', 0)} to {place['maxLength']} characters" if "maxLength" in place else ""
    ends = {"least": "minimum", "above": "exclusiveMinimum", "most": "maximum", "below": "exclusiveMaximum"}
    return f"{words}{length}{_range(**{end: place.get(name) for end, name in ends.items()})}"


def _either(places: list[dict[str, Any]], many: bool) -> str:
    """Alternatives, each once; a list of what was said before is a list of these."""
    said: list[str] = []
    for place in places:
        words, before = _words(place, many), ", or ".join(said)
        if before and place.get("items") and _words(place["items"]) == before:
            words = f"list of these{_length(place)}"
        said += [] if words in said else [words]
    return ", or ".join(said)


def _list_words(place: dict[str, Any], many: bool) -> str:
    if "prefixItems" in place:
        return f"[{', '.join(map(_words, place['prefixItems']))}]"
    inside = f" of {_words(place['items'], many=True)}" if place.get("items") else ""
    return f"list{'s' if many else ''}{inside}{_length(place)}"


def _length(place: dict[str, Any]) -> str:
    """How long a list is, and whether nothing stands in it twice."""
    least, most = place.get("minItems") or None, place.get("maxItems")
    said = "one" if least == most == 1 else "not empty" if least == 1 and most is None else _range(least, most).strip()
    words = [said] * bool(said) + ["distinct"] * bool(place.get("uniqueItems"))
    return f" ({', '.join(words)})" if words else ""


def _range(
    least: float | None = None, most: float | None = None, above: float | None = None, below: float | None = None
) -> str:
    """From where to where, as far as something is said of that."""
    if least is not None and most is not None:
        return f" from {_number(least)} to {_number(most)}"
    ends = {"at least": least, "above": above, "at most": most, "below": below}
    said = " and ".join(f"{word} {_number(end)}" for word, end in ends.items() if end is not None)
    return f" {said}" if said else ""


def _number(value: float) -> str:
    """As one reads it: 10¹³, 2³², 1e-09, 100,000."""
    for base in (10, 2):
        if value >= 10**6 and value == base ** (power := round(math.log(value, base))):
            return f"{base}{str(power).translate(_SUPERSCRIPTS)}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
