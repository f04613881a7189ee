"""NumPy's PCG64 as mechanisms get it: no way out of it gives numbers that it gives elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np


class PCG64(np.random.PCG64):
    """NumPy's, with its bits, without the methods that go to another place of the same numbers, and with a seed for each look."""

    @property
    def seed_seq(self) -> Any:
        """A child of the seed, another one at each look: a generator made of the seed itself gives these numbers again."""
        return self._seed_seq.spawn(1)[0]  # type: ignore[attr-defined]

    def jumped(self, *_: Any, **__: Any) -> Any:
        """Refused, as `advance`: NumPy's, called again after a few draws, gives the same numbers, shifted."""
        raise TypeError(
            "jumped and advance of bit_generator are refused: after a few draws they lead to the same numbers again; "
            "accepted: rng.spawn(1), whose numbers nothing else gets"
        )

    advance = jumped

    def whole(self) -> tuple[Any, ...]:
        """All that it goes on from, for another process; where `state` begins a stream anew, this changes nothing."""
        rest = {name: value for name, value in self.__dict__.items() if name != "made"}
        return np.random.PCG64.state.__get__(self), self._seed_seq, rest  # type: ignore[attr-defined]

    def take_up(self, whole: tuple[Any, ...]) -> None:
        """Go on as that one would."""
        state, sequence, rest = whole
        super().__setstate__((state, sequence))  # type: ignore[misc]
        self.__dict__.update(rest)
