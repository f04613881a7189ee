"""Records of a store as tests see them: each a line of a journal, which can be read, damaged, replaced or taken out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from pathlib import Path
from typing import Any

from hpcdp.keys import canonical_json, digest_bytes

KINDS = ("samples", "packs", "fits", "counts")


def line_of(kind: str, name: str, body: Any) -> bytes:
    """A record as docs/store.md describes it."""
    return raw_line(kind, name, canonical_json(body))


def raw_line(kind: str, name: str, data: bytes) -> bytes:
    """A line whose checksum is right, whatever its body is."""
    checksum = digest_bytes(kind.encode(), name.encode(), data)
    head = f'{{"kind":"{kind}","name":"{name}","checksum":"{checksum}","body":'
    return head.encode() + data + b"}\n"


def lines_of(store: Path) -> dict[Path, list[bytes]]:
    """The whole lines of each journal that count, in the order of the runs."""
    files = sorted((store / "records").glob("*.jsonl"))
    found = {path: path.read_bytes().splitlines(keepends=True) for path in files}
    lengths = json.loads(found[files[-1]][0])["body"] if files and found[files[-1]] else {}
    for path in files:
        size, kept = lengths.get(path.name, 1 << 62), []
        for line in found[path]:
            size -= len(line)
            if size < 0 or not line.endswith(b"\n"):
                break
            kept.append(line)
        found[path] = kept
    return found


def change(store: Path, how: Callable[[str, str, bytes], bytes]) -> None:
    """Put what `how(kind, name, line)` gives in the place of each line, and the journals' lengths right."""
    lengths: dict[str, int] = {}
    for path, lines in lines_of(store).items():
        written = [line_of("journals", "", dict(lengths))]
        for line in lines[1:]:
            try:
                known = json.loads(line)
                written.append(how(known["kind"], known["name"], line))
            except ValueError:
                written.append(line)
        new = path.with_suffix(".new")
        new.write_bytes(b"".join(written))
        os.replace(new, path)
        lengths[path.name] = sum(map(len, written))


@total_ordering
@dataclass(frozen=True)
class Record:
    """A record in use."""

    store: Path
    kind: str
    name: str

    def __lt__(self, other: Record) -> bool:
        return (self.kind, self.name) < (other.kind, other.name)

    def read_bytes(self) -> bytes:
        """Its line, the last one of its name."""
        found = [line for lines in lines_of(self.store).values() for line in lines if self._is(line)]
        return found[-1]

    @property
    def body(self) -> Any:
        """What it says."""
        return json.loads(self.read_bytes())["body"]

    def rewrite(self, body: Any) -> None:
        """Put another body with its right checksum in its place."""
        self._become(line_of(self.kind, self.name, body))

    def unlink(self) -> None:
        """Take its lines out."""
        self._become(b"")

    def damage(self, place: float = 0.9) -> None:
        """Flip a bit of its body."""
        line = bytearray(self.read_bytes())
        line[int(place * (len(line) - 3))] ^= 4
        self._become(bytes(line))

    def _is(self, line: bytes) -> bool:
        return line.startswith(f'{{"kind":"{self.kind}","name":"{self.name}",'.encode())

    def _become(self, line: bytes) -> None:
        change(self.store, lambda kind, name, old: line if (kind, name) == (self.kind, self.name) else old)


def records(store: Path, *kinds: str) -> list[Record]:
    """The store's records of some kinds, in use (all: samples, packs, fits, counts, cells); "tallies" are those of all pilots."""
    found: dict[Record, bool] = {}
    for lines in lines_of(store).values():
        for line in lines:
            try:
                known = json.loads(line)
            except ValueError:
                continue
            record = Record(store, known["kind"], known["name"])
            found[record] = known["body"] is not None
    wanted = kinds or KINDS
    return sorted(record for record, there in found.items() if there and record.kind.partition("/")[0] in wanted)
