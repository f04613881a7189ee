"""Colours of all pictures, told apart by their lightness alone, so in greyscale and by every kind of eye; and of pages.

Series that share a picture differ in marker and line style too. Of pages, what is read has a contrast of at least 4.5 to its
ground, what is drawn of at least 3, on dark ground of 5: WCAG 2.2, success criteria 1.4.3 and 1.4.11 (level AA);
`tests/report/test_html_report.py` computes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import matplotlib
import numpy as np

EXACT, CERTIFIED, CLAIM, BOX = "#000000", "#1f5aa6", "#d9822b", "#f3d55b"
"""From dark to light: exact curves, what is certified and estimated, claims, boxes of an audit."""

UP_TO_LEFTOVER, ESTIMATED = "#a85bb0", "#4fae7f"
"""Of random tapes: what is certified up to the leftover, and estimates. Neither is drawn in the colour of what is certified."""

QUIET = "#8a8a8a"
"""Lines that only guide the eye."""

MARKERS = "os^Dv<>P*X"

_LIGHTEST = 0.8  # of the colour map; beyond, lines fade into the paper


def shades(count: int) -> list[Any]:
    """So many colours from dark to light, evenly spaced in lightness (cividis, made for all kinds of colour vision)."""
    return list(matplotlib.colormaps["cividis"](np.linspace(0.0, _LIGHTEST, count)))


_BOTH = {
    "paper": ("#ffffff", "#14171c"),
    "ink": ("#1a1a1a", "#e8e8e8"),
    "quiet": ("#595959", "#b4b4b4"),
    "line": ("#c8c8c8", "#464c56"),
    "link": ("#0b57a4", "#8ec1ff"),
    "panel": ("#f3f5f8", "#1e232b"),
    "finite": ("#1f5aa6", "#8ab8f5"),
    "leftover": ("#8a3a93", "#dd9ee4"),
    "assumed": ("#7a4a00", "#e6b96a"),
    "asymptotic": ("#23704b", "#7fd3a6"),
    "heuristic": ("#8a4b08", "#efb47a"),
    "refuted": ("#a3262e", "#ff9d9d"),
    "violation": ("#a3262e", "#ff9d9d"),
    "open": ("#7a4a00", "#e6b96a"),
    "consistent": ("#23527c", "#9cc7ee"),
}
"""Of the light theme, and of paper, and of the dark one: all but `paper`, `panel` and `line` are read on both grounds."""

LIGHT, DARK = ({name: both[place] for name, both in _BOTH.items()} for place in (0, 1))
THEMES = {"light": LIGHT, "dark": DARK}

_INK = {"light": 0.25, "dark": 0.55}
"""How much of a theme's ink is mixed into what pictures draw. All are seen then but for fills of boxes, which have an edge."""

_HEX = re.compile(r"#[0-9a-f]{6}")
_INKS = ("#000000", "#262626", "#ffffff")  # which the style sheet has as the theme's ink and paper


def seen_in(theme: str, colour: str) -> str:
    """A colour of a picture, mixed with the theme's ink: darker on light ground, lighter on dark."""
    ink, share = THEMES[theme]["ink"], _INK[theme]
    parts = [(int(colour[i : i + 2], 16), int(ink[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round((1.0 - share) * own + share * other):02x}" for own, other in parts)


def drawn_colours(pictures: Iterable[str]) -> list[str]:
    """Colours that pictures draw with, but for ink and paper, sorted."""
    return sorted({colour for svg in pictures for colour in _HEX.findall(svg)} - set(_INKS))
