"""Arguments of public functions, refused in one message where they are of a kind that is not accepted."""

from __future__ import annotations

import os
import re
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from hpcdp._check import refusal
from hpcdp.errors import StudyError

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)


def wrong(name: str, given: Any, accepted: str) -> StudyError:
    """The error to raise."""
    return StudyError(str(refusal(name, given, accepted)))


def path_of(name: str, given: Any) -> Path:
    """A path, of a text or an object that is one; StudyError else."""
    found = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(found, str) or "\0" in found:
        raise wrong(name, given, "a path")
    return Path(found)


def address_of(path: Path) -> str | None:
    """The address that was given as a path, which merges slashes; None where it is a path."""
    found = _ADDRESS.fullmatch(str(path))
    return found and f"{found[1]}://{found[2]}"


def number_of(name: str, given: Any, accepted: str) -> float:
    """A real number, as a float, NaN too, which the range that the caller looks at leaves out; StudyError else."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise wrong(name, given, accepted)
    return float(given)


def whole_of(name: str, given: Any, least: int, accepted: str) -> int:
    """An integer, at least so large; StudyError else."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < least:
        raise wrong(name, given, accepted)
    return int(given)
