"""Whether somebody's classifier or loss judges each output by itself, which every bound rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    whole = score(sample)
    for division in _divisions(sample.shape[0]):
        scores = np.empty_like(whole)
        for part in division:
            scores[part] = score(sample[part])
        if not _agree(whole, scores):
            return False
    return True


def _has_equal_counts(count: Callable[[Outputs], NDArray[np.int64]], sample: Outputs) -> bool:
    whole = count(sample)
    divisions = _divisions(sample.shape[0])
    return all(np.array_equal(whole, sum(count(sample[part]) for part in division)) for division in divisions)


def _divisions(size: int) -> Iterator[list[NDArray[np.int64]]]:
    """Places of a batch in reverse, in halves, and some singly beside the rest."""
    every = np.arange(size)
    singles = np.unique(np.linspace(0, max(0, size - 1), _SINGLES).astype(np.int64))
    for division in (
        [every[::-1]],
        np.split(every, [size // 2]),
        [*singles[:, None], np.delete(every, singles[:size])],
    ):
        yield [part for part in division if part.size and size > 1]


def _agree(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    with np.errstate(invalid="ignore"):
        close = np.isclose(a, b, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
        return bool((close | (np.abs(expit(a) - expit(b)) <= _PROBABILITY)).all())
