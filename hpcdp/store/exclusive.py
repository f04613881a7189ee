"""Files that only one process can create, whoever else tries at the same moment."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from uuid import uuid4

_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.EINVAL}


def create_exclusively(path: Path, text: str) -> None:
    """Create a file with its text; FileExistsError, and nothing changes, when there is one.

    A hard link makes it appear whole. Where the file system has none, O_EXCL is as exclusive, but the file is empty for
    an instant.
    """
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
