"""Splines on a line."""
