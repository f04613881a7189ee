"""Which orders of Rényi divergences there are."""

LARGEST_ORDER = 1e100
"""Times any loss it is a number."""

ORDER = "above 1, or 1 for KL"
"""Which orders are accepted."""
