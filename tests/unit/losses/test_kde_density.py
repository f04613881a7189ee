"""The density estimates of `kde` against direct sums over all outputs, and where their grids end."""

from __future__ import annotations

import numpy as np
import pytest

from hpcdp.losses.kde import _density
from hpcdp.losses.kde._bandwidth import Summary
from hpcdp.losses.kde._density import Line, Plane


def line(x, h, draws=None, floor=1.0):
    x = np.sort(np.asarray(x, np.float64))
    return Line.learn(x, Summary.of(x).median, draws or x.size, h, floor)


def plane(rows, hs, draws=None, floor=1.0):
    return Plane.learn(rows, [Summary.of(c) for c in rows.T.copy()], draws or rows.shape[0], np.asarray(hs), floor)


def direct(outputs, places, hs):
    """At places: the estimate, and sums over kernels K of |z² − 1| K and of (z⁴ + 6z² + 3) K, z the distance in h."""
    outputs, places = outputs.reshape(outputs.shape[0], -1), places.reshape(places.shape[0], -1)
    z = (places[:, None, :] - outputs[None, :, :]) / hs
    kernels = np.exp(-0.5 * (z * z).sum(axis=2)) / np.prod(np.sqrt(2 * np.pi) * np.asarray(hs)) / outputs.shape[0]
    second, fourth = np.abs(z * z - 1).sum(axis=2), (z**4 + 6 * z**2 + 3).sum(axis=2)
    return kernels.sum(axis=1), (second * kernels).sum(axis=1), (fourth * kernels).sum(axis=1)


def check(density, outputs, places, hs, nodes):
    """The error is no more than binning and interpolation explain.

    The nodes' kernels have variance h² − Δ²/3, and binning and interpolation add from 0 to Δ²/4 each. So at most
    Δ²/6 · |K″|, which is |z² − 1| K/6 · (Δ/h)², is missed on each axis, and terms in (Δ/h)⁴.
    """
    wanted, second, fourth = direct(outputs, places, hs)
    order = 1 / (6 * nodes**2)
    allowed = order * second + 2 * order**2 * fourth + 1e-12 * wanted.max()
    error = np.abs(density(places) - wanted)
    print(f"largest share of the allowed error: {(error / allowed).max():.2f}")
    assert (error <= allowed).all()


@pytest.mark.parametrize("size", [1, 2, 60, 1000])
@pytest.mark.parametrize("law", ["normal", "laplace", "standard_cauchy"])
def test_line(law, size):
    rng = np.random.default_rng(size)
    x = getattr(rng, law)(size=size)
    h = 0.3
    learned = line(x, h)
    places = np.concatenate([x, x + 0.1, rng.uniform(-8, 8, 1000)])
    check(learned.density, x, places, [h], _density._LINE_NODES)
    assert learned.floor == pytest.approx(1 / (size * h))
    assert np.trapezoid(learned.values, learned.nodes) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("size", [1, 50, 500])
def test_plane(size):
    rng = np.random.default_rng(size)
    rows, hs = rng.laplace(size=(size, 2)) * [1.0, 5.0], np.array([0.3, 2.0])
    learned = plane(rows, hs, floor=3.0)
    places = np.concatenate([rows, rows + 0.1, rng.uniform(-9, 9, (1000, 2))])
    check(learned.density, rows, places, hs, _density._PLANE_NODES)
    assert learned.floor == pytest.approx(3 / (np.sqrt(2 * np.pi) * size * 0.6))
    assert learned.values.sum() * np.prod(learned.spacing) == pytest.approx(1.0, abs=1e-12)


def test_outputs_of_a_region_have_a_density_of_all_draws():
    x = np.random.default_rng(0).normal(size=100)
    whole, part = line(x, 0.3), line(x, 0.3, draws=400)
    np.testing.assert_allclose(part.density(x), whole.density(x) / 4, rtol=1e-12)
    assert part.floor == pytest.approx(whole.floor / 4)
    assert line(np.empty(0), 0.3, draws=5).density(x).tolist() == [0.0] * 100
    rows = np.empty((0, 2))
    assert plane(rows, [1.0, 1.0], draws=5).density(np.zeros((3, 2))).tolist() == [0.0] * 3


def test_islands_are_as_good_as_one_grid():
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(size=200), 1e9 + rng.normal(size=50), [-3e4, 1e300]])
    learned = line(x, 0.2)
    assert learned.nodes.size < 2000
    for at in (0.0, 1e9, -3e4):
        near = x[np.abs(x - at) < 100]
        places = at + rng.uniform(-5, 5, 300)
        wanted = direct(near, places, [0.2])[0] * near.size / x.size
        np.testing.assert_allclose(learned.density(places), wanted, rtol=0.01, atol=1e-3 * learned.floor)
    between = np.array([100.0, 5e8, -1e4, 1e200, -1e300])
    assert not learned.density(between).any()
    assert learned.density(np.array([1e300])).tolist() == [0.0]  # farther than floats tell nodes apart


def test_too_many_nodes(monkeypatch):
    monkeypatch.setattr(_density, "_MOST_ON_LINE", 1000)
    rng = np.random.default_rng(6)
    crowd, lone = rng.normal(size=500), 1e4 + 1e3 * np.arange(50.0)
    learned = line(np.concatenate([crowd, lone]), 0.1)
    assert learned.bandwidth == 0.1
    assert learned.nodes.size <= 1000
    assert (learned.density(crowd) > 0).all()  # the islands of fewest outputs are left out
    assert 0 < (learned.density(lone) > 0).sum() < 50
    wide = line(np.linspace(0.0, 100.0, 10_000), 0.1)
    assert wide.nodes.size <= 1000
    assert wide.bandwidth == 0.1 * 2 ** round(np.log2(wide.bandwidth / 0.1)) > 0.1
    np.testing.assert_allclose(wide.density(np.linspace(20, 80, 9)), 0.01, rtol=1e-3)

    monkeypatch.setattr(_density, "_MOST_ON_PLANE", 200**2)
    rows = np.concatenate([rng.normal(size=(2000, 2)), [[1e6, 0.0], [0.0, -1e8]]])
    cut = plane(rows, [0.2, 0.2])
    assert cut.values.size <= 200**2
    whole = direct(rows, np.zeros((1, 2)), [0.2, 0.2])[0]
    np.testing.assert_allclose(cut.density(np.zeros((1, 2))), whole, rtol=0.02)
    assert not cut.density(rows[-2:]).any()
    long = np.column_stack([rng.uniform(0, 400, 2000), np.zeros(2000)])
    assert plane(long, [1.0, 1.0]).values.size <= 200**2
