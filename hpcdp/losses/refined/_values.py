"""Distinct values as cells: what tallies count where outputs lie on no line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.losses.frequency._tally import HashClasses
from hpcdp.losses.frequency.distinct import Distinct, learn_distinct, restore_values
from hpcdp.losses.frequency.frequency import FrequencyCounter
from hpcdp.losses.protocol import Outputs

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Values:
    """Each value that the pilot saw is a cell, and all others together are the last one.

    order: (values,) int64, where each value was when the state was made.
    """

    distinct: Distinct | HashClasses
    order: Ints

    @classmethod
    def of(cls, distinct: Distinct | HashClasses) -> Values:
        """The values of a learned `frequency`."""
        return cls(distinct, np.arange(distinct.size))

    @property
    def size(self) -> int:
        """How many cells there are."""
        return int(self.distinct.size) + 1

    def tally(self, outputs: Outputs) -> Ints:
        """How many outputs have each value, (cells,) int64."""
        return np.roll(np.bincount(self.distinct.find(outputs) + 1, minlength=self.size), -1)

    def counter(self, classes: Ints, thresholds: NDArray[np.float64]) -> FrequencyCounter:
        """Counts outputs by these classes of the cells."""
        return FrequencyCounter(self.distinct, classes.astype(np.int32), 2 * thresholds.size + 1)

    def state(self) -> dict[str, NDArray[Any]]:
        """The arrays that `restore` needs."""
        return self.distinct.state()

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]]) -> Values:
        """The values whose `state` this is; they may come in another order."""
        if "keys" in state:
            return cls.of(HashClasses.restore(state))
        distinct, order = learn_distinct(restore_values(state))
        back = np.empty(distinct.size, np.int64)
        back[order] = np.arange(distinct.size)
        return cls(distinct, back)
