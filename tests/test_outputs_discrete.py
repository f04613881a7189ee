"""Discrete outputs of any kind: one spelling each, votes by the stated rules, exact truths, bounded memory, packed bits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from brute import deltas, exact_deltas, votes
from commands import call, show, write_study
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import learn_and_count, make_study, pose, run

from hpcdp import context as context_module
from hpcdp.context import Context
from hpcdp.errors import MechanismError
from hpcdp.losses import make_loss
from hpcdp.losses._hashes import hash_outputs
from hpcdp.losses._protocol import Side, StreamedSide
from hpcdp.losses._sequences import split
from hpcdp.losses._tally import HashClasses, Tally
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.frequency import Frequency, FrequencyParameters
from hpcdp.losses.knn import Knn, KnnParameters, VectorModel
from hpcdp.losses.parameters import choose_k
from hpcdp.outputs import Schema, canonicalise, describe, schema_of
from hpcdp.plan import make_plan
from hpcdp.sampler import Trial
from hpcdp.store.arrays import read_array, write_array
from hpcdp.store.layout import Layout
from hpcdp.study import Study
from hpcdp.tasks import _learn

BYTES = Schema("bytes", None)
HEAD = "import numpy as np\n\n\n"
THRESHOLDS = np.array([-0.7, -0.1, 0.0, 0.1, 0.7])

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 2**53, float(2**53)]),
    st.text(st.characters(codec="utf-8"), max_size=4),
    st.sampled_from(["", "[", '"', "\\", "{}", "null", "1", "é\n"]),
)
SEQUENCES = st.recursive(
    st.lists(LEAVES, max_size=3).map(tuple), lambda inner: st.lists(st.one_of(LEAVES, inner), max_size=3).map(tuple)
)


def spell(*outputs):
    return canonicalise(list(outputs), len(outputs), BYTES).tolist()


def as_lists(value):
    """The value as JSON gives it back, with Python's equality between numbers."""
    return [as_lists(item) for item in value] if isinstance(value, tuple) else value


def numpy_twin(value):
    """The same with NumPy's scalars and arrays."""
    if isinstance(value, tuple):
        same = {type(item) for item in value} == {float}
        return np.array(value) if same else [numpy_twin(item) for item in value]
    kinds = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
    return kinds[type(value)](value) if type(value) in kinds and value != "" and "\x00" not in str(value) else value


@given(a=SEQUENCES, b=SEQUENCES)
@settings(max_examples=300)
def test_a_sequence_has_one_spelling_that_no_other_has(a, b):
    (one,) = spell(a)
    assert (one == spell(b)[0]) == (a == b)
    assert spell(a, b, list(a)) == [one, spell(b)[0], one]
    assert spell(numpy_twin(a)) == [one]
    if len(a) == 1 and isinstance(a[0], str) and not a[0].startswith("["):
        assert one == a[0].encode()
    else:
        assert json.loads(one) == as_lists(a)
    frame, numbers = split(one)
    assert (frame == one) == (not numbers)


@given(st.one_of(LEAVES, SEQUENCES), st.one_of(LEAVES, SEQUENCES))
def test_frames_differ_where_more_than_numbers_differs(a, b):
    def gaps(value):
        if isinstance(value, tuple):
            return tuple(gaps(item) for item in value)
        return 0 if isinstance(value, int | float) else value

    parts = [split(spell((None, x))[0]) for x in (a, b)]
    assert (parts[0][0] == parts[1][0]) == (repr(gaps(a)) == repr(gaps(b)))


def test_rules_of_equality():
    assert len(set(spell((True, "x"), (1, "x"), (1.0, "x"), [np.float32(1), "x"], (np.uint8(1), b"x")))) == 1
    assert len(set(spell((0.0, 0.1), (-0.0, np.float64(0.1)), (False, 0.1)))) == 1
    assert len(set(spell((0.1,), (np.float32(0.1),), ("0.1",), (None,), ("",), (), ((),)))) == 7
    assert spell("é", b"\xff", "") == ["é".encode(), b"\xff", b""]


def test_numbers_stay_numbers():
    for raw, kind, columns in [
        ([(1, 2), (3, 4)], "int", 2),
        ([(2, 0.5), (1, 1)], "float", 2),
        (((True,), (False,)), "bool", None),
        (np.array([[1, 2], [3, 4]], object), "int", 2),
        (np.array([1.5, 2], object), "float", None),
        ([("a", "b"), ("c", "d")], "bytes", None),
        (np.array([["a", "b"], ["c", "d"]]), "bytes", None),
        (np.array(["a", "b"], object), "bytes", None),
    ]:
        found = canonicalise(raw, 2)
        assert schema_of(found) == Schema(kind, columns)
        assert schema_of(canonicalise(raw, 2, schema_of(found))) == schema_of(found)
    # where sequences are of mixed length, a chunk of equal lengths is spelled like any other
    for rows in ([[1, 2], [3, 4]], [[1], [2]], [["a"], ["b"]], [["a", "b"], ["c", "d"]], [[0.5, 2], [1, -0.0]]):
        wanted = canonicalise([*rows, []], 3).tolist()[:2]
        assert canonicalise(rows, 2, BYTES).tolist() == wanted
        assert canonicalise(np.array(rows), 2, BYTES).tolist() == wanted


def nested(depth):
    return (nested(depth - 1),) if depth else ()


@pytest.mark.parametrize(
    "raw, words",
    [
        ([{"a": 1}, (1,)], "type dict"),
        ([(1, {2}), (1,)], "type set"),
        ([object(), "a"], "object for others"),
        ([(1, object()), ()], "type object"),
        ([("a", 1j), ()], "type complex"),
        ([("a", float("nan")), ()], "nan; accepted: finite"),
        ([(float("-inf"), 1), ()], "-inf; accepted: finite"),
        ([(2**63, "a"), ()], "9223372036854775808; accepted: 64-bit"),
        ([(10**5000, "a"), ()], "an integer of 16,610 bits; accepted: 64-bit"),
        ([10**5000, 1], "an integer of 16,610 bits; accepted: 64-bit"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked outputs"),
        (np.full(2, 0x110000, np.uint32).view("U1"), "not valid Unicode"),
        ([("\ud800", 1), ()], "not valid Unicode"),
        (["\ud800", "a"], "not valid Unicode"),
        ([None, (1,)], "None as an output"),
        ([1, (1,)], "the number 1 among"),
        (["a", 1.0], "strings for some outputs and numbers for others"),
        (["a", (1,)], "strings for some outputs and sequences for others"),
        ([np.zeros((2, 2)), ()], "shape (2, 2)"),
        ([(1, np.datetime64("2020-01-01")), ()], "type datetime64"),
        ([nested(20), ()], "nested too deeply; accepted: 16 levels"),
        ([(1,), (1, 2), ()], "3 outputs; accepted: 2"),
    ],
)
def test_what_has_no_spelling_is_refused(raw, words):
    with pytest.raises(MechanismError) as caught:
        canonicalise(raw, 2)
    assert words in str(caught.value)
    with pytest.raises(MechanismError):
        canonicalise(raw, 2, BYTES)


def test_numbers_where_strings_are_due():
    with pytest.raises(MechanismError, match="the number 1 among outputs that are strings or sequences"):
        canonicalise([1, 2], 2, BYTES)
    with pytest.raises(MechanismError, match="integers; its first outputs were strings or sequences, and all must be"):
        canonicalise(np.arange(2), 2, BYTES)


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
    classes = HashClasses(tally.keys, tally.bits)
    x = np.arange(1, 9000)
    place = {key: i for i, key in enumerate(tally.keys.tolist())}
    assert classes.find(x).tolist() == [place.get(int(h) >> (64 - bits), -1) for h in hash_outputs(x)]


def draw_kind(kind, size, p, rng):
    n = rng.geometric(p, size)
    return {
        "integers": lambda: n,
        "reals": lambda: n / 7,
        "bools": lambda: n > 2,
        "rows": lambda: np.column_stack([n, n % 3, rng.geometric(p, size)]),
        "bits": lambda: rng.random((size, 5)) < p,
        "sequences": lambda: canonicalise([(i,) * (i % 4) + ("x",) for i in n.tolist()], size, BYTES),
    }[kind]()


@pytest.mark.parametrize("rare", [0, 6])
@pytest.mark.parametrize("kind", ["integers", "reals", "bools", "rows", "bits", "sequences"])
def test_streams_give_the_losses_of_arrays(kind, rare, monkeypatch):
    """Whenever all values fit, L̂ and the counts are those of arrays, to the bit; and restored they count alike."""
    rng = np.random.default_rng(len(kind))
    p, q, x = (draw_kind(kind, size, r, rng) for size, r in ((700, 0.3), (500, 0.5), (900, 0.2)))
    loss = Frequency(FrequencyParameters(rare=rare))
    whole = loss.fit(Side(p, 700), Side(q, 500))
    monkeypatch.setattr("hpcdp.losses.frequency._WHOLE", 0)
    model = loss.fit(StreamedSide(blocks(p, 37), 700, p.dtype), StreamedSide(blocks(q, 499), 500, q.dtype))
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
from hpcdp.losses._protocol import Side, StreamedSide
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


def test_the_default_bound_leaves_the_keys_of_stores_alone():
    assert FrequencyParameters().model_dump(mode="json") == {"rare": 0}
    assert FrequencyParameters(rare=3, distinct=9).model_dump() == {"rare": 3, "distinct": 9}
    assert make_loss("frequency", FrequencyParameters(distinct=9)).parameters.distinct == 9


# Votes


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


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "hamming"])
@pytest.mark.parametrize("columns", [2, 9, 70])
def test_votes_of_packed_bits(columns, metric):
    """They are those of brute force, and of the general way."""
    rng = np.random.default_rng(columns)
    p, q, x = (rng.random((size, columns)) < r for size, r in ((150, 0.1), (120, 0.25), (200, 0.3)))
    loss = Knn(KnnParameters(metric=metric))
    k = choose_k("sqrt", 270)
    model = loss.fit(Side(p, 150), Side(q, 120))
    found = model.score(x)
    general = VectorModel(loss._learn_vectors(p, q, k), 150, 120)
    np.testing.assert_array_equal(found, general.score(x))
    _, held = np.unique(np.concatenate([p, q]), axis=0, return_counts=True)
    common = k if 2 * held[held < min(20, k)].sum() > 270 else min(20, k)
    wanted = votes(p, q, x, k, metric="hamming", common=common)
    np.testing.assert_array_equal(found, log_ratios(*np.ascontiguousarray(wanted.T), 150, 120))


# Exact truths

VALUES = {
    "strings": ["", "no", "yes", "nein ü", "[1]", "0"],
    "tuples": [("yes", 3), ("no", 3), ("yes", 4), (None, 0), ("", -7), (2, 0.5)],
    "sequences of mixed length": [(), (1,), (0, 1), (0, 0, 1), (1, 1), (0, 0, 0, 0)],
    "nested": [[[1], 2], [[1, 2]], [1, 2], [["a"], None], ["a", [None]], [[]]],
    "bytes": [b"", b"\x00", b"\x00\x00", b"\xff", b"[", b"a"],
}
P = np.array([0.30, 0.05, 0.20, 0.15, 0.10, 0.20])
Q = np.array([0.12, 0.28, 0.20, 0.05, 0.00, 0.35])


@pytest.mark.parametrize("loss", ["frequency", "knn"])
@pytest.mark.parametrize("kind", VALUES)
def test_estimates_are_true(kind, loss):
    """Six values with known probabilities: δ within five standard errors of Σ max(0, p − e^ε q), both directions."""
    rng = np.random.default_rng(11)
    size, epsilons = 1 << 15, [0.0, 0.4, 1.2]
    thresholds = np.unique([e * s for e in epsilons for s in (1, -1)])

    def draw(law):
        return canonicalise([VALUES[kind][i] for i in rng.choice(6, size, p=law)], size, BYTES)

    counter = make_loss(loss, {}).fit(Side(draw(P), size), Side(draw(Q), size)).counter(thresholds)
    histograms = counter.count(draw(P)), counter.count(draw(Q))
    for epsilon in epsilons:
        found = deltas(*histograms, thresholds, size, epsilon)
        for (estimate, error), truth in zip(found, exact_deltas(P, Q, epsilon), strict=True):
            assert abs(estimate - truth) <= 5 * error


MECHANISMS = {
    "a list of sequences of mixed length": "    n = np.minimum(rng.geometric(0.3 + 0.4 * database[0], size), 4)\n"
    "    return [[0] * (i - 1) + [1] for i in n.tolist()]\n",
    "a tuple a call": "    n = min(int(rng.geometric(0.3 + 0.4 * database[0])), 4)\n"
    "    return ('stop', n) if n < 4 else (None, 'end')\n",
    "an object array": "    n = np.minimum(rng.geometric(0.3 + 0.4 * database[0], size), 4)\n"
    "    out = np.empty(size, object)\n    out[:] = [(('a', None), int(i)) for i in n]\n    return out\n",
    "bits": "    n = np.minimum(rng.geometric(0.3 + 0.4 * database[0], size), 4)\n    return n[:, None] > np.arange(1, 4)\n",
}


@pytest.mark.parametrize("loss, kind", [("knn", kind) for kind in MECHANISMS] + [("frequency", "a tuple a call")])
def test_whole_studies(kind, loss, tmp_path, scheduler):
    """A geometric law cut at 4, with success .3 and .7, in many spellings; exact δ, samples kept and read back."""
    p, q = (np.array([r * (1 - r) ** i for i in range(3)] + [(1 - r) ** 3]) for r in (0.3, 0.7))
    many = "size, " if "size" in MECHANISMS[kind] else ""
    module = HEAD + f"def noisy(database, {many}rng):\n" + MECHANISMS[kind]
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    study = write_study(tmp_path, module, pairs=pairs, train=2000, test=8000, epsilons=[0.0, 0.5], loss=loss)
    store = tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    found = json.loads(show(store))
    assert found["complete"] is True
    for cell in found["cells"]:
        first, second = (p, q) if cell["direction"] == "forward" else (q, p)
        truth = float(np.maximum(0.0, first - np.exp(cell["epsilon"]) * second).sum())
        a, b = ((first > np.exp(cell["epsilon"]) * second) @ law for law in (first, second))
        error = np.sqrt((a * (1 - a) + np.exp(2 * cell["epsilon"]) * b * (1 - b)) / 8000)
        assert abs(cell["delta"] - truth) <= 5 * error
        assert cell["lower"] <= truth
    if kind == "bits":
        check_bits(store, scheduler)


def check_bits(store, scheduler):
    """Bits are packed in the store; a block with a byte a bit, as version 0.1.0 wrote it, reads the same."""
    before = show(store)
    arrays = [path.parent for path in (store / "samples").rglob("zarr.json") if (path.parent / "c").exists()]
    assert arrays
    for path in arrays:
        packed = read_array(path)
        size = int(path.name.partition("-")[2])
        assert (packed.dtype, packed.shape) == (np.dtype(np.uint8), (-(-size * 3 // 8),))
        write_array(path, np.unpackbits(packed, count=size * 3).view(np.bool_).reshape(size, 3), chunk=500)
    for path in (store / "records" / "counts").glob("*.json"):
        path.unlink()
    call("resume", store, "--cluster", scheduler)
    assert show(store) == before


# Streams in a whole study


def test_context_streams_what_is_large(monkeypatch):
    table = [[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]
    study = make_study(
        "pmf",
        {"outcomes": ["a", "b", "c"], "table": table},
        [([0], [1])],
        seed=5,
        loss="frequency",
        train=3000,
        test=2000,
        chunk=700,
        epsilons=[0.0, 0.5],
        keep="none",
    )
    found = []
    for limit in (1 << 28, 1):
        monkeypatch.setattr(context_module, "STREAMED_BYTES", limit)
        monkeypatch.setattr("hpcdp.losses.frequency._WHOLE", 1 << 20 if limit > 1 else 1)
        problem = pose(study, BYTES)
        index, counters = learn_and_count(problem)
        context = Context(Layout(Path("nowhere")), problem, make_loss("frequency", {}))
        _learn(context, 0, tuple(problem.thresholds.tolist()))
        sides = [context.training(law) for law in problem.laws]
        assert all(isinstance(side, StreamedSide) == (limit == 1) for side in sides)
        assert all(isinstance(counter.distinct, HashClasses) == (limit == 1) for counter in counters)
        found.append((repr(index), context.training_prints))
    assert found[0] == found[1]
    assert [len(prints) for prints in found[0][1].values()] == [5, 5]


def test_the_plan_tells_what_outputs_take():
    def memory(kind, loss, train):
        study = Study.from_dict(
            {
                "study": {"name": "s", "seed": 1},
                "mechanism": {"call": "laplace", "parameters": {"epsilon": 1.0}},
                "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
                "estimate": {"loss": loss, "train": train, "test": 1000, "epsilons": [0.0], "keep": "none"},
            }
        )
        problem = pose(study, Schema(kind, None))
        return make_plan(problem, Trial(problem.schema, 0.0, 1e-8, 1), 2).memory

    assert memory("bytes", "knn", 10**6) > memory("int", "knn", 10**6) + 100 * 10**6
    for kind in ("bytes", "int"):
        assert memory(kind, "frequency", 10**8) == memory(kind, "frequency", 10**9) < 3 * 2**30
    assert memory("bytes", "knn", 10**8) == memory("bytes", "knn", 10**9) < 3 * 2**30
    assert describe(BYTES) == "strings or sequences"


def test_strings_and_numbers_of_one_study_are_refused(tmp_path, scheduler):
    module = HEAD + "def noisy(database, size, rng):\n    n = rng.random(size) < 0.5\n"
    module += "    return np.where(n, 'a', 'b') if database[0] else n\n"
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    study = write_study(tmp_path, module, pairs=pairs)
    error = call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler, code=2).stderr
    assert "booleans; its first outputs were strings or sequences, and all must be alike" in error


def test_sequences_as_long_as_the_database(client, tmp_path):
    (tmp_path / "own_rows.py").write_text(
        "def told(database, rng):\n    return tuple(int(rng.random() < 0.5) for _ in database)\n"
    )
    pair = [([0, 1, 2], [0, 1])]
    settings_of = dict(seed=5, folder=tmp_path, loss="frequency", epsilons=[0.0, 2.0], train=2000, test=2000)
    result = run(make_study("own_rows:told", {}, pair, **settings_of), tmp_path / "s.zarr", client)
    assert (result["delta"] == 1.0).all(), "the length tells the databases apart"
