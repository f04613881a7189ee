"""The verdicts on a claim."""

VIOLATION, NOT_SEPARABLE, CONSISTENT = "violation", "not separable", "consistent"
"""The worst first: refuted (certified), above the claim but perhaps by chance, neither."""
