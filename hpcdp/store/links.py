"""Symbolic links in a store, which whoever can write in it may plant: no run begins where one is in its way."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from hpcdp._base.files import describe_link
from hpcdp.errors import StudyError

_DEPTHS = {"study": 2, "samples": 1, "pilots": 1, "tallies": 2, "counters": 1, "records": 1, "lease": 1}
"""Levels that are listed of each group. What is deeper is replaced or deleted as a whole, which follows no link."""
_ALL = 1 << 10  # levels of root arrays, whose files are replaced one by one, and of the folder of jobs


def refuse_links(root: Path) -> None:
    """StudyError naming a symbolic link that is where a run writes, renames or deletes; the root itself may be one.

    Folders are listed and no file is looked at: 0.2 to 0.4 s for 10⁵ entries on a busy local disk.
    """
    folders = [(str(root), _ALL + 1)]
    while folders:
        folder, levels = folders.pop()
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(folder) as entries,
        ):  # a run that goes on moves them
            for entry in entries:
                if entry.is_symlink():
                    raise StudyError(describe_link(entry.path))
                below = _DEPTHS.get(entry.name, _ALL) if levels > _ALL else levels - 1
                if below and entry.is_dir(follow_symlinks=False):
                    folders.append((entry.path, below))
