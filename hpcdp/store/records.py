"""Records: what tasks found and what runs decided, in journals that only grow; each run has one, which it alone writes.

A line is a record, with its kind, its name and a checksum. Of two lines of one name the later one counts; one without a body
takes the record out of use. The first line of a journal says how long each earlier one was when its run took the store over:
what a run that was superseded adds later is not read, however long it slept. Other small files have a checksum too.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hpcdp._base.files import MOST_BYTES, open_regular, parse_json, read_bytes
from hpcdp.errors import DamagedError, HpcdpError, StoreError
from hpcdp.keys import canonical_json, digest_bytes, digest_json
from hpcdp.store.fence import check_generation, replacing
from hpcdp.store.layout import Generation, Layout

_HEAD, _TAIL = b'{"body":', b',"checksum":"%b"}'
_LINE = re.compile(rb'\{"kind":"([\w/-]+)","name":"([\w.:-]*)","checksum":"([0-9a-f]{32})","body":(.*)\}\n', re.DOTALL)
_JOURNAL = re.compile(r"(\d{6,})-[0-9a-f]{32}\.jsonl")
_EARLIER, _DAMAGED = "journals", "damaged"  # kinds of records: lengths of earlier journals; lines that were reported
_ANY = 1 << 62  # bytes of a journal
_TORN = b"#\n"  # the end of a line that was not written whole

Entry = tuple[str, str, Any]
"""A record's kind, name and body; a body None takes the record out of use."""


def write_json(path: Path, body: Any) -> None:
    """Write a new file with a body and its checksum, down to the disk, where nobody reads it yet (see `hpcdp.store.fence`)."""
    data = canonical_json(body)
    with open(path, "xb") as handle:
        handle.write(_HEAD + data + _TAIL % digest_bytes(data).encode())
        handle.flush()
        os.fsync(handle.fileno())


def read_json(path: Path) -> Any:
    """The body of a file; DamagedError when its checksum does not match."""
    try:
        data = parse_json(read_bytes(path))
        body, right = data["body"], digest_json(data["body"]) == data["checksum"]
    except FileNotFoundError:
        raise DamagedError(f"no record at {path}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamagedError(f"the record {path} is damaged (not readable as JSON)") from None
    if not right:
        raise DamagedError(f"the record {path} is damaged (its checksum does not match)")
    return body


def put_json(layout: Layout, path: Path, body: Any, generation: Generation) -> None:
    """Put a body with its checksum in the place of whatever is there, under a lease's generation."""
    with replacing(layout, generation, path) as new:
        write_json(new, body)


@contextmanager
def foreign(store: str | Path) -> Iterator[None]:
    """What is read here may have been written by anyone: whatever Python stumbles over in it becomes a StoreError."""
    try:
        yield
    except (HpcdpError, OSError, MemoryError):
        raise
    except Exception as error:
        raise StoreError(
            f"{store} holds what hpcdp does not write, and cannot be read: {type(error).__name__}: {error}"
        ) from error


def begin_journal(layout: Layout, generation: Generation) -> None:
    """Begin the journal of a run that has just taken the store: from here on nothing that earlier runs add is read."""
    lengths = dict(_known(layout).read)
    with replacing(layout, generation, layout.journal(generation)) as new:
        _append(new, [(_EARLIER, "", lengths)], "xb")


def commit(layout: Layout, kind: str, name: str, body: dict[str, Any], generation: Generation) -> None:
    """Add a record to the journal of this run; LeaseError when a later one has taken the store."""
    commit_all(layout, [(kind, name, body)], generation)


def commit_all(layout: Layout, entries: Iterable[Entry], generation: Generation) -> None:
    """Add records to the journal of this run, all at once, down to the disk; LeaseError as `commit`, OSError where that fails."""
    check_generation(layout, generation)
    try:
        _append(layout.journal(generation), entries, "r+b")
    finally:
        check_generation(layout, generation)  # before this, nobody has noted how long the journal is


def set_aside(layout: Layout, kind: str, name: str) -> None:
    """Take a record out of use, so that what it stood for is done again. The layout is that of a run."""
    assert layout.generation is not None
    entry = kind, name, None
    commit_all(layout, [entry, entry], layout.generation)  # twice: were one line damaged, the record would be back


def record_names(layout: Layout, kind: str) -> set[str]:
    """Names of all records of a kind."""
    return set(_known(layout).places.get(kind, ()))


def has_record(layout: Layout, kind: str, name: str) -> bool:
    """Whether there is this record."""
    return name in _known(layout).places.get(kind, ())


def read_record(layout: Layout, kind: str, name: str) -> Any:
    """The body of a record; DamagedError where there is none, or it is damaged."""
    place = _known(layout).places.get(kind, {}).get(name)
    if place is None:
        raise DamagedError(f"no record {kind}/{name} in {layout.root}")
    with _opened(layout.journals / place.file) as file:
        return _body_at(file, place, kind, name)


def read_records(layout: Layout, kind: str) -> Iterator[tuple[str, dict[str, Any] | DamagedError]]:
    """All records of a kind in the order of their names; a damaged one comes as its error."""
    places = dict(_known(layout).places.get(kind, {}))
    files: dict[str, int] = {}
    with ExitStack() as opened:
        for name in sorted(places):
            place = places[name]
            try:
                if place.file not in files:
                    files[place.file] = opened.enter_context(_opened(layout.journals / place.file))
                yield name, _body_at(files[place.file], place, kind, name)
            except DamagedError as error:
                yield name, error


def damaged_lines(layout: Layout) -> dict[str, str]:
    """Lines of journals that cannot be read, of whatever record they were, and what is wrong with each."""
    known = _known(layout)
    told = known.places.get(_DAMAGED, {})
    return {line: words for line, words in known.unreadable.items() if line not in told}


def note_damaged_line(layout: Layout, line: str, generation: Generation) -> None:
    """Record that a line was reported, so that it is not reported again."""
    commit(layout, _DAMAGED, line, {}, generation)


def count_damaged(layout: Layout) -> int:
    """How many records and lines were taken out of use so far."""
    known = _known(layout)
    return known.set_aside + len(known.unreadable)


class _Place(NamedTuple):
    """Where a line is: its journal, and its first byte and the one after the last."""

    file: str
    start: int
    stop: int


@dataclass
class _Journals:
    """What the journals of a store say, as far as they were read.

    read, inodes: bytes that were read of each, in the order of their runs, and which file it was. places: of the records in
    use, by kind and name. set_aside: how many were taken out of use. unreadable: by journal and line.
    """

    read: dict[str, int] = field(default_factory=dict)
    inodes: dict[str, int] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    places: dict[str, dict[str, _Place]] = field(default_factory=dict)
    set_aside: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    def follow(self, folder: Path, name: str, limit: int) -> None:
        """Read what a journal has more of by now, up to so many bytes, but for a line that is not whole yet."""
        start = self.read.get(name, 0)
        with open_regular(folder / name, _ANY) as file:
            file.seek(start)
            while (line := file.readline(MOST_BYTES)).endswith(b"\n") and start + len(line) <= limit:
                self._see(name, start, line)
                start = self.read[name] = start + len(line)

    def _see(self, name: str, start: int, line: bytes) -> None:
        number = self.lines[name] = self.lines.get(name, 0) + 1
        if line.endswith(_TORN):  # its run was told that it could not be written
            return
        match = _LINE.fullmatch(line)
        if match is None or not _is_sound(match):
            which = f"the record {match[1].decode()}/{match[2].decode()}, " if match else ""
            self.unreadable[f"{name}:{number}"] = f"{which}line {number} of the journal {name} is damaged"
            return
        kind, record = match[1].decode(), match[2].decode()
        if kind == _EARLIER:
            return
        known = self.places.setdefault(kind, {})
        if match[4] == b"null":
            self.set_aside += known.pop(record, None) is not None
        else:
            known[record] = _Place(name, start, start + len(line))


_stores: dict[Path, _Journals] = {}
_lock = threading.Lock()


def _known(layout: Layout) -> _Journals:
    """What a store's journals say now; what was read of them before is not read again."""
    with _lock:
        states, others = _journals(layout)
        names = list(states)
        limits = _limits(layout, {name: state.st_size for name, state in states.items()})
        inodes = {name: state.st_ino for name, state in states.items()}
        known = _stores.get(layout.root)
        if known is None or not _goes_on(known, names, limits, inodes):
            _stores.clear()  # those of one store are kept
            known = _stores[layout.root] = _Journals()
        known.inodes = inodes
        for name in names:
            if known.read.get(name, -1) != limits[name]:
                known.read.setdefault(name, 0)
                known.follow(layout.journals, name, limits[name])
        lines = {line: words for line, words in known.unreadable.items() if not line.endswith(":0")}
        known.unreadable = lines | {f"{name}:0": f"the journal {name} is no file" for name in others}
        return known


def _goes_on(known: _Journals, names: list[str], limits: dict[str, int], inodes: dict[str, int]) -> bool:
    """Whether only the last journal that was read has grown since, or later ones have come."""
    read = list(known.read)
    if read != names[: len(read)] or any(known.inodes[name] != inodes[name] for name in read):
        return False
    return all(
        limits[name] == known.read[name] if name != read[-1] else limits[name] >= known.read[name] for name in read
    )


def _journals(layout: Layout) -> tuple[dict[str, os.stat_result], list[str]]:
    """The journals by name in the order of their runs, and what has such a name and is no file."""
    try:
        names = [name for name in os.listdir(layout.journals) if _JOURNAL.fullmatch(name)]
    except (FileNotFoundError, NotADirectoryError):
        names = []
    files = {}
    for name in sorted(names, key=lambda name: (int(name.partition("-")[0]), name)):
        with suppress(OSError):  # a link that leads nowhere
            if stat.S_ISREG((state := os.stat(layout.journals / name)).st_mode):
                files[name] = state
    return files, sorted(set(names) - files.keys())


def _limits(layout: Layout, sizes: dict[str, int]) -> dict[str, int]:
    """How many bytes of each journal count: what the latest run noted of it, else all."""
    earlier: dict[str, int] = {}
    for name in reversed(sizes):
        with suppress(OSError, ValueError), open_regular(layout.journals / name, _ANY) as file:
            match = _LINE.fullmatch(file.readline(MOST_BYTES))
            body = parse_json(match[4]) if match and _is_sound(match) and match[1].decode() == _EARLIER else None
            if isinstance(body, dict) and body and all(type(n) is int and n >= 0 for n in body.values()):
                earlier = body
                break
    return {name: min(size, earlier.get(name, size)) for name, size in sizes.items()}


def _append(path: Path, entries: Iterable[Entry], mode: str) -> None:
    """Add lines, down to the disk; where that fails, whole lines stay, and the next ones mark one that is not."""
    data = b"".join(_line(*entry) for entry in entries)
    with open(path, mode, buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)) as file:
        if (size := file.seek(0, os.SEEK_END)) and os.pread(file.fileno(), 1, size - 1) != b"\n":
            data = _TORN + data
        while data:
            data = data[file.write(data) :]
        os.fsync(file.fileno())


def _line(kind: str, name: str, body: Any) -> bytes:
    data = canonical_json(body)
    checksum = digest_bytes(kind.encode(), name.encode(), data)
    return b'{"kind":"%b","name":"%b","checksum":"%b","body":%b}\n' % (
        kind.encode(),
        name.encode(),
        checksum.encode(),
        data,
    )


def _is_sound(match: re.Match[bytes]) -> bool:
    return digest_bytes(match[1], match[2], match[4]).encode() == match[3]


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The descriptor of a journal; DamagedError where it is gone."""
    try:
        with open_regular(path, _ANY) as file:
            yield file.fileno()
    except FileNotFoundError:
        raise DamagedError(f"no journal at {path}") from None


def _body_at(file: int, place: _Place, kind: str, name: str) -> Any:
    """The body of a record's line; DamagedError where it is not what was written."""
    where = f"the record {kind}/{name} in {place.file} is damaged"
    if place.stop - place.start > MOST_BYTES:
        raise DamagedError(f"{where} (it is longer than any)")
    match = _LINE.fullmatch(os.pread(file, place.stop - place.start, place.start))
    if match is None or (match[1].decode(), match[2].decode()) != (kind, name) or not _is_sound(match):
        raise DamagedError(f"{where} (its checksum does not match)")
    try:
        body = parse_json(match[4])
    except ValueError:
        raise DamagedError(f"{where} (not readable as JSON)") from None
    if not isinstance(body, dict):
        raise DamagedError(f"{where} (it is no object)")
    return body
