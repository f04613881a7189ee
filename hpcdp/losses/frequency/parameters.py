"""Parameters of `frequency`. Imports nothing numerical, for fast validation."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from hpcdp.losses.kind import Parameters

_DISTINCT = 1 << 22


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
