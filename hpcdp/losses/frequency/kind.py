"""What `frequency` says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcdp.losses.frequency.parameters import FrequencyParameters
from hpcdp.losses.kind import STREAMED_BYTES, LossKind, Seconds, plain_seconds

if TYPE_CHECKING:
    from hpcdp.losses.protocol import Loss
    from hpcdp.mechanisms.outputs import Schema

_CLASS_BYTES = 128  # a class of values while it is learned


class FrequencyKind(LossKind):
    """`frequency`."""

    parameters = FrequencyParameters
    tells_values = True

    def make(self, parameters: FrequencyParameters) -> Loss:
        """The loss."""
        from hpcdp.losses.frequency.frequency import Frequency

        return Frequency(parameters)

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
