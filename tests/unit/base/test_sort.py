"""Ascending values are those of Python's sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from hpcdp.losses.protocol import ascending


@settings(max_examples=100)
@given(arrays(np.float64, st.integers(0, 400), elements=st.floats(allow_nan=False, allow_infinity=False, width=64)))
def test_values_are_sorted_as_python_sorts_them(values: NDArray[np.float64]) -> None:
    by_numpy = ascending(values)
    np.testing.assert_array_equal(by_numpy, sorted(values.tolist()))
    assert not np.signbit(by_numpy[by_numpy == 0]).any(), "−0.0 is 0.0"
    assert ascending(values.copy(), is_own=True).tobytes() == by_numpy.tobytes()
