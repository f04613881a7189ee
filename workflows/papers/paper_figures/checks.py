"""A pass rule, and whether it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One rule, whether it holds, and the figures that it rests on, in words."""

    rule: str
    passed: bool
    seen: str

    def __str__(self) -> str:
        return f"{'pass' if self.passed else 'FAIL'}: {self.rule}; {self.seen}"


def agreement(difference: float, limit: float) -> str:
    """A relative difference in words; rounding, which differs between machines, is not shown."""
    return f"they differ by less than {limit:g}" if difference <= limit else f"they differ by {difference:.1e}"
