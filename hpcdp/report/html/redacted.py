"""A study and what was said of its runs, as they may be handed on: without inline databases, local paths or texts of others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from hpcdp._base.raised import readable
from hpcdp.study.claims import factors_of
from hpcdp.study.pair_words import LEFT_OUT

_LISTS: dict[str, list[Any]] = {  # so that what is left is a study still
    "pairs.given.d": [LEFT_OUT],
    "pairs.given.d_prime": [LEFT_OUT],
    "pairs.relative.databases": [[LEFT_OUT]],
    "pairs.relative.values": [LEFT_OUT],
}
_LONGEST = 20_000  # characters of a list in a text
_PATHS = ("file", "files", "folder")  # keys whose values are paths, however short
_READ = re.compile(r"\s*(file|store)\s*\((.*)\)\s*", re.DOTALL)
_RAISED = re.compile(r"^(.*? raised [^\s:]+)")
_PATH = re.compile(r"(?:(?<= )~|\S*[/\\]).*(?= raised )")  # to its end, as folders have spaces too


def redacted(study: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A study as `Study.to_dict` has it, and the keys of what is left out of it."""
    gone: list[str] = []
    found = _without(study, "", gone)
    if (claim := study["study"].get("claim")) is not None:
        found["study"]["claim"] = short_claim(claim)
        gone = [key for key in gone if key != "study.claim"]
        gone += ["study.claim: its folders"] if short_claim(claim) != claim else []
    return found, sorted(dict.fromkeys(gone))


def shortened(study: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A study for a text, and the keys of its lists that are too long for one, in whose place it says how long they are."""
    gone: list[str] = []
    return _short(study, "", gone), gone


def _short(value: Any, key: str, gone: list[str]) -> Any:
    if isinstance(value, list) and len(json.dumps(value)) > _LONGEST:
        gone.append(f"{key}, {len(value):,} entries")
        return f"{LEFT_OUT}: {len(value):,} entries"
    if isinstance(value, Mapping):
        return {name: _short(one, f"{key}.{name}" if key else name, gone) for name, one in value.items()}
    return value


def reads_files(claim: str) -> bool:
    """Whether a claim is of a file or a store."""
    return any(_READ.fullmatch(factor) for factor in factors_of(claim))


def short_claim(text: str) -> str:
    """A claim whose files and stores have lost their folders."""
    return text if not reads_files(text) else "*".join(_short_factor(factor) for factor in factors_of(text))


def _short_factor(text: str) -> str:
    found = _READ.fullmatch(text)
    return text if found is None else f"{found[1]}({_last(found[2])})"


def _last(path: str) -> str:
    bare = path.strip()
    mark = bare[:1] if bare[:1] in ("'", '"') and bare[1:].endswith(bare[:1]) else ""
    return f"{mark}{PurePath(bare.strip(mark or None).replace(chr(92), '/')).name}{mark}"


def _without(value: Any, key: str, gone: list[str]) -> Any:
    is_data = key.startswith("pairs.") and ".parameters." in key and isinstance(value, list)
    if value is None or value == []:
        return value
    if key in _LISTS:
        gone.append(key)
        return _LISTS[key]
    if is_data or key.rpartition(".")[2] in _PATHS or (isinstance(value, str) and _is_path(value)):
        gone.append(key)
        return LEFT_OUT
    if isinstance(value, Mapping):
        return {name: _without(one, f"{key}.{name}" if key else name, gone) for name, one in value.items()}
    if isinstance(value, list):
        return [_without(one, key, gone) for one in value]
    return value


def _is_path(text: str) -> bool:
    return "/" in text or "\\" in text or text.startswith("~")


def failure_words(line: str) -> str:
    """What failed, up to the name of what was raised: its text may hold rows, and names files."""
    raised = _RAISED.match(line)
    return f"{_PATH.sub(LEFT_OUT, raised[1]) if raised else line.partition(': ')[0]} (its text is left out)"


def stop_words(text: str) -> str:
    """Why a run ended early, without paths."""
    return " ".join(LEFT_OUT if _is_path(word) else word for word in readable(text).split())
