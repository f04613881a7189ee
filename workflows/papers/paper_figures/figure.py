"""A figure: its studies, what must hold, how it is drawn, what its table shows; and the figures of one paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paper_figures.checks import Check
from paper_figures.methods import ONCE, Method
from paper_figures.parts import Found, Part


@dataclass(frozen=True)
class Figure:
    """A figure.

    name: its folder. target: the number of the result that it reproduces (R1 and so on). checks, draw, table: functions of
    the parts found. method: how each part is run.
    """

    name: str
    target: str
    shows: str
    parts: tuple[Part, ...]
    checks: tuple[Callable[[Sequence[Found]], list[Check]], ...]
    draw: Callable[[Sequence[Found]], Any]
    table: Callable[[Sequence[Found]], list[str]]
    method: Method = ONCE

    def judge(self, found: Sequence[Found]) -> list[Check]:
        """All checks of the figure."""
        return [check for judge in self.checks for check in judge(found)]


@dataclass(frozen=True)
class Paper:
    """The figures of one paper by name. name: of its folder, below `workflows`. words: which paper, in messages."""

    name: str
    words: str
    folder: Path
    figures: Mapping[str, Figure]

    def place(self, figure: Figure) -> Path:
        """The folder of a figure."""
        return self.folder / figure.name
