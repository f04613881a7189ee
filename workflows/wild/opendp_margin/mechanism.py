"""The noisy sum of one group of three rows. The two databases differ in all three: at distance 6."""

import opendp.prelude as dp
import polars as pl
from serve import serve

dp.enable_features("contrib")
SCHEMA = {"group": pl.String, "value": pl.Int32}
columns = [dp.series_domain("group", dp.atom_domain(T=str)), dp.series_domain("value", dp.atom_domain(T=int))]
margin = dp.polars.Margin(by=["group"], max_length=3, max_groups=1, invariant="keys")
domain = dp.with_margin(dp.lazyframe_domain(columns), margin)
query = pl.LazyFrame(schema=SCHEMA).group_by("group").agg(pl.col("value").dp.sum((-10, 10), scale=30.0))
release = dp.m.make_private_lazyframe(domain, dp.symmetric_distance(), dp.max_divergence(), query)
assert release.map(6) <= 1.0001  # what it says of itself


def mechanism(database, size, rng):
    table = pl.LazyFrame({"group": ["a"] * 3, "value": database.tolist()}, schema=SCHEMA)
    return [release(table).collect()["value"].item() for _ in range(size)]


serve(mechanism)
