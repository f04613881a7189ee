"""Binomial probabilities that keep their digits for any number of trials."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def binomial_log_pmf(trials: int, probability: float) -> Array:
    """Return log P(Bin(trials, probability) = s) for s = 0 ... trials; shape (trials + 1,).

    The logarithms of the ratios of neighbours are summed outwards from the mode, so that no large numbers cancel
    where the mass is; the sum over all s is 1.
    """
    if probability in (0.0, 1.0):
        out = np.full(trials + 1, -np.inf)
        out[trials if probability else 0] = 0.0
        return out
    ones = np.arange(trials, dtype=np.float64)
    steps = np.log((trials - ones) / (ones + 1.0)) + np.log(probability) - np.log1p(-probability)
    mode = min(int((trials + 1) * probability), trials)
    upwards, downwards = np.cumsum(steps[mode:]), np.cumsum(-steps[:mode][::-1])[::-1]
    out = np.concatenate((downwards, [0.0], upwards))
    return np.asarray(out - np.log(np.exp(out).sum()))
