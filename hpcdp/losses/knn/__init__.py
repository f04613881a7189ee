"""Votes of nearest neighbours."""
