"""Verdicts that are kept while nothing changed that they rest on; in doubt there is no name for one, and it is drawn.

They are JSON in pytest's cache, of a few words each. A function that takes no rng draws other outputs each time: there the
first verdict on an installation stands.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from typing import Any

from hpcdp.errors import StudyError
from hpcdp.keys import digest_json
from hpcdp.mechanisms.code_digest import digest_function
from hpcdp.testing.checks import Check
from hpcdp.testing.declaration import Declared

_FOLDER = "hpcdp/verdicts"


@dataclass(frozen=True)
class Verdict:
    """What is said of a check; script: where its claim is violated, else None."""

    said: str
    script: str | None


def name_of(check: Check, declared: Declared, salt: str | None) -> str | None:
    """What a verdict is kept by; None where it cannot be told whether something changed.

    It is a digest of the installed distributions' records, of the function's code and what that reads, of the databases, of
    the declaration, of the key and of the salt.
    """
    f, d, d_prime = check.function, check.d, check.d_prime
    try:
        code = digest_function(lambda: (f, d, d_prime))
    except StudyError:  # something that it reads has no digest
        return None
    machine = [sys.version, platform.platform(), platform.machine()]
    return digest_json([check.key, asdict(declared), salt, digest_installed(), code, machine])


def read(cache: Any, name: str) -> Verdict | None:
    """The verdict of this name, if there is one."""
    found = cache.get(f"{_FOLDER}/{name}", None)
    if isinstance(found, dict) and found.keys() == {"said", "script"}:
        said, script = found["said"], found["script"]
        if isinstance(said, str) and (script is None or isinstance(script, str)):
            return Verdict(said, script)
    return None


def write(cache: Any, name: str, verdict: Verdict) -> None:
    """Keep a verdict."""
    cache.set(f"{_FOLDER}/{name}", asdict(verdict))


def digest_installed() -> str:
    """A digest of what installers recorded of each distribution, its files' digests among it; else of its name and version."""
    return digest_json(sorted(one.read_text("RECORD") or f"{one.name} {one.version}" for one in distributions()))
