"""The slope of a regression through the origin, of two rows: of one the database has the feature."""

import numpy as np
from diffprivlib.models import LinearRegression
from serve import serve


def mechanism(database, rng):
    features, targets = np.array([[database[0]], [10.0]]), np.array([0.0, 0.0])
    state = np.random.RandomState(rng.bit_generator)
    given = {"epsilon": 1.0, "bounds_X": (0.0, 100.0), "bounds_y": (0.0, 1.0), "fit_intercept": False}
    return float(LinearRegression(**given, random_state=state).fit(features, targets).coef_[0])


serve(mechanism)
