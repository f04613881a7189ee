"""Counts of equal outputs."""
