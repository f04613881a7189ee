"""The place of the lowest bit that is set in a noisy number: a function of one output, so it reveals no more."""

import numpy as np
from diffprivlib.mechanisms import Laplace
from serve import serve


def mechanism(database, size, rng):
    noisy = Laplace(epsilon=1.0, sensitivity=1.0, random_state=np.random.RandomState(rng.bit_generator))
    return lowest_bit(np.array([noisy.randomise(float(database[0])) for _ in range(size)]))


def lowest_bit(values):
    mantissas, exponents = np.frexp(values)
    whole = np.abs(mantissas * 2.0**53).astype(np.int64)
    return exponents - 53 + np.log2(np.maximum(whole & -whole, 1)).astype(np.int64)


serve(mechanism)
