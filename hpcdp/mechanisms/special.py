"""NaN, infinities, None and exceptions as outputs: numbers that stand for them, which no loss takes for numbers.

A mechanism that returns one of these numbers itself has it read as what it stands for: a function of the output, so that all
bounds hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_RAISED = 8
"""Classes of exceptions that a study may name."""

_LARGEST = float(np.finfo(np.float64).max)
_STEP = 2.0**971  # between neighbours there
_LEAST = _LARGEST - (2 ** (1 + MOST_RAISED) - 1) * _STEP
"""The least of the numbers, up to the sign, that stand for no number."""

_FLOATS = {"inf": _LARGEST, "nan": _LARGEST - _STEP, "None": _STEP - _LARGEST, "-inf": -_LARGEST} | {
    f"exception {1 + place}": (2 ** (2 + place) - 1) * _STEP - _LARGEST for place in range(MOST_RAISED)
}  # each with another lowest bit, for views
_INTEGERS = {
    name: -(2**63) + (4096 * place if place < 4 else 16384 << (place - 4)) for place, name in enumerate(_FLOATS)
}  # so far apart that float64 tells them
_MOST_INTEGER = max(_INTEGERS.values())


@dataclass(frozen=True, eq=False)
class Raised:
    """An output that is an exception.

    place: of its class among those that the study names. name: of that class. database, seed: what the call had.
    """

    place: int
    name: str
    database: Any
    seed: list[int]


def encode(values: NDArray[np.float64]) -> None:
    """Put numbers in the place of NaN and infinities, in the array itself."""
    values[np.isnan(values)] = _FLOATS["nan"]
    np.clip(values, -_LARGEST, _LARGEST, out=values)


def encode_none(items: NDArray[Any]) -> NDArray[Any] | None:
    """An object array of numbers and None as an array of numbers; None where it holds anything else, or no None."""
    missing = np.array([item is None for item in items.flat], np.bool_).reshape(items.shape)
    if not missing.any() or not all(isinstance(item, int | float | np.number | None) for item in items.flat):
        return None
    rest = np.array(items[~missing].tolist())
    if rest.dtype.kind not in "biuf":  # integers beyond 64 bits
        return None
    whole = rest.size > 0 and rest.dtype.kind != "f"
    numbers = np.full(items.shape, _INTEGERS["None"] if whole else _FLOATS["None"], np.int64 if whole else np.float64)
    numbers[~missing] = rest
    return numbers


def fill_raised(numbers: NDArray[Any], places: dict[int, int]) -> NDArray[Any]:
    """Outputs that are numbers, with others between them that are exceptions.

    places: of each exception, by its place among all outputs, its class's place among those that the study names.
    """
    is_float = numbers.dtype.kind == "f" or not len(numbers)
    codes = _FLOATS if is_float else _INTEGERS
    size = len(numbers) + len(places)
    outputs = np.empty((size, *numbers.shape[1:]), np.float64 if is_float else np.int64)
    outputs[~np.isin(np.arange(size), list(places))] = numbers
    for at, place in places.items():
        outputs[at] = codes[f"exception {place + 1}"]
    return outputs


def is_raised(outputs: NDArray[Any]) -> bool:
    """Whether all outputs are exceptions, so that nothing tells what others look like."""
    if outputs.dtype.kind != "f" or not outputs.size:
        return False
    codes = [_FLOATS[f"exception {1 + place}"] for place in range(MOST_RAISED)]
    return bool(np.isin(outputs, codes).all())


def is_special(outputs: NDArray[Any]) -> NDArray[np.bool_]:
    """Which numbers of canonical outputs stand for no number; same shape."""
    if outputs.dtype.kind == "f":
        return ~(np.abs(outputs) < _LEAST)  # NaN too, of outputs as they were printed
    return outputs <= _MOST_INTEGER if outputs.dtype.kind == "i" else np.zeros(outputs.shape, np.bool_)


def has_special(outputs: NDArray[Any]) -> bool:
    """Whether any does."""
    if not outputs.size or outputs.dtype.kind not in "if":
        return False
    if outputs.dtype.kind == "i":
        return bool(outputs.min() <= _MOST_INTEGER)
    return not max(outputs.max(), -outputs.min()) < _LEAST


def count_special(outputs: NDArray[Any]) -> int:
    """Of how many outputs an entry does."""
    return int(is_special(outputs).reshape(len(outputs), -1).any(axis=1).sum()) if has_special(outputs) else 0


def is_none(outputs: NDArray[Any]) -> bool:
    """Whether all outputs are None."""
    if outputs.dtype.kind not in "fi":
        return False
    return bool((outputs == (_FLOATS if outputs.dtype.kind == "f" else _INTEGERS)["None"]).all())


def name_special(outputs: NDArray[Any]) -> str:
    """What the first of them stands for."""
    value = outputs[is_special(outputs)].flat[0]
    names = _FLOATS if outputs.dtype.kind == "f" else _INTEGERS
    return next((name for name, number in names.items() if number == value), str(value))


def as_reals(integers: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same outputs as reals."""
    reals = integers.astype(np.float64)
    if has_special(integers):
        for name, number in _INTEGERS.items():
            reals[integers == number] = _FLOATS[name]
    return reals


def as_integers(reals: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Reals of which some are special, and the others whole, as integers; None of others."""
    special = is_special(reals)
    rest = np.where(special, 0.0, reals)
    if not special.any() or not (np.abs(rest) < 2.0**53).all() or (rest != np.floor(rest)).any():
        return None
    integers = rest.astype(np.int64)
    for name, number in _FLOATS.items():
        integers[reals == number] = _INTEGERS[name]
    return integers
