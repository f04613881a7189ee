"""A spectrum from random tapes on an axis: certified region, marks up to the leftover, estimates, each in its own colour."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcdp.notions.implied import outline
from hpcdp.report._spectra import SHADE
from hpcdp.report.colours import CERTIFIED, ESTIMATED, UP_TO_LEFTOVER
from hpcdp.results.result import Result

CERTIFIED_WORDS = "certified (finite-sample): δ is on or above the line"
WITHIN_WORDS = "up to the leftover (finite-sample): δ ≥ mark − e^ε·r, by itself no bound"
ESTIMATED_WORDS = "estimate δ̂ ± 2 standard errors (asymptotic)"

ERRORS = 2.0
"""Standard errors of a bar."""


def draw_tape(axis: Any, result: Result, ends: tuple[float, float]) -> None:
    """Draw the largest estimates and bounds of a result from random tapes; call `finish` of `_spectra` when all is drawn."""
    order = np.argsort(result["epsilon"])
    order = order[~np.isnan(result["spectrum_lower"][order])]
    if not order.size:
        axis.plot([], [], color=CERTIFIED, gid="note", label="no cell has all its counts yet")
        return
    epsilon = result["epsilon"][order]
    x, y = outline(epsilon, result["spectrum_lower"][order], *ends)
    axis.fill_between(x, y, 0.0, color=CERTIFIED, alpha=SHADE, linewidth=0, gid="certified")
    axis.plot(x, y, color=CERTIFIED, linewidth=1.5, gid="certified", zorder=2.2)
    within = result["spectrum_lower_up_to_leftover"][order]
    shown = within > 0.0
    style = {"markersize": 5.5, "markerfacecolor": "none", "linestyle": "none", "clip_on": False, "zorder": 3.1}
    own = {"color": UP_TO_LEFTOVER, "gid": "up to the leftover", "label": WITHIN_WORDS}
    axis.plot(epsilon[shown], within[shown], "^", **own, **style)
    sure = result.resolution.rows[order]
    place = (result["spectrum_pair"][order], result["spectrum_direction"][order], order)
    bars = axis.errorbar(
        epsilon[sure],
        result["spectrum_delta"][order][sure],
        yerr=ERRORS * result["standard_error"][place][sure],
        fmt="o",
        color=ESTIMATED,
        markersize=4.5,
        markerfacecolor="white",
        markeredgewidth=1.1,
        elinewidth=0.9,
        capsize=2.0,
        label=ESTIMATED_WORDS,
        clip_on=False,
        zorder=3.0,
    )
    bars[0].set_gid("estimate")
    limits = result.resolution.limits[order][~sure]
    axis.plot(epsilon[~sure], limits, "v", gid="limit", color=ESTIMATED, **{**style, "zorder": 3.0})
