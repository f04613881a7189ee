"""Discrete outputs of any kind in whole studies: exact truths, packed bits, what is planned and refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import call, show, write_study
from journals import records
from studies import make_study, pose, run

from hpcdp.driver.plan import make_plan
from hpcdp.mechanisms.outputs import Schema, describe
from hpcdp.store.arrays import read_array
from hpcdp.study.file import Study
from hpcdp.study.trial_draws import Trial

BYTES = Schema("bytes", None)
HEAD = "import numpy as np\n\n\n"

MECHANISMS = {
    "a list of sequences of mixed length": "    n = np.minimum(rng.geometric(0.3 + 0.4 * database[0], size), 4)\n"
    "    return [[0] * (i - 1) + [1] for i in n.tolist()]\n",
    "a tuple a call": "    n = min(int(rng.geometric(0.3 + 0.4 * database[0])), 4)\n"
    "    return ('stop', n) if n < 4 else (None, 'end')\n",
    "an object array": "    n = np.minimum(rng.geometric(0.3 + 0.4 * database[0], size), 4)\n"
    "    out = np.empty(size, object)\n    out[:] = [(('a', None), int(i)) for i in n]\n    return out\n",
    "bits": "    n = np.minimum(rng.geometric(0.3 + 0.4 * database[0], size), 4)\n    return n[:, None] > np.arange(1, 4)\n",
}


def run_geometric(kind, loss, folder, scheduler):
    """The store of a study of a geometric law cut at 4, with success .3 and .7, whose samples are kept and read back."""
    many = "size, " if "size" in MECHANISMS[kind] else ""
    module = HEAD + f"def noisy(database, {many}rng):\n" + MECHANISMS[kind]
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    study = write_study(folder, module, pairs=pairs, train=2000, test=8000, epsilons=[0.0, 0.5], loss=loss)
    call("run", study, "--store", folder / "s.zarr", "--cluster", scheduler)
    return folder / "s.zarr"


@pytest.mark.slow
@pytest.mark.parametrize("loss, kind", [("knn", kind) for kind in MECHANISMS] + [("frequency", "a tuple a call")])
def test_whole_studies(kind, loss, tmp_path, scheduler):
    """Many spellings of one law: δ within five standard errors of its exact value, which no lower bound exceeds."""
    p, q = (np.array([r * (1 - r) ** i for i in range(3)] + [(1 - r) ** 3]) for r in (0.3, 0.7))
    found = json.loads(show(run_geometric(kind, loss, tmp_path, scheduler)))
    assert found["complete"] is True
    for cell in found["cells"]:
        first, second = (p, q) if cell["direction"] == "forward" else (q, p)
        truth = float(np.maximum(0.0, first - np.exp(cell["epsilon"]) * second).sum())
        a, b = ((first > np.exp(cell["epsilon"]) * second) @ law for law in (first, second))
        error = np.sqrt((a * (1 - a) + np.exp(2 * cell["epsilon"]) * b * (1 - b)) / 8000)
        assert abs(cell["delta"] - truth) <= 5 * error
        assert cell["lower"] <= truth


@pytest.mark.slow
def test_bits_are_packed(tmp_path, scheduler):
    """Eight in a byte, and counted from there again."""
    store = run_geometric("bits", "knn", tmp_path, scheduler)
    before = show(store)
    packs = records(store, "packs")
    assert packs
    for pack in packs:
        packed = read_array(store / "samples" / "packs" / pack.name)
        size = sum(int(name.rpartition("-")[2]) for name in pack.body["fingerprints"])
        assert (packed.dtype, packed.shape) == (np.dtype(np.uint8), (-(-size * 3 // 8),))
    for record in records(store, "counts"):
        record.unlink()
    call("resume", store, "--cluster", scheduler)
    assert show(store) == before


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


@pytest.mark.slow
def test_sequences_as_long_as_the_database(client, tmp_path):
    (tmp_path / "own_rows.py").write_text(
        "def told(database, rng):\n    return tuple(int(rng.random() < 0.5) for _ in database)\n"
    )
    pair = [([0, 1, 2], [0, 1])]
    settings_of = dict(seed=5, folder=tmp_path, loss="frequency", epsilons=[0.0, 2.0], train=2000, test=2000)
    result = run(make_study("own_rows:told", {}, pair, **settings_of), tmp_path / "s.zarr", client)
    assert (result["delta"] == 1.0).all(), "the length tells the databases apart"
