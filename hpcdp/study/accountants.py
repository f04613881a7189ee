"""Claims of accountants: the curve of a privacy loss distribution, or of an event, of the package dp_accounting."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.node import NodeExecutor
from hpcdp.mechanisms.user_code import import_object
from hpcdp.notions.curve import TradeOffCurve

Floats = NDArray[np.float64]

_ACCEPTED = '"package.module:object", a PrivacyLossDistribution, a DpEvent or a PrivacyAccountant of dp_accounting'
_NEAR, _FAR, _LEVELS, _FEWER = 8.0, 700.0, 1 << 14, 1 << 10
"""Levels: most of them up to the first, the others up to the second. Of accountants, which take milliseconds for each: fewer."""


def read_pld(path: str, folder: Path) -> TradeOffCurve:
    """The least trade-off curve that the accountant's δ allows at many ε, in both directions; ValueError where it is none."""
    if ":" not in path:
        raise ValueError(f"{path} was given; accepted: {_ACCEPTED}")
    return _curve(path, folder, frozenset((module, module.stat().st_mtime_ns) for module in folder.glob("*.py")))


@lru_cache(maxsize=16)
def _curve(path: str, folder: Path, _modules: frozenset[tuple[Path, int]]) -> TradeOffCurve:
    with NodeExecutor(1) as node:
        return TradeOffCurve.from_delta(*node.submit(_deltas, path, folder).result())


def _deltas(path: str, folder: Path) -> tuple[Floats, Floats]:
    """Levels, and the δ that an accountant gives there, never rising."""
    given = import_object(path, folder, "claim")
    asked = getattr(given, "get_delta_for_epsilon", None)
    levels = np.append(np.linspace(0.0, _NEAR, _LEVELS), np.geomspace(_NEAR, _FAR, _FEWER)[1:])
    if asked is None and not hasattr(given, "get_delta"):
        try:
            from dp_accounting import DpEvent
            from dp_accounting.pld import PLDAccountant
        except ImportError:
            raise ValueError(
                f"{path} is a {_kind(given)}; dp_accounting is not installed: pip install hpcdp[accounting]"
            ) from None
        if not isinstance(given, DpEvent):
            raise ValueError(f"{path} is a {_kind(given)}; accepted: {_ACCEPTED}")
        given = PLDAccountant().compose(given)
    if asked is None:
        levels = np.append(np.linspace(0.0, _NEAR, _FEWER), np.geomspace(_NEAR, _FAR, 64)[1:])
        deltas = [given.get_delta(float(level)) for level in levels]
    else:
        deltas = asked(levels)
    return levels, np.minimum.accumulate(np.clip(np.asarray(deltas, np.float64), 0.0, 1.0))


def _kind(given: Any) -> str:
    return f"{type(given).__module__}.{type(given).__qualname__}"
