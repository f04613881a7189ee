"""One answer by randomised response that tells the truth with probability 3/4."""

from opendp.meas import make_randomized_response_bool
from opendp.mod import enable_features
from serve import serve

enable_features("contrib")
respond = make_randomized_response_bool(0.75)
assert respond.check(1, 1.0987)  # that it is 1.0987-DP, it says: ln 3 = 1.0986


def mechanism(database, size, rng):
    return [respond(bool(database[0])) for _ in range(size)]


serve(mechanism)
