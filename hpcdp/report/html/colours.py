"""Colours of pages: what is read has a contrast of at least 4.5 to its ground, what is drawn of at least 3, in light and dark.

WCAG 2.2, success criteria 1.4.3 and 1.4.11 (level AA); relative luminance and contrast ratio as defined there.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1a1a1a",
    "quiet": "#595959",
    "line": "#c8c8c8",
    "link": "#0b57a4",
    "panel": "#f3f5f8",
    "finite": "#1f5aa6",
    "leftover": "#8a3a93",
    "assumed": "#7a4a00",
    "asymptotic": "#23704b",
    "heuristic": "#8a4b08",
    "refuted": "#a3262e",
    "violation": "#a3262e",
    "open": "#7a4a00",
    "consistent": "#23527c",
}
"""Of the light theme, and of paper: all but `paper`, `panel` and `line` are read on both grounds."""

DARK = {
    "paper": "#14171c",
    "ink": "#e8e8e8",
    "quiet": "#b4b4b4",
    "line": "#464c56",
    "link": "#8ec1ff",
    "panel": "#1e232b",
    "finite": "#8ab8f5",
    "leftover": "#dd9ee4",
    "assumed": "#e6b96a",
    "asymptotic": "#7fd3a6",
    "heuristic": "#efb47a",
    "refuted": "#ff9d9d",
    "violation": "#ff9d9d",
    "open": "#e6b96a",
    "consistent": "#9cc7ee",
}
"""Of the dark theme, by the same names."""

DRAWN = 3.0
"""The least contrast of what is drawn. Thin lines on dark ground get `_DRAWN_LIGHT`."""

_DRAWN_LIGHT = 5.0

_HEX = re.compile(r"#[0-9a-f]{6}")
_INKS = ("#000000", "#262626", "#ffffff")  # which the style sheet has as the theme's ink and paper


def luminance(colour: str) -> float:
    """Relative luminance of a colour such as "#1f5aa6", from 0 to 1."""
    parts = (int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def seen_on(colour: str, ground: str) -> str:
    """The colour, made darker on light ground or lighter on dark until it has the contrast of what is drawn."""
    hue, light, saturation = colorsys.rgb_to_hls(*(int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)))
    step, least = (-0.01, DRAWN) if luminance(ground) > 0.5 else (0.01, _DRAWN_LIGHT)
    if step > 0.0:
        light = max(light, 1.0 - light)  # dark colours become as light as they were dark
    found = _hex(hue, light, saturation)
    while contrast(found, ground) < least and 0.0 <= light + step <= 1.0:
        light += step
        found = _hex(hue, light, saturation)
    return found


def _hex(hue: float, light: float, saturation: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, light, saturation))


def drawn_colours(pictures: Iterable[str]) -> list[str]:
    """Colours that pictures draw with, but for ink and paper, sorted."""
    return sorted({colour for svg in pictures for colour in _HEX.findall(svg)} - set(_INKS))
