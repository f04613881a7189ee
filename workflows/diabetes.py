"""The databases of the diabetes studies: scikit-learn's bundled data (442 patients), in their own units."""

import numpy as np
from sklearn.datasets import load_diabetes


def s2() -> np.ndarray:
    """Attribute s2, low-density lipoproteins in mg/dl, one row a patient, shape (442,)."""
    data = load_diabetes(scaled=False)
    return data.data[:, data.feature_names.index("s2")]
