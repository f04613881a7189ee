"""The sample size after which a bound would pass a claim, by approximations, beside the bound itself."""

import math

import numpy as np
import pytest

from hpcdp.notions.bounds import joint_lower
from hpcdp.notions.separating import fewest, needed_to_pass


def random_cell(rng):
    """Rates a and b, c, a level, a claim below δ, and a number of tests."""
    c, delta = math.exp(rng.uniform(0.0, 4.0)), 10 ** rng.uniform(-4.0, -0.3)
    b = 10 ** rng.uniform(-5.0, -0.3) / c
    a = min(0.99, c * b + delta)
    return a, b, c, 10 ** rng.uniform(-6.0, -1.3), (a - c * b) * rng.uniform(0.0, 0.9), int(10 ** rng.uniform(2.0, 6.0))


def by_the_bound(a, b, c, level, claimed, now):
    """The same with the bound itself."""
    return fewest(lambda n: joint_lower(round(a * n), n, round(b * n), n, c, level) > claimed, now)


@pytest.mark.parametrize(
    ("most", "least", "shrunk", "off"), [(1e99, 100.0, 0, 0.05), (100.0, 10.0, 0, 0.1), (10.0, 0.0, 3, 0.25)]
)
def test_the_bound_itself_passes_about_there(most, least, shrunk, off):
    """As the docstring says, by how many outputs of the inflated side are expected in the set."""
    rng, told = np.random.default_rng([20261125, int(least)]), 0
    while told < 60:
        a, b, c, level, claimed, now = random_cell(rng)
        b *= 10 ** -rng.uniform(0.0, shrunk)
        found = needed_to_pass(a, b, c, level, claimed, now)
        if found is None or found <= 1.3 * now or not least <= found * b < most:
            continue
        told += 1
        itself = by_the_bound(a, b, c, level, claimed, now)
        assert abs(found / itself - 1.0) < off, (a, b, c, level, claimed, now)


def test_a_claim_at_the_rates_is_never_passed():
    assert needed_to_pass(0.3, 0.1, 2.0, 0.05, 0.1, 100) is None
    assert needed_to_pass(0.3, 0.1, 2.0, 0.05, 0.3, 100) is None


def test_fewest_is_exact_where_it_can_be():
    assert fewest(lambda n: n >= 777, 100) == 777
    assert fewest(lambda n: n >= 777, 1000) == 1000
    assert 10**9 <= fewest(lambda n: n >= 10**9, 1) <= 1.001 * 10**9
    assert fewest(lambda n: n < 0, 1) is None
