"""The privacy checks of one run of pytest: declared or made, each once."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from hpcdp.errors import StudyError
from hpcdp.keys import digest_json
from hpcdp.mechanisms.code_digest import digest_function
from hpcdp.testing.checks import Check, PrivacyViolation, make, passed, percent, violated
from hpcdp.testing.declaration import FILE, Declaration, Declared, read_declaration
from hpcdp.testing.power import LEAST_POWER, refuse_allowed
from hpcdp.testing.script import write_script

_FOLDER = "hpcdp/verdicts"


class Suite:
    """root: the folder of the declaration. salt: of fresh draws. record: pytest's cache, where verdicts are to be kept.

    decides: whether all checks that were declared find what they are to find often enough.
    """

    def __init__(self, root: Path, false_alarm: float, salt: str | None, declares: bool, record: Any) -> None:
        """StudyError where the file is no declaration. false_alarm: of a run, above 0 and below 1."""
        self._path, self._salt, self._record = root / FILE, salt, record
        self._false_alarm = false_alarm
        self._seen: dict[str, tuple[Check, int]] = {}
        self._declares = declares
        if not declares or self._path.exists():
            self._declaration = read_declaration(self._path)
        if declares and (not self._path.exists() or self._declaration.false_alarm != false_alarm):
            self._declaration = Declaration(false_alarm)
        self.said: list[str] = []
        self.decides = True

    def check(self, check: Check) -> str:
        """Make a check, or note it where checks are declared; a line about it.

        PrivacyViolation: its claim is violated. HpcdpError: it cannot be made, or was made before in this run.
        """
        key = check.key
        if key in self._seen:
            raise StudyError(f"{key}: made twice in one run; accepted: once, since a second try voids the rate")
        if self._declares:
            refuse_allowed(check.claim, check.catches)  # by the test that gives it, before anything is written for all
        self._seen[key] = (check, check.most_draws() if self._declares else 0)
        if self._declares:
            return f"{key}: declared"
        return self._make(check, self._declaration.find(key, self._false_alarm, check.given))

    def refuse_unmade(self, test: str, made: int) -> None:
        """StudyError where a test passed though it made fewer checks than are declared of it."""
        if unmade := [] if self._declares else self._declaration.unmade(test, made):
            raise StudyError(f"{', '.join(unmade)}: declared and not made; make it, or take it out of {FILE}")

    def _make(self, check: Check, declared: Declared) -> str:
        name = None if self._record is None else verdict_name(check, declared, self._salt)
        known = None if name is None else _read(self._record, name)
        if known is None:
            finding = make(check, declared, self._salt)
            known = Verdict(passed(check, declared), None)
            if finding.violated:
                known = Verdict(violated(check, finding), write_script(check, finding, self._path.parent))
            if name is not None:
                _write(self._record, name, known)
        else:
            known = Verdict(f"{known.said}\n  (the recorded verdict: nothing was drawn anew)", known.script)
        if known.script is not None:
            raise PrivacyViolation(known.said, known.script)
        return known.said

    def write(self) -> None:
        """Declare what was met: what is declared already as it is given stays, with its draws."""
        before = self._declaration.checks
        declaration = self._declaration.room_for(len(self._seen.keys() - before.keys()), self._false_alarm)
        checks = dict(before)
        for key, (check, most) in self._seen.items():
            old = before.get(key)
            weight = 1 if old is None else old.weight
            level = declaration.level(weight)
            if (
                old is None
                or old.level != level
                or any(getattr(old, name) != value for name, value in check.given.items())
            ):
                checks[key] = check.declare(weight, level, most)
            self.said.append(_declared(key, checks[key]))
            self.decides &= checks[key].power >= LEAST_POWER
        declaration = Declaration(self._false_alarm, declaration.places, checks)
        declaration.write(self._path)
        stale = [key for key in checks if checks[key].level != declaration.level(checks[key].weight)]
        unmet = [key for key in checks if key not in self._seen and key not in stale]
        self.said.append(
            f"{FILE}: {len(checks)} checks; each may use 1/{declaration.places} of the false-alarm rate {self._false_alarm:g}; "
            "nothing was tested"
        )
        if stale:
            self.said.append(f"not met, and to be declared again, since shares changed: {', '.join(stale)}")
        if unmet:
            self.said.append(f"not met; take those that are no more out of {FILE}: {', '.join(unmet)}")


def _declared(key: str, declared: Declared) -> str:
    said = (
        f"{key}: {declared.sizes.total:,} draws of each database, finds {declared.catches} with probability "
        f"{percent(declared.power)}"
    )
    return (
        said
        if declared.power >= LEAST_POWER
        else f"{said}: too seldom, inconclusive; give it more seconds, or more to catch"
    )


def rate_of_a_run(false_alarm: str, runs: str) -> float:
    """The rate of one of several runs that share one, of what the user wrote; StudyError where either is out of its range."""
    try:
        value = float(false_alarm)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1.0:
        raise StudyError(f"hpcdp_false_alarm: {false_alarm!r} was given; accepted: a number above 0 and below 1")
    if not (runs.isascii() and runs.isdigit() and 1 <= int(runs) <= 10**9):
        raise StudyError(f"hpcdp_runs: {runs!r} was given; accepted: a whole number from 1 to 10⁹")
    return value / int(runs)


@dataclass(frozen=True)
class Verdict:
    """What is said of a check; script: where its claim is violated, else None. It is kept while nothing changed that it rests on.

    Kept verdicts are JSON in pytest's cache. A function that takes no rng draws other outputs each time: there the first verdict
    on an installation stands.
    """

    said: str
    script: str | None


def verdict_name(check: Check, declared: Declared, salt: str | None) -> str | None:
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


def _read(cache: Any, name: str) -> Verdict | None:
    """The verdict of this name, if there is one."""
    content = cache.get(f"{_FOLDER}/{name}", None)
    if isinstance(content, dict) and content.keys() == {"said", "script"}:
        said, script = content["said"], content["script"]
        if isinstance(said, str) and (script is None or isinstance(script, str)):
            return Verdict(said, script)
    return None


def _write(cache: Any, name: str, verdict: Verdict) -> None:
    """Keep a verdict."""
    cache.set(f"{_FOLDER}/{name}", asdict(verdict))


def digest_installed() -> str:
    """A digest of what installers recorded of each distribution, its files' digests among it; else of its name and version."""
    return digest_json(
        sorted(
            distribution.read_text("RECORD") or f"{distribution.name} {distribution.version}"
            for distribution in distributions()
        )
    )
