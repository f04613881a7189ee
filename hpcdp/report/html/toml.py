"""A study as the text of a study file: Python reads TOML, and writes none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(study: Mapping[str, Any]) -> str:
    """Sections with their keys; what is None is left out, as a file has no such value."""
    parts = []
    for name, section in study.items():
        if section is None:
            continue
        lines = [f"{_key(key)} = {_value(value)}" for key, value in section.items() if value is not None]
        parts.append("\n".join([f"[{_key(name)}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items() if one is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)
