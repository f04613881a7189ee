"""Draws of one pair for a check: streams that follow from a seed, and how long a draw takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcdp.mechanisms._callable import bind
from hpcdp.mechanisms.functions import name_of
from hpcdp.mechanisms.outputs import Outputs, Schema, canonicalise, schema_of, widest
from hpcdp.testing.planned import SIDES, STAGES

CHUNK = 1 << 16
"""Outputs of one call of a function that takes `size`, at most."""

_FIRST, _MOST_PILOT = 16, 1 << 14
_PILOT = 0.2  # seconds
_PILOT_STAGE = "pilot"


class PairOfLaws:
    """A function on two databases. takes_rng: whether its randomness comes from `rng`, so that a rerun draws the same."""

    def __init__(self, function: Callable[..., Any], d: Any, d_prime: Any, seed: int) -> None:
        """seed: a whole number >= 0; all draws follow from it where the function takes `rng`."""
        self._mechanism = bind(function, {}, name_of(function), reproducible=False, keys=("f", "f"))
        self._databases = [
            np.asarray(given) if isinstance(given, list | tuple | float | int) else given for given in (d, d_prime)
        ]
        self._seed, self._schema = seed, self._look(seed)

    @property
    def takes_rng(self) -> bool:
        """Whether the function draws from the generator that it is given."""
        return self._mechanism.takes_rng

    @property
    def vectorised(self) -> bool:
        """Whether the function takes `size`, and returns so many outputs."""
        return self._mechanism.vectorised

    def _look(self, seed: int) -> Schema:
        """What outputs look like, by a few of both sides."""
        return widest([schema_of(self._chunk(side, _PILOT_STAGE, 0, _FIRST, seed, None)) for side in (0, 1)])

    def __call__(self, side: int, stage: str, size: int, /) -> Outputs:
        """`size` outputs of a side, 0 for D and 1 for D', of a stage: always the same where the function takes `rng`."""
        return np.concatenate(list(self.chunks(side, stage, size)))

    def chunks(self, side: int, stage: str, size: int) -> Iterator[Outputs]:
        """The same in chunks."""
        for number, start in enumerate(range(0, size, CHUNK)):
            yield self._chunk(side, stage, number, min(CHUNK, size - start), self._seed, self._schema)

    def _chunk(self, side: int, stage: str, number: int, size: int, seed: int, schema: Schema | None) -> Outputs:
        key = (side, (*STAGES, _PILOT_STAGE).index(stage), number)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        return canonicalise(self._mechanism.draw(self._databases[side], size, rng), size, schema)

    def seconds_per_draw(self) -> float:
        """Seconds that one output of each side takes, by the fastest of a few calls."""
        size, best, until = _FIRST, np.inf, time.perf_counter() + _PILOT
        while time.perf_counter() < until:
            start = time.perf_counter()
            for side in range(len(SIDES)):
                self._chunk(side, _PILOT_STAGE, 1, size, self._seed, self._schema)
            took = time.perf_counter() - start
            best, size = min(best, took / size), min(2 * size, _MOST_PILOT) if took < 0.1 * _PILOT else size
        return float(best)
