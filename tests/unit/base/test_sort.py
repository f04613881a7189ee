"""Ascending values, by NumPy and by the kernels that take over when there are many."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from hpcdp.losses import _sort

SETTINGS = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SETTINGS
@given(
    values=arrays(np.float64, st.integers(0, 400), elements=st.floats(allow_nan=False, allow_infinity=False, width=64))
)
def test_kernels_and_numpy_sort_alike(values: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch) -> None:
    by_numpy = _sort.ascending(values)
    assert _sort.ascending(values.copy(), is_own=True).tobytes() == by_numpy.tobytes()
    monkeypatch.setattr(_sort, "_is_numpy_faster", lambda: False)
    monkeypatch.setattr(_sort, "_SMALL", 0)
    monkeypatch.setattr(_sort, "_FIRST", 0)
    assert _sort.ascending(values).tobytes() == by_numpy.tobytes(), "−0.0 too"
    np.testing.assert_array_equal(by_numpy, sorted(values.tolist()))


def test_many_values_are_sorted_by_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def sort(keys: NDArray[np.uint64], spare: NDArray[np.uint64]) -> bool:
        assert spare.size == keys.size
        seen.append(keys.size)
        keys.sort()
        return False

    monkeypatch.setattr(_sort, "_sorted", 0)
    monkeypatch.setattr(_sort, "_radix_sort", sort)
    monkeypatch.setattr(_sort, "_is_numpy_faster", lambda: False)
    rng = np.random.default_rng(3)
    for size in (1 << 19, 1 << 18, 1 << 19, 100, 1 << 12):
        values = rng.normal(size=size)
        np.testing.assert_array_equal(_sort.ascending(values), np.sort(values))
    assert seen == [1 << 19, 1 << 12], "a million values are NumPy's in all, then small arrays alone"


def test_the_faster_sort_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def quick(values: NDArray[np.float64]) -> None:
        asked.append(values.size)

    def slow(values: NDArray[np.float64]) -> None:
        quick(values)
        time.sleep(0.01)

    monkeypatch.setattr(_sort, "_FAST", 0.0)
    for by_numpy, by_radix, faster in ((quick, slow, True), (slow, quick, False)):
        _sort._is_numpy_faster.cache_clear()
        monkeypatch.setattr(np, "sort", by_numpy)
        monkeypatch.setattr(_sort, "_by_radix", by_radix)
        assert _sort._is_numpy_faster() is faster
        assert _sort._is_numpy_faster() is faster
    assert len(asked) == 16
    monkeypatch.setattr(_sort, "_FAST", 5e-9)
    monkeypatch.setattr(np, "sort", quick)
    _sort._is_numpy_faster.cache_clear()
    assert _sort._is_numpy_faster()
    assert len(asked) == 20, "what no radix sort reaches is not compared with one"
    _sort._is_numpy_faster.cache_clear()
