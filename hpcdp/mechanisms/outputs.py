"""Canonical outputs: what a mechanism returns, checked and brought to one of a few representations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.integers import exact_integers, lost_integer
from hpcdp._base.raised import describe_raised, interruptions
from hpcdp.errors import MechanismError
from hpcdp.mechanisms.special import (
    Raised,
    as_integers,
    as_reals,
    encode,
    encode_none,
    fill_raised,
    is_raised,
    items_of,
    refused_integer,
    spell_outputs,
)

Outputs = NDArray[Any]
"""bool, int64 or float64 of shape (size,) or (size, d), or an object array (size,) of canonical bytes."""

Kind = Literal["bool", "int", "float", "bytes"]

MANY = 1 << 12
"""Numbers whose copy and checks cost more than a kernel's call."""

_DTYPES: Mapping[Kind, Any] = {"bool": np.bool_, "int": np.int64, "float": np.float64, "bytes": object}


@dataclass(frozen=True)
class Schema:
    """What all outputs of a study look like.

    kind: bool, int (int64), float (float64), or bytes (everything that is not numeric). columns: None of scalars,
    d of vectors.
    """

    kind: Kind
    columns: int | None

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of the canonical outputs."""
        return np.dtype(_DTYPES[self.kind])

    def shape(self, size: int) -> tuple[int, ...]:
        """Shape of `size` canonical outputs."""
        return (size,) if self.columns is None else (size, self.columns)

    @property
    def bytes_per_output(self) -> int:
        """Bytes an output takes in memory; 16 is a guess where outputs have no fixed length."""
        return 16 if self.kind == "bytes" else self.dtype.itemsize * (self.columns or 1)

    def bytes_stored(self, size: int) -> int:
        """Bytes that `size` outputs take in the store: booleans are packed."""
        return -(-size * (self.columns or 1) // 8) if self.kind == "bool" else size * self.bytes_per_output

    @property
    def bytes_in_memory(self) -> int:
        """Bytes an output takes while it is worked with: bytes are Python objects, of 33 bytes and a pointer each."""
        return self.bytes_per_output + 48 if self.kind == "bytes" else self.bytes_per_output

    def has(self, value: bool | int | float | str) -> bool:
        """Whether a value of a study file is an output, or an entry of one, of this kind."""
        if isinstance(value, str) or self.kind == "bytes":
            return isinstance(value, str) and self.kind == "bytes"
        if self.kind == "bool":
            return value in (0, 1)
        if isinstance(value, bool):
            return False
        return self.kind == "float" or (float(value).is_integer() and abs(value) < 2**63)

    def value(self, named: Any) -> Any:
        """An output that a study file names, as JSON has those of this kind: equal ones alike, however they are written."""
        if isinstance(named, tuple):
            return [self.value(part) for part in named]
        return {"bool": bool, "int": int, "float": float, "bytes": str}[self.kind](named)

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """The schema that `to_dict` gave."""
        return cls(data["kind"], data["columns"])


def canonicalise(
    raw: Any, size: int, schema: Schema | None = None, *, fresh: bool = False, as_printed: bool = False
) -> Outputs:
    """Outputs of one call in canonical form, in the study's schema when that is known.

    Accepted: an array of shape (size,) or (size, d) of booleans, integers, reals or strings; or a list or object
    array of `size` numbers, strings, or sequences (tuples, lists, vectors) of mixed length and content, or None. −0.0 becomes
    0.0; numbers stand for NaN, infinities and None beside numbers (see `hpcdp.mechanisms.special`).
    Numbers and vectors of numbers stay numbers. Anything else becomes bytes: strings in UTF-8, sequences and vectors of
    strings as JSON (see `hpcdp.mechanisms.special`). The outputs are a copy, unless nobody else holds an array that was
    given (fresh): many of float64 are then made canonical in place.

    as_printed: reals keep all their bits, −0.0 and NaN too, for views (`hpcdp.losses.views`).
    """
    items = items_of(raw)
    if items is None:
        array = _to_array(raw, size)
        items = items_of(array)  # what other libraries call a column of strings
    if items is not None:
        outputs = _of_items(items, size, schema, as_printed)
    elif array.ndim == 2 and array.dtype.kind in "biuf" and schema is not None and schema.kind == "bytes":
        outputs = spell_outputs(array, size)  # sequences that happen to be of one length
    else:
        outputs = _canonical_array(array, size, fresh, as_printed)
    return outputs if schema is None else conform(outputs, schema)


def _to_array(raw: Any, size: int) -> NDArray[Any]:
    if raw is None:
        raise MechanismError(
            f"the mechanism returned None; accepted: ({size},) or ({size}, d) when asked for {size} outputs; is "
            "`return` missing?"
        )
    if isinstance(raw, np.ma.MaskedArray) and np.ma.is_masked(raw):
        raise MechanismError("the mechanism returned masked outputs; accepted: an array without masked values")
    try:
        array = np.asarray(raw)
    except interruptions():
        raise
    except BaseException as error:  # whatever a class of someone else raises
        raise MechanismError(
            f"the mechanism returned a {type(raw).__name__} that is no array: {describe_raised(error)}; "
            f"accepted: ({size},) or ({size}, d)"
        ) from None
    return _unrounded(raw, array)


def _unrounded(items: Any, array: NDArray[Any]) -> NDArray[Any]:
    """The array that NumPy made of these items, with integers that it rounded as they are; MechanismError beyond int64."""
    if (lost := lost_integer(items, array)) is not None:
        raise refused_integer(lost)
    return exact_integers(items, array)


def _with_raised(items: Sequence[Any], size: int, schema: Schema | None, as_printed: bool) -> Outputs:
    """Outputs of which some are exceptions: beside text the class's name, else a number in each column that stands for it."""
    raised = {at: item for at, item in enumerate(items) if isinstance(item, Raised)}
    rest = [item for item in items if not isinstance(item, Raised)]
    others = _of_items(rest, size - len(raised), schema, as_printed) if rest else np.empty(0)
    if others.dtype == object or (schema is not None and schema.kind == "bytes"):
        texts = np.empty(len(items), object)
        texts[[at for at in range(len(items)) if at not in raised]] = others
        texts[list(raised)] = [item.name.encode() for item in raised.values()]
        return texts
    return fill_raised(others, {at: item.place for at, item in raised.items()})


def _of_items(items: Sequence[Any], size: int, schema: Schema | None, as_printed: bool) -> Outputs:
    if any(isinstance(item, Raised) for item in items):
        return _with_raised(items, size, schema, as_printed)
    if schema is not None and schema.kind == "bytes":
        return spell_outputs(items, size)
    try:
        array = np.asarray(items)
    except interruptions():
        raise
    except BaseException:  # sequences of mixed length
        return spell_outputs(items, size)
    if array.dtype == object and array.ndim <= 2 and (numbers := encode_none(array)) is not None:
        return _canonical_array(numbers, size, as_printed=as_printed)
    array = _unrounded(items, array)
    if not _is_table(array, items):
        return spell_outputs(items, size)
    return _canonical_array(array, size, as_printed=as_printed)


def _is_table(array: NDArray[Any], items: Sequence[Any]) -> bool:
    """Whether NumPy's array of some items holds what they hold: strings beside numbers would become strings."""
    if array.dtype.kind == "O" or array.ndim > 2 or (array.ndim == 2 and not array.shape[1]):
        return False
    if array.dtype.kind not in "US":
        return True
    leaves = items if array.ndim == 1 else (leaf for item in items for leaf in item)
    return all(isinstance(leaf, str if array.dtype.kind == "U" else bytes) for leaf in leaves)


def _canonical_array(array: NDArray[Any], size: int, fresh: bool = False, as_printed: bool = False) -> Outputs:
    if array.ndim not in (1, 2) or array.shape[0] != size or (array.ndim == 2 and array.shape[1] == 0):
        one = f", one {type(array.item()).__name__}" if array.ndim == 0 else ""
        alone = "; a function of one output a call has no parameter size" if one else ""
        raise MechanismError(
            f"the mechanism returned shape {array.shape}{one}; accepted: ({size},) or ({size}, d) when asked for {size} "
            f"outputs{alone}"
        )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    kind = array.dtype.kind  # what follows copies: the mechanism may use its array again
    if kind == "b":
        return np.array(array, order="C")
    if kind in "iu":
        if kind == "u" and array.dtype.itemsize == 8 and array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise MechanismError("the mechanism returned integers above 2**63 - 1; accepted: 64-bit signed integers")
        return np.array(array, np.int64, order="C")
    if kind == "f":
        if array.dtype.itemsize > 8:
            raise MechanismError(f"the mechanism returned {array.dtype}; accepted: float64 or narrower")
        if as_printed:
            return np.array(array, np.float64, order="C")
        if fresh and array.size >= MANY and array.dtype == np.float64 and array.flags.carray and array.flags.owndata:
            from hpcdp.mechanisms._kernels import settle

            values, finite = array, settle(array.reshape(-1).view(np.uint64))
        else:
            values = np.add(array, 0.0, dtype=np.float64)  # −0.0 becomes 0.0
            finite = np.isfinite(values).all()
        if not finite:
            encode(values)
        return np.ascontiguousarray(values)
    if kind in "UST":
        return _strings(array)
    raise MechanismError(
        f"the mechanism returned an array of type {array.dtype}; "
        "accepted: booleans, integers, reals or strings, or an object array of tuples"
    )


def _strings(array: NDArray[Any]) -> Outputs:
    try:
        items = array.tolist()
    except (ValueError, SystemError) as error:  # NumPy raises the latter for code points that Unicode does not have
        raise MechanismError(f"the mechanism returned a string that is not valid Unicode: {error}") from None
    return spell_outputs(items, len(items))


def schema_of(outputs: Outputs) -> Schema:
    """The schema of canonical outputs."""
    kinds: dict[str, Kind] = {"b": "bool", "i": "int", "f": "float", "O": "bytes"}
    return Schema(kinds[outputs.dtype.kind], outputs.shape[1] if outputs.ndim == 2 else None)


def conform(outputs: Outputs, schema: Schema) -> Outputs:
    """Canonical outputs in the study's schema; integers may stand for reals, nothing else changes kind."""
    actual = schema_of(outputs)
    if actual == schema:
        return outputs
    if actual.columns is None and schema.columns is not None and is_raised(outputs):
        return conform(np.repeat(outputs[:, None], schema.columns, axis=1), schema)
    kinds = (actual.kind, schema.kind) if actual.columns == schema.columns else None
    if kinds == ("int", "float"):
        return as_reals(outputs)
    if kinds == ("bool", "int"):
        return outputs.astype(schema.dtype)
    if kinds == ("float", "int") and (whole := as_integers(outputs)) is not None:
        return whole
    raise MechanismError(
        f"the mechanism returned {describe(actual)}; its first outputs were {describe(schema)}, and all must be alike"
    )


def describe(schema: Schema) -> str:
    """The schema in words."""
    names = {"bool": "booleans", "int": "integers", "float": "reals", "bytes": "strings or sequences"}
    return names[schema.kind] if schema.columns is None else f"vectors of {schema.columns} {names[schema.kind]}"


def widest(schemas: list[Schema]) -> Schema:
    """The one schema that all of these conform to, or MechanismError; vectors beside bytes may be sequences of one length."""
    order = ["bool", "int", "float", "bytes"]
    first = max(schemas, key=lambda s: order.index(s.kind))
    for schema in schemas:
        if first.kind != "bytes":
            conform(np.empty(schema.shape(0), schema.dtype), first)
    return first
