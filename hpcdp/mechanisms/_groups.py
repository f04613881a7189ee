"""Batches that are equal, and the outputs of groups of draws put in the order of the draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdp.errors import MechanismError
from hpcdp.mechanisms.outputs import is_masked_array
from hpcdp.mechanisms.spelling import items_of

Ints = NDArray[np.int64]

_MOST_CODE = 1 << 62


def count_contents(places: Ints, rows: NDArray[Any]) -> tuple[Ints, Ints, Ints]:
    """Group batches that hold equal rows in the same order.

    Args:
        places: int64 (draws, width), numbers of rows; the number of all rows stands for none, after the others.
        rows: (rows,) or (rows, columns).

    Returns:
        one draw of each group, how many draws each group has, and all draws, group after group; a group's place follows
        from what its batches hold.
    """
    distinct, label = np.unique(rows, axis=0, return_inverse=True)
    labels = np.append(label.ravel() + 1, 0)[places]
    codes, span, base = np.zeros(places.shape[0], np.int64), 1, distinct.shape[0] + 1
    for column in labels.T:
        if span * base > _MOST_CODE:  # exact, so not a hash: smaller numbers for the codes so far
            codes = np.unique(codes, return_inverse=True)[1]
            span = int(codes.max()) + 1
        codes, span = codes * base + column, span * base
    _, chosen, group, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    return chosen, counts, np.argsort(group, kind="stable")


def join_outputs(parts: Sequence[tuple[Any, int]], order: NDArray[np.int64]) -> Any:
    """Put outputs of several calls in one array or list.

    Args:
        parts: what each call returned, and for how many outputs it was asked.
        order: (size,), for each output, one call's after another's, its place in the result.

    Returns:
        an array where all calls returned arrays of numbers, or all of strings, of one shape; else a list.

    Raises:
        MechanismError: a call returned another number of outputs than it was asked for.
    """
    found = [_outputs(raw, count) for raw, count in parts]
    if len(found) == 1 and isinstance(found[0], np.ndarray):
        joined = found[0]
    elif found and all(isinstance(part, np.ndarray) for part in found) and _are_alike(found):
        joined = np.concatenate(found)
    else:
        out: list[Any] = [None] * order.size
        outputs = (output for part in found for output in part)
        for place, output in zip(order.tolist(), outputs, strict=True):
            out[place] = output
        return out
    result = np.empty_like(joined)
    result[order] = joined
    return result


def _outputs(raw: Any, count: int) -> Any:
    """An array or a list of the outputs of one call."""
    items = items_of(raw)
    found = raw if items is None and is_masked_array(raw) else np.asarray(raw) if items is None else items
    if isinstance(found, np.ndarray) and not found.ndim:
        raise MechanismError(
            f"the mechanism returned one {type(raw).__name__} when asked for {count} outputs of a batch"
        )
    if len(found) != count:
        raise MechanismError(f"the mechanism returned {len(found)} outputs when asked for {count} of a batch")
    return found


def _are_alike(arrays: Sequence[NDArray[Any]]) -> bool:
    """Whether the arrays of outputs become one array that holds what they hold."""
    kinds = {"number" if array.dtype.kind in "biuf" else array.dtype.kind for array in arrays}
    masked = any(is_masked_array(array) for array in arrays)
    return len(kinds) == 1 and len({array.shape[1:] for array in arrays}) == 1 and not masked
