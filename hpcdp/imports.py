"""Callables by import path, with the study's folder importable."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpcdp.errors import StudyError
from hpcdp.keys import digest_bytes


def import_callable(path: str, folder: Path, where: str) -> Callable[..., Any]:
    """The callable at "package.module:name"; StudyError names `where` and why it cannot be had."""
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise StudyError(f'{where}: "package.module:callable"; given: {path!r}')
    make_importable(folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise StudyError(
            f"{where}: cannot import module {module_name!r} of {path!r}: {type(error).__name__}: {error}"
        ) from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise StudyError(f"{where}: module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    if not callable(found):
        raise StudyError(f"{where}: a callable; given: {path!r}, a {type(found).__name__}")
    return found


def make_importable(folder: Path) -> None:
    """Put the study's folder first on the import path, once."""
    text = str(folder)
    if text not in sys.path:
        sys.path.insert(0, text)
        importlib.invalidate_caches()


def source_digest(path: str, folder: Path) -> str:
    """Digest of the source file that holds the callable, or of its name where there is no such file."""
    module_name = path.partition(":")[0]
    make_importable(folder)
    module = sys.modules.get(module_name) or importlib.import_module(module_name)
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        return digest_bytes(b"name", path.encode())
    return digest_bytes(b"source", Path(file).read_bytes())
