"""Histograms: outputs of each distribution are counted in bins."""
