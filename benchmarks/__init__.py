"""Benchmarks that print their figures; each has a small setting that the tests run."""
