"""Figures as texts print them. A one-sided figure is rounded to the side on which what is said of it stays true.

Rounded are the decimal digits that a float has when it is written in full, so that 0.05 stays 0.05 either way.
JSON and CSV have full precision and need none of this.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext


def share(value: float) -> str:
    """A δ, an error or another share from 0 to 1, rounded to the nearest: estimates, claims."""
    return "0" if value == 0 else format(value, _spec(value))


def shorter(value: float) -> str:
    """The same to four decimals, and as `share` where these would show little of it."""
    return format(value, ".4f") if value >= 1e-3 else share(value)


def gap(value: float) -> str:
    """How far a share is above another, rounded down, with its sign."""
    return at_least(value, f"+{_spec(abs(value))}" if value else "+.6f")


def at_least(value: float, spec: str | None = None) -> str:
    """A figure that something is at least: rounded down, to what is a share's number of digits or to a format."""
    return _rounded(value, spec, ROUND_FLOOR)


def at_most(value: float, spec: str | None = None) -> str:
    """A figure that something is at most: rounded up."""
    return _rounded(value, spec, ROUND_CEILING)


def percent(confidence: float) -> str:
    """A confidence in percent, in all its digits: 0.9999999 is no 100 %."""
    return f"{(Decimal(repr(float(confidence))) * 100).normalize():f} %"


def failure(confidence: float) -> str:
    """1 − a confidence, rounded up to two digits."""
    return at_most(float(1 - Decimal(repr(float(confidence)))), ".2g")


def _spec(value: float) -> str:
    return ".6f" if value >= 1e-3 else ".2e"


def _rounded(value: float, spec: str | None, rounding: str) -> str:
    if not math.isfinite(value) or (spec is None and value == 0):
        return format(value, spec or "g")
    spec = spec or _spec(value)
    with localcontext(rounding=rounding):
        digits = format(Decimal(repr(float(value))), spec)
    return format(float(digits), spec)


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
