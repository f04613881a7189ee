"""Ascending values: those of NumPy's sort and of the radix sort that takes over where it is faster are the same bits."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from hpcdp.losses import _sort


@settings(max_examples=100)
@given(arrays(np.float64, st.integers(0, 400), elements=st.floats(allow_nan=False, allow_infinity=False, width=64)))
def test_both_sorts_are_those_of_python(values: NDArray[np.float64]) -> None:
    by_numpy = _sort.ascending(values)
    np.testing.assert_array_equal(by_numpy, sorted(values.tolist()))
    assert not np.signbit(by_numpy[by_numpy == 0]).any(), "−0.0 is 0.0"
    assert _sort.ascending(values.copy(), is_own=True).tobytes() == by_numpy.tobytes()
    assert _sort._by_radix(values).tobytes() == by_numpy.tobytes()


def test_many_values_and_then_few() -> None:
    """Beyond a million values in all it is whichever sort is faster here."""
    rng = np.random.default_rng(3)
    for size in (1 << 20, 100, 1 << 12, 1 << 19):
        values = rng.normal(size=size)
        given = values.copy()
        np.testing.assert_array_equal(_sort.ascending(values), np.sort(given))
        np.testing.assert_array_equal(values, given)
