"""How many test samples each pair got where a run decided that."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcdp.notions.spectrum import TOLD, told_pairs

_NAMED = 4  # pairs whose test samples are listed


def describe_sizes(result: Any) -> str:
    """What each pair got to test, the most tested pairs by name."""
    tested = result["test"][:, 0, 0, :]
    most = tested.max(axis=1)
    order = np.argsort(-most, kind="stable")
    named = [
        f"{result.describe_pair(int(pair))} {tested[pair, 0]:,} of D and {tested[pair, 1]:,} of D′"
        for pair in order[:_NAMED]
    ]
    if len(order) > _NAMED:
        rest = most[order[_NAMED:]]
        named.append(f"{rest.size:,} more pairs {rest.min():,} to {rest.max():,}")
    words = f"test samples: {'; '.join(named)}"
    if len(order) > 1 and most.min() < most.max():
        words += " Which pairs got few is a heuristic; that δ is at least the bound of any of them is certified."
        if not told_pairs(result["test"]).all():
            words += (
                f" δ̂ is the largest of the pairs that got at least 1/{TOLD} of the most; of others it would be noise."
            )
    return words
