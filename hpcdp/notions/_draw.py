"""The picture of a trade-off curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.files import replaced
from hpcdp._check import refusal

_METADATA: dict[str, dict[str, Any]] = {".png": {"Software": None}, ".svg": {"Date": None}}  # equal curves, equal files


def draw(
    alpha: NDArray[np.float64],
    beta: NDArray[np.float64],
    axis: Any,
    path: str | Path | None,
    line: dict[str, Any],
) -> Any:
    """Draw the polygon through corners (k,) on an axis, None: of a new figure; return the Figure."""
    kind = None if path is None else Path(path).suffix.lower()
    if kind is not None and kind not in _METADATA:
        raise refusal("path", str(path), ".png or .svg")
    if axis is None:
        from hpcdp.notions._figure import Figure

        axis = Figure(figsize=(5.6, 5.2), layout="constrained").subplots()
        axis.plot([0, 1], [1, 0], color="#999999", linewidth=0.8, linestyle=":")
        axis.set(xlabel="type-I error α", ylabel="type-II error β", xlim=(0, 1), ylim=(0, 1))
        axis.grid(alpha=0.25)
    axis.plot(alpha, beta, **({"color": "#1b4f8a", "linewidth": 1.5} | line))
    figure = axis.get_figure()
    if path is not None:
        write_figure(figure, Path(path))
    return figure


def write_figure(figure: Any, path: Path) -> None:
    """Write a .png or .svg, in a folder that is made if need be; a link in its place is replaced, not followed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    import matplotlib

    with replaced(path) as new, matplotlib.rc_context({"svg.hashsalt": "hpcdp"}):
        figure.savefig(new, dpi=150, metadata=_METADATA[path.suffix.lower()])
