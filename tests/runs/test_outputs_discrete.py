"""Discrete outputs of any kind in the losses and in whole studies: votes by the stated rules, exact truths, packed bits."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from brute import deltas, exact_deltas, votes
from commands import call, show, write_study
from studies import learn_and_count, make_study, pose, run

from hpcdp.engine import context as context_module
from hpcdp.engine.context import Context
from hpcdp.engine.learning import _learn
from hpcdp.losses import make_loss
from hpcdp.losses._votes import log_ratios
from hpcdp.losses.frequency._tally import HashClasses
from hpcdp.losses.frequency.frequency import Frequency, FrequencyParameters
from hpcdp.losses.knn._sequences import split
from hpcdp.losses.knn._vectors import Learner, VectorModel
from hpcdp.losses.knn.knn import Knn, KnnParameters
from hpcdp.losses.knn.parameters import choose_k
from hpcdp.losses.protocol import Side, StreamedSide
from hpcdp.mechanisms.outputs import Schema, canonicalise, describe
from hpcdp.planning.summary import make_plan
from hpcdp.store.arrays import read_array, write_array
from hpcdp.store.layout import Layout
from hpcdp.study.file import Study
from hpcdp.study.trial_draws import Trial

BYTES = Schema("bytes", None)
HEAD = "import numpy as np\n\n\n"
THRESHOLDS = np.array([-0.7, -0.1, 0.0, 0.1, 0.7])

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
    general = VectorModel(Learner(k, metric).votes(p, q), 150, 120)
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
        monkeypatch.setattr("hpcdp.losses.frequency.frequency._WHOLE", 1 << 20 if limit > 1 else 1)
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
