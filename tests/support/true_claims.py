"""Pairs of laws with exact trade-off curves, and claims about them that are exactly true."""

import numpy as np
from analytic_curves import COUNT_P, COUNT_Q
from auditing import mass, shifted
from results import NOWHERE

from hpcdp.analytic import Discrete, GaussianShift, LaplaceShift, Symmetrised, TradeOffPoints
from hpcdp.notions.box import mu_lower
from hpcdp.results.audit import DELTAS
from hpcdp.study.claims import Claim, parse_claim

GAMMA = 0.05
LIMITS = ("exact", "hoeffding")


def claim(text):
    return parse_claim(text, NOWHERE)


def corners(p, q):
    """Points of the trade-off curve of two pmfs: where it bends and halfway between, which shows that it is straight there."""
    order = np.argsort(-q / p)
    bends = np.append([0.0], np.cumsum(p[order])).clip(0, 1), np.append([1.0], 1.0 - np.cumsum(q[order])).clip(0, 1)
    sizes = np.sort(np.concatenate([bends[0], (bends[0][1:] + bends[0][:-1]) / 2]))
    return sizes, np.interp(sizes, *bends)


def true_mu(curve):
    """The least μ for which an unordered pair is μ-GDP, on a grid, so never too large."""
    sizes = np.unique(np.concatenate([np.linspace(0.0, 1.0, 2001)[1:-1], np.geomspace(1e-12, 1e-3, 1000)]))
    return float(mu_lower(sizes, curve.tradeoff(sizes)).max())


def true_epsilons(curve, deltas=DELTAS):
    return np.maximum(*(curve.epsilon(np.array(deltas), direction) for direction in ("forward", "reverse")))


COUNTS, RARE = Discrete(COUNT_P, COUNT_Q), Discrete([1.0, 0.0], [0.8, 0.2])
PAIRS = {
    "gaussian": (shifted("normal", 0.0), shifted("normal", 1.0), GaussianShift(1.0)),
    "laplace": (shifted("laplace", 0.0), shifted("laplace", 1.0), LaplaceShift(1.0)),
    "counts": (mass(COUNT_P), mass(COUNT_Q), COUNTS),
    "rare": (mass(RARE.p), mass(RARE.q), RARE),
}
GRID = np.linspace(0.0, 1.0, 401)
TRUE = {
    ("gaussian", "both"): claim("gaussian(mu=1)"),
    ("laplace", "both"): claim("laplace(epsilon=1)"),
    ("counts", "forward"): Claim("T", TradeOffPoints(*corners(COUNT_P, COUNT_Q))),
    ("counts", "reverse"): Claim("T⁻¹", TradeOffPoints(*corners(COUNT_Q, COUNT_P))),
    ("counts", "both"): Claim("C[T]", TradeOffPoints(GRID, Symmetrised(COUNTS).tradeoff(GRID))),
    ("rare", "both"): claim("dp(epsilon=0, delta=0.2)"),  # met exactly at size 0
}
