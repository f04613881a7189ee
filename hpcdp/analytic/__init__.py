"""Exact privacy spectra and trade-off curves of known mechanisms."""

from hpcdp.analytic._curve import Curve, Direction
from hpcdp.analytic._exact import exact, register
from hpcdp.analytic.derived import Reversed, Subsampled, Symmetrised
from hpcdp.analytic.discrete import (
    Discrete,
    geometric_sum_pair,
    geometric_sum_pmf,
    noiseless_count,
    randomized_response_pair,
    rappor_pair,
    threshold_release_pair,
)
from hpcdp.analytic.gaussian import GaussianShift, gaussian_mu, gaussian_sigma, gaussian_textbook_delta, toy_dpsgd_pair
from hpcdp.analytic.laplace import LaplaceShift, LaplaceVector, laplace_pair
from hpcdp.analytic.noisy_max import (
    exponential_pair,
    exponential_pmf,
    exponential_real_pair,
    noisy_max_index,
    noisy_max_value,
)
from hpcdp.analytic.normal_mixture import NormalMixture
from hpcdp.analytic.piecewise import Piecewise
from hpcdp.analytic.points import ApproximateDP, SpectrumPoints, TradeOffPoints
from hpcdp.analytic.sparse_vector import sparse_vector

__all__ = [
    "ApproximateDP",
    "Curve",
    "Direction",
    "Discrete",
    "GaussianShift",
    "LaplaceShift",
    "LaplaceVector",
    "NormalMixture",
    "Piecewise",
    "Reversed",
    "SpectrumPoints",
    "Subsampled",
    "Symmetrised",
    "TradeOffPoints",
    "exact",
    "exponential_pair",
    "exponential_pmf",
    "exponential_real_pair",
    "gaussian_mu",
    "gaussian_sigma",
    "gaussian_textbook_delta",
    "geometric_sum_pair",
    "geometric_sum_pmf",
    "laplace_pair",
    "noiseless_count",
    "noisy_max_index",
    "noisy_max_value",
    "randomized_response_pair",
    "rappor_pair",
    "register",
    "sparse_vector",
    "threshold_release_pair",
    "toy_dpsgd_pair",
]
