"""A study whose pairs race: screened in two rounds, some of them refined, the others dropped."""

from typing import Any

RACED = [0.1, 0.2, 0.3, 0.4, 0.5, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0]
"""Rows of the database; without one of the last 9 its sum is almost the same, so that racing takes rounds."""

RACE: dict[str, Any] = {
    "databases": [RACED],
    "train": 500,
    "test": 1 << 20,
    "chunk": 1000,
    "keep": "none",
    "target": {"epsilon": 0.5, "relative_error": 0.015, "most": 200_000},
}
"""Values of the study's keys."""
