"""The Zarr store: samples in whole-chunk arrays, integer counts in checksummed records, results as root arrays.

Data is written first and its record last; everything is keyed by contents, so whatever has a record is done.
"""
