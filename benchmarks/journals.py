"""Records of a store, line by line, as its journals hold them (docs/store.md)."""

from __future__ import annotations

import json
from pathlib import Path

_OF_RUNS = ("journals", "runs", "damaged")  # kinds of what runs say of themselves


def committed(store: Path) -> dict[str, bytes]:
    """The line of each record in use, by its kind and name, but for what runs say of themselves."""
    found: dict[str, bytes] = {}
    for path in sorted((store / "records").glob("*.jsonl")):
        for line in path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break  # it is written just now, or its run was killed
            record = json.loads(line)
            if record["kind"] not in _OF_RUNS:
                name = f"{record['kind']}/{record['name']}"
                found.pop(name, None)
                if record["body"] is not None:
                    found[name] = line
    return found


def halve(store: Path) -> None:
    """Leave a store as it was when half of what its runs recorded was there, without the results that were derived then."""
    journals = {
        path: path.read_bytes().splitlines(keepends=True) for path in sorted((store / "records").glob("*.jsonl"))
    }
    left = sum(len(lines) - 1 for lines in journals.values()) // 2
    for path, lines in journals.items():
        if left:
            path.write_bytes(b"".join(lines[: 1 + left]))
            left -= min(left, len(lines) - 1)
        else:
            path.unlink()
    (store / "records" / "results.json").unlink(missing_ok=True)
