"""What the keys of a study file mean, from docs/study.md into the package: `python -m tests.described` writes it anew."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "hpcdp" / "study" / "described.json"


def read_descriptions() -> dict[str, str]:
    """Key -> the last cell of its row, as plain text: links keep their words, quotes of code go."""
    found = {}
    for line in (ROOT / "docs" / "study.md").read_text(encoding="utf-8").splitlines():
        row = re.fullmatch(r"\| `([\w.\[\]]+)` \| .+? \| (?:required|none|`.*?`) \| (.+) \|", line)
        if row and "." in row[1]:
            found[row[1]] = re.sub(r"\[([^\[\]]+)\]\([^)]+\)", r"\1", row[2]).replace("`", "")
    return found


def written() -> str:
    """The text of the package's file."""
    return json.dumps(read_descriptions(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PLACE.write_text(written(), encoding="utf-8")
