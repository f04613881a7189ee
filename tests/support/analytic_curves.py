"""The closed curves that the tests of hpcdp.analytic share."""

import math

import numpy as np
import pytest

from hpcdp.analytic import (
    ApproximateDP,
    Discrete,
    GaussianShift,
    LaplaceShift,
    NormalMixture,
    Reversed,
    Subsampled,
    toy_dpsgd_pair,
)

E1, E2 = math.e, math.e**2
COUNT_P = np.array([E1, E2, 1.0]) / (E1 + E2 + 1.0)  # exponential mechanism on {0,1,1}, epsilon0 = 2
COUNT_Q = np.array([E1, E1, 1.0]) / (2.0 * E1 + 1.0)  # ... on {0,1}
COUNT_R = np.array([1.0, E2, 1.0]) / (E2 + 2.0)  # ... on {1,1}

CURVES = {
    "laplace .37": LaplaceShift(0.37),
    "laplace 0": LaplaceShift(0.0),
    "laplace 12": LaplaceShift(12.0),
    "gaussian .8": GaussianShift(0.8),
    "gaussian 0": GaussianShift(0.0),
    "gaussian 3e-4": GaussianShift(3e-4),
    "gaussian 9": GaussianShift(9.0),
    "counts": Discrete(COUNT_P, COUNT_Q),
    "zeros": Discrete([0.2, 0.5, 0.3, 0.0, 0.0], [0.1, 0.0, 0.3, 0.55, 0.05]),
    "disjoint": Discrete([1.0, 0.0], [0.0, 1.0]),
    "dp (.6, .03)": ApproximateDP(0.6, 0.03),
    "dp (0, 0)": ApproximateDP(0.0, 0.0),
    "dp-sgd": toy_dpsgd_pair(updates=3),
    "all moved": NormalMixture([0.4, 3.0], [0.7, 0.3]),
    "reversed": Reversed(toy_dpsgd_pair(updates=2)),
    "subsampled": Subsampled(LaplaceShift(1.3), 0.3),
    "subsampled zeros": Subsampled(Discrete([0.2, 0.5, 0.3, 0.0], [0.1, 0.0, 0.3, 0.6]), 0.6),
}
every_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())
both = pytest.mark.parametrize("direction", ["forward", "reverse"])
