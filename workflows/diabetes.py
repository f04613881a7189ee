"""The databases of the diabetes studies: scikit-learn's bundled data (442 patients), in their own units."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

_S2 = 5  # of the columns age, sex, bmi, bp, s1, s2, …


def s2() -> np.ndarray:
    """Attribute s2, low-density lipoproteins in mg/dl, one row a patient, shape (442,)."""
    package = find_spec(
        "sklearn"
    )  # found, not imported: its own load_diabetes imports as long as a tenth of the study runs
    folder = Path(package.submodule_search_locations[0])
    return np.loadtxt(folder / "datasets" / "data" / "diabetes_data_raw.csv.gz", usecols=_S2)
