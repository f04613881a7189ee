"""Cells of weighted draws: which classes a set begins with, the rates of its sums, and their cut-offs."""

import numpy as np

from hpcdp.importance.sums import Cells


def cells(least, rates, cutoffs):
    return Cells(np.sort(np.asarray(least, np.int64)), np.asarray(rates, float), np.asarray(cutoffs, float))


def one_cell(rate, cutoff):
    return cells([1], [rate], [cutoff])
