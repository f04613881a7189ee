"""More distinct values than memory holds: hashes, classes of values, losses that learn from a stream of blocks."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from brute import deltas

from hpcdp.losses.distinct import Distinct, hash_outputs
from hpcdp.losses.frequency import Frequency, FrequencyParameters, Tally
from hpcdp.losses.protocol import Side, StreamedSide
from hpcdp.mechanisms.outputs import Schema, canonicalise

BYTES = Schema("bytes", None)
THRESHOLDS = np.array([-0.7, -0.1, 0.0, 0.1, 0.7])

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


KINDS = {
    "integers": lambda n, _: n,
    "reals": lambda n, _: n / 7,
    "bools": lambda n, _: n > 2,
    "rows": lambda n, more: np.column_stack([n, n % 3, more]),
    "bits": lambda n, more: np.stack([n, more, n + more], axis=1) % 2 == 1,
    "sequences": lambda n, _: canonicalise([(i,) * (i % 4) + ("x",) for i in n.tolist()], n.size, BYTES),
}


@pytest.mark.parametrize("rare", [0, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_streams_give_the_losses_of_arrays(kind, rare):
    """Whenever all values fit, L̂ and the counts are those of arrays, to the bit; and restored they count alike."""
    rng = np.random.default_rng(len(kind))
    p, q, x = (KINDS[kind](*rng.geometric(r, (2, size))) for size, r in ((700, 0.3), (500, 0.5), (900, 0.2)))
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
