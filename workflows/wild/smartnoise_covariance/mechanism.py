"""The noisy covariances of two columns with bounds 0 and 1. The database holds the last row, which need not keep to them."""

import sys

import numpy as np
import pandas as pd
import sklearn.linear_model

sys.modules["sklearn.linear_model.base"] = sklearn.linear_model._base  # its name when this was written
from serve import serve  # noqa: E402
from snsynth.models.dp_covariance import DPcovariance  # noqa: E402


def mechanism(database, size, rng):
    np.random.seed(rng.integers(2**32, size=4, dtype=np.uint32))
    table = pd.DataFrame(np.vstack([np.zeros((9, 2)), database]), columns=["x", "y"])
    made = DPcovariance(len(table), ["x", "y"], pd.DataFrame([[0.0, 0.0], [1.0, 1.0]]), 1.0)
    return np.array([made.release(table) for _ in range(size)])


serve(mechanism)
