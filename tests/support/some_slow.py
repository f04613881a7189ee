"""Cases of a parametrised test, of which those that take a second or more are marked slow."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def some_slow(cases: Iterable[Any], is_slow: Callable[[Any], bool]) -> list[Any]:
    """Give each case, one parameter or a tuple of several, as pytest.param."""
    return [pytest.param(*(c if isinstance(c, tuple) else (c,)), marks=[pytest.mark.slow] * is_slow(c)) for c in cases]
