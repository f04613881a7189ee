"""Notions of privacy, each a functional of the additive counts, with its bounds."""
