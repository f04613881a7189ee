"""A noisy number, and the place of the lowest bit that is set in it."""

import numpy as np
import opendp.prelude as dp
from serve import serve

dp.enable_features("contrib")
release = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=1.0)
assert release.check(1.0, 1.0001)  # that it is 1-DP, it says, but for rounding


def mechanism(database, size, rng):
    values = np.array([release(float(database[0])) for _ in range(size)])
    return np.stack([values, lowest_bit(values)], axis=1)


def lowest_bit(values):
    mantissas, exponents = np.frexp(values)
    whole = np.abs(mantissas * 2.0**53).astype(np.int64)
    return exponents - 53 + np.log2(np.maximum(whole & -whole, 1)).astype(np.int64)


serve(mechanism)
