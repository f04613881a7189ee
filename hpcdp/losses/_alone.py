"""Whether somebody's classifier or loss judges each output by itself, which every bound rests on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hpcdp.errors import MechanismError
from hpcdp.losses.protocol import Counter, Outputs

_MOST = 1 << 16  # outputs of a chunk that are looked at; classifiers get no more at a time
_SINGLES = 64
# Scores change so much with how many are computed at a time: float32 numbers, and log-odds of a probability near 1.
_ROUNDING, _PROBABILITY = 1e-5, 1e-6


def refuse_batch_dependent(counter: Counter, outputs: Outputs, name: str) -> None:
    """Judge some outputs together, in reverse, in halves and 64 of them singly, and compare.

    Counts, which bounds rest on, must be equal: none may change by rounding either, because what moves the scores of all
    outputs across a threshold by 1e-15 moves a bound as far as any other difference. Scores, where the counter has any
    (`score`), may differ by rounding. It costs about seven times judging these outputs, at most 2¹⁶, and 128 calls.

    Args:
        counter: of what was learned.
        outputs: of one law, which it has to count, and did not learn from: it may have kept those.
        name: of the class or loss.

    Raises:
        MechanismError: it judges an output differently in another batch.
    """
    sample = outputs[:_MOST]
    score: Callable[[Outputs], NDArray[np.float64]] | None = getattr(counter, "score", None)
    if not _has_equal_counts(counter.count, sample) or (score is not None and not has_equal_scores(score, sample)):
        raise MechanismError(
            f"estimate.loss: {name} judges an output differently in another batch ({sample.shape[0]:,} outputs together, "
            f"reversed, in halves, {min(_SINGLES, sample.shape[0])} singly), so that test outputs are not judged one by one and "
            "no bound would hold; accepted: scores that depend on the output and on what was learned alone, computed in "
            "float64 (the rounding of float32 moves outputs across thresholds)"
        )


def has_equal_scores(score: Callable[[Any], NDArray[np.float64]], sample: NDArray[Any]) -> bool:
    """Whether each output gets the same score, natural log, whatever the batch, but for rounding."""
    if sample.shape[0] < 2:
        return True
    whole, half, places = score(sample), sample.shape[0] // 2, _places(sample)
    reversed_ = score(sample[::-1].copy())[::-1]
    halves = np.concatenate([score(sample[:half]), score(sample[half:])])
    singles = np.concatenate([score(sample[place : place + 1]) for place in places])
    return bool(_agree(whole, reversed_) and _agree(whole, halves) and _agree(whole[places], singles))


def _has_equal_counts(count: Callable[[Outputs], NDArray[np.int64]], sample: Outputs) -> bool:
    if sample.shape[0] < 2:
        return True
    whole, half, places = count(sample), sample.shape[0] // 2, _places(sample)
    singles = sum(count(sample[place : place + 1]) for place in places)
    rest = np.delete(sample, places, axis=0)
    parts = (
        count(sample[::-1].copy()),
        count(sample[:half]) + count(sample[half:]),
        singles + (count(rest) if rest.shape[0] else 0),
    )
    return all(np.array_equal(whole, part) for part in parts)


def _places(sample: NDArray[Any]) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, sample.shape[0] - 1, _SINGLES).astype(np.int64))


def _agree(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    with np.errstate(invalid="ignore"):
        close = np.isclose(a, b, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
        return bool((close | (np.abs(expit(a) - expit(b)) <= _PROBABILITY)).all())
