"""Counts without noise, of databases that are themselves random: distributional differential privacy."""

import numpy as np

from hpcdp._check import fraction, integer
from hpcdp.analytic._binomial import binomial_log_pmf
from hpcdp.analytic.discrete import Discrete


def noiseless_count(rows: int, probability: float) -> Discrete:
    """Return the exact pair of the number of ones among independent rows, one row given as 1 (P) and as 0 (Q).

    The other rows - 1 are 1 with the given probability: P is the law of 1 + Bin(rows - 1, probability), Q that of
    Bin(rows - 1, probability). The likelihood ratio p/q at s ones is s (1 - probability) / ((rows - s) probability)
    (Liu, Lu, Xia and Zikas 2020; Lu, Magdon-Ismail, Wei and Zikas 2024, Fig. 8). The outcomes are 0 ... rows.
    Its histogram of zeros and ones has the same pair.

    Args:
        rows: of the database, >= 1.
        probability: of a one in each other row, from 0 to 1.

    Raises:
        ValueError: a value out of range.
    """
    others = integer("rows", rows, 1) - 1
    law = np.exp(binomial_log_pmf(others, fraction("probability", probability)))
    return Discrete(np.concatenate(([0.0], law)), np.concatenate((law, [0.0])))
