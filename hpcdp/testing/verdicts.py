"""Verdicts that are kept while nothing changed that they rest on; in doubt there is no name for one, and it is drawn.

They are JSON in pytest's cache, of a few words each. A function that takes no rng draws other outputs each time: there the
first verdict on an installation stands.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from hpcdp.keys import digest_bytes, digest_json
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

    It is a digest of the installed distributions' files, of the function's code and what that reads, of the databases, of
    the declaration, of the key and of the salt.
    """
    installed = digest_installed()
    f, d, d_prime = check.function, check.d, check.d_prime
    code = digest_function(lambda: (f, d, d_prime))
    if installed is None or code.undigested:
        return None
    machine = [sys.version, platform.platform(), platform.machine()]
    return digest_json([check.key, asdict(declared), salt, installed, code.digest, machine])


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


@lru_cache(maxsize=1)
def digest_installed() -> str | None:
    """A digest of all files of all installed distributions, and of hpcdp's; None where one cannot be read or told."""
    own = sorted(Path(__file__).parents[1].rglob("*.py"))
    found = [digest_bytes(*(file.read_bytes() for file in own))]
    for distribution in distributions():
        digest = _digest(distribution)
        if digest is None:
            return None
        found.append(digest)
    return digest_json(sorted(found))


def _digest(distribution: Distribution) -> str | None:
    files = distribution.files
    if files is None:
        return None
    parts = []
    for file in sorted(files, key=str):
        if file.suffix == ".pyc":
            continue
        try:
            parts += [str(file).encode(), digest_bytes(file.read_binary()).encode()]
        except OSError:
            return None
    return digest_bytes(*parts)
