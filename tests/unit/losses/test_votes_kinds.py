"""Votes for discrete outputs of any kind by the stated rules, and estimates from them against exact truths."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from brute import votes

from hpcdp.losses._votes import log_ratios
from hpcdp.losses.frequency import Frequency, FrequencyParameters
from hpcdp.losses.knn.knn import Knn, KnnParameters, Learner, VotesModel, split
from hpcdp.losses.parameters import choose_k
from hpcdp.losses.protocol import Side
from hpcdp.mechanisms.outputs import Schema, canonicalise

BYTES = Schema("bytes", None)
THRESHOLDS = np.array([-0.7, -0.1, 0.0, 0.1, 0.7])


def draw_sequences(size, shift, rng):
    """Frames of one number, of two, of integers in a nested list, without numbers, and rare ones."""
    out = []
    for frame, x, y in zip(
        rng.integers(0, 100, size).tolist(), rng.normal(size=size), rng.normal(size=size), strict=True
    ):
        if frame < 30:
            out.append(("a", x + shift))
        elif frame < 60:
            out.append((x + shift, None, y))
        elif frame < 80:
            out.append(([int(2 * x + 9 * shift)],))
        elif frame < 95:
            out.append(("b", "c" if x > shift else "d"))
        else:
            out.append((f"rare {frame} {int(9 * y)}", x))
    return canonicalise(out, size, BYTES)


def brute_votes(p, q, x, k, rare):
    """Votes by the rule, frame by frame; one number has k-balls with atoms of k, and so have two that are continuous."""
    parts = [[split(o) for o in side] for side in (p, q)]
    held = [Counter(frame for frame, _ in side) for side in parts]
    frames = set(held[0]) | set(held[1])
    common = {f for f in frames if held[0][f] + held[1][f] >= rare}
    rest = [sum(n for f, n in side.items() if f not in common) for side in held]
    out = []
    for frame, numbers in map(split, x):
        if frame not in common:
            out.append(rest)
        elif not numbers:
            out.append([side[frame] for side in held])
        else:
            a, b = (np.array([n for f, n in side if f == frame]).reshape(-1, len(numbers)) for side in parts)
            out.append(votes(a, b, np.array([numbers]), k)[0].tolist())
    return np.array(out)


@pytest.mark.parametrize("k", ["sqrt", 3, 60])
def test_votes_of_sequences_equal_brute_force(k):
    rng = np.random.default_rng(3)
    p, q, x = draw_sequences(250, 0.0, rng), draw_sequences(200, 0.5, rng), draw_sequences(300, 0.2, rng)
    model = Knn(KnnParameters(k=k)).fit(Side(p, 300), Side(q, 200))
    number = choose_k(k, 450)
    wanted = brute_votes(p, q, x, number, min(5, number))
    np.testing.assert_array_equal(np.column_stack(model.source.votes(x)), wanted)
    losses = log_ratios(*np.ascontiguousarray(wanted.T), 300, 200)
    np.testing.assert_array_equal(model.score(x), losses)


def test_strings_alone_are_frequencies():
    rng = np.random.default_rng(4)
    p, q = (canonicalise([("[1, 2]", "[x", "[1.0]", "yes")[i] for i in rng.integers(0, 4, 90)], 90) for _ in range(2))
    found = Knn().fit(Side(p, 90), Side(q, 90))
    wanted = Frequency(FrequencyParameters(rare=5)).fit(Side(p, 90), Side(q, 90))
    np.testing.assert_array_equal(found.score(p), wanted.score(p))
    assert found.counter(THRESHOLDS).state() is not None


@pytest.mark.parametrize(
    ("columns", "metric"), [(2, "hamming"), (9, "euclidean"), (9, "manhattan"), (9, "hamming"), (70, "euclidean")]
)
def test_votes_of_packed_bits(columns, metric):
    """They are those of brute force, and of the general way."""
    rng = np.random.default_rng(columns)
    p, q, x = (rng.random((size, columns)) < r for size, r in ((150, 0.1), (120, 0.25), (200, 0.3)))
    loss = Knn(KnnParameters(metric=metric))
    k = choose_k("sqrt", 270)
    model = loss.fit(Side(p, 150), Side(q, 120))
    found = model.score(x)
    general = VotesModel(Learner(k, metric).votes(p, q), 150, 120)
    np.testing.assert_array_equal(found, general.score(x))
    _, held = np.unique(np.concatenate([p, q]), axis=0, return_counts=True)
    common = k if 2 * held[held < min(20, k)].sum() > 270 else min(20, k)
    wanted = votes(p, q, x, k, metric="hamming", common=common)
    np.testing.assert_array_equal(found, log_ratios(*np.ascontiguousarray(wanted.T), 150, 120))
