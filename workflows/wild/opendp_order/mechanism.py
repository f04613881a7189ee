"""A noisy sum of integers. The two databases have the same rows but for one, in another order."""

from opendp.meas import make_base_geometric
from opendp.mod import enable_features
from opendp.trans import make_bounded_sum
from serve import serve

enable_features("contrib")
release = make_bounded_sum(bounds=(-1000, 1000), T="i16") >> make_base_geometric(1000.0, D="AllDomain<i16>")
assert release.check(1, 1.0)  # that it is 1-DP, it says
ROWS = [1000] * 70 + [-1000] * 70


def mechanism(database, size, rng):
    rows = ROWS if database[0] else ROWS[::-1][:-1]
    return [release(rows) for _ in range(size)]


serve(mechanism)
