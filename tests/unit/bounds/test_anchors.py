"""Anchors: where the level of a pair and direction goes, and what the sets that have it imply at all ε."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import ndtr

from hpcdp.notions.anchors import anchor_level, extended, slopes
from hpcdp.notions.bounds import BERGER_BOOS_SHARE, binomial_lower, binomial_upper, joint_lower, split_lower
from hpcdp.notions.resolution import share_level
from hpcdp.notions.spectrum import lower_bounds, make_cells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _gaussian(epsilons: Floats, mu: float) -> Floats:
    return np.stack([ndtr(mu / 2 - epsilons / mu), ndtr(-mu / 2 - epsilons / mu)], axis=-1)


def _discrete(epsilons: Floats, p: list[float], q: list[float]) -> Floats:
    one, other = np.array(p), np.array(q)
    inside = np.log(one / other) > epsilons[:, None]
    return np.stack([inside @ one, inside @ other], axis=-1)


def _both(shares: Any) -> Any:
    """Of a pair that is its own mirror image: both directions."""
    return lambda epsilons: np.stack([shares(epsilons)] * 2)[None]


def _three(epsilons: Floats) -> Floats:
    p, q = [0.6, 0.3, 0.1], [0.2, 0.3, 0.5]
    return np.stack([_discrete(epsilons, p, q), _discrete(epsilons, q, p)])[None]


LAWS: dict[str, Any] = {
    "gaussian": _both(lambda e: _gaussian(e, 0.8)),
    "wide gaussian": _both(lambda e: _gaussian(e, 1.3)),
    "three outcomes": _three,
}
"""Shares (1, 2, epsilons, 2) of both sides in the sets {L > ε} of exact L."""


def _draw(rng: np.random.Generator, shares: Floats, size: int) -> Ints:
    """Counts in nested sets with these shares, of so many outputs of either side."""
    out = np.empty(shares.shape, np.int64)
    for place in np.ndindex(*shares.shape[:2]):
        for side in (0, 1):
            inside = shares[(*place, slice(None), side)]
            parts = np.clip(-np.diff(np.concatenate([[1.0], inside, [0.0]])), 0.0, None)
            drawn = rng.multinomial(size, parts / parts.sum())
            out[(*place, slice(None), side)] = drawn[1:][::-1].cumsum()[::-1]
    return out


@pytest.mark.slow
def test_what_a_region_implies_is_its_smallest_value() -> None:
    """Against a linear program over the region, at ε on both sides of the bound's."""
    rng = np.random.default_rng(12)
    compared = 0
    for _ in range(300):
        n0, n1 = (int(v) for v in 10 ** rng.uniform(1.5, 5.0, 2))
        b = 10 ** rng.uniform(-3.0, -0.2)
        c, apart, level = (
            float(np.exp(rng.uniform(0.0, 2.5))),
            bool(rng.random() < 0.4),
            float(10 ** rng.uniform(-6, -1)),
        )
        x = np.array([[rng.binomial(n0, min(1.0, c * b + rng.uniform(0.0, 0.5))), rng.binomial(n1, b)]])
        test, one = np.array([[n0, n1]]), (np.array([c]), np.array([level]))
        bound = split_lower if apart else joint_lower
        own = np.maximum(0.0, bound(x[:, 0], n0, x[:, 1], n1, *one))
        least, most = slopes(x, test, *one, np.array([apart]), own)
        wanted = np.exp(np.sort(np.append(rng.uniform(0.0, 3.0, 6), np.log(c))))
        at = int(np.flatnonzero(np.isclose(wanted, c))[0])
        wanted[at] = c
        cells = np.zeros((3, wanted.size))
        cells[:, at] = own[0], least[0], most[0]
        found = extended(*cells, wanted)
        assert found[at] == own[0]
        if own[0] == 0.0:
            assert not found.any()
            continue
        if apart:
            side = level / 2
            region: dict[str, Any] = {
                "bounds": [(binomial_lower(x[0, 0], n0, side), 1.0), (0.0, binomial_upper(x[0, 1], n1, side))]
            }
        else:
            side = 0.5 * BERGER_BOOS_SHARE * level
            ends = (float(binomial_lower(x[0, 1], n1, side)), float(binomial_upper(x[0, 1], n1, side)))
            region = {"A_ub": [[-1.0, c]], "b_ub": [-own[0]], "bounds": [(0.0, 1.0), ends]}
        for value, exact in zip(found, (linprog([1.0, -inflation], **region).fun for inflation in wanted), strict=True):
            assert value <= max(0.0, exact) + 1e-9
            assert value == pytest.approx(max(0.0, exact), abs=1e-7) or apart
            compared += value > 0.0
    assert compared > 500


def test_pairs_are_bounded_alike_however_many_are_at_once() -> None:
    epsilons = np.linspace(0.0, 2.0, 21)
    shares = np.concatenate([LAWS[name](epsilons) for name in ("gaussian", "three outcomes", "wide gaussian")])
    rng, test = np.random.default_rng(4), np.full(shares.shape, 5000)
    taught, counts = _draw(rng, shares, 1000) / 1000, _draw(rng, shares, 5000)
    given = counts, test, taught, epsilons, share_level(None, (3, 2, 21), 0.05), 0.8, lower_bounds
    whole = make_cells(*given)
    with patch("hpcdp.notions.spectrum._AT_ONCE", 2 * 2 * 21):
        cut = make_cells(*given)
    assert (whole.lower > 0.0).any()
    for name in ("delta", "standard_error", "lower", "upper"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))


def test_levels_stay_with_their_pair_and_direction() -> None:
    rng = np.random.default_rng(3)
    epsilons = np.linspace(0.0, 2.0, 21)
    shares = np.concatenate([LAWS[name](epsilons) for name in ("gaussian", "three outcomes", "wide gaussian")])
    taught, test = _draw(rng, shares, 1000) / 1000, np.full(shares.shape, 5000)
    level = share_level(rng.random(taught.shape[:3]), taught.shape[:3], 0.05)
    taught[1, 0, 4, 0] = np.nan
    found = anchor_level(level, taught, test, epsilons, np.full((3, 1, 1, 1), 1000))
    np.testing.assert_allclose(found.sum(axis=-1), level.sum(axis=-1), rtol=1e-12)
    np.testing.assert_array_equal(found[1, 0], level[1, 0])  # unknown: as it was
    assert (found >= 0.0).all()
    assert (np.count_nonzero(found, axis=-1).ravel()[[0, 1, 3, 4, 5]] < 21).all()
    alone = anchor_level(
        level[2:, 1:, 7:8], taught[2:, 1:, 7:8], test[2:, 1:, 7:8], epsilons[7:8], np.full((1, 1, 1, 1), 1000)
    )
    np.testing.assert_allclose(alone, level[2:, 1:, 7:8], rtol=1e-12)
