"""Halves of training outputs that judge each other."""

from __future__ import annotations

import numpy as np

from hpcdp.losses.frequency._hashes import hash_outputs
from hpcdp.losses.protocol import Side


def halves_of(side: Side) -> tuple[Side, Side]:
    """Two halves of a side, about as large, each with its part of the draws.

    A hash of its place decides: outputs may be sorted, and every other one of them would be a half that knows the other.
    """
    first = (hash_outputs(np.arange(side.size)) >> np.uint64(63)).astype(np.bool_)
    outside = side.draws - side.size  # of a region
    parts = (side.outputs[first], outside // 2), (side.outputs[~first], outside - outside // 2)
    return tuple(Side(x, x.shape[0] + rest, side.is_sorted) for x, rest in parts)  # type: ignore[return-value]
