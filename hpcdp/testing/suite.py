"""The privacy checks of one run of pytest, declared or made, each once; and their declaration, a file that a commit keeps.

The file has which checks there are, their shares of the suite's rate, and their draws. The rate is cut in `places` equal shares,
and a check has as many as its weight. So a check that is added changes no other one's share, until the places are full; and what
happens to be collected changes none.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from hpcdp._base.files import read_bytes
from hpcdp.errors import StudyError
from hpcdp.keys import digest_json
from hpcdp.mechanisms.code_digest import digest_function
from hpcdp.testing.checks import Check, PrivacyViolation, make, passed, percent, violated
from hpcdp.testing.planned import Declared, Sizes
from hpcdp.testing.power import LEAST_POWER, refuse_allowed
from hpcdp.testing.script import write_script

FILE = "hpcdp-checks.json"
AGAIN = "declare it: pytest --hpcdp-declare"

_VERSION, _MOST_BYTES = 1, 16 << 20


@dataclass(frozen=True)
class Declaration:
    """All checks by key, "node id#number of the call". false_alarm: the rate of the suite; places: shares that it is cut in."""

    false_alarm: float
    places: int = 8
    checks: Mapping[str, Declared] = field(default_factory=dict)

    def level(self, weight: int) -> float:
        """The failure probability of a check of this weight."""
        return self.false_alarm * weight / self.places

    def find(self, key: str, false_alarm: float, given: Mapping[str, Any]) -> Declared:
        """What is declared of a check; StudyError where that is not what the test gives, or its share is another one now."""
        if false_alarm != self.false_alarm:
            raise StudyError(
                f"hpcdp_false_alarm: {false_alarm:g} was given, and {FILE} was made for {self.false_alarm:g}; "
                "declare all checks anew: pytest --hpcdp-declare"
            )
        declared = self.checks.get(key)
        if declared is None:
            raise StudyError(f"{key} is no declared check; {len(self.checks)} are in {FILE}; {AGAIN}")
        for name, value in given.items():
            if getattr(declared, name) != value:
                raise StudyError(
                    f"{key}: {name} {value!r} was given, and {getattr(declared, name)!r} is declared; {AGAIN}"
                )
        if declared.level != self.level(declared.weight):
            raise StudyError(
                f"{key}: declared at level {declared.level:g}, and its share is {self.level(declared.weight):g} now; {AGAIN}"
            )
        return declared

    def unmade(self, test: str, made: int) -> list[str]:
        """Declared checks of a test, by its node id, beyond those that it made."""
        numbered = ((key, key.removeprefix(f"{test}#")) for key in self.checks if key.startswith(f"{test}#"))
        return [key for key, number in numbered if number.isdigit() and int(number) > made]

    def room_for(self, keys: int, false_alarm: float) -> Declaration:
        """With a place at least for so many new checks of weight 1: twice the places as often as it takes."""
        used, places = sum(check.weight for check in self.checks.values()), self.places
        while used + keys > places:
            places *= 2
        return Declaration(false_alarm, places, self.checks)

    def write(self, path: Path) -> None:
        """Write the file, in one order, so that a change reads as one."""
        checks = {key: {**asdict(check), "digest": check.digest} for key, check in sorted(self.checks.items())}
        content = {"version": _VERSION, "false_alarm": self.false_alarm, "places": self.places, "checks": checks}
        path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def read_declaration(path: Path) -> Declaration:
    """Read the file; StudyError where it is not there or is no declaration, or its weights are more than its places."""
    try:
        content = json.loads(read_bytes(path, _MOST_BYTES))
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']!r}; accepted: {_VERSION}")
        checks = {key: _read_check(key, entry) for key, entry in content["checks"].items()}
        declaration = Declaration(float(content["false_alarm"]), int(content["places"]), checks)
    except FileNotFoundError:
        where = f"in {path.parent}, the root folder of this run, which an ini file or --rootdir sets"
        raise StudyError(f"{path.name}: not there ({where}), so no check is declared; {AGAIN}") from None
    except KeyError as error:
        raise StudyError(f"{path.name}: {error} is missing; make the file anew: pytest --hpcdp-declare") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise StudyError(f"{path.name} is no declaration: {error}; make it anew: pytest --hpcdp-declare") from None
    used = sum(check.weight for check in checks.values())
    if used > declaration.places:
        raise StudyError(
            f"{path.name}: weights of {used} in all were given; accepted: at most the {declaration.places} places"
        )
    return declaration


def _read_check(key: str, entry: Mapping[str, Any]) -> Declared:
    given = dict(entry)
    digest = given.pop("digest")
    whole = [given["weight"], *given["draws"]]
    if len(whole) != 4 or not all(type(number) is int and number >= 1 for number in whole):
        raise ValueError(
            f"weight {whole[0]!r} and draws {tuple(whole[1:])!r}; accepted: whole numbers above 0, three draws"
        )
    declared = Declared(**{**given, "draws": Sizes(*whole[1:])})
    if not (0.0 < declared.level < 1.0 and 0.0 <= declared.power <= 1.0 and declared.seconds > 0.0):
        raise ValueError(
            f"level {declared.level!r}, power {declared.power!r}, seconds {declared.seconds!r}; accepted: 0 < level < 1, "
            "0 <= power <= 1, seconds > 0"
        )
    if declared.digest != digest:
        raise ValueError(f"{key} is not as it was declared: draws and power belong together; accepted: another weight")
    return declared


class Suite:
    """The checks of one run. salt: of fresh draws. record: pytest's cache. decides: whether all declared ones have power."""

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
            said, script = passed(check, declared), None
            if finding.violated:
                said, script = violated(check, finding), write_script(check, finding, self._path.parent)
            if name is not None:
                self._record.set(name, {"said": said, "script": script})
        else:
            said, script = f"{known[0]}\n  (the recorded verdict: nothing was drawn anew)", known[1]
        if script is not None:
            raise PrivacyViolation(said, script)
        return said

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
            self.said.append(f"not run this time, and to be declared again, since shares changed: {', '.join(stale)}")
        if unmet:
            self.said.append(
                f"declared before and not run this time: {', '.join(unmet)}; delete from {FILE} those that no longer exist"
            )


def _declared(key: str, declared: Declared) -> str:
    said = (
        f"{key}: {declared.draws.total:,} draws of each database, finds {declared.catches} with probability "
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


def verdict_name(check: Check, declared: Declared, salt: str | None) -> str | None:
    """What a verdict is kept by: a digest of all that it rests on, without rng the first stands; None where there is none."""
    f, d, d_prime = check.function, check.d, check.d_prime
    try:
        code = digest_function(lambda: (f, d, d_prime))
    except StudyError:  # something that it reads has no digest
        return None
    machine = [sys.version, platform.platform(), platform.machine()]
    digest = digest_json([check.key, asdict(declared), salt, digest_installed(), code, machine])
    return f"hpcdp/verdicts/{digest}"


def _read(cache: Any, name: str) -> tuple[str, str | None] | None:
    """The verdict of this name, if there is one: what is said, and the script of a violation."""
    content = cache.get(name, None)
    if isinstance(content, dict) and content.keys() == {"said", "script"}:
        said, script = content["said"], content["script"]
        if isinstance(said, str) and (script is None or isinstance(script, str)):
            return said, script
    return None


def digest_installed() -> str:
    """A digest of what installers recorded of each distribution, its files' digests among it; else of its name and version."""
    return digest_json(
        sorted(
            distribution.read_text("RECORD") or f"{distribution.name} {distribution.version}"
            for distribution in distributions()
        )
    )
