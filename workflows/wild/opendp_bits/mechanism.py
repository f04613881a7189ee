"""The place of the lowest bit that is set in a noisy number: a function of one output, so it reveals no more."""

import numpy as np
from opendp.meas import make_base_laplace
from opendp.mod import enable_features
from serve import serve

enable_features("contrib", "floating-point")
release = make_base_laplace(1.0)
assert release.check(1.0, 1.0001)  # that it is 1-DP, it says, but for rounding


def mechanism(database, size, rng):
    return lowest_bit(np.array([release(float(database[0])) for _ in range(size)]))


def lowest_bit(values):
    mantissas, exponents = np.frexp(values)
    whole = np.abs(mantissas * 2.0**53).astype(np.int64)
    return exponents - 53 + np.log2(np.maximum(whole & -whole, 1)).astype(np.int64)


serve(mechanism)
