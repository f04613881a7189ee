"""Cells: a partition of the floats, with atoms and lattices apart, in any unit."""

from __future__ import annotations

import numpy as np
import pytest

from hpcdp.losses.line.cells import MOST_CELLS, LineCells

LARGEST = np.finfo(float).max


def laws(normal, uniform):
    """Outputs of many kinds from normal and uniform draws of one shape."""
    return {
        "normal": normal,
        "cauchy": np.tan(np.pi * (uniform - 0.5)),
        "heavier than any power": np.exp(np.clip(50 * np.tan(np.pi * (uniform - 0.5)), -600, 600)),
        "far modes": normal + 1000.0 * (uniform < 0.5),
        "clamped": np.clip(normal, -1.0, 0.5),
        "integers": np.rint(3 * normal),
        "integers in far modes": np.rint(3 * normal) + np.where(uniform < 0.3, 1e6, 0.0),
        "wide integers": np.rint(1e7 * normal),
        "thirds": np.rint(5 * normal) / 3,
        "squares": np.rint(30 * normal) ** 2,
        "bits": np.float64(uniform < 0.3),
        "beside 2^53": 2.0**53 + 100 * normal,
        "tiny": 1e-300 * normal,
        "subnormal": 1e-320 * normal,
        "huge": 1e300 * normal,
        "to the largest": LARGEST / 2 * np.clip(normal, -2.0, 2.0),
        "tiny and huge": np.where(uniform < 0.5, 1e-300, 1e300) * normal,
    }


def draws(name, rng, size):
    """Sorted pilot outputs of both sides."""
    return [np.sort(side) for side in laws(rng.normal(size=(2, size)), rng.random((2, size)))[name]]


NAMES = list(laws(np.zeros(1), np.zeros(1)))


def check(cells):
    """A partition of all floats into ascending cells that hold their centres."""
    assert cells.starts.shape == cells.centres.shape == cells.atoms.shape == (cells.size,)
    assert cells.size <= MOST_CELLS
    assert cells.starts[0] == -np.inf
    assert np.isfinite(cells.starts[1:]).all()
    assert np.isfinite(cells.centres).all()
    assert (cells.starts[1:] > cells.starts[:-1]).all()
    np.testing.assert_array_equal(np.searchsorted(cells.starts, cells.centres, "right") - 1, np.arange(cells.size))


@pytest.mark.parametrize("size", [1, 2, 30, 100_000])
@pytest.mark.parametrize("name", NAMES)
def test_cells_are_a_partition(name, size):
    rng = np.random.default_rng(1)
    p, q = draws(name, rng, size)
    cells = LineCells.of(p, q)
    check(cells)
    x = np.concatenate([p, q, [-LARGEST, 0.0, LARGEST], cells.starts[1:]])
    wanted = np.bincount(np.searchsorted(cells.starts, x, "right") - 1, minlength=cells.size)
    found = cells.tally(x)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(cells.tally(x[:17]) + cells.tally(x[17:, None]), wanted)
    np.testing.assert_array_equal(LineCells.restore(cells.state()).tally(x), wanted)


def test_no_output_is_refused():
    with pytest.raises(ValueError, match="no pilot output"):
        LineCells.of(np.empty(0), np.empty(0))


def test_atoms_are_one_value_and_their_neighbours_are_not():
    rng = np.random.default_rng(3)
    p, q = draws("clamped", rng, 50_000)
    cells = LineCells.of(p, q)
    np.testing.assert_array_equal(cells.centres[cells.atoms], [-1.0, 0.5])
    held = np.flatnonzero(cells.atoms)
    np.testing.assert_array_equal(cells.starts[held], [-1.0, 0.5])
    np.testing.assert_array_equal(cells.starts[held + 1], np.nextafter([-1.0, 0.5], np.inf))
    np.testing.assert_array_equal(cells.tally(p)[held], [(p == -1.0).sum(), (p == 0.5).sum()])


@pytest.mark.parametrize("spacing, origin", [(1.0, 0.0), (0.25, 1e6), (2.0, 2.0**53), (1e-300, 0.0), (3e290, 0.0)])
def test_values_of_a_lattice_have_a_cell_each_also_those_that_the_pilot_missed(spacing, origin):
    rng = np.random.default_rng(4)
    pilot = np.rint(4 * rng.normal(size=1000))
    cells = LineCells.of(np.sort(origin + spacing * pilot[:500]), np.sort(origin + spacing * pilot[500:]))
    check(cells)
    wanted = origin + spacing * np.arange(-1000, 1001)
    held = np.searchsorted(cells.starts, wanted, "right") - 1
    np.testing.assert_array_equal(np.diff(held), 1)
    np.testing.assert_allclose(cells.centres[held], wanted, rtol=1e-13, atol=1e-9 * spacing)
    assert not cells.atoms.any()


def test_what_rounding_tells_apart_is_one_value():
    k = np.arange(-20, 21)
    p, q = np.repeat(0.1 * k, 9), np.sort(np.repeat(0.1 * (k - 1) + 0.1, 9))
    assert np.unique(np.concatenate([p, q])).size > k.size
    cells = LineCells.of(p, q)
    assert np.count_nonzero(cells.tally(p)) == k.size
    np.testing.assert_array_equal(cells.tally(p), cells.tally(q))
    assert not cells.atoms.any()
    cells = LineCells.of(np.repeat([-1.7, -7e-16, 2e-16, 1.9], 50), np.repeat([-1.7, 3e-16, 1.9], 50))
    np.testing.assert_array_equal(cells.centres[cells.atoms], [-1.7, -7e-16, 1.9])
