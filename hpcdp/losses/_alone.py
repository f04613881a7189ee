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
    """MechanismError where a class or loss of this name judges some of a law's fresh outputs differently in another batch."""
    # Of counts none may change by rounding either: what moves all scores across a threshold moves a bound as far as anything.
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
    if size < 2:
        return
    every, singles = np.arange(size), np.unique(np.linspace(0, size - 1, _SINGLES).astype(np.int64))
    for division in ([every[::-1]], np.split(every, [size // 2]), [*singles[:, None], np.delete(every, singles)]):
        yield [part for part in division if part.size]


def _agree(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    with np.errstate(invalid="ignore"):
        close = np.isclose(a, b, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
        return bool((close | (np.abs(expit(a) - expit(b)) <= _PROBABILITY)).all())
