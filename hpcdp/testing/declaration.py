"""The declaration of a suite: which checks there are, their shares of its rate, and their draws; a file that a commit keeps.

The suite's rate is cut in `places` equal shares, and a check has as many as its weight. So a check that is added changes no other
one's share, until the places are full; and what happens to be collected changes none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hpcdp._base.files import read_bytes
from hpcdp.errors import StudyError
from hpcdp.keys import digest_json
from hpcdp.testing.planned import Sizes

FILE = "hpcdp-checks.json"
AGAIN = "declare it: pytest --hpcdp-declare"

_VERSION, _MOST_BYTES = 1, 16 << 20


@dataclass(frozen=True)
class Declared:
    """One check: claim, catches and seconds as the test gives them; its weight, level, draws and power against catches."""

    claim: str
    catches: str
    seconds: float
    weight: int
    level: float
    draws: tuple[int, int, int]
    power: float

    @property
    def sizes(self) -> Sizes:
        """Draws of each database."""
        return Sizes(*self.draws)

    @property
    def digest(self) -> str:
        """Of what was planned together. People may change the weight; the level must be the share that it has."""
        planned = asdict(self) | {"draws": list(self.draws)}
        return digest_json([planned[name] for name in sorted(planned.keys() - {"weight", "level"})])


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
    declared = Declared(**{**given, "draws": tuple(given["draws"])})
    whole = [declared.weight, *declared.draws]
    if len(declared.draws) != 3 or not all(type(number) is int and number >= 1 for number in whole):
        raise ValueError(
            f"weight {declared.weight!r} and draws {declared.draws!r}; accepted: whole numbers above 0, three draws"
        )
    if not (0.0 < declared.level < 1.0 and 0.0 <= declared.power <= 1.0 and declared.seconds > 0.0):
        raise ValueError(
            f"level {declared.level!r}, power {declared.power!r}, seconds {declared.seconds!r}; accepted: 0 < level < 1, "
            "0 <= power <= 1, seconds > 0"
        )
    if declared.digest != digest:
        raise ValueError(f"{key} is not as it was declared: draws and power belong together; accepted: another weight")
    return declared
