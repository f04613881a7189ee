"""Parameters of `frequency`, and what it says about itself. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from hpcdp.losses.kind import STREAMED_BYTES, LossKind, Parameters, Seconds, plain_seconds

if TYPE_CHECKING:
    from hpcdp.mechanisms.outputs import Schema

_DISTINCT = 1 << 22
_CLASS_BYTES = 128  # a class of values while it is learned


class FrequencyParameters(Parameters):
    """Parameters of `frequency`.

    rare: values that fewer pooled training points hold become one value. distinct: the most values that are told apart;
    when training has more, values share classes (see `hpcdp.losses.frequency._tally`).
    """

    rare: Annotated[int, Field(ge=0, strict=True)] = 0
    distinct: Annotated[int, Field(ge=2, le=1 << 28, strict=True)] = _DISTINCT

    @model_serializer(mode="wrap")
    def _leave_out_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        if self.distinct == _DISTINCT:  # stores of versions without this parameter keep their keys
            del values["distinct"]
        return values


class FrequencyKind(LossKind):
    """`frequency`."""

    parameters = FrequencyParameters
    loss = "hpcdp.losses.frequency.frequency:Frequency"
    tells_values = True

    def seconds(self, parameters: FrequencyParameters, schema: Schema, train: int, many_valued: int) -> Seconds:
        """Numbers are hashed; of all else each value is spelled."""
        plain = plain_seconds(schema, many_valued)
        return plain if schema.kind == "bytes" and plain else (2.0e-7, 1.5e-7, 5.0e-4)

    def memory(self, parameters: FrequencyParameters, schema: Schema, train: int) -> int:
        """All but reals are read by blocks, and their classes are kept."""
        if schema.kind == "float" and schema.columns is None:
            return super().memory(parameters, schema, train)
        side = train * schema.bytes_in_memory
        return 2 * min(side, STREAMED_BYTES) + _CLASS_BYTES * min(2 * train, parameters.distinct)
