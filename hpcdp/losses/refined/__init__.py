"""Sets refined from tallies."""
