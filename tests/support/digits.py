"""The workflow that trains models on digits, whose modules tests import."""

import sys
from pathlib import Path
from typing import Any

DIGITS = Path(__file__).resolve().parents[2] / "workflows" / "dpsgd_digits"
sys.path.insert(0, str(DIGITS))

import accountant  # noqa: E402
import training  # noqa: E402

__all__ = ["DIGITS", "QUICK", "accountant", "training"]

QUICK: dict[str, Any] = {"noise": 2.0, "steps": 4, "rate": 4.0}
