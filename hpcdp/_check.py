"""Refusals of wrong parameter values, all worded alike: the name, what was given, what is accepted."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_PRIVATE = ("database", "what utility")  # how names begin of what may hold rows, which no message repeats
_SHOWN = 200  # characters of a given value that a message repeats
_LARGEST_COUNT = 2**53  # float64 holds all smaller counts exactly
_LARGEST_INFLATION = 1e100

Floats = NDArray[np.float64]


def refusal(name: str, given: Any, accepted: str) -> ValueError:
    """Return the error to raise for a parameter `name` that was `given` something not `accepted`."""
    shown = without_contents(given) if name.startswith(_PRIVATE) else repr(given)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]} ..."
    return ValueError(f"{name}: {shown} was given; accepted: {accepted}")


def without_contents(value: Any) -> str:
    """What may be a database or a part of one, by its kind and size: what rows hold is private, and messages end in logs."""
    if hasattr(value, "shape"):
        return f"{getattr(value, 'dtype', type(value).__name__)} of shape {value.shape}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value):,}"
    return "a table" if isinstance(value, dict) else f"of type {type(value).__name__}"


def real(
    name: str, value: Any, accepted: str = "a finite number", holds: Callable[[float], bool] = lambda _: True
) -> float:
    """Return `value` as a float; refuse what is not a finite real number (a bool is none) of which it holds.

    Raises:
        ValueError: `value` is no number, NaN or infinite, or it does not hold of it.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or not holds(float(value)):
        raise refusal(name, value, accepted)
    return float(value)


def positive(name: str, value: Any) -> float:
    """Return `value` as a float; refuse what is not a finite number > 0.

    Raises:
        ValueError: `value` is no finite number > 0.
    """
    return real(name, value, "a finite number > 0", lambda number: number > 0.0)


def non_negative(name: str, value: Any) -> float:
    """Return `value` as a float; refuse what is not a finite number >= 0.

    Raises:
        ValueError: `value` is no finite number >= 0.
    """
    return real(name, value, "a finite number >= 0", lambda number: number >= 0.0)


def fraction(name: str, value: Any) -> float:
    """Return `value` as a float; refuse what is not a number from 0 to 1.

    Raises:
        ValueError: `value` is no number from 0 to 1.
    """
    return real(name, value, "a number from 0 to 1", lambda number: 0.0 <= number <= 1.0)


def integer(name: str, value: Any, least: int) -> int:
    """Return `value` as an int; refuse what is not an integer >= `least` (a bool is none).

    Raises:
        ValueError: `value` is no integer, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise refusal(name, value, f"an integer >= {least}")
    return int(value)


def _require(name: str, values: NDArray[Any], accepted: NDArray[np.bool_], text: str) -> None:
    """Refuse the first value that is not accepted."""
    if not accepted.all():
        raise refusal(name, np.broadcast_to(values, accepted.shape)[~accepted].flat[0].item(), text)


def binomial_counts(successes: ArrayLike, trials: ArrayLike, names: tuple[str, str]) -> tuple[Floats, Floats]:
    """Return both as float64; refuse what is not whole numbers with 0 <= successes <= trials, 1 <= trials <= 2^53.

    Raises:
        ValueError: no whole numbers, or out of range; it calls them by these names.
    """
    x, n = np.asarray(successes), np.asarray(trials)
    for name, values in zip(names, (x, n), strict=True):
        if values.dtype.kind not in "iuf":
            raise refusal(name, values.dtype.name, "whole numbers")
        _require(name, values, np.asarray(np.floor(values) == values), "whole numbers")
    _require(names[1], n, np.asarray((n >= 1) & (n <= _LARGEST_COUNT)), "1 <= trials <= 2^53")
    inside = np.asarray((x >= 0) & (x <= n))
    if not inside.all():
        pair = tuple(np.broadcast_to(v, inside.shape)[~inside].flat[0].item() for v in (x, n))
        raise refusal(f"{names[0]}, {names[1]}", pair, "0 <= successes <= trials")
    return x.astype(np.float64), n.astype(np.float64)


def stacked_counts(x0: ArrayLike, n0: ArrayLike, x1: ArrayLike, n1: ArrayLike, rows: str) -> tuple[Floats, ...]:
    """Return x0, n0, x1, n1 as float64 of one shape (rows, ...); refuse fewer than two `rows`, "folds" for one.

    Raises:
        ValueError: they are no counts (`binomial_counts`), or there are too few rows.
    """
    counts = np.broadcast_arrays(*binomial_counts(x0, n0, ("x0", "n0")), *binomial_counts(x1, n1, ("x1", "n1")))
    if counts[0].ndim == 0 or counts[0].shape[0] < 2:
        raise refusal("x0, n0, x1, n1", counts[0].shape, f"a first axis of two or more {rows}")
    return tuple(counts)


def open_unit(name: str, value: ArrayLike) -> Floats:
    """Return `value` as float64; refuse what is not above 0 and below 1.

    Raises:
        ValueError: some value is not.
    """
    given = np.asarray(value, np.float64)
    _require(name, given, np.asarray((given > 0.0) & (given < 1.0)), "a number above 0 and below 1")
    return given


def inflation_factor(value: ArrayLike) -> Floats:
    """Return c = e^ε as float64; refuse what is not from 0 to 1e100.

    Raises:
        ValueError: some value is not.
    """
    given = np.asarray(value, np.float64)
    _require("inflation", given, np.asarray((given >= 0.0) & (given <= _LARGEST_INFLATION)), "a number from 0 to 1e100")
    return given
