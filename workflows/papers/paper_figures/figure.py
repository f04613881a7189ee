"""A figure: its studies, what must hold, how it is drawn, what its table shows; and the figures of one paper."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paper_figures.methods import ONCE, Method
from paper_figures.parts import Found, Part

from hpcdp.study.file import Study


@dataclass(frozen=True)
class Check:
    """One rule, whether it holds, and the figures that it rests on, in words."""

    rule: str
    passed: bool
    seen: str

    def __str__(self) -> str:
        return f"{'pass' if self.passed else 'FAIL'}: {self.rule}; {self.seen}"


def agreement(difference: float, limit: float) -> str:
    """A relative difference in words; rounding, which differs between machines, is not shown."""
    return f"they differ by less than {limit:g}" if difference <= limit else f"they differ by {difference:.1e}"


@dataclass(frozen=True)
class Figure:
    """A figure.

    name: of its picture and its result file. checks, draw, table: functions of the parts found. method: how each part is
    run. study: name of the study file that its parts change, its own where it is empty. large: what the sizes of the
    paper change in it, as `changes` of a part.
    """

    name: str
    shows: str
    parts: tuple[Part, ...]
    checks: tuple[Callable[[Sequence[Found]], list[Check]], ...]
    draw: Callable[[Sequence[Found]], Any]
    table: Callable[[Sequence[Found]], list[str]]
    method: Method = ONCE
    study: str = ""
    large: Mapping[str, Any] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """Its heading on the paper's page: Figure 4a, Case 3."""
        own = self.name.removeprefix("fig")
        return f"Figure {own}" if own != self.name else re.sub(r"(?=\d)", " ", own, count=1).capitalize()

    def judge(self, found: Sequence[Found]) -> list[Check]:
        """All checks of the figure."""
        return [check for judge in self.checks for check in judge(found)]


@dataclass(frozen=True)
class Paper:
    """The figures of one paper by name. folder: of its studies, results, pictures and page. words: which paper, in tables."""

    words: str
    folder: Path
    figures: Mapping[str, Figure]

    @property
    def name(self) -> str:
        """That of its folder."""
        return self.folder.name

    def read_study(self, figure: Figure, part: Part, large: bool = False) -> Study:
        """The study of a part; large: at the sizes of the paper, where it has others than the page."""
        stem = figure.study or figure.name
        body = tomllib.loads((self.folder / f"{stem}.toml").read_text(encoding="utf-8"))
        sizes = figure.large if large else {}
        for key, value in {**part.changes, **sizes}.items():
            *tables, last = key.split(".")
            table = body
            for name in tables:
                table = table.setdefault(name, {})
            table[last] = value
        words = (self.name, figure.name, part.key, "paper" if sizes else "")
        body["study"]["name"] = "-".join(word for word in words if word)
        return Study.from_dict(body, self.folder)

    def read_kept(self, figure: Figure, folder: Path | None = None) -> list[Found]:
        """The parts of a figure with the results that a folder has of it, its own where none is given."""
        kept = self.read_results(figure, folder)["parts"]
        return [
            Found(part, self.read_study(figure, part), kept[part.key]["result"], kept[part.key].get("fit"))
            for part in figure.parts
        ]

    def read_results(self, figure: Figure, folder: Path | None = None) -> dict[str, Any]:
        """The result file of a figure: seconds, workers, parts; without parts, of formulas alone, there is none."""
        path = (folder or self.folder) / f"{figure.name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if figure.parts else {"seconds": 0, "parts": {}}
