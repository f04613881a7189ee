"""What a case is: a folder with `case.toml`, a mechanism, a study, and the packages of each release."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
SIDES = ("red", "green")
EXPECTED = {"red": "violation", "green": "no violation"}


@dataclass(frozen=True)
class Case:
    """A published bug of a library, its check, and the releases with and without it."""

    folder: Path
    told: dict[str, Any]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def study(self) -> dict[str, Any]:
        """The study file, read."""
        return tomllib.loads((self.folder / "study.toml").read_text(encoding="utf-8"))

    @property
    def sides(self) -> list[str]:
        """Those of "red" and "green" that have packages; none of a case that is not shown."""
        return [side for side in SIDES if (self.folder / f"{side}.txt").is_file()]

    @property
    def releases(self) -> dict[str, str]:
        """Of "red" and, where there is one, of "green" the library's version."""
        return {side: self.told[side] for side in SIDES if side in self.told}

    def packages(self, side: str) -> list[str]:
        """What is installed for a release, before it is pinned."""
        return [f"{self.told['library']}=={self.told[side]}", *self.told.get("packages", ["numpy"])]

    @property
    def draws(self) -> int:
        """Outputs of each database, in a run."""
        estimate = self.study["estimate"]
        return int(estimate["train"] + estimate["test"])

    def digest(self, side: str) -> str:
        """Eight digits that change with what decides a run."""
        names = ("mechanism.py", "study.toml", f"{side}.txt")
        return hashlib.sha256(b"\0".join((self.folder / name).read_bytes() for name in names)).hexdigest()[:8]

    def results(self) -> dict[str, list[dict[str, Any]]]:
        """Of each side the kept runs; empty where nothing was run or shown."""
        file = self.folder / "result.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def read_cases(names: list[str] | None = None) -> list[Case]:
    """The cases in the order of their names, or those that are named. Raises FileNotFoundError for an unknown name."""
    found = names or sorted(path.parent.name for path in FOLDER.glob("*/case.toml"))
    return [Case(FOLDER / n, tomllib.loads((FOLDER / n / "case.toml").read_text(encoding="utf-8"))) for n in found]
