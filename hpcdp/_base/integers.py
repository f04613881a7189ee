"""Integers that 64 bits with a sign do not hold: NumPy makes floats of a list that has them beside others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.raised import interruptions

ACCEPTED = "from -2**63 to 2**63 - 1"


def _objects(items: Any, array: NDArray[Any], most: float) -> NDArray[Any] | None:
    """Items one by one, where NumPy made floats of them, and of a list, of which one reaches so far; else None."""
    is_list = not isinstance(items, np.ndarray) or items.dtype == object
    return objects_of(items) if is_list and _reaches(array, most) else None


def _reaches(array: NDArray[Any], most: float) -> bool:
    """Whether a float of this array is so far from 0."""
    return array.dtype.kind == "f" and array.size > 0 and bool(np.abs(array).max() >= most)


def lost_integer(items: Any, array: NDArray[Any]) -> int | None:
    """The first integer beyond int64 that became a float in the array that NumPy made of these items; None: there is none."""
    objects = _objects(items, array, 2.0**63)
    numbers = (int(item) for item in (() if objects is None else objects.flat) if isinstance(item, int | np.integer))
    return next((number for number in numbers if not -(2**63) <= number < 2**63), None)


def exact_integers(items: Any, array: NDArray[Any]) -> NDArray[Any]:
    """The array of items, all within int64, as int64 where NumPy made floats of unsigned beside signed integers."""
    objects = _objects(items, array, 2.0**53)
    are_whole = objects is not None and all(isinstance(item, int | np.integer) for item in objects.flat)
    return objects.astype(np.int64) if objects is not None and are_whole else array


def rounded_place(items: Any, array: NDArray[Any]) -> tuple[tuple[int, ...], int] | None:
    """Place and value of the first integer that is another number in the float array made of these items; None: there is none."""
    if not _reaches(array, 2.0**53):
        return None
    for place, item in np.ndenumerate(objects_of(items)):
        if isinstance(item, int | np.integer) and int(float(item)) != int(item):
            return place, int(item)
    return None


def objects_of(items: Any) -> NDArray[Any]:
    """Items one by one, of a DataFrame too, of which NumPy would be given floats; what gives none as objects has floats alone."""
    try:
        return np.asarray(items.astype(object) if hasattr(items, "astype") else items, object)
    except interruptions():
        raise
    except BaseException:  # whatever a class of someone else raises
        return np.asarray(items)
