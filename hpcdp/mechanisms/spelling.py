"""One spelling in bytes of each output that is no number and no vector of numbers: strings and sequences.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError

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
    """Canonical bytes of `size` outputs, an object array (size,); each a function of that output alone.

    Raises:
        MechanismError: there are not `size` outputs, they are not all strings or all sequences, or one holds what has
            no spelling.
    """
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
