"""What speaks against a random tape's estimate: a few draws of the inflated law carry what proposals do not explain."""

from __future__ import annotations

import numpy as np

from hpcdp._base.rounding import share
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.results.ways import Bools
from hpcdp.store.results import Arrays

INFLATED = ("D′", "D")
"""The law that e^ε multiplies, of each direction."""

UNLEARNED, LEARNED, LEFT_OUT, DRAWN = range(4)
"""What is known of a pair: nothing; what levels learned of it; that it was left out of the test by that; all its draws."""

_WELL, _BADLY = 10.0, 3.0  # standard errors of δ̂ that tell it well, and that hardly do
_WIDER = 3.0  # times training's standard error, out of more draws, that only heavy draws explain


def unexplained_words(arrays: Arrays) -> tuple[str, ...]:
    """Of each direction in which training met draws that proposals do not explain."""
    reached, worth = (arrays[f"training_{name}"][1] for name in ("reached", "worth"))
    found = []
    for pair, direction, column, where in _places(reached > 0, arrays):
        place = pair, direction, column
        found.append(
            f"{where}: {reached[place]:,} draws of {INFLATED[direction]} that taught lie in the set, and tell its probability "
            f"only as {worth[place]:.1f} plain ones would: one or a few carry nearly all of it, which proposals do not explain. "
            "A region of tape that they do not reach may lead there, or the set was learned badly: δ̂ may be far off there, "
            "and 0; bounds hold all the same. Another study.seed learns anew."
        )
    return tuple(found)


def fallen_words(arrays: Arrays) -> tuple[str, ...]:
    """Of each direction in which the test does not tell a δ̂ that training told well, out of no fewer draws."""
    before, spread, delta, error = (
        arrays[name][1] for name in ("training_delta", "training_error", "delta", "standard_error")
    )
    with np.errstate(invalid="ignore"):
        fell = (before > _WELL * spread) & (spread > 0.0) & (delta <= _BADLY * error) & (error > _WIDER * spread)
    found = []
    for pair, direction, column, where in _places(fell, arrays):
        place = pair, direction, column
        told, tested = (
            f"{share(float(value[place]))} ± {share(float(own[place]))}"
            for value, own in ((before, spread), (delta, error))
        )
        found.append(
            f"{where}: training told δ = {told}, and the test {tested}, far wider: few draws of {INFLATED[direction]} carry much "
            "of it. That may be chance, or a region of tape that proposals do not reach; bounds hold all the same."
        )
    return tuple(found)


def _places(chosen: Bools, arrays: Arrays) -> list[tuple[int, int, int, str]]:
    """Pair, direction and first column of each direction with any, and all of it in words."""
    epsilon, found = arrays["epsilon"][1], []
    for pair, direction in np.argwhere(chosen.any(axis=2)).tolist():
        columns = np.flatnonzero(chosen[pair, direction])
        low, high = epsilon[columns].min(), epsilon[columns].max()
        which = f"{low:g}" if columns.size == 1 else f"{low:g} to {high:g} ({columns.size} of them)"
        column = int(columns[epsilon[columns].argmin()])
        found.append((pair, direction, column, f"pair {pair}, {DIRECTIONS[direction]}, ε = {which}"))
    return found
