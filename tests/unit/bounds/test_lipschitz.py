"""Sizes of histograms of Lipschitz densities: the published ones and those of union bounds, against their conditions."""

from __future__ import annotations

import math

import pytest

from hpcdp.lipschitz import buckets, sizes


@pytest.mark.parametrize(
    ("lipschitz", "precision", "published", "union", "half", "global_published", "global_buckets", "in_x"),
    [
        (1.58, 0.2, (226, 39_501_853), (226, 4_878_062), (113, 2_264_766), (678, 1_205_855_615), 226, 3.16),
        (0.64, 0.1, (57, 12_278_577), (57, 1_284_752), None, (170, 373_224_458), 57, 1.27),
        (0.22, 0.05, (30, 19_728_566), (30, 1_897_841), None, (89, 596_947_276), 30, 0.44),
        (1.49, 0.3, (117, 7_503_518), (117, 878_871), None, (351, 228_661_444), 64, 1.62),
    ],
)
def test_sizes(lipschitz, precision, published, union, half, global_published, global_buckets, in_x):
    found = sizes(lipschitz, 1, precision, 0.95)
    assert (found["published"], found["union"]) == (published, union)
    assert half is None or found["half"] == half
    assert sizes(lipschitz, 1.0, precision / 3, math.sqrt(0.95))["published"] == global_published
    assert buckets(in_x, 1.0, lipschitz, 1.0, precision) == global_buckets


def test_sizes_of_a_domain_and_of_an_order():
    assert sizes(1.58, 1, 2 * 0.2 / 3, 0.95, laws=226)["half"] == (170, 11_890_145)
    found = sizes(0.913, 1, 0.04, 0.95, order=2)
    assert found["published"][0] == 4850
    assert found["published"][1] == pytest.approx(7.657e12, rel=1e-4)
    assert (found["union"][0], found["half"]) == (252, (126, 96_339_132))
    # of inputs: 3(2a − 1)K·D/(2(a − 1)K′·τγ), with K = 2τ₁²/τ and K′ = τ²/τ₁
    low, high = 1 - 0.913 / 2, 1 + 0.913 / 2
    assert buckets(1.8, 1, 0.913, 1, 0.04, order=2) == math.ceil(
        9 * (2 * high**2 / low) / (low**2 / high) * 1.8 / (2 * low * 0.04)
    )


@pytest.mark.parametrize("order", [None, 2.0])
@pytest.mark.parametrize("name", ["union", "half"])
def test_n_is_the_least_that_its_condition_allows(name, order):
    lipschitz, width, gamma, confidence, laws = 0.3, 2.0, 0.3, 0.9, 5
    bins, n = sizes(lipschitz, width, gamma, confidence, order, laws)[name]
    low = 1 / width - lipschitz * width / 2
    z = gamma / 3 if order is None else gamma / 6
    y = width / bins * low

    def miss(n):
        tails = math.exp(-n * y * (math.exp(z) - 1) ** 2 / (1 + math.exp(z)))
        return laws * bins * (tails + math.exp(-n * y * (1 - math.exp(-z)) ** 2 / 2))

    assert miss(n) <= 1 - confidence < miss(n - 1)
    # what is left of the precision holds the bias: C·w/2 a side, and as much again with all the bins
    share = 1.0 if order is None else 1.5  # (2a − 1)/(2(a − 1))
    bias = lipschitz * (width / bins) * (1 if name == "half" else 2) / low * share
    assert bias <= gamma / (3 if order is None else 2)


def test_units_do_not_matter():
    # of outputs: C is in density per unit
    assert sizes(1.58 / 100, 10.0, 0.2, 0.95) == sizes(1.58, 1.0, 0.2, 0.95)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lipschitz": 2.0}, "below 2/width² = 2, as published; the certified interval needs no such limit"),
        ({"lipschitz": 0.0}, "lipschitz: 0.0 was given; accepted: a finite number > 0"),
        ({"width": math.inf}, "width: inf was given"),
        ({"precision": -0.1}, "precision: -0.1 was given"),
        ({"precision": 1e-9}, "precision: one that at most 2^62 outputs have"),
        ({"confidence": 1.0}, "confidence: 1.0 was given; accepted: a number above 0 and below 1"),
        ({"order": 1.0}, "order: 1.0 was given; accepted: a finite number above 1"),
        ({"laws": 1}, "laws: 1 was given; accepted: an integer >= 2"),
        ({"order": 1e6}, "precision: more outputs are needed than can be said"),
        ({"width": 1e-200}, "precision: more outputs are needed than can be said"),
    ],
)
def test_what_is_impossible_is_said(given, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace("^", r"\^")):
        sizes(**{"lipschitz": 1.58, "width": 1.0, "precision": 0.2, "confidence": 0.95, **given})


def test_buckets_that_cannot_be_said():
    for given in ((1e300, 1e300, 1.58, 1, 0.2), (3, 1, 0.5, 1, 0.2, 1e4)):
        with pytest.raises(ValueError, match="precision: more buckets are needed than can be said"):
            buckets(*given)


def test_a_precision_that_is_met_by_anything():
    # 2·.79ⁿ + 4·exp(−.21n/2)/(1 − .79ⁿ) is .0488 at 42 and .0541 at 41
    assert sizes(1.58, 1, 1e9, 0.95)["published"] == (1, 42)
