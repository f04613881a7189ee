"""Files that anyone may have written, read only where they are regular and of a size that is meant; JSON, TOML; our own files."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, cast
from uuid import uuid4

from hpcdp.errors import StoreError, StudyError

_MOST_METADATA = 1 << 24
# a key of 100 parts: tomllib takes memory as the square of their number
_DEEP = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){99}""")
MOST_BYTES = 256 << 20
"""A larger record, claim or study is none: the largest ones that hpcdp writes take a few megabytes."""


def absolute(path: str | Path) -> Path:
    """A path from the root of the file system; StudyError where it begins in the current folder and that was deleted."""
    try:
        return Path(path).absolute()
    except FileNotFoundError:
        raise StudyError("the current folder was deleted; accepted: one that exists (cd), or absolute paths") from None


def own_folder(parent: Path) -> Path | None:
    """This user's folder (0700) there, made if need be; None where that name is a link, another's, or open to others."""
    folder = parent / f"hpcdp-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if is_own else None


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """What a file holds; ValueError, which does not name it, where it is no regular file or larger than `most` bytes."""
    with open_regular(path, most) as file:
        data = file.read(most + 1)
    _refuse_large(len(data), most)
    return data


@contextmanager
def open_regular(path: Path, most: int) -> Iterator[BufferedReader]:
    """The same file, to read from; it may grow. Raises as `read_bytes` does."""
    with _open_any(path) as file:
        _refuse_large(os.fstat(file.fileno()).st_size, most)
        yield file


@contextmanager
def _open_any(path: Path) -> Iterator[BufferedReader]:
    """A regular file of any size."""
    try:
        _refuse_special(os.stat(path))
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be another file by now
    except OSError as error:
        if error.errno == errno.ELOOP:  # the file is at fault, and not what it lies on
            raise ValueError("it is a link that leads back to itself; accepted: a regular file") from None
        raise
    with open(handle, "rb") as file:
        _refuse_special(os.fstat(handle))
        yield file


def _refuse_large(size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"it holds {size:,} bytes; accepted: at most {most:,}")


def read_attributes(path: Path, nodes: Sequence[str] = ("group",)) -> dict[str, Any]:
    """Attributes of a group (or else) of format 3; ValueError where it is none, OSError where it cannot be read."""
    attributes = read_metadata(path / "zarr.json", nodes=nodes).get("attributes", {})
    if not isinstance(attributes, dict):
        raise ValueError(f"attributes: {type(attributes).__name__}; accepted: an object")
    return attributes


def read_metadata(path: Path, form: int = 3, nodes: Sequence[str] = ("array",)) -> dict[str, Any]:
    """What a file says of a Zarr array or group; ValueError where it is of another format or kind."""
    metadata = parse_json(read_bytes(path, _MOST_METADATA))
    if not isinstance(metadata, dict) or metadata.get("zarr_format") != form:
        raise ValueError(f"{path.name} holds no metadata of Zarr's format {form}")
    if form == 3 and metadata.get("node_type") not in nodes:
        raise ValueError(f"node_type: {metadata.get('node_type')!r}; accepted: {' or '.join(nodes)}")
    return metadata


def read_tail(path: Path, most: int) -> bytes:
    """The last bytes of a file, `most` of them; raises as `read_bytes` does."""
    with _open_any(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)


def make_folders(base: Path, path: Path) -> None:
    """Make a folder and its parents below `base`, which must be there; StoreError where one of them is a symbolic link."""
    for part in _below(base, path):
        with suppress(FileExistsError):
            os.mkdir(part)
            continue
        refuse_link(part)
        if not os.path.isdir(part):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), part)


def refuse_links_to(base: Path, path: Path) -> None:
    """StoreError where a folder, or one of its parents below `base`, is a symbolic link; what is missing is none."""
    for part in _below(base, path):
        refuse_link(part)


def _below(base: Path, path: Path) -> list[str]:
    """The path and its parents below `base`, outermost first, as text: objects take most of the time of a small file."""
    parts, own = path.parts, base.parts
    if parts[: len(own)] != own or path.root != base.root:
        return []
    names = parts[len(own) :]
    return [os.path.join(base, *names[: number + 1]) for number in range(len(names))]


def refuse_link(path: str | Path) -> None:
    """StoreError where a path, which may be missing, is a symbolic link."""
    if os.path.islink(path):
        raise StoreError(describe_link(path))


def describe_link(path: str | Path) -> str:
    """Why a symbolic link in a store is refused, and what to do."""
    return (
        f"{path} is a symbolic link, and nothing is written or deleted through one in a store; accepted: folders and files "
        "(only the store's root may be a link); put what it leads to in its place, or take another store"
    )


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A new file beside `path` to write at, which takes its place when the block ends well: a link there is replaced itself."""
    new = path.with_name(f".{uuid4().hex}{path.suffix}")
    try:
        with new.open("x"):  # a name that nobody foresaw, and no file of somebody else
            pass
        yield new
        os.replace(new, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == str(new):
            error.filename = str(path)  # what was asked for
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def open_itself(path: Path, mode: str) -> BinaryIO:
    """A file opened in a mode of bytes; OSError where it is a link."""
    assert "b" in mode
    return cast(BinaryIO, open(path, mode, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)))


def _refuse_special(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device, a pipe or a socket"
        raise ValueError(f"it is {kind}; accepted: a regular file")


def parse_json(data: bytes) -> Any:
    """JSON in UTF-8. Raises ValueError where it is none, or is nested deeper than Python reads."""
    try:
        return json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text. Raises ValueError where it is no TOML, or is nested deeper than Python reads."""
    if match := _DEEP.search(text):
        raise ValueError(f"a key of 100 parts or more, {match[0][:30]}…; accepted: fewer")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(study: Mapping[str, Any]) -> str:
    """Sections with their keys; what is None is left out, as a file has no such value."""
    parts = []
    for name, section in study.items():
        if section is not None:
            lines = [f"{_key(key)} = {_value(value)}" for key, value in section.items() if value is not None]
            parts.append("\n".join([f"[{_key(name)}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


_BEGINS = re.compile(r"\s*(?P<table>\[\[?)?\s*(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*(?(table)\]|=)")
_NAMED = re.compile(r"[a-z_]+(?:\.\w+)*")
_KEY = re.compile(r"(?:study|mechanism|pairs|estimate|pure|at_risk)(?:\.\w+)+: ")


def located(message: str, path: Path) -> str:
    """A message on a study, and where in its file the key stands that it begins with, if it does and does not say so yet."""
    if _KEY.match(message) and f"({path}" not in message:
        with suppress(OSError, ValueError):
            return message + place_of(message, path, read_bytes(path).decode())
    return message


def place_of(message: str, path: Path, text: str) -> str:
    """ " (FILE, line N)" of the key that a message begins with, or of the innermost table around it. path: as it was given."""
    lines, place, match = _lines(text), "", _NAMED.match(message)
    for word in match[0].split(".") if match else ():
        if f"{place}.{word}" in lines:
            place = f"{place}.{word}"
        elif not word.isdigit():  # a number is no place where one table stands for a list of one
            break
    return f" ({path}, line {lines[place]})" if place else f" ({path})"


def _lines(text: str) -> dict[str, int]:
    """Of ".table.key" and its beginnings, and ".table.0" of arrays of tables; none where texts of several lines may hold such."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate([] if '"""' in text or "'''" in text else text.split("\n"), 1):
        if match := _BEGINS.match(line):
            place = f".{match['name']}" if match["table"] else f"{table}.{match['name']}"
            for dot in re.finditer(r"(?<=.)\.|$", place):
                lines.setdefault(place[: dot.start()], number)
            if match["table"]:
                many = sum(known.rpartition(".")[0] == place and known[-1].isdigit() for known in lines)
                table = f"{place}.{many}" if match["table"] == "[[" else place
                lines[table] = number
    return lines


def while_wanted(
    begin: Callable[[], Any], use: Callable[[Any], object], end: Callable[[Any], object]
) -> Callable[[Any], Any]:
    """A context of a value that `use` sets: the last one wanted holds; after the last, `end` puts back what `begin` gave."""
    lock, kept = Lock(), None
    values: list[Any] = []

    @contextmanager
    def context(value: Any) -> Iterator[None]:
        nonlocal kept
        with lock:
            if not values:
                kept = begin()
            values.append(value)
            use(value)
        try:
            yield
        finally:
            with lock:
                values.remove(value)
                if values:
                    use(values[-1])
                else:
                    end(kept)

    return context


_OTHERS_WRITE = 0o022


def _mask() -> int:
    before = os.umask(0o077)  # a mask cannot be read without setting it
    os.umask(before | _OTHERS_WRITE)
    return before


def umask() -> int:
    """The umask of this process, with which group and others may not write either."""
    mask = _mask()
    os.umask(mask)
    return mask | _OTHERS_WRITE


own_files = partial(while_wanted(_mask, lambda _: None, os.umask), None)
"""Make files and folders within that neither group nor others can write, whatever the umask; processes inherit it.
What a run writes, its user alone may change: profiles, job scripts and learned models in a store are code."""
