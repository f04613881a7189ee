"""The noisy sum of three rows, of which missing ones are filled up with 0. The two databases differ by two rows."""

from opendp.meas import make_base_geometric
from opendp.mod import enable_features
from opendp.trans import make_bounded_resize, make_sized_bounded_sum
from serve import serve

enable_features("contrib")
total = make_bounded_resize(size=3, bounds=(0, 10), constant=0) >> make_sized_bounded_sum(size=3, bounds=(0, 10))
releases = (total >> make_base_geometric(scale, D="AllDomain<i32>") for scale in (5.0, 10.0, 20.0, 40.0))
release = next(release for release in releases if release.check(2, 1.0))  # the least noise that it calls 1-DP


def mechanism(database, size, rng):
    rows = database.tolist()
    return [release(rows) for _ in range(size)]


serve(mechanism)
