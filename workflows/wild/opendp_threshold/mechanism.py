"""Whether a user's key is in the published histogram: the database holds the number of rows of that user."""

import opendp.prelude as dp
from serve import serve

dp.enable_features("contrib")
strings = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
release = dp.t.make_count_by(*strings) >> dp.m.then_laplace_threshold(scale=1.0, threshold=5)
assert release.map(1) <= (1.0, 0.00493)  # what it says of itself


def mechanism(database, size, rng):
    rows = ["user"] * int(database[0])
    return [len(release(rows)) for _ in range(size)]


serve(mechanism)
