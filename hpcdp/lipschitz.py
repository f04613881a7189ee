"""Sizes of histograms of Lipschitz densities: `hpcdp.lipschitz.sizes`, `hpcdp.lipschitz.buckets`."""

from hpcdp.notions.lipschitz import buckets, sizes

__all__ = ["buckets", "sizes"]
