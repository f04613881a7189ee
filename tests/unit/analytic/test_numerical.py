"""Laplace noise on a vector, and densities in pieces: against direct integrals, closed forms and grids."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

from hpcdp.analytic import (
    Discrete,
    LaplaceShift,
    LaplaceVector,
    Piecewise,
    exact,
    laplace_pair,
)
from hpcdp.analytic._losses import sum_on_grid

GRID = [0.0, 0.01, 0.03, 0.05, 0.07, 0.09, 0.11, 0.13, 0.15, 0.17, 0.19]
FIFTY = ".056052 .051706 .043217 .035675 .029084 .023383 .018558 .014502 .011183 .008476 .006340"


def real_delta(shift, level):
    """The spectrum of one shift at any real level: delta(-x) = 1 - e^-x (1 - delta(x)), as the pair is symmetric."""
    closed = -math.expm1(-0.5 * max(shift - abs(level), 0.0))
    return closed if level >= 0.0 else 1.0 - math.exp(level) * (1.0 - closed)


def two_shifts(first, second, level):
    """The mean over the first loss, atoms and density, of the second's spectrum at what is left of the level."""
    total = 0.5 * real_delta(second, level - first) + 0.5 * math.exp(-first) * real_delta(second, level + first)
    breaks = sorted({-first, first, *(x for x in (level - second, level, level + second) if abs(x) < first)})
    for low, high in itertools.pairwise(breaks):
        total += integrate.quad(
            lambda x: 0.25 * math.exp(-0.5 * (first - x)) * real_delta(second, level - x),
            low, high, epsabs=1e-15, epsrel=1e-13,
        )[0]  # fmt: skip
    return total


def test_fifty_shifts_reference():
    curve = LaplaceVector(np.full(50, 0.02))
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.delta(GRID, direction), np.array(FIFTY.split(), float), rtol=0, atol=6e-6)
    assert curve.delta(1.0) == 0.0
    assert curve.delta(0.999) > 0.0


@pytest.mark.parametrize("shifts", [(1 / 3, 1 / math.pi), (0.5, 0.5), (2.0, 0.1), (7.0, 4.0)])
def test_two_shifts_against_the_direct_integral(shifts):
    levels = sum(shifts) * np.linspace(0.0, 1.05, 22)
    truth = [two_shifts(*shifts, level) for level in levels]
    curve = LaplaceVector(shifts)
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.delta(levels, direction), truth, atol=1e-12)
    dominating = sum_on_grid(np.array(shifts), 1 << 14).delta(levels)
    assert (dominating >= np.array(truth) - 1e-12).all()
    np.testing.assert_allclose(dominating, truth, atol=2e-4 * sum(shifts))  # an atom may move by a step


def test_many_different_shifts_use_the_grid():
    shifts = np.linspace(0.01, 0.09, 20)
    levels = [0.0, 0.1, 0.3, 0.6, 1.01]
    fine, coarse = LaplaceVector(shifts).delta(levels), sum_on_grid(shifts, 1 << 14).delta(levels)
    assert (coarse >= fine - 1e-13).all()
    np.testing.assert_allclose(coarse, fine, atol=1e-6)


def test_large_shifts_stay_finite():
    for shifts in (np.full(50, 10.0), np.array([300.0, 500.0]), np.array([1e-6, 3.0])):
        curve = LaplaceVector(shifts)
        with np.errstate(all="raise", under="ignore"):
            values = curve.delta(np.array([0.0, 1.0, 0.9 * shifts.sum(), 1e4, np.inf]))
        assert (np.diff(values) <= 0.0).all()
        assert values[3] == 0.0
    assert LaplaceVector([1e-6, 3.0]).delta(0.5) == pytest.approx(float(LaplaceShift(3.0).delta(0.5)), abs=1e-6)


def test_which_pair_a_builder_gives():
    assert laplace_pair([0.0, 1.3, 0.0]) == LaplaceShift(1.3)
    assert laplace_pair([0.0]) == LaplaceShift(0.0)
    assert isinstance(laplace_pair([0.1, 1.3]), LaplaceVector)
    assert LaplaceVector([0.0, 1.3]).delta(0.2) == LaplaceShift(1.3).delta(0.2)
    pair = exact("laplace", {"scale": 2.0}, np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.5], [3.0, 2.0]]))
    np.testing.assert_allclose(pair.shifts, [0.0, 0.25, 0.0, 1.0])
    # A noisy histogram: one bin changes when a row is removed, two when it is edited.
    database, parameters = np.array([0, 1, 1, 3]), {"values": [0, 1, 2], "epsilon": 0.1}
    assert exact("noisy_histogram", parameters, database, database[:2]).epsilon0 == pytest.approx(0.1)
    assert exact("noisy_histogram", parameters, database, database[:3]) == LaplaceShift(0.0)
    faulty = exact("noisy_histogram", {**parameters, "variant": "faulty"}, database, database[1:])
    assert faulty.delta(0.05) == pytest.approx(0.993091, abs=5.01e-7)
    edited = exact("noisy_histogram", parameters, database, np.array([0, 1, 2, 3]))
    assert edited.delta(0.15) == pytest.approx(two_shifts(0.1, 0.1, 0.15), abs=1e-12)
    assert edited.delta(0.2) == 0.0


def test_piecewise_with_atoms_and_impossible_parts():
    # P uniform on [0, 1] with 1/2, else an atom; Q uniform on [0, 2] with 3/4, else the atom.
    def densities(x):
        with np.errstate(divide="ignore"):
            return np.log(np.where(x < 1.0, 0.5, 0.0)), np.full(x.shape, math.log(0.375))

    curve = Piecewise([(densities, [0.0, 1.0, 2.0])], [0.5], [0.25])
    equal = Discrete([0.5, 0.5, 0.0], [0.375, 0.25, 0.375])
    levels, sizes = np.array([0.0, 0.2, 0.5, 1.0, 800.0, np.inf]), np.linspace(0.0, 1.0, 41)
    for direction in ("forward", "reverse"):
        np.testing.assert_allclose(curve.delta(levels, direction), equal.delta(levels, direction), atol=1e-14)
    np.testing.assert_allclose(curve.tradeoff(sizes), equal.tradeoff(sizes), atol=1e-14)
    etas = np.array([0.0, 0.49, 0.5, 0.51, 0.7499, 0.7501, 3.0, np.inf])
    np.testing.assert_allclose(curve.point(etas), equal.point(etas), atol=1e-14)
