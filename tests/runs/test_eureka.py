"""The mechanisms of Lu et al., "Eureka" (S&P 2024), as small studies: estimates against exact curves, and who is caught.

The pass rule of a cell: truth − 5 se − reg ≤ δ̂ ≤ truth + 5 se, with se = 2 e^ε √(R (1 − R) / 2n), R = e^−ε (1 − δ) / 2 and
n test outputs of each side. reg allows for the classifier's regret: 0.001 where outputs are few values, 0.004 where they are
numbers.

A faulty mechanism is caught: its certified lower bound at its claimed ε is above 0. A correct one is not. All studies
are at confidence 0.9999: several correct mechanisms attain their claim, where a bound is wrong about as often as its
confidence allows, and at 0.95 some of so many would be.

Inputs, parameters, seeds and sizes were fixed beforehand. On real outputs k is 10√n, as in the public code of the paper;
beside an index it is √n, since rare indices have fewer than 10√n outputs.
"""

import numpy as np
import pytest
from studies import make_study, run

from hpcdp.analytic import exact

SIZE = 200_000
FEW, BESIDE, REAL = (
    ({"loss": "frequency"}, 0.001),
    ({"loss": "knn"}, 0.004),
    ({"loss": "knn", "loss_parameters": {"k": "10sqrt"}}, 0.004),
)
"""How kinds of outputs are learned, and reg."""


def sparse(variant, **more):
    return "sparse_vector", {"variant": variant, "epsilon": 1.0, **more}


def noisy_max(variant):
    return "noisy_max", {"variant": variant, "epsilon": 0.3, "monotonic": True}


def histogram(variant):
    return "noisy_histogram", {"values": [1], "epsilon": 0.1, "variant": variant}


def response(values, epsilon):
    return "randomized_response", {"values": values, "epsilon": epsilon}


# 40 queries shaped like an X: gaps g to the threshold 0 under D, 1 − g under D′; databases are −g
GAPS = np.repeat([1.0, 0.0, 1.0, 0.0], [12, 12, 8, 8])
CROSSED, HALVES = ((-GAPS).tolist(), (GAPS - 1).tolist()), ([1.0] * 4 + [0.0] * 4, [0.0] * 4 + [1.0] * 4)
ONE_OF_EIGHT, BAR = ([-1.0] + [0.0] * 7, [0.0] + [-1.0] * 7), ([1], [1, 1])
FOUR, SEVEN = ([1.0] * 4, [0.0] * 4), ([1.0] * 4 + [0.0] * 3, [0.0] * 7)
MODE = ("exponential", {"outcomes": [0, 1, 2], "epsilon": 2.0}), ([0, 1, 1], [0, 1])
CASES = {  # a mechanism, its pair, a seed, levels below those of a claim, these, whether it is faulty, and its outputs
    "R4 exponential": (*MODE, 41, [0.0, 0.1, 0.3, 0.5, 0.7], [2.0], False, FEW),
    "R8 sparse vector 1": (sparse(1), CROSSED, 80, [0.0, 0.1, 0.3, 0.5, 0.9], [1.0], False, FEW),
    "R8 sparse vector 1, two above": (sparse(1, cutoff=2), CROSSED, 81, [0.0, 0.5], [1.0], False, FEW),
    "R8 sparse vector 2, two above": (sparse(2, cutoff=2), CROSSED, 81, [0.0, 0.5], [1.0], False, FEW),
    "R8 sparse vector 3, answers": (sparse(3), CROSSED, 83, [0.0, 0.5], [1.0], True, BESIDE),
    "R8 sparse vector 4": (sparse(4), CROSSED, 80, [0.0, 0.2, 0.4, 0.7], [1.0, 1.25, 1.5], True, FEW),
    "R8 sparse vector 5, no noise": (sparse(5), ONE_OF_EIGHT, 83, [0.0, 0.5], [1.0, 2.0, 4.0], True, FEW),
    "R8 sparse vector 6, all queries": (sparse(6, threshold=0.5), HALVES, 83, [0.0, 0.5], [1.0], True, FEW),
    "R9 histogram": (histogram("correct"), BAR, 91, [0.0, 0.03, 0.07], [0.1, 0.2], False, REAL),
    "R9 histogram, faulty": (histogram("faulty"), BAR, 91, [0.0, 0.03, 0.07], [0.1, 0.2], True, REAL),
    "R10 noisy max 1": (noisy_max("NM1"), SEVEN, 101, [0.0, 0.05, 0.2], [0.3, 0.5], False, FEW),
    "R10 noisy max 2": (noisy_max("NM2"), FOUR, 101, [0.0, 0.05, 0.2], [0.3], True, REAL),
    "R10 noisy max 3": (noisy_max("NM3"), SEVEN, 101, [0.0, 0.05, 0.2], [0.3, 0.5], False, FEW),
    "R10 noisy max 4": (noisy_max("NM4"), FOUR, 101, [0.0, 0.05, 0.2], [0.3], True, REAL),
    "response of two": (response(2, 0.5), ([0], [1]), 111, [0.0, 0.25], [0.5, 1.0], False, FEW),
    "response of five": (response(5, 1.0), ([0], [1]), 111, [0.0, 0.5], [1.0, 2.0], False, FEW),
}


@pytest.mark.few
@pytest.mark.parametrize("name", CASES)
def test_estimates_are_near_the_exact_curve_and_faulty_mechanisms_alone_are_caught(name, client, tmp_path):
    (call, parameters), pair, seed, below, claimed, is_faulty, (how, reg) = CASES[name]
    sizes = {"train": SIZE, "test": SIZE, "chunk": 1 << 16, "keep": "none", "confidence": 0.9999}
    study = make_study(call, parameters, [pair], seed=seed, epsilons=below + claimed, **sizes, **how)
    result = run(study, tmp_path / "s.zarr", client)
    curve, epsilons = exact(call, parameters, *map(np.array, pair)), result["epsilon"]
    for side, direction in enumerate(("forward", "reverse")):
        delta, truth = result["delta"][0, side], curve.delta(epsilons, direction)
        risk = (1 - truth) / (2 * np.exp(epsilons))
        error = 2 * np.exp(epsilons) * np.sqrt(risk * (1 - risk) / (2 * SIZE))
        above, under = ((delta - truth) / error).max(), ((truth - reg - delta) / error).max()
        print(f"worst score in se: above {above:z.2f}, below {under:z.2f}")
        assert max(above, under) <= 5.0
    certified = result["lower"].max(axis=(0, 1))
    assert certified[0] > 0.0
    assert ((certified[len(below) :] > 0.0) == is_faulty).all()
