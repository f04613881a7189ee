"""Published bounds that are not tight."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp._check import positive
from hpcdp.analytic._curve import checked

Array = NDArray[np.float64]


def gaussian_textbook_delta(epsilon: ArrayLike, sigma: float, sensitivity: float = 1.0) -> Array:
    """Return the textbook's upper bound on the spectrum of Gaussian noise, not its truth (see `GaussianShift`).

    min(1, 1.25 exp(-(sigma epsilon / sensitivity)^2 / 2)): the classical calibration of Dwork and Roth (2014), Theorem
    A.1, solved for delta; the loose curve of Fig. 6a of Lu, Magdon-Ismail, Wei and Zikas (2024). It is proved
    for epsilon < 1.

    Args:
        epsilon: levels >= 0, any shape.
        sigma: the standard deviation, > 0.
        sensitivity: the L2 distance of the two centres, > 0.

    Returns:
        float64 of the shape of `epsilon`, between 0 and 1.

    Raises:
        ValueError: a value out of range.
    """
    levels = checked("epsilon", epsilon, 0.0, np.inf)
    units = levels * (positive("sigma", sigma) / positive("sensitivity", sensitivity))
    return np.asarray(np.minimum(1.0, 1.25 * np.exp(-0.5 * units * units)))
