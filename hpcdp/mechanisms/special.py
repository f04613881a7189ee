"""Outputs that are no finite numbers: numbers stand for NaN, infinities, None and exceptions, bytes for strings and sequences.

No loss takes these numbers for numbers. A mechanism that returns one of them itself has it read as what it stands for: a
function of the output, so that all bounds hold.

A string is its UTF-8 bytes, bytes are themselves. A sequence is JSON without spaces, of strings, numbers, null and
sequences. What Python calls equal has one spelling: a list is the tuple of its items, True is 1, 1.0 is 1, −0.0 is 0;
and bytes within a sequence are the string of the same Latin-1 characters. A sequence of one string is that string
(unless it begins like JSON), as a column of strings is a list of strings.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError

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
    """An output that is an exception."""

    place: int  # of its class among those that the study names
    name: str  # of that class
    database: Any  # what the call had
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
    """Outputs that are numbers, with exceptions between them: places in all outputs, and of their classes among those named."""
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


MOST_NESTED = 16
"""How deep a sequence may be nested."""

_ACCEPTED = (
    "booleans, integers, reals, strings, bytes, None, or tuples, lists and vectors of these, as an array or "
    "as a list or object array with one item an output"
)
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def to_json(plain: list[Any]) -> bytes:
    """The one spelling of a list of strings, numbers, None and lists; an encoder that is kept takes a third of the time."""
    return _ENCODER.encode(plain).encode()


def items_of(raw: Any) -> Sequence[Any] | None:
    """The single outputs of a list, a tuple, an object or structured array; None of anything else."""
    if isinstance(raw, np.ndarray):
        return raw.tolist() if raw.ndim and (raw.dtype == object or raw.dtype.names) else None
    return raw if isinstance(raw, list | tuple) else None


def spell_outputs(outputs: Iterable[Any], size: int) -> NDArray[Any]:
    """Canonical bytes of `size` outputs, an object array (size,); each a function of that output alone."""
    items = list(outputs)
    if len(items) != size:
        raise MechanismError(f"the mechanism returned {len(items)} outputs; accepted: {size} when asked for {size}")
    nothing = [output is None or (isinstance(output, float) and math.isnan(output)) for output in items]
    text = [isinstance(output, str | bytes) for output in items]
    if any(text) and not all(map(operator.or_, text, nothing)):
        other = _name(
            next(output for output, is_text, none in zip(items, text, nothing, strict=True) if not is_text | none)
        )
        raise MechanismError(
            f"the mechanism returned strings for some outputs and {other} for others; all must be alike "
            "(a tuple may hold either)"
        )
    spell = _spell_text if any(text) else _spell_sequence
    out = np.empty(size, object)
    out[:] = [
        to_json([_plain(output, 0)]) if none else spell(output) for output, none in zip(items, nothing, strict=True)
    ]
    return out


def _spell_text(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return bytes(text)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _no_unicode(error) from None


def _no_unicode(error: UnicodeEncodeError) -> MechanismError:
    return MechanismError(f"the mechanism returned a string that is not valid Unicode: {error}")


def _spell_sequence(output: Any) -> bytes:
    if isinstance(output, bool | int | float | np.number | np.bool_):
        raise MechanismError(
            f"the mechanism returned the number {_plain(output, 0)} among outputs that are strings or sequences; all must be "
            "alike (a tuple may hold either)"
        )
    if not isinstance(output, list | tuple | np.ndarray | np.void) or (
        isinstance(output, np.ndarray) and not output.ndim
    ):
        raise refuse(output)
    plain = _plain(output, 0)
    if len(plain) == 1 and isinstance(plain[0], str) and not plain[0].startswith("["):
        return _spell_text(plain[0])
    try:
        return to_json(plain)
    except UnicodeEncodeError as error:
        raise _no_unicode(error) from None


def refused_integer(number: int) -> MechanismError:
    """The error for an integer that 64 bits with a sign do not hold."""
    bits = number.bit_length()  # Python refuses to spell integers of more than 4,300 digits
    shown = f"the integer {number}" if bits <= 128 else f"an integer of {bits:,} bits"
    return MechanismError(f"the mechanism returned {shown}; accepted: 64-bit signed integers")


def _plain(value: Any, depth: int) -> Any:
    """A value as JSON holds it: str, int, float, None or a list of these."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, int | np.integer | np.bool_):
        number = int(value)
        if not -(2**63) <= number < 2**63:
            raise refused_integer(number)
        return number
    if isinstance(value, float | np.floating) and not isinstance(value, np.longdouble):
        real = float(value)
        if real.is_integer() and -(2.0**63) <= real < 2.0**63:
            return int(real)
        return real if math.isfinite(real) else str(real)
    if isinstance(value, np.ndarray) and value.ndim > 1:
        raise MechanismError(
            f"the mechanism returned an output of shape {value.shape}; accepted: vectors (flatten it), numbers, strings, "
            "tuples and lists"
        )
    if isinstance(value, np.ndarray | np.void):
        value = value.tolist()
        if not isinstance(value, list | tuple):  # an array of no dimension
            return _plain(value, depth)
    if isinstance(value, list | tuple):
        if depth >= MOST_NESTED:
            raise MechanismError(f"the mechanism returned a sequence nested too deeply; accepted: {MOST_NESTED} levels")
        return [_plain(item, depth + 1) for item in value]
    raise refuse(value)


def refuse(value: Any) -> MechanismError:
    """The error about a value of a type that is no output."""
    return MechanismError(f"the mechanism returned an output of type {type(value).__name__}; accepted: {_ACCEPTED}")


def _name(output: Any) -> str:
    if isinstance(output, bool | int | float | np.number | np.bool_):
        return "numbers"
    return "sequences" if isinstance(output, list | tuple | np.ndarray | np.void) else type(output).__name__
