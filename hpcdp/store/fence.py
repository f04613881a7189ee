"""The fence: a run that was superseded can neither overwrite nor delete, however long it slept and whatever clocks say.

All that a run changes in its store passes its gate, the folder lease/GENERATION/RUN: new files are written there and
renamed into place, old ones are renamed into it and deleted there. Who takes the store over empties the gates of all
earlier generations and puts a file in the place of each, before it reads anything. From then on every rename of an old
run fails, since one of its two ends is gone. RUN is a random name, and only who takes the lease makes the folder: where
the store was deleted, a rename of the old run has no second end either, whatever was made in its place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from hpcdp._base.files import make_folders, parse_json, read_bytes, refuse_links_to
from hpcdp.errors import LeaseError
from hpcdp.store.layout import Generation, Layout

_TRIES = 100  # a tenth of a second apart: workers of the old run may still be writing


@contextmanager
def replacing(layout: Layout, generation: Generation, target: Path) -> Iterator[Path]:
    """A path to write at, which then takes the place of `target`; LeaseError, and no change, when a later run took the store."""
    with behind(layout, generation) as new:
        yield new
        replace(layout, generation, new, target)


@contextmanager
def behind(layout: Layout, generation: Generation) -> Iterator[Path]:
    """A path behind the gate to write at; what is still there when the block ends is deleted."""
    with _passing(layout, generation):
        new = layout.passage(generation) / uuid4().hex
        try:
            yield new
        finally:
            _delete(new)


def replace(layout: Layout, generation: Generation, new: Path, target: Path) -> None:
    """Put a file or a folder from behind the gate in the place of another."""
    with _passing(layout, generation):
        refuse_links_to(layout.root, target.parent)
        try:
            is_there = _put(new, target)
        except FileNotFoundError:
            make_folders(layout.root, target.parent)
            is_there = _put(new, target)
        while not is_there:
            discard(layout, generation, target)
            is_there = _put(new, target)


def discard(layout: Layout, generation: Generation, path: Path) -> None:
    """Delete a file or a folder, if it is there. LeaseError, and nothing is deleted, under an old generation."""
    refuse_links_to(layout.root, path.parent)
    with _passing(layout, generation):
        old = layout.passage(generation) / uuid4().hex
        try:
            os.rename(path, old)
        except FileNotFoundError:
            if not _has_passage(layout, generation):
                raise
            return  # there is nothing to delete
        _delete(old)


@contextmanager
def open_gate(layout: Layout, generation: Generation) -> Iterator[None]:
    """Take the generation within; at the end its gate is there, renamed, which fails should the store be deleted meanwhile."""
    new = layout.lease / f".{generation:06d}.{generation.run}"
    try:
        new.mkdir()
        (new / generation.run).mkdir()
        yield
        os.rename(new, layout.gate(generation))
    finally:
        shutil.rmtree(new, ignore_errors=True)


def leave_gate(layout: Layout, generation: Generation) -> None:
    """Close the gate of one's own run; OSError, and nothing is closed, where it is another's by now."""
    old = layout.lease / f".{generation:06d}.{generation.run}"
    os.rename(layout.passage(generation), old)
    shutil.rmtree(old, ignore_errors=True)
    os.rmdir(layout.gate(generation))  # never one that another run has made: its own folder is in it from the first
    os.close(os.open(layout.gate(generation), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))


def check_generation(layout: Layout, generation: Generation) -> None:
    """Raise LeaseError when a later run has taken the store over, or it is gone: before work that would be in vain."""
    if is_closed(layout, generation) or layout.lease_file(generation + 1).exists():
        refuse_gone(layout, generation)
        raise _superseded(layout, generation)
    if not _has_passage(layout, generation):
        refuse_gone(layout, generation)


def refuse_gone(layout: Layout, generation: Generation, cause: BaseException | None = None) -> None:
    """Raise LeaseError when the store in which this generation was taken is not there any more."""
    if not holds(layout, generation) or not (is_closed(layout, generation) or _has_passage(layout, generation)):
        raise LeaseError(
            f"the store {layout.root} is gone: it was deleted or moved away while this run went on; nothing of this run "
            "is kept there; run the study file again"
        ) from cause


def holds(layout: Layout, generation: Generation) -> bool:
    """Whether the lease's file is that of this run, or cannot be read; not when it is gone or another run's."""
    try:
        content = parse_json(read_bytes(layout.lease_file(generation)))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (ValueError, OSError):
        return True
    return not isinstance(content, dict) or content.get("run") == generation.run


def _has_passage(layout: Layout, generation: Generation) -> bool:
    try:
        return stat.S_ISDIR(os.stat(layout.passage(generation)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_closed(layout: Layout, generation: int) -> bool:
    """Whether nothing passes the gate of a generation any more."""
    return layout.gate(generation).is_file()


def close_gate(layout: Layout, generation: int) -> None:
    """Let nothing of this generation, which is over, pass any more; LeaseError when its files cannot be removed."""
    gate = layout.gate(generation)
    for _ in range(_TRIES):
        try:
            os.close(os.open(gate, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            if gate.is_file():
                return
            shutil.rmtree(gate, ignore_errors=True)  # never takes away a file that is in its place by now
            if gate.exists():
                time.sleep(0.1)
        else:
            return
    raise LeaseError(
        f"cannot empty {gate}, where generation {generation} of {layout.root} still writes; end its processes, then try again"
    )


@contextmanager
def _passing(layout: Layout, generation: Generation) -> Iterator[None]:
    """Whatever the file system says of a gate that was closed meanwhile becomes one LeaseError."""
    check_generation(layout, generation)
    try:
        yield
    except LeaseError:
        raise
    except Exception as error:
        refuse_gone(layout, generation, error)
        if is_closed(layout, generation):
            raise _superseded(layout, generation) from error
        raise


def _put(new: Path, target: Path) -> bool:
    """Rename into place; whether that was possible. A folder never takes the place of one that holds anything."""
    try:
        os.replace(new, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR) or (
            error.errno == errno.ENOTDIR and new.is_dir() and (target.is_symlink() or target.is_file())
        ):
            return False
        raise
    return True


def _delete(path: Path) -> None:
    """What lies behind a gate is nobody else's; what cannot be deleted goes when the gate is closed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _superseded(layout: Layout, generation: Generation) -> LeaseError:
    return LeaseError(
        f"a later run has taken over {layout.root}; this one (generation {generation}) may not commit any more"
    )


_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.EINVAL}


def create_exclusively(path: Path, text: str) -> None:
    """Create a file with its text by a hard link, whole, or by O_EXCL; FileExistsError, and no change, when there is one."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")  # no name at which somebody could plant a link
    try:
        with temporary.open("x") as file:
            file.write(text)
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with path.open("x") as file:
                file.write(text)
    finally:
        with contextlib.suppress(OSError):  # where nothing can be written, there is nothing to remove
            temporary.unlink(missing_ok=True)
