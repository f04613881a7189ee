"""Figure 8: how δ(0) of the number of heads falls with the number of coins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from paper_figures.parts import Floats, Found
from paper_figures.pictures import COLOURS, markdown, new_figure, signed


def _numbers(one: Found) -> tuple[Floats, ...]:
    """Rows, exact δ(0), the larger δ̂ of both directions, its certified bound, its approximate limit, standard error."""
    sections = one.study.pairs.distributional or []
    found = []
    for entry in one.result["pairs"]:
        cells = [c for c in one.cells if c["pair"] == entry["pair"]]
        best = max(cells, key=lambda c: float(c["delta"]))
        rows = sections[entry["distribution"]].parameters["rows"]
        found.append([rows, best["exact"], best["delta"], max(c["lower"] for c in cells), best["upper"], best["error"]])
    return tuple(np.array(found, np.float64).T)


def draw_rows(found: Sequence[Found]) -> Any:
    """δ(0) against the number of rows, with √(2/(πn)), and δ̂ − δ below."""
    (one,) = found
    rows, exact, delta, lower, upper, _ = _numbers(one)
    figure, axes = new_figure()
    limits = np.maximum([delta - lower, upper - delta], 0.0)
    style = {"fmt": "o", "color": COLOURS[0], "markerfacecolor": "white", "linewidth": 0.9}
    fine = np.geomspace(rows.min(), rows.max(), 100)
    axes[0, 0].plot(fine, np.sqrt(2.0 / (np.pi * fine)), color=COLOURS[1], linewidth=6, alpha=0.3, label="√(2/(πn))")
    axes[0, 0].plot(rows, exact, color="#555555", linewidth=1.2, label="exact")
    axes[0, 0].errorbar(rows, delta, yerr=limits, markersize=5, capsize=2, label="number of heads", **style)
    axes[0, 0].set(xscale="log", yscale="log", ylabel="δ(0)")
    axes[0, 0].set_title("Fig. 8: heads of n fair coins, without noise", fontsize=11)
    axes[0, 0].legend(frameon=False, fontsize=9)
    axes[1, 0].errorbar(rows, delta - exact, yerr=limits, markersize=4, **style)
    axes[1, 0].axhline(0.0, color="#555555", linewidth=1.0)
    axes[1, 0].set(xlabel="rows n", ylabel="δ̂ − exact")
    axes[1, 0].ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    return figure


def rows_table(found: Sequence[Found]) -> list[str]:
    """Each number of rows."""
    (one,) = found
    table = [
        [f"{int(rows):,}", *(f"{v:.6f}" for v in (exact, delta, lower)), signed((delta - exact) / error)]
        for rows, exact, delta, lower, _, error in zip(*_numbers(one), strict=True)
    ]
    return markdown(["rows", "exact δ(0)", "δ̂", "certified ≥", "(δ̂ − δ)/se"], table)
