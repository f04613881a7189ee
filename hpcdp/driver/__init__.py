"""What runs a study: the driver, plans, direct calls, repeated runs, audits that draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EPSILONS: Mapping[str, Any] = {"start": 0.0, "stop": 2.0, "count": 21}  # of a function, where none are given
