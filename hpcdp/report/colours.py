"""Colours of all pictures: told apart by their lightness alone, so in greyscale and by every kind of eye.

Series that share a picture differ in marker and line style too.
"""

from __future__ import annotations

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
