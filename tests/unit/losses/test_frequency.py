"""frequency: L̂ from training counts of each value, by equality only; more distinct values than memory holds."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from brute import deltas

from hpcdp.losses import LOSSES, make_loss, validate_parameters
from hpcdp.losses.counts import count_losses
from hpcdp.losses.distinct import Distinct, hash_outputs, learn_distinct
from hpcdp.losses.frequency import Frequency, FrequencyParameters, Tally
from hpcdp.losses.knn.knn import Knn, KnnParameters
from hpcdp.losses.protocol import Side, StreamedSide
from hpcdp.mechanisms.outputs import Schema, canonicalise

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


BYTES = Schema("bytes", None)

# Hashes and counts of classes


def mixed(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def twin(words, start=0):
    for word in words:
        start = mixed(((start + 0x9E3779B97F4A7C15) % 2**64) ^ word)
    return start


def test_hashes_equal_their_twin():
    rng = np.random.default_rng(5)
    words = rng.integers(-(2**63), 2**63 - 1, (50, 3))
    assert hash_outputs(words).tolist() == [twin([int(w) % 2**64 for w in row]) for row in words]
    reals = rng.normal(size=50)
    assert hash_outputs(reals).tolist() == [twin([int(w)]) for w in reals.view(np.uint64)]
    bits = rng.random((20, 70)) < 0.5
    packed = [[sum(1 << i for i in np.flatnonzero(row[s : s + 64]).tolist()) for s in (0, 64)] for row in bits]
    assert hash_outputs(bits).tolist() == [twin(row) for row in packed]
    texts = np.empty(30, object)
    texts[:] = [rng.bytes(n) for n in range(30)]
    wanted = [
        twin([int.from_bytes(t[s : s + 8], "little") for s in range(0, len(t) + 1, 8)], mixed(len(t))) for t in texts
    ]
    assert hash_outputs(texts).tolist() == wanted
    assert hash_outputs(np.array([-0.0, 0.0]))[0] == hash_outputs(np.array([0.0]))[0]


def blocks(outputs, size):
    return lambda: (outputs[start : start + size] for start in range(0, len(outputs), size))


@pytest.mark.parametrize("most", [2, 7, 300, 10_000])
def test_tally_keeps_the_most_bits_that_leave_few_classes(most):
    rng = np.random.default_rng(most)
    sides = [rng.geometric(0.002, 4000) + 1000 * i for i in (0, 1)]
    hashes = [[int(h) for h in hash_outputs(side)] for side in sides]
    bits = next(b for b in range(64, 0, -1) if len({h >> (64 - b) for h in hashes[0] + hashes[1]}) <= most)
    wanted = [Counter(h >> (64 - bits) for h in side) for side in hashes]
    for size, order, flip in [(8000, [0, 1], 1), (17, [1, 0], -1), (1000, [1, 0], 1)]:
        tally = Tally(most)
        for side in order:
            tally.add_all(blocks(sides[side][::flip], size)(), side)
        assert tally.bits == bits
        assert tally.keys.tolist() == sorted(set(wanted[0]) | set(wanted[1]))
        assert tally.counts.tolist() == [[side[key] for side in wanted] for key in tally.keys.tolist()]
    classes = Distinct(tally.keys, tally.bits)
    x = np.arange(1, 9000)
    place = {key: i for i, key in enumerate(tally.keys.tolist())}
    assert classes.find(x).tolist() == [place.get(int(h) >> (64 - bits), -1) for h in hash_outputs(x)]


STREAMED = {
    "integers": lambda n, _: n,
    "reals": lambda n, _: n / 7,
    "bools": lambda n, _: n > 2,
    "rows": lambda n, more: np.column_stack([n, n % 3, more]),
    "bits": lambda n, more: np.stack([n, more, n + more], axis=1) % 2 == 1,
    "sequences": lambda n, _: canonicalise([(i,) * (i % 4) + ("x",) for i in n.tolist()], n.size, BYTES),
}


@pytest.mark.parametrize("rare", [0, 6])
@pytest.mark.parametrize("kind", STREAMED)
def test_streams_give_the_losses_of_arrays(kind, rare):
    """Whenever all values fit, L̂ and the counts are those of arrays, to the bit; and restored they count alike."""
    rng = np.random.default_rng(len(kind))
    p, q, x = (STREAMED[kind](*rng.geometric(r, (2, size))) for size, r in ((700, 0.3), (500, 0.5), (900, 0.2)))
    loss = Frequency(FrequencyParameters(rare=rare))
    whole = loss.fit(Side(p, 700), Side(q, 500))
    by_classes = Frequency(FrequencyParameters(rare=rare, distinct=1000))  # fewer than outputs, more than values
    model = by_classes.fit(StreamedSide(blocks(p, 37), 700, p.dtype), StreamedSide(blocks(q, 499), 500, q.dtype))
    np.testing.assert_array_equal(model.score(x), whole.score(x))
    counter = model.counter(THRESHOLDS)
    np.testing.assert_array_equal(counter.count(x), whole.counter(THRESHOLDS).count(x))
    state = {name: array.copy() for name, array in counter.state().items()}
    np.testing.assert_array_equal(loss.restore(state, THRESHOLDS).count(x), counter.count(x))


def test_streamed_sides_spread_like_arrays():
    outputs = np.arange(1000)
    for size in (1, 7, 1000):
        side = StreamedSide(blocks(outputs, size), 1000, outputs.dtype)
        np.testing.assert_array_equal(side.spread(1 << 18), Side(outputs, 1000).spread(1 << 18))
        np.testing.assert_array_equal(side.spread(90), Side(outputs, 1000).spread(90))
        np.testing.assert_array_equal(side.outputs, outputs)


def test_more_values_than_classes_cost_accuracy_and_no_honesty():
    """A uniform law against one on half of its values: δ(0) = 1/2; with fewer classes the estimate can only be lower."""
    rng = np.random.default_rng(17)
    size, values, found = 1 << 18, 20_000, []
    draws = [rng.integers(0, values // (1 + i % 2), size) for i in range(4)]
    for distinct in (1 << 16, 1 << 14, 1 << 11, 2):
        loss = Frequency(FrequencyParameters(distinct=distinct))
        counter = loss.fit(Side(draws[0], size), Side(draws[1], size)).counter(np.zeros(1))
        assert sum(array.nbytes for array in counter.state().values()) <= 16 * distinct + 64
        ((estimate, error), _) = deltas(*map(counter.count, draws[2:]), np.zeros(1), size, 0.0)
        assert estimate <= 0.5 + 5 * error
        found.append(estimate)
    assert found == sorted(found, reverse=True)
    assert abs(found[0] - 0.5) <= 5 * error
    assert found[1] > 0.3


MEMORY = """
import resource, sys
import numpy as np
from hpcdp.losses.protocol import Side, StreamedSide
from hpcdp.losses.frequency import Frequency, FrequencyParameters

SIZE, BLOCK = 1 << 20, 1 << 14

def words(seed, size, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        out = np.empty(size, object)
        out[:] = [b"%015d" % value for value in rng.integers(0, 10**7, size).tolist()]
        yield out

loss = Frequency(FrequencyParameters(distinct=1 << 14))
sides = [StreamedSide(lambda s=s: words(s, BLOCK, 3), 3 * BLOCK, np.dtype(object)) for s in (1, 2)]
loss.fit(*sides).counter(np.zeros(1)).count(next(words(3, BLOCK, 1)))  # compiles and loads what there is to load
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
sides = [StreamedSide(lambda s=s: words(s, BLOCK, SIZE // BLOCK), SIZE, np.dtype(object)) for s in (1, 2)]
if sys.argv[1] == "whole":
    loss = Frequency()
    sides = [Side(side.outputs, SIZE) for side in sides]
counter = loss.fit(*sides).counter(np.zeros(1))
print(sum(int(counter.count(block).sum()) for block in words(3, BLOCK, 8)), counter.distinct.size)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory limits of processes are those of Linux")
def test_more_distinct_values_than_memory_holds():
    """Two million strings, some nine in ten of them different, with 64 MB: by blocks they are counted, whole they are not."""
    for way, code in (("blocks", 0), ("whole", 1)):
        done = subprocess.run([sys.executable, "-c", MEMORY, way], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert ("MemoryError" in done.stderr) == bool(code)
        if not code:
            total, classes = map(int, done.stdout.split())
            assert total == 8 << 14
            assert 1 << 12 < classes <= 1 << 14
