"""The noisy sum of two bits, with the least noise of which the library says that changing a row is 1-DP."""

from opendp.meas import make_base_geometric
from opendp.mod import enable_features
from opendp.trans import make_sized_bounded_sum
from serve import serve

enable_features("contrib")
total = make_sized_bounded_sum(size=2, bounds=(0, 1), T="i32")
releases = (total >> make_base_geometric(scale, D="AllDomain<i32>") for scale in (0.25, 0.5, 1.0, 2.0))
release = next(release for release in releases if release.check(2, 1.0))  # one row out, one in: distance 2


def mechanism(database, size, rng):
    rows = database.tolist()
    return [release(rows) for _ in range(size)]


serve(mechanism)
