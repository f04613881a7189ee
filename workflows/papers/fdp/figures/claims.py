"""The claimed curves of DP-SGD as files: python workflows/papers/fdp/figures/claims.py

dpsgd-10.csv is the exact curve of the study's ten updates, dpsgd-5.csv that of five. The points are on the curve, and
between them a claim file says less than the curve, never more: a true claim stays true.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpcdp.analytic import Curve, toy_dpsgd_pair

FOLDER = Path(__file__).resolve().parent.parent
UPDATES = {"fig4": 10, "fig5": 5}
"""Updates that are claimed in a figure."""

_LARGEST, _POINTS = 8.0, 481  # of |log η|; points before those that meet in (1, 0)


def curve_points(curve: Curve) -> NDArray[np.float64]:
    """Points (α, T(α)) of a curve by ascending α, from (0, 1) to (1, 0)."""
    points = np.column_stack(curve.point(np.exp(np.linspace(_LARGEST, -_LARGEST, _POINTS))))
    points = points[(points[:, 0] > 0.0) & (points[:, 0] < 1.0)]
    rises = np.diff(points[:, 0], prepend=0.0) > 1e-6  # closer ones are not told from a line
    return np.vstack([[0.0, 1.0], points[rises], [1.0, 0.0]])


def main() -> None:
    """Write the files."""
    for updates in UPDATES.values():
        with (FOLDER / f"dpsgd-{updates}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["alpha", "beta"])
            writer.writerows(curve_points(toy_dpsgd_pair(updates=updates)).tolist())


if __name__ == "__main__":
    main()
