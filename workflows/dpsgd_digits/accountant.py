"""The accountant's whole trade-off curve of DP-SGD with full batches, written as a claim: python accountant.py

With full batches DP-SGD is `steps` Gaussian mechanisms of noise multiplier `noise`, one after the other, for adding or
removing a row. It is exactly Gaussian differential privacy with μ = √steps/noise (Dong, Roth and Su 2022, Corollary 3.3):
no bound is lost, and a gradient canary meets the curve. Prints ε(δ) beside those of Opacus' accountants, if it is there.
"""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hpcdp.analytic import GaussianShift
from hpcdp.study.file import Study

FOLDER = Path(__file__).resolve().parent
CLAIM = FOLDER / "claim.csv"
DELTAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)


def claimed_training() -> tuple[float, int]:
    """Noise multiplier and steps of the correct study, about which the claim is."""
    parameters = Study.from_toml(FOLDER / "correct.toml").mechanism.parameters
    return float(parameters["noise"]), int(parameters["steps"])


def gaussian_mu(noise: float, steps: int) -> float:
    """μ of Gaussian differential privacy."""
    return math.sqrt(steps) / noise


def curve_points(mu: float, half: int = 120, step: float = 0.05) -> NDArray[np.float64]:
    """Points (α, T(α)) of the exact curve, (2·half + 3, 2), from (0, 1) to (1, 0).

    α = Φ(t) with t evenly spaced around −μ/2, about which the curve is its own mirror image, as then are the points.
    """
    t = -mu / 2 + step * np.arange(-half, half + 1)
    alphas = ndtr(t)
    inner = np.column_stack([alphas, GaussianShift(mu).tradeoff(alphas)])
    return np.vstack([[0.0, 1.0], inner, [1.0, 0.0]])


def write_claim(path: Path, mu: float) -> None:
    """Write the curve as a claim file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["alpha", "beta"])
        writer.writerows(curve_points(mu).tolist())


def exact_epsilon(mu: float, delta: float) -> float:
    """Smallest ε at which the curve has at most this δ."""
    from scipy.optimize import brentq

    return float(brentq(lambda epsilon: float(GaussianShift(mu).spectrum(epsilon)) - delta, 0.0, 20.0 * mu + mu * mu))


def opacus_epsilons(noise: float, steps: int, delta: float) -> tuple[float, float] | None:
    """ε(δ) by Opacus' PRV and RDP accountants at sampling rate 1; None where it is not installed."""
    try:
        from opacus.accountants import PRVAccountant, RDPAccountant
    except ImportError:
        return None
    found = []
    for kind in (PRVAccountant, RDPAccountant):
        accountant = kind()
        accountant.history = [(noise, 1.0, steps)]
        with np.errstate(divide="ignore"):  # the logarithm of 1 − sampling rate
            found.append(float(accountant.get_epsilon(delta)))
    return found[0], found[1]


def main() -> int:
    """Write the claim and print what it means."""
    noise, steps = claimed_training()
    mu = gaussian_mu(noise, steps)
    write_claim(CLAIM, mu)
    print(f"noise multiplier {noise:g}, {steps} steps of full batches: μ = {mu:g}; its curve is in {CLAIM}")
    print("    δ   ε exact   ε Opacus PRV   ε Opacus RDP")
    for delta in DELTAS:
        other = opacus_epsilons(noise, steps, delta)
        prv, rdp = (f"{value:.4f}" for value in other) if other else ("-", "-")
        print(f"{delta:5.0e}   {exact_epsilon(mu, delta):7.4f}   {prv:>12}   {rdp:>12}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
