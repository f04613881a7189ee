"""Exact privacy spectra and trade-off curves of known mechanisms."""

import hpcdp.analytic._builtin  # noqa: F401  (registers the built-in mechanisms)
from hpcdp.analytic._curve import Curve, Direction
from hpcdp.analytic._registry import exact, register
from hpcdp.analytic.discrete import Discrete
from hpcdp.analytic.dp import ApproximateDP
from hpcdp.analytic.gaussian import GaussianShift, gaussian_mu, gaussian_sigma
from hpcdp.analytic.laplace import LaplaceShift
from hpcdp.analytic.points import SpectrumPoints

__all__ = [
    "ApproximateDP",
    "Curve",
    "Direction",
    "Discrete",
    "GaussianShift",
    "LaplaceShift",
    "SpectrumPoints",
    "exact",
    "gaussian_mu",
    "gaussian_sigma",
    "register",
]
