"""Refusals of wrong parameter values, all worded alike: the name, what was given, what is accepted."""

import math
from numbers import Integral, Real
from typing import Any

_SHOWN = 200  # characters of a given value that a message repeats


def refusal(name: str, given: Any, accepted: str) -> ValueError:
    """Return the error to raise for a parameter `name` that was `given` something not `accepted`."""
    shown = repr(given)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]} ..."
    return ValueError(f"{name}: {shown} was given; accepted: {accepted}")


def real(name: str, value: Any, accepted: str = "a finite number") -> float:
    """Return `value` as a float; refuse what is not a finite real number (a bool is none).

    Raises:
        ValueError: `value` is no number, NaN or infinite.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise refusal(name, value, accepted)
    return float(value)


def positive(name: str, value: Any) -> float:
    """Return `value` as a float; refuse what is not a finite number > 0.

    Raises:
        ValueError: `value` is no finite number > 0.
    """
    number = real(name, value, "a finite number > 0")
    if number <= 0.0:
        raise refusal(name, value, "a finite number > 0")
    return number


def non_negative(name: str, value: Any) -> float:
    """Return `value` as a float; refuse what is not a finite number >= 0.

    Raises:
        ValueError: `value` is no finite number >= 0.
    """
    number = real(name, value, "a finite number >= 0")
    if number < 0.0:
        raise refusal(name, value, "a finite number >= 0")
    return number


def fraction(name: str, value: Any) -> float:
    """Return `value` as a float; refuse what is not a number from 0 to 1.

    Raises:
        ValueError: `value` is no number from 0 to 1.
    """
    number = real(name, value, "a number from 0 to 1")
    if not 0.0 <= number <= 1.0:
        raise refusal(name, value, "a number from 0 to 1")
    return number


def integer(name: str, value: Any, least: int) -> int:
    """Return `value` as an int; refuse what is not an integer >= `least` (a bool is none).

    Raises:
        ValueError: `value` is no integer, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise refusal(name, value, f"an integer >= {least}")
    return int(value)
