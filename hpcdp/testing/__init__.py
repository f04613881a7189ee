"""Privacy checks in a test suite: the pytest plugin, and the one test that a check plans and makes."""

from __future__ import annotations

from typing import Any

_FIXTURE = (
    "assert_private is a pytest fixture, which nothing imports: a test that takes it as an argument has it, such as "
    "def test_sum(assert_private): assert_private(noisy_sum, d=…, d_prime=…, claim=…, catches=…, seconds=…)"
)


def __getattr__(name: str) -> Any:
    """Say what is looked for here in vain, and where it is."""
    raise AttributeError(_FIXTURE if name == "assert_private" else f"module {__name__!r} has no attribute {name!r}")
