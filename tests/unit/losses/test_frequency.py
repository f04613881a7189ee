"""frequency: L̂ from training counts of each value, by equality only."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from hpcdp.losses import LOSSES, make_loss, validate_parameters
from hpcdp.losses.counts import count_losses
from hpcdp.losses.distinct import learn_distinct
from hpcdp.losses.frequency import Frequency, FrequencyParameters
from hpcdp.losses.knn.knn import Knn, KnnParameters
from hpcdp.losses.protocol import Side

THRESHOLDS = np.array([-0.7, -0.1, 0.0, 0.1, 0.7])


def words(numbers):
    out = np.empty(len(numbers), object)
    out[:] = [b"\x00" * (n % 3) + str(n).encode() for n in numbers.tolist()]
    return out


KINDS = {
    "bools": lambda n, *_: n == 1,
    "integers": lambda n, *_: n,
    "huge integers": lambda n, *_: n + 2**62,
    "numbers": lambda n, *_: n / 7,
    "one column": lambda n, *_: n[:, None],
    "rows": lambda n, rng, p: np.column_stack([n, rng.geometric(p, n.size), n % 2]),
    "rows of bools": lambda n, rng, p: rng.random((n.size, 70)) < np.where(np.arange(70) < 3, p, 0.0),
    "rows of many values": lambda n, rng, _: np.column_stack([n] * 3 + [rng.random((3, 8))[n % 3]] + [n / 3] * 30),
    "bytes": lambda n, *_: words(n),
}


def outputs(kind, size, rng, p):
    return KINDS[kind](rng.geometric(p, size), rng, p)


def key(output):
    return output if isinstance(output, bytes) else tuple(np.atleast_1d(output).tolist())


def expected(p, q, x, n0, n1, rare):
    counts = [Counter(map(key, side)) for side in (p, q)]
    pool = [sum(c for v, c in count.items() if counts[0][v] + counts[1][v] < rare) for count in counts]
    losses = []
    for v in map(key, x):
        held = [count[v] for count in counts]
        a, b = held if sum(held) >= max(rare, 1) else pool
        with np.errstate(divide="ignore"):
            losses.append(np.log(a / n0) - np.log(b / n1) if a or b else 0.0)
    return np.array(losses)


@pytest.mark.parametrize("rare", [0, 1, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_counts(kind, rare):
    rng = np.random.default_rng(len(kind))
    p, q, x = outputs(kind, 700, rng, 0.3), outputs(kind, 500, rng, 0.45), outputs(kind, 900, rng, 0.25)
    loss = Frequency(FrequencyParameters(rare=rare))
    model = loss.fit(Side(p, 800), Side(q, 500))
    wanted = expected(p, q, x, 800, 500, rare)
    np.testing.assert_allclose(model.score(x), wanted, rtol=1e-14, atol=1e-15)
    counter = model.counter(THRESHOLDS)
    histogram = count_losses(model.score(x), THRESHOLDS)
    np.testing.assert_array_equal(counter.count(x), histogram)
    state = {name: array.copy() for name, array in counter.state().items()}
    assert all(array.dtype != object for array in state.values())
    np.testing.assert_array_equal(loss.restore(state, THRESHOLDS).count(x), histogram)


def test_one_sided_and_unseen_values():
    model = Frequency().fit(Side(np.array([1, 1, 2]), 3), Side(np.array([2, 3, 3, 3]), 4))
    assert model.score(np.array([1, 3, 99])).tolist() == [np.inf, -np.inf, 0.0]
    assert model.counter(np.array([0.0])).count(np.array([1, 1, 3, 99])).tolist() == [1, 1, 2]


def test_unseen_values_join_the_rare_ones():
    p, q = np.array([1] * 10 + [2, 3]), np.array([1] * 10 + [4])
    model = Frequency(FrequencyParameters(rare=2)).fit(Side(p, 12), Side(q, 11))
    assert model.score(np.array([2, 3, 4, 99])).tolist() == [np.log(2 / 12) - np.log(1 / 11)] * 4
    assert model.distinct.size == 1


def test_negative_zero_is_zero():
    p, q = np.array([[0.0, 1.0], [-0.0, 1.0]]), np.array([[-0.0, 1.0], [2.0, 2.0]])
    model = Frequency().fit(Side(p, 2), Side(q, 2))
    assert model.score(np.array([[-0.0, 1.0], [0.0, 1.0]])).tolist() == [np.log(2.0)] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_distinct_values_are_numbered_and_found(kind):
    rng = np.random.default_rng(0)
    x, other = outputs(kind, 900, rng, 0.3), outputs(kind, 300, rng, 0.05)
    distinct, codes = learn_distinct(x)
    assert distinct.size == len(set(map(key, x)))
    assert list(map(key, distinct.values()[codes])) == list(map(key, x))
    places = {key(value): number for number, value in enumerate(distinct.values())}
    for some in (x, other):
        assert distinct.find(some).tolist() == [places.get(key(value), -1) for value in some]


def test_rows_that_one_column_tells_apart_agree_in_all():
    rng = np.random.default_rng(1)
    x = rng.random((50, 3))
    rows, codes = learn_distinct(x)
    np.testing.assert_array_equal(rows.values()[codes], x)
    np.testing.assert_array_equal(rows.find(x), codes)
    for column in range(3):
        other = x.copy()
        other[::2, column] = 0.5
        np.testing.assert_array_equal(rows.find(other), np.where(np.arange(50) % 2, codes, -1))


def test_wrong_number_of_columns_is_refused():
    model = Frequency().fit(Side(np.zeros((3, 2)), 3), Side(np.zeros((3, 2)), 3))
    with pytest.raises(ValueError, match="outputs have 3 columns, the training outputs 2"):
        model.score(np.zeros((1, 3)))


def test_empty_training_has_no_loss():
    for empty in (np.empty(0), np.empty((0, 2)), np.empty(0, object)):
        x = words(np.arange(3)) if empty.dtype == object else np.zeros((3, *empty.shape[1:]))
        model = Frequency(FrequencyParameters(rare=3)).fit(Side(empty, 5), Side(empty, 5))
        assert model.score(x).tolist() == [0.0, 0.0, 0.0]
        counter = Frequency().restore(model.counter(THRESHOLDS).state(), THRESHOLDS)
        assert counter.count(x)[5] == 3


def test_knn_of_bytes_is_frequency():
    rng = np.random.default_rng(1)
    p, q, x = (words(rng.geometric(r, 2000)) for r in (0.2, 0.3, 0.1))
    by_knn = Knn().fit(Side(p, 2000), Side(q, 2000))
    np.testing.assert_allclose(by_knn.score(x), expected(p, q, x, 2000, 2000, 5), rtol=1e-14, atol=1e-15)
    state = by_knn.counter(THRESHOLDS).state()
    np.testing.assert_array_equal(Knn().restore(state, THRESHOLDS).count(x), by_knn.counter(THRESHOLDS).count(x))


WRONG = {
    "knn": [*({"k": k} for k in (0, -3, True, 5.0, "5", "cbrt")), {"metric": "cosine"}, {"neighbours": 5}],
    "literal-knn": [{"k": 0}],
    "frequency": [{"rare": -1}, {"rare": True}, {"distinct": 1}, {"distinct": 2.5}, {"k": 5}],
    "histogram": [{}],
}


@pytest.mark.parametrize("name, parameters", [(name, p) for name, given in WRONG.items() for p in given])
def test_wrong_parameters_are_refused(name, parameters):
    with pytest.raises(ValueError, match=r"^(parameters\.\w+|loss): ") as caught:
        validate_parameters(name, parameters)
    for key, value in parameters.items():
        assert f"parameters.{key}: " in str(caught.value)
        assert f"given: {value!r}" in str(caught.value) or "accepted by" in str(caught.value)


def test_registry():
    assert sorted(LOSSES) == ["auto", "frequency", "histogram", "kde", "knn", "learned", "literal-knn", "smooth"]
    assert make_loss("knn", {"k": "10sqrt", "metric": "hamming"}) == Knn(KnnParameters(k="10sqrt", metric="hamming"))
    assert make_loss("frequency", FrequencyParameters(rare=3)) == Frequency(FrequencyParameters(rare=3))
    with pytest.raises(ValueError, match="testing_risk"):
        make_loss("literal-knn", {})
    accepted = ", ".join(LOSSES)
    with pytest.raises(ValueError, match="counts bins, law by law"):
        make_loss("histogram", {"range": [0, 1], "lipschitz": 1.0})
    with pytest.raises(ValueError, match=f"loss: 'forest' is unknown; accepted: {accepted}"):
        validate_parameters("forest", {})


def test_validation_imports_no_code_of_losses():
    code = (
        "import sys, hpcdp.losses as l; l.validate_parameters('knn', {'k': 5}); l.validate_parameters('learned', {})\n"
        "print([m for m in ('numba', 'scipy', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
